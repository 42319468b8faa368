"""From the bytes that somebody sent to an invoice: XML as it is, or the XML that a Factur-X /
ZUGFeRD PDF carries.
"""

from __future__ import annotations

import io
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from extensions.einvoice import cii, ubl
from extensions.einvoice.model import Invoice
from extensions.einvoice.xml import MAX_BYTES, InvoiceUnreadable, parse

if TYPE_CHECKING:
    from pypdf import PdfReader

NAMES = ("factur-x.xml", "zugferd-invoice.xml", "xrechnung.xml")
"""How the invoice inside a hybrid PDF is called, in lower case: Factur-X and ZUGFeRD 2.1, ZUGFeRD 1
and 2.0, XRechnung.
"""
MAX_ATTACHMENTS = 50
UBL_ROOTS = {
    "{urn:oasis:names:specification:ubl:schema:xsd:Invoice-2}Invoice",
    "{urn:oasis:names:specification:ubl:schema:xsd:CreditNote-2}CreditNote",
}
CII_ROOT = "{urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100}CrossIndustryInvoice"

logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of every oddity of a foreign file


def read_invoice(content: bytes) -> Invoice:
    """The invoice in a file's bytes.

    Raises:
        InvoiceUnreadable: `empty`, `too_large`, `damaged_pdf`, `encrypted_pdf`,
            `no_invoice_in_pdf`, and what `read_xml` raises.
    """
    if not content.strip():
        raise InvoiceUnreadable("empty", "The file is empty.")
    if len(content) > MAX_BYTES:
        raise InvoiceUnreadable(
            "too_large", f"The file has {len(content):,} bytes; up to {MAX_BYTES:,} are read."
        )
    return read_xml(xml_in_pdf(content) if b"%PDF-" in content[:1024] else content)


def read_xml(content: bytes) -> Invoice:
    """The invoice in an XML document.

    Raises InvoiceUnreadable as `parse`; `unknown_syntax` for neither UBL 2.1 nor CII D16B.
    """
    root = parse(content)
    if root.tag in UBL_ROOTS:
        return _of_one_order(ubl.read(root))
    if root.tag == CII_ROOT:
        return _of_one_order(cii.read(root))
    raise InvoiceUnreadable(
        "unknown_syntax",
        f"This is XML, but no EN 16931 invoice: its root is {root.tag[:150]}, neither UBL nor CII.",
    )


def _of_one_order(read: Invoice) -> Invoice:
    """The invoice with the order (BT-13) that only its lines name, where they name one alone."""
    return replace(read, order=read.orders[0]) if len(read.orders) == 1 else read


def xml_in_pdf(content: bytes) -> bytes:
    """The invoice XML attached to a PDF. Raises InvoiceUnreadable."""
    # here, since every process of every workflow would pay for it at its start
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted:
            raise InvoiceUnreadable(
                "encrypted_pdf",
                "The PDF is encrypted, so nothing of it was read. Send it without a password.",
            )
        attachment = _attached(reader)
    except InvoiceUnreadable:
        raise
    except (
        PyPdfError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        RecursionError,
        OSError,
        NotImplementedError,
    ) as error:
        # a damaged file ends in whatever the broken object leads to
        raise InvoiceUnreadable(
            "damaged_pdf", f"The PDF is damaged and cannot be read ({type(error).__name__})."
        ) from error
    if attachment is None:
        raise InvoiceUnreadable(
            "no_invoice_in_pdf",
            f"The PDF carries no e-invoice: none of {', '.join(NAMES)} is attached to it.",
        )
    return attachment


def _attached(reader: PdfReader) -> bytes | None:
    for count, attachment in enumerate(reader.attachment_list):
        if count >= MAX_ATTACHMENTS:
            break
        if attachment.name.lower() in NAMES:
            content: bytes = attachment.content
            return content
    return None

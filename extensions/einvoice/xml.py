"""The XML of an e-invoice, read without trusting it: no DTD, no entity, nothing fetched, nothing
without a limit.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from extensions.einvoice.model import Invoice, Unread

MAX_BYTES = 5_000_000
MAX_ELEMENTS = 400_000
MAX_TEXT = 2_000
"""Signs of a text that are kept; the longest term of an invoice that a person reads is shorter."""
NUMBER = re.compile(r"[+-]?(\d{1,15}(\.\d{0,40})?|\.\d{1,40})", re.ASCII)
"""A decimal of XML Schema.

The standard limits the decimals of no quantity and no price: some programs write eleven, most of
them 0.
"""


class InvoiceUnreadable(Exception):
    """A document that cannot be read as an invoice.

    `code` is stable; the message is for the person who sent it.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def parse(content: bytes) -> Element:
    """The root element.

    Raises:
        InvoiceUnreadable: `too_large`, `hostile_xml` (a document type or an entity, whatever it
            says), `no_xml`.
    """
    if len(content) > MAX_BYTES:
        raise InvoiceUnreadable(
            "too_large", f"The invoice has {len(content):,} bytes; up to {MAX_BYTES:,} are read."
        )
    try:
        root: Element = fromstring(
            content, forbid_dtd=True, forbid_entities=True, forbid_external=True
        )
    except DefusedXmlException as error:
        raise InvoiceUnreadable(
            "hostile_xml",
            "The XML declares a document type or entities. No e-invoice does; nothing of it "
            "was read.",
        ) from error
    # LookupError: an encoding that there is not
    except (ParseError, ValueError, LookupError) as error:
        raise InvoiceUnreadable(
            "no_xml", f"This is no well-formed XML: {str(error)[:200]}."
        ) from error
    if sum(1 for _ in root.iter()) > MAX_ELEMENTS:
        raise InvoiceUnreadable(
            "too_large", f"The invoice has more than {MAX_ELEMENTS:,} elements."
        )
    return root


class TermReader:
    """Reads terms by path, and remembers what is no number or date."""

    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self._namespaces = dict(namespaces)
        self._unread: list[Unread] = []

    def finish(self, read: Invoice) -> Invoice:
        """The invoice with what could not be read in it."""
        return replace(read, unread=tuple(self._unread))

    def all(self, node: Element | None, path: str) -> list[Element]:
        return [] if node is None else node.findall(path, self._namespaces)

    def one(self, node: Element | None, path: str) -> Element | None:
        return next(iter(self.all(node, path)), None)

    def text(self, node: Element | None, path: str = ".") -> str | None:
        """The words of the first element there, without the space around them; None where there are
        none.
        """
        element = self.one(node, path)
        words = "".join(element.itertext()).strip() if element is not None else ""
        return words[:MAX_TEXT] or None

    def texts(self, node: Element | None, path: str) -> list[str]:
        """The different words of all elements there, in their order."""
        found = [self.text(element) for element in self.all(node, path)]
        return list(dict.fromkeys(text for text in found if text))

    def number(self, node: Element | None, path: str, term: str) -> Decimal | None:
        text = self.text(node, path)
        if text is None:
            return None
        if not NUMBER.fullmatch(text):
            self._unread.append(Unread(term=term, text=text[:100]))
            return None
        return Decimal(text)

    def sum(self, nodes: list[Element], path: str, term: str) -> Decimal:
        return sum((self.number(node, path, term) or Decimal(0) for node in nodes), Decimal(0))

    def date(
        self, node: Element | None, path: str, term: str, *, compact: bool = False
    ) -> str | None:
        """An ISO date; `compact` reads `20261231` (UNTDID 2379, format 102).

        Others are dates of XML Schema, which may name a time zone: the day is the same.
        """
        text = self.text(node, path)
        if text is None:
            return None
        shape = r"(\d{8})" if compact else r"(\d{4}-\d{2}-\d{2})(?:Z|[+-]\d{2}:\d{2})?"
        try:
            if day := re.fullmatch(shape, text, re.ASCII):
                return dt.date.fromisoformat(day[1]).isoformat()
        except ValueError:
            pass
        self._unread.append(Unread(term=term, text=text[:100]))
        return None

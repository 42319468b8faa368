"""EN 16931 in UBL 2.1: Invoice and CreditNote.

Source: CEN/TS 16931-3-2, the binding of terms to UBL's elements.
"""

from __future__ import annotations

from dataclasses import replace
from xml.etree.ElementTree import Element

from extensions.einvoice.model import Extra, Invoice, InvoiceLine, Party, Tax, ThirdParty
from extensions.einvoice.xml import TermReader

NAMESPACES = {
    "cac": "urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2",
    "cbc": "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2",
}

SUB_LINES = "cac:SubInvoiceLine"
"""Of the XRechnung extension (BG-DEX-01); the line above them holds their sum."""
XRECHNUNG_EXTENSION = "urn:xeinkauf.de:kosit:extension:xrechnung_"
"""Part of BT-24.

Under any other profile a PrepaidPayment explains the paid amount (BT-113), and nothing more is due
for it.
"""


def read(root: Element) -> Invoice:
    """The invoice below a UBL root.

    What is missing stays None; what is no number or date is in `unread`.
    """
    r = TermReader(NAMESPACES)
    credit = root.tag.endswith("}CreditNote")
    totals, means = r.one(root, "cac:LegalMonetaryTotal"), r.one(root, "cac:PaymentMeans")
    due = r.date(root, "cbc:DueDate", "BT-9") or r.date(means, "cbc:PaymentDueDate", "BT-9")
    currency = r.text(root, "cbc:DocumentCurrencyCode")
    tax_totals = r.all(root, "cac:TaxTotal")
    # the sum in another currency has no breakdown, nor has that which some write once more
    broken_down = [node for node in tax_totals if r.all(node, "cac:TaxSubtotal")]
    in_currency = [node for node in tax_totals if _in(node, r, currency)]
    tax_total = next(iter([*broken_down, *in_currency]), None)
    accounts = r.texts(root, "cac:PaymentMeans/cac:PayeeFinancialAccount/cbc:ID")
    withheld = r.all(root, "cac:WithholdingTaxTotal")
    named = r.texts(root, "cac:BillingReference/cac:InvoiceDocumentReference/cbc:ID")
    profile = r.text(root, "cbc:CustomizationID")
    extended = profile is not None and XRECHNUNG_EXTENSION in profile
    read = Invoice(
        syntax="UBL",
        number=r.text(root, "cbc:ID"),
        issued=r.date(root, "cbc:IssueDate", "BT-2"),
        kind=r.text(root, "cbc:CreditNoteTypeCode" if credit else "cbc:InvoiceTypeCode")
        or ("381" if credit else None),
        currency=currency,
        due=due,
        buyer_reference=r.text(root, "cbc:BuyerReference"),
        order=r.text(root, "cac:OrderReference/cbc:ID"),
        terms=r.text(root, "cac:PaymentTerms/cbc:Note"),
        preceding=next(iter(named), None),
        others_preceding=tuple(named[1:]),
        profile=profile,
        delivered=r.date(root, "cac:Delivery/cbc:ActualDeliveryDate", "BT-72"),
        means=r.text(means, "cbc:PaymentMeansCode"),
        iban=next(iter(accounts), None),
        other_ibans=tuple(accounts[1:]),
        seller=_party(r, r.one(root, "cac:AccountingSupplierParty/cac:Party")),
        buyer=_party(r, r.one(root, "cac:AccountingCustomerParty/cac:Party")),
        representative=_representative(r, root),
        line_total=r.number(totals, "cbc:LineExtensionAmount", "BT-106"),
        allowance_total=r.number(totals, "cbc:AllowanceTotalAmount", "BT-107"),
        charge_total=r.number(totals, "cbc:ChargeTotalAmount", "BT-108"),
        net=r.number(totals, "cbc:TaxExclusiveAmount", "BT-109"),
        vat=r.number(tax_total, "cbc:TaxAmount", "BT-110"),
        gross=r.number(totals, "cbc:TaxInclusiveAmount", "BT-112"),
        prepaid=r.number(totals, "cbc:PrepaidAmount", "BT-113"),
        rounding=r.number(totals, "cbc:PayableRoundingAmount", "BT-114"),
        payable=r.number(totals, "cbc:PayableAmount", "BT-115"),
        lines=tuple(
            _line(r, node)
            for node in r.all(root, "cac:CreditNoteLine" if credit else "cac:InvoiceLine")
        ),
        extras=tuple(_extra(r, node) for node in r.all(root, "cac:AllowanceCharge")),
        taxes=tuple(_tax(r, node) for node in r.all(tax_total, "cac:TaxSubtotal")),
        withheld=r.sum(withheld, "cbc:TaxAmount", "WithholdingTaxTotal") if withheld else None,
        third_parties=tuple(
            _third_party(r, node) for node in r.all(root, "cac:PrepaidPayment") if extended
        ),
    )
    if credit != read.is_credit_note and read.kind is not None:
        read = replace(read, root="CreditNote" if credit else "Invoice")
    return r.finish(read)


def _in(tax_total: Element, r: TermReader, currency: str | None) -> bool:
    amount = r.one(tax_total, "cbc:TaxAmount")
    return amount is not None and amount.get("currencyID") == currency


def _party(r: TermReader, node: Element | None) -> Party:
    schemes = {
        (r.text(scheme, "cac:TaxScheme/cbc:ID") or "").upper(): r.text(scheme, "cbc:CompanyID")
        for scheme in r.all(node, "cac:PartyTaxScheme")
    }
    return Party(
        name=r.text(node, "cac:PartyLegalEntity/cbc:RegistrationName")
        or r.text(node, "cac:PartyName/cbc:Name"),
        identifier=r.text(node, "cac:PartyIdentification/cbc:ID"),
        registration=r.text(node, "cac:PartyLegalEntity/cbc:CompanyID"),
        vat_id=schemes.get("VAT"),
        tax_number=next((number for scheme, number in schemes.items() if scheme != "VAT"), None),
        country=r.text(node, "cac:PostalAddress/cac:Country/cbc:IdentificationCode"),
        email=r.text(node, "cac:Contact/cbc:ElectronicMail"),
    )


def _representative(r: TermReader, root: Element) -> Party | None:
    node = r.one(root, "cac:TaxRepresentativeParty")
    return None if node is None else _party(r, node)


def _line(r: TermReader, node: Element) -> InvoiceLine:
    own = r.all(node, "cac:AllowanceCharge")
    quantity = (
        "cbc:InvoicedQuantity"
        if r.one(node, "cbc:InvoicedQuantity") is not None
        else "cbc:CreditedQuantity"
    )
    measured = r.one(node, quantity)
    category = r.one(node, "cac:Item/cac:ClassifiedTaxCategory")
    return InvoiceLine(
        id=r.text(node, "cbc:ID"),
        quantity=r.number(node, quantity, "BT-129"),
        unit=measured.get("unitCode") if measured is not None else None,
        net=r.number(node, "cbc:LineExtensionAmount", "BT-131"),
        order=r.text(node, "cac:OrderLineReference/cac:OrderReference/cbc:ID"),
        order_line=r.text(node, "cac:OrderLineReference/cbc:LineID"),
        accounting=r.text(node, "cbc:AccountingCost"),
        allowances=r.sum(
            [extra for extra in own if not _is_charge(r, extra)], "cbc:Amount", "BT-136"
        ),
        charges=r.sum([extra for extra in own if _is_charge(r, extra)], "cbc:Amount", "BT-141"),
        price=r.number(node, "cac:Price/cbc:PriceAmount", "BT-146"),
        price_base=r.number(node, "cac:Price/cbc:BaseQuantity", "BT-149"),
        category=r.text(category, "cbc:ID"),
        rate=r.number(category, "cbc:Percent", "BT-152"),
        name=r.text(node, "cac:Item/cbc:Name"),
        description=r.text(node, "cac:Item/cbc:Description"),
        nesting="SUB" if r.all(node, SUB_LINES) else None,
    )


def _is_charge(r: TermReader, node: Element) -> bool:
    return r.text(node, "cbc:ChargeIndicator") in {"true", "1"}


def _extra(r: TermReader, node: Element) -> Extra:
    charge = _is_charge(r, node)
    return Extra(
        charge=charge,
        amount=r.number(node, "cbc:Amount", "BT-99" if charge else "BT-92"),
        category=r.text(node, "cac:TaxCategory/cbc:ID"),
        rate=r.number(node, "cac:TaxCategory/cbc:Percent", "BT-103" if charge else "BT-96"),
        reason=r.text(node, "cbc:AllowanceChargeReason"),
    )


def _tax(r: TermReader, node: Element) -> Tax:
    return Tax(
        base=r.number(node, "cbc:TaxableAmount", "BT-116"),
        amount=r.number(node, "cbc:TaxAmount", "BT-117"),
        category=r.text(node, "cac:TaxCategory/cbc:ID"),
        rate=r.number(node, "cac:TaxCategory/cbc:Percent", "BT-119"),
        reason=r.text(node, "cac:TaxCategory/cbc:TaxExemptionReason"),
    )


def _third_party(r: TermReader, node: Element) -> ThirdParty:
    return ThirdParty(
        kind=r.text(node, "cbc:ID"),
        amount=r.number(node, "cbc:PaidAmount", "BT-DEX-002"),
        reason=r.text(node, "cbc:InstructionID"),
    )

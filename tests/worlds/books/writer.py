"""A writer of invoices as UBL, as CII, or as a PDF that carries CII, so that tests need no foreign
files.

What is None is left out, so a document with any fault can be written.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from decimal import Decimal
from xml.etree.ElementTree import Element, SubElement, register_namespace, tostring

from extensions.einvoice import cii, ubl
from extensions.einvoice.model import Extra, Invoice, InvoiceLine, Party, Tax, ThirdParty

UBL = "urn:oasis:names:specification:ubl:schema:xsd:"
for _prefix, _uri in {**ubl.NAMESPACES, **cii.NAMESPACES}.items():
    register_namespace(_prefix, _uri)
NAMESPACES = {**ubl.NAMESPACES, **cii.NAMESPACES}


def put(parent: Element, path: str, value: str | Decimal | None, **attributes: str | None) -> None:
    """A new last element below `parent`, inside the elements of `path`, which are found or made;
    nothing for None.
    """
    if value is None:
        return
    *above, name = path.split("/")
    for step in above:
        found = parent.find(step, NAMESPACES)
        parent = found if found is not None else SubElement(parent, _tag(step))
    text = format(value, "f") if isinstance(value, Decimal) else value
    SubElement(
        parent, _tag(name), {key: said for key, said in attributes.items() if said is not None}
    ).text = text


def new(parent: Element, name: str) -> Element:
    return SubElement(parent, _tag(name))


def _tag(name: str) -> str:
    prefix, _, local = name.partition(":")
    return f"{{{NAMESPACES[prefix]}}}{local}"


def to_ubl(invoice: Invoice) -> bytes:
    """An Invoice, or a CreditNote where BT-3 says so."""
    kind = "CreditNote" if invoice.is_credit_note else "Invoice"
    root, money = Element(f"{{{UBL}{kind}-2}}{kind}"), invoice.currency
    put(root, "cbc:CustomizationID", invoice.profile)
    put(root, "cbc:ID", invoice.number)
    put(root, "cbc:IssueDate", invoice.issued)
    if kind == "Invoice":
        put(root, "cbc:DueDate", invoice.due)
    put(root, f"cbc:{kind}TypeCode", invoice.kind)
    put(root, "cbc:DocumentCurrencyCode", money)
    put(root, "cbc:BuyerReference", invoice.buyer_reference)
    put(root, "cac:OrderReference/cbc:ID", invoice.order)
    for number in invoice.named:
        put(new(root, "cac:BillingReference"), "cac:InvoiceDocumentReference/cbc:ID", number)
    _ubl_party(new(new(root, "cac:AccountingSupplierParty"), "cac:Party"), invoice.seller)
    _ubl_party(new(new(root, "cac:AccountingCustomerParty"), "cac:Party"), invoice.buyer)
    if invoice.representative:
        _ubl_party(new(root, "cac:TaxRepresentativeParty"), invoice.representative)
    put(root, "cac:Delivery/cbc:ActualDeliveryDate", invoice.delivered)
    put(root, "cac:PaymentMeans/cbc:PaymentMeansCode", invoice.means)
    if kind == "CreditNote":
        put(root, "cac:PaymentMeans/cbc:PaymentDueDate", invoice.due)
    put(root, "cac:PaymentMeans/cac:PayeeFinancialAccount/cbc:ID", invoice.iban)
    for account in invoice.other_ibans:
        put(new(root, "cac:PaymentMeans"), "cac:PayeeFinancialAccount/cbc:ID", account)
    put(root, "cac:PaymentTerms/cbc:Note", invoice.terms)
    for party in invoice.third_parties:
        _ubl_third_party(new(root, "cac:PrepaidPayment"), party, money)
    for extra in invoice.extras:
        _ubl_extra(new(root, "cac:AllowanceCharge"), extra, money)
    put(root, "cac:TaxTotal/cbc:TaxAmount", invoice.vat, currencyID=money)
    for tax in invoice.taxes:
        _ubl_tax(root, tax, money)
    put(root, "cac:WithholdingTaxTotal/cbc:TaxAmount", invoice.withheld, currencyID=money)
    totals = new(root, "cac:LegalMonetaryTotal")
    for name, amount in (
        ("LineExtension", invoice.line_total),
        ("TaxExclusive", invoice.net),
        ("TaxInclusive", invoice.gross),
        ("AllowanceTotal", invoice.allowance_total),
        ("ChargeTotal", invoice.charge_total),
        ("Prepaid", invoice.prepaid),
        ("PayableRounding", invoice.rounding),
        ("Payable", invoice.payable),
    ):
        put(totals, f"cbc:{name}Amount", amount, currencyID=money)
    for line in invoice.lines:
        _ubl_line(
            new(root, f"cac:{kind}Line"),
            line,
            money,
            "Invoiced" if kind == "Invoice" else "Credited",
        )
    return _bytes(root)


def _ubl_party(node: Element, party: Party) -> None:
    put(node, "cac:PartyIdentification/cbc:ID", party.identifier)
    put(node, "cac:PostalAddress/cac:Country/cbc:IdentificationCode", party.country)
    for scheme, number in (("VAT", party.vat_id), ("FC", party.tax_number)):
        if number is not None:
            one = new(node, "cac:PartyTaxScheme")
            put(one, "cbc:CompanyID", number)
            put(one, "cac:TaxScheme/cbc:ID", scheme)
    put(node, "cac:PartyLegalEntity/cbc:RegistrationName", party.name)
    put(node, "cac:PartyLegalEntity/cbc:CompanyID", party.registration)
    put(node, "cac:Contact/cbc:ElectronicMail", party.email)


def _ubl_category(node: Element, category: str | None, rate: Decimal | None) -> None:
    put(node, "cbc:ID", category)
    put(node, "cbc:Percent", rate)
    put(node, "cac:TaxScheme/cbc:ID", "VAT")


def _ubl_extra(node: Element, extra: Extra, money: str | None) -> None:
    put(node, "cbc:ChargeIndicator", "true" if extra.charge else "false")
    put(node, "cbc:AllowanceChargeReason", extra.reason)
    put(node, "cbc:Amount", extra.amount, currencyID=money)
    _ubl_category(new(node, "cac:TaxCategory"), extra.category, extra.rate)


def _ubl_third_party(node: Element, paid: ThirdParty, money: str | None) -> None:
    put(node, "cbc:ID", paid.kind)
    put(node, "cbc:PaidAmount", paid.amount, currencyID=money)
    put(node, "cbc:InstructionID", paid.reason)


def _ubl_tax(root: Element, tax: Tax, money: str | None) -> None:
    total = root.find("cac:TaxTotal", NAMESPACES)
    node = new(total if total is not None else new(root, "cac:TaxTotal"), "cac:TaxSubtotal")
    put(node, "cbc:TaxableAmount", tax.base, currencyID=money)
    put(node, "cbc:TaxAmount", tax.amount, currencyID=money)
    category = new(node, "cac:TaxCategory")
    _ubl_category(category, tax.category, tax.rate)
    put(category, "cbc:TaxExemptionReason", tax.reason)


def _ubl_line(node: Element, line: InvoiceLine, money: str | None, measured: str) -> None:
    put(node, "cbc:ID", line.id)
    put(node, f"cbc:{measured}Quantity", line.quantity, unitCode=line.unit)
    put(node, "cbc:LineExtensionAmount", line.net, currencyID=money)
    put(node, "cbc:AccountingCost", line.accounting)
    put(node, "cac:OrderLineReference/cbc:LineID", line.order_line)
    put(node, "cac:OrderLineReference/cac:OrderReference/cbc:ID", line.order)
    for charge, amount in (("false", line.allowances), ("true", line.charges)):
        if amount:
            one = new(node, "cac:AllowanceCharge")
            put(one, "cbc:ChargeIndicator", charge)
            put(one, "cbc:Amount", amount, currencyID=money)
    put(node, "cac:Item/cbc:Description", line.description)
    put(node, "cac:Item/cbc:Name", line.name)
    item = node.find("cac:Item", NAMESPACES)
    _ubl_category(
        new(item if item is not None else new(node, "cac:Item"), "cac:ClassifiedTaxCategory"),
        line.category,
        line.rate,
    )
    put(node, "cac:Price/cbc:PriceAmount", line.price, currencyID=money)
    put(node, "cac:Price/cbc:BaseQuantity", line.price_base, unitCode=line.unit)
    if line.nesting:
        put(node, "cac:SubInvoiceLine/cbc:ID", f"{line.id}.1")


def to_cii(invoice: Invoice) -> bytes:
    root = Element(_tag("rsm:CrossIndustryInvoice"))
    context = new(root, "rsm:ExchangedDocumentContext")
    put(context, "ram:GuidelineSpecifiedDocumentContextParameter/ram:ID", invoice.profile)
    document, trade = (
        new(root, "rsm:ExchangedDocument"),
        new(root, "rsm:SupplyChainTradeTransaction"),
    )
    put(document, "ram:ID", invoice.number)
    put(document, "ram:TypeCode", invoice.kind)
    _cii_date(document, "ram:IssueDateTime", invoice.issued)
    for line in invoice.lines:
        _cii_line(new(trade, "ram:IncludedSupplyChainTradeLineItem"), line)
    agreement = new(trade, "ram:ApplicableHeaderTradeAgreement")
    put(agreement, "ram:BuyerReference", invoice.buyer_reference)
    _cii_party(new(agreement, "ram:SellerTradeParty"), invoice.seller)
    _cii_party(new(agreement, "ram:BuyerTradeParty"), invoice.buyer)
    if invoice.representative:
        _cii_party(new(agreement, "ram:SellerTaxRepresentativeTradeParty"), invoice.representative)
    put(agreement, "ram:BuyerOrderReferencedDocument/ram:IssuerAssignedID", invoice.order)
    delivery = new(trade, "ram:ApplicableHeaderTradeDelivery")
    _cii_date(
        delivery, "ram:ActualDeliverySupplyChainEvent/ram:OccurrenceDateTime", invoice.delivered
    )
    _cii_settlement(new(trade, "ram:ApplicableHeaderTradeSettlement"), invoice)
    return _bytes(root)


def _cii_settlement(node: Element, invoice: Invoice) -> None:
    put(node, "ram:InvoiceCurrencyCode", invoice.currency)
    put(node, "ram:SpecifiedTradeSettlementPaymentMeans/ram:TypeCode", invoice.means)
    put(
        node,
        "ram:SpecifiedTradeSettlementPaymentMeans/ram:PayeePartyCreditorFinancialAccount/ram:IBANID",
        invoice.iban,
    )
    for account in invoice.other_ibans:
        means = new(node, "ram:SpecifiedTradeSettlementPaymentMeans")
        put(means, "ram:PayeePartyCreditorFinancialAccount/ram:IBANID", account)
    for tax in invoice.taxes:
        one = new(node, "ram:ApplicableTradeTax")
        put(one, "ram:CalculatedAmount", tax.amount)
        put(one, "ram:TypeCode", "VAT")
        put(one, "ram:ExemptionReason", tax.reason)
        put(one, "ram:BasisAmount", tax.base)
        _cii_category(one, tax.category, tax.rate)
    for extra in invoice.extras:
        one = new(node, "ram:SpecifiedTradeAllowanceCharge")
        put(one, "ram:ChargeIndicator/udt:Indicator", "true" if extra.charge else "false")
        put(one, "ram:ActualAmount", extra.amount)
        put(one, "ram:Reason", extra.reason)
        _cii_category(new(one, "ram:CategoryTradeTax"), extra.category, extra.rate)
    put(node, "ram:SpecifiedTradePaymentTerms/ram:Description", invoice.terms)
    _cii_date(node, "ram:SpecifiedTradePaymentTerms/ram:DueDateDateTime", invoice.due)
    totals = new(node, "ram:SpecifiedTradeSettlementHeaderMonetarySummation")
    put(totals, "ram:LineTotalAmount", invoice.line_total)
    put(totals, "ram:ChargeTotalAmount", invoice.charge_total)
    put(totals, "ram:AllowanceTotalAmount", invoice.allowance_total)
    put(totals, "ram:TaxBasisTotalAmount", invoice.net)
    put(totals, "ram:TaxTotalAmount", invoice.vat, currencyID=invoice.currency)
    put(totals, "ram:RoundingAmount", invoice.rounding)
    put(totals, "ram:GrandTotalAmount", invoice.gross)
    put(totals, "ram:TotalPrepaidAmount", invoice.prepaid)
    put(totals, "ram:DuePayableAmount", invoice.payable)
    for number in invoice.named:
        put(new(node, "ram:InvoiceReferencedDocument"), "ram:IssuerAssignedID", number)


def _cii_date(parent: Element, path: str, date: str | None) -> None:
    put(parent, f"{path}/udt:DateTimeString", date.replace("-", "") if date else None, format="102")


def _cii_category(node: Element, category: str | None, rate: Decimal | None) -> None:
    put(node, "ram:CategoryCode", category)
    put(node, "ram:RateApplicablePercent", rate)


def _cii_party(node: Element, party: Party) -> None:
    put(node, "ram:ID", party.identifier)
    put(node, "ram:Name", party.name)
    put(node, "ram:SpecifiedLegalOrganization/ram:ID", party.registration)
    put(node, "ram:DefinedTradeContact/ram:EmailURIUniversalCommunication/ram:URIID", party.email)
    put(node, "ram:PostalTradeAddress/ram:CountryID", party.country)
    for scheme, number in (("VA", party.vat_id), ("FC", party.tax_number)):
        if number is not None:
            put(new(node, "ram:SpecifiedTaxRegistration"), "ram:ID", number, schemeID=scheme)


def _cii_line(node: Element, line: InvoiceLine) -> None:
    put(node, "ram:AssociatedDocumentLineDocument/ram:LineID", line.id)
    put(node, "ram:AssociatedDocumentLineDocument/ram:LineStatusReasonCode", line.nesting)
    put(node, "ram:SpecifiedTradeProduct/ram:Name", line.name)
    put(node, "ram:SpecifiedTradeProduct/ram:Description", line.description)
    agreement = new(node, "ram:SpecifiedLineTradeAgreement")
    put(agreement, "ram:BuyerOrderReferencedDocument/ram:IssuerAssignedID", line.order)
    put(agreement, "ram:BuyerOrderReferencedDocument/ram:LineID", line.order_line)
    put(agreement, "ram:NetPriceProductTradePrice/ram:ChargeAmount", line.price)
    put(
        agreement,
        "ram:NetPriceProductTradePrice/ram:BasisQuantity",
        line.price_base,
        unitCode=line.unit,
    )
    put(
        node, "ram:SpecifiedLineTradeDelivery/ram:BilledQuantity", line.quantity, unitCode=line.unit
    )
    settlement = new(node, "ram:SpecifiedLineTradeSettlement")
    _cii_category(new(settlement, "ram:ApplicableTradeTax"), line.category, line.rate)
    for charge, amount in (("false", line.allowances), ("true", line.charges)):
        if amount:
            one = new(settlement, "ram:SpecifiedTradeAllowanceCharge")
            put(one, "ram:ChargeIndicator/udt:Indicator", charge)
            put(one, "ram:ActualAmount", amount)
    put(
        settlement,
        "ram:SpecifiedTradeSettlementLineMonetarySummation/ram:LineTotalAmount",
        line.net,
    )
    put(settlement, "ram:ReceivableSpecifiedTradeAccountingAccount/ram:ID", line.accounting)


def _bytes(root: Element) -> bytes:
    written: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def to_pdf(
    invoice: Invoice, *, name: str = "factur-x.xml", password: str = "", lines: Sequence[str] = ()
) -> bytes:
    """A PDF of one page that shows `lines` (Latin-1) and carries the invoice as CII under `name`;
    with a password encrypted.
    """
    from pypdf import PdfWriter  # here, as in `invoice_file`
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    page = writer.add_blank_page(595, 842)
    words = "".join(f"({_escaped(line)}) Tj 0 -16 Td " for line in lines)
    stream = DecodedStreamObject()
    stream.set_data(f"BT /F1 11 Tf 60 780 Td {words}ET".encode("latin-1", "replace"))
    font = {
        "/Type": "/Font",
        "/Subtype": "/Type1",
        "/BaseFont": "/Helvetica",
        "/Encoding": "/WinAnsiEncoding",
    }
    fonts = DictionaryObject(
        {
            NameObject("/F1"): DictionaryObject(
                {NameObject(key): NameObject(value) for key, value in font.items()}
            )
        }
    )
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    page[NameObject("/Contents")] = writer._add_object(stream)
    writer.add_attachment(name, to_cii(invoice))
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    kept = io.BytesIO()
    writer.write(kept)
    return kept.getvalue()


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")

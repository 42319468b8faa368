"""EN 16931 in UN/CEFACT Cross Industry Invoice D16B, as ZUGFeRD 2 and Factur-X carry it too.

Source: CEN/TS 16931-3-3.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from extensions.einvoice.model import NESTINGS, Extra, Invoice, InvoiceLine, Party, Tax
from extensions.einvoice.xml import TermReader

NAMESPACES = {
    "rsm": "urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100",
    "ram": "urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100",
    "udt": "urn:un:unece:uncefact:data:standard:UnqualifiedDataType:100",
}
DATE = "udt:DateTimeString"
ACCOUNT = "ram:SpecifiedTradeSettlementPaymentMeans/ram:PayeePartyCreditorFinancialAccount"
ORDER = "ram:BuyerOrderReferencedDocument/ram:IssuerAssignedID"


def read(root: Element) -> Invoice:
    """The invoice below a CII root.

    What is missing stays None; what is no number or date is in `unread`.
    """
    r = TermReader(NAMESPACES)
    document, trade = (
        r.one(root, "rsm:ExchangedDocument"),
        r.one(root, "rsm:SupplyChainTradeTransaction"),
    )
    agreement, settlement = (
        r.one(trade, "ram:ApplicableHeaderTradeAgreement"),
        r.one(trade, "ram:ApplicableHeaderTradeSettlement"),
    )
    totals = r.one(settlement, "ram:SpecifiedTradeSettlementHeaderMonetarySummation")
    means = r.one(settlement, "ram:SpecifiedTradeSettlementPaymentMeans")
    every = r.all(settlement, ACCOUNT)
    found = [r.text(node, "ram:IBANID") or r.text(node, "ram:ProprietaryID") for node in every]
    accounts = list(dict.fromkeys(account for account in found if account))
    currency = r.text(settlement, "ram:InvoiceCurrencyCode")
    named = r.texts(settlement, "ram:InvoiceReferencedDocument/ram:IssuerAssignedID")
    happened = (
        "ram:ApplicableHeaderTradeDelivery/ram:ActualDeliverySupplyChainEvent/"
        "ram:OccurrenceDateTime/"
    )
    read = Invoice(
        syntax="CII",
        number=r.text(document, "ram:ID"),
        issued=r.date(document, f"ram:IssueDateTime/{DATE}", "BT-2", compact=True),
        kind=r.text(document, "ram:TypeCode"),
        currency=currency,
        due=r.date(
            settlement,
            f"ram:SpecifiedTradePaymentTerms/ram:DueDateDateTime/{DATE}",
            "BT-9",
            compact=True,
        ),
        buyer_reference=r.text(agreement, "ram:BuyerReference"),
        order=r.text(agreement, ORDER),
        terms=r.text(settlement, "ram:SpecifiedTradePaymentTerms/ram:Description"),
        preceding=next(iter(named), None),
        others_preceding=tuple(named[1:]),
        profile=r.text(
            root,
            "rsm:ExchangedDocumentContext/ram:GuidelineSpecifiedDocumentContextParameter/ram:ID",
        ),
        delivered=r.date(trade, f"{happened}{DATE}", "BT-72", compact=True),
        means=r.text(means, "ram:TypeCode"),
        iban=next(iter(accounts), None),
        other_ibans=tuple(accounts[1:]),
        seller=_party(r, r.one(agreement, "ram:SellerTradeParty")),
        buyer=_party(r, r.one(agreement, "ram:BuyerTradeParty")),
        representative=_representative(r, agreement),
        line_total=r.number(totals, "ram:LineTotalAmount", "BT-106"),
        allowance_total=r.number(totals, "ram:AllowanceTotalAmount", "BT-107"),
        charge_total=r.number(totals, "ram:ChargeTotalAmount", "BT-108"),
        net=r.number(totals, "ram:TaxBasisTotalAmount", "BT-109"),
        vat=r.number(_vat_total(r, totals, currency), ".", "BT-110"),
        gross=r.number(totals, "ram:GrandTotalAmount", "BT-112"),
        prepaid=r.number(totals, "ram:TotalPrepaidAmount", "BT-113"),
        rounding=r.number(totals, "ram:RoundingAmount", "BT-114"),
        payable=r.number(totals, "ram:DuePayableAmount", "BT-115"),
        lines=tuple(
            _line(r, node) for node in r.all(trade, "ram:IncludedSupplyChainTradeLineItem")
        ),
        extras=(
            *(_extra(r, node) for node in r.all(settlement, "ram:SpecifiedTradeAllowanceCharge")),
            *(
                _logistics(r, node)
                for node in r.all(settlement, "ram:SpecifiedLogisticsServiceCharge")
            ),
        ),
        taxes=tuple(_tax(r, node) for node in r.all(settlement, "ram:ApplicableTradeTax")),
    )
    return r.finish(read)


def _vat_total(r: TermReader, totals: Element | None, currency: str | None) -> Element | None:
    """BT-110; beside it BT-111 may stand, the same in another currency."""
    amounts = r.all(totals, "ram:TaxTotalAmount")
    return next(
        (amount for amount in amounts if amount.get("currencyID") in {currency, None}), None
    )


def _party(r: TermReader, node: Element | None) -> Party:
    numbers: dict[str | None, str | None] = {}
    for registration in r.all(node, "ram:SpecifiedTaxRegistration/ram:ID"):
        numbers.setdefault(registration.get("schemeID"), r.text(registration))
    return Party(
        name=r.text(node, "ram:Name"),
        identifier=r.text(node, "ram:ID") or r.text(node, "ram:GlobalID"),
        registration=r.text(node, "ram:SpecifiedLegalOrganization/ram:ID"),
        vat_id=numbers.get("VA"),
        tax_number=numbers.get("FC"),
        country=r.text(node, "ram:PostalTradeAddress/ram:CountryID"),
        email=r.text(node, "ram:DefinedTradeContact/ram:EmailURIUniversalCommunication/ram:URIID"),
    )


def _representative(r: TermReader, agreement: Element | None) -> Party | None:
    node = r.one(agreement, "ram:SellerTaxRepresentativeTradeParty")
    return None if node is None else _party(r, node)


def _line(r: TermReader, node: Element) -> InvoiceLine:
    agreement, settlement = (
        r.one(node, "ram:SpecifiedLineTradeAgreement"),
        r.one(node, "ram:SpecifiedLineTradeSettlement"),
    )
    own = r.all(settlement, "ram:SpecifiedTradeAllowanceCharge")
    billed = "ram:SpecifiedLineTradeDelivery/ram:BilledQuantity"
    measured = r.one(node, billed)
    price = r.one(agreement, "ram:NetPriceProductTradePrice")
    status = r.text(node, "ram:AssociatedDocumentLineDocument/ram:LineStatusReasonCode")
    return InvoiceLine(
        id=r.text(node, "ram:AssociatedDocumentLineDocument/ram:LineID"),
        quantity=r.number(node, billed, "BT-129"),
        unit=measured.get("unitCode") if measured is not None else None,
        net=r.number(
            settlement,
            "ram:SpecifiedTradeSettlementLineMonetarySummation/ram:LineTotalAmount",
            "BT-131",
        ),
        order=r.text(agreement, ORDER),
        order_line=r.text(agreement, "ram:BuyerOrderReferencedDocument/ram:LineID"),
        accounting=r.text(settlement, "ram:ReceivableSpecifiedTradeAccountingAccount/ram:ID"),
        allowances=r.sum(
            [extra for extra in own if not _is_charge(r, extra)], "ram:ActualAmount", "BT-136"
        ),
        charges=r.sum(
            [extra for extra in own if _is_charge(r, extra)], "ram:ActualAmount", "BT-141"
        ),
        price=r.number(price, "ram:ChargeAmount", "BT-146"),
        price_base=r.number(price, "ram:BasisQuantity", "BT-149"),
        category=r.text(settlement, "ram:ApplicableTradeTax/ram:CategoryCode"),
        rate=r.number(settlement, "ram:ApplicableTradeTax/ram:RateApplicablePercent", "BT-152"),
        name=r.text(node, "ram:SpecifiedTradeProduct/ram:Name"),
        description=r.text(node, "ram:SpecifiedTradeProduct/ram:Description"),
        nesting=status if status in NESTINGS else None,
    )


def _is_charge(r: TermReader, node: Element) -> bool:
    return r.text(node, "ram:ChargeIndicator/udt:Indicator") in {"true", "1"}


def _extra(r: TermReader, node: Element) -> Extra:
    charge = _is_charge(r, node)
    return Extra(
        charge=charge,
        amount=r.number(node, "ram:ActualAmount", "BT-99" if charge else "BT-92"),
        category=r.text(node, "ram:CategoryTradeTax/ram:CategoryCode"),
        rate=r.number(
            node, "ram:CategoryTradeTax/ram:RateApplicablePercent", "BT-103" if charge else "BT-96"
        ),
        reason=r.text(node, "ram:Reason"),
    )


def _logistics(r: TermReader, node: Element) -> Extra:
    """A charge for freight and the like (BG-X-42): the EXTENDED profile of Factur-X and ZUGFeRD
    counts it among the charges of BT-108.
    """
    return Extra(
        charge=True,
        amount=r.number(node, "ram:AppliedAmount", "BT-X-272"),
        category=r.text(node, "ram:AppliedTradeTax/ram:CategoryCode"),
        rate=r.number(node, "ram:AppliedTradeTax/ram:RateApplicablePercent", "BT-X-274"),
        reason=r.text(node, "ram:Description"),
    )


def _tax(r: TermReader, node: Element) -> Tax:
    return Tax(
        base=r.number(node, "ram:BasisAmount", "BT-116"),
        amount=r.number(node, "ram:CalculatedAmount", "BT-117"),
        category=r.text(node, "ram:CategoryCode"),
        rate=r.number(node, "ram:RateApplicablePercent", "BT-119"),
        reason=r.text(node, "ram:ExemptionReason"),
    )

"""An invoice as EN 16931 means it: the standard's business terms, whichever syntax they came in.

Amounts are `Decimal` in the invoice's currency, rates are percent, dates are ISO texts. What the
document did not say is None. Source: EN 16931-1:2017, semantic data model; the term of each field
is in its comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

CREDIT_NOTES = frozenset(
    {"81", "83", "261", "262", "296", "308", "381", "396", "420", "502", "503", "532"}
)
"""Values of BT-3 (UNTDID 1001) that take money back; their amounts are positive all the same."""

NESTINGS = {
    "GROUP": "is the sum of other lines",
    "INFORMATION": "explains other lines",
    "SUB": "is split into further lines",
}
"""How a line relates to other lines, by `InvoiceLine.nesting`. Each line of EN 16931 counts by
itself; some extensions add lines that do not.
"""

Part = TypeVar("Part")


class NotAnInvoice(ValueError):
    """A mapping that `load` cannot read as the class that it was asked for."""


@dataclass(frozen=True, kw_only=True)
class Party:
    """BG-4 seller, BG-7 buyer, or BG-11 the seller's tax representative."""

    name: str | None = None  # BT-27, BT-44, BT-62
    identifier: str | None = None  # BT-29, BT-46
    registration: str | None = None  # BT-30, BT-47
    vat_id: str | None = None  # BT-31, BT-48, BT-63
    tax_number: str | None = None  # BT-32
    country: str | None = None  # BT-40, BT-55, BT-69
    email: str | None = None  # BT-43, BT-58


@dataclass(frozen=True, kw_only=True)
class InvoiceLine:
    """BG-25. `allowances` and `charges` are sums over the line's own (BT-136, BT-141)."""

    id: str | None = None  # BT-126
    quantity: Decimal | None = None  # BT-129
    unit: str | None = None  # BT-130
    net: Decimal | None = None  # BT-131
    order: str | None = None  # BT-X-21, which EN 16931 has not; see `Invoice.orders`
    order_line: str | None = None  # BT-132
    accounting: str | None = None  # BT-133
    allowances: Decimal = Decimal(0)  # BT-136
    charges: Decimal = Decimal(0)  # BT-141
    price: Decimal | None = None  # BT-146
    price_base: Decimal | None = None  # BT-149; 1 where it is not given
    category: str | None = None  # BT-151
    rate: Decimal | None = None  # BT-152
    name: str | None = None  # BT-153
    description: str | None = None  # BT-154
    nesting: str | None = None  # GROUP, INFORMATION (BT-X-8), SUB (BG-DEX-01): see `NESTINGS`


@dataclass(frozen=True, kw_only=True)
class Extra:
    """An allowance (BG-20) or a charge (BG-21) on the document as a whole."""

    charge: bool = False
    amount: Decimal | None = None  # BT-92, BT-99
    category: str | None = None  # BT-95, BT-102
    rate: Decimal | None = None  # BT-96, BT-103
    reason: str | None = None  # BT-97, BT-104


@dataclass(frozen=True, kw_only=True)
class Tax:
    """BG-23: the VAT of one category and rate."""

    base: Decimal | None = None  # BT-116
    amount: Decimal | None = None  # BT-117
    category: str | None = None  # BT-118
    rate: Decimal | None = None  # BT-119
    reason: str | None = None  # BT-120


@dataclass(frozen=True, kw_only=True)
class ThirdParty:
    """BG-DEX-09 of the XRechnung extension: an amount that the seller collects for others. It is
    due in addition to the total, and holds no VAT of this invoice.
    """

    kind: str | None = None  # BT-DEX-001
    amount: Decimal | None = None  # BT-DEX-002
    reason: str | None = None  # BT-DEX-003


@dataclass(frozen=True, kw_only=True)
class Unread:
    """A value that is there but is no number or date."""

    term: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Invoice:
    number: str | None = None  # BT-1
    issued: str | None = None  # BT-2
    kind: str | None = None  # BT-3
    currency: str | None = None  # BT-5
    due: str | None = None  # BT-9
    buyer_reference: str | None = None  # BT-10
    order: str | None = None  # BT-13
    terms: str | None = None  # BT-20
    preceding: str | None = None  # BT-25
    others_preceding: tuple[str, ...] = ()  # BT-25 again: BG-3 may stand any number of times
    profile: str | None = None  # BT-24
    delivered: str | None = None  # BT-72
    means: str | None = None  # BT-81
    iban: str | None = None  # BT-84
    other_ibans: tuple[str, ...] = ()  # BT-84 again: BG-17 may stand any number of times
    seller: Party = Party()
    buyer: Party = Party()
    representative: Party | None = None
    """Owes the seller's VAT in the seller's place (BG-11); None where there is none."""
    line_total: Decimal | None = None  # BT-106
    allowance_total: Decimal | None = None  # BT-107
    charge_total: Decimal | None = None  # BT-108
    net: Decimal | None = None  # BT-109
    vat: Decimal | None = None  # BT-110
    gross: Decimal | None = None  # BT-112
    prepaid: Decimal | None = None  # BT-113
    rounding: Decimal | None = None  # BT-114
    payable: Decimal | None = None  # BT-115
    lines: tuple[InvoiceLine, ...] = ()
    extras: tuple[Extra, ...] = ()
    taxes: tuple[Tax, ...] = ()
    third_parties: tuple[ThirdParty, ...] = ()
    withheld: Decimal | None = None
    """Tax that the buyer keeps back and owes the tax office; EN 16931 has no term for it."""
    syntax: str = ""
    """`UBL` or `CII`."""
    root: str = ""
    """`Invoice` or `CreditNote`, where UBL's root element says otherwise than BT-3."""
    unread: tuple[Unread, ...] = ()

    @property
    def is_credit_note(self) -> bool:
        return self.kind in CREDIT_NOTES

    @property
    def named(self) -> tuple[str, ...]:
        """Numbers of the invoices that this one takes back, corrects or continues (BG-3)."""
        return (*filter(None, [self.preceding]), *self.others_preceding)

    @property
    def orders(self) -> tuple[str, ...]:
        """The orders that the invoice names as a whole, and in its lines."""
        every = (self.order, *(line.order for line in self.lines))
        return tuple(dict.fromkeys(order for order in every if order))

    @property
    def collected(self) -> Decimal:
        """The sum of what is due for third parties."""
        return sum((party.amount or Decimal(0) for party in self.third_parties), Decimal(0))


def dump(value: Any) -> Any:
    """Write the JSON form: amounts as texts that keep their decimals, without absent values. So a
    worker of an older version reads every invoice that has none of the new terms.
    """
    match value:
        case Decimal():
            return format(value, "f")
        case dict():
            return {key: dump(item) for key, item in value.items() if item not in (None, ())}
        case tuple() | list():
            return [dump(item) for item in value]
        case bool() | str() | int() | None:
            return value
    return dump(asdict(value))


def load(kind: type[Part], kept: Mapping[str, Any]) -> Part:
    """Read a `kind` from what `dump` made of it.

    Raises NotAnInvoice for anything else, such as a state that was edited by hand.
    """
    hints = _hints(kind)  # type: ignore[arg-type]  # every class is hashable
    if not isinstance(kept, Mapping) or not kept.keys() <= hints.keys():
        raise NotAnInvoice(
            f"{kind.__name__} does not have these parts: "
            f"{', '.join(sorted(set(kept) - set(hints)))}"
        )
    try:
        return kind(**{name: _load_value(hints[name], value) for name, value in kept.items()})
    except (ArithmeticError, TypeError, ValueError) as error:
        raise NotAnInvoice(f"{kind.__name__}: {error}") from error


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _load_value(hint: Any, value: Any) -> Any:
    if isinstance(hint, UnionType):
        hint = next(option for option in get_args(hint) if option is not type(None))
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise TypeError(f"a list is needed, not {type(value).__name__}")
        return tuple(_load_value(get_args(hint)[0], option) for option in value)
    if hint is Decimal:
        return _read_amount(value)
    if hint in {str, bool}:
        if not isinstance(value, hint):
            raise TypeError(f"{hint.__name__} is needed, not {type(value).__name__}")
        return value
    return load(hint, value)


def _read_amount(value: Any) -> Decimal:
    number = Decimal(value) if isinstance(value, str) else Decimal("NaN")
    if not number.is_finite():
        raise ValueError(f"{value!r:.40} is no amount")
    return number

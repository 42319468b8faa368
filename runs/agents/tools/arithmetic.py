"""Arithmetic that a model may ask for: exact, bounded, and nothing but arithmetic."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction

LONGEST = 500
"""Characters that an expression may have."""
BITS = 20_000
"""Bits that the numerator or denominator of a number on the way may have."""
DIGITS = 30
"""Digits of a result that is no finite decimal."""
_EXPONENT = re.compile(r"[eE]([+-]?[0-9_]+)\Z")
_LARGEST_EXPONENT = 400


class CannotCalculate(Exception):
    """The text is no expression, or has no value; the message says why."""

    code = "cannot_calculate"


def calculate(expression: str) -> str:
    """Give the value as text: exact where a decimal of a few hundred digits can be, else rounded to
    DIGITS digits.
    """
    if len(expression) > LONGEST:
        raise CannotCalculate(f"An expression has up to {LONGEST} characters.")
    try:
        return _as_text(_Evaluation(expression).value())
    except ZeroDivisionError:
        raise CannotCalculate("That divides by zero.") from None
    # Python's parser raises one of these for a text that is no expression, or is nested too deeply
    except (SyntaxError, ValueError, MemoryError):
        raise CannotCalculate(
            "This is no arithmetic expression; write one such as (12.5 + 3) * 2."
        ) from None
    except RecursionError:
        raise CannotCalculate("This expression is nested too deeply.") from None


class _Evaluation:
    """Walks the syntax tree of one expression, and knows no names but FUNCTIONS."""

    def __init__(self, expression: str) -> None:
        self._text = expression.strip()

    def value(self) -> Fraction:
        return self._value_of(ast.parse(self._text, mode="eval").body)

    def _value_of(self, node: ast.expr) -> Fraction:
        match node:
            case ast.Constant(value=bool() | complex() | str() | bytes() | None):
                raise CannotCalculate("Numbers only.")
            case ast.Constant(value=int() as number):
                return _bounded(Fraction(number))
            case ast.Constant(value=float()):
                return self._decimal(node)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self._value_of(inner)
            case ast.UnaryOp(op=ast.UAdd(), operand=inner):
                return self._value_of(inner)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
                return _bounded(OPERATIONS[type(op)](self._value_of(left), self._value_of(right)))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                return _bounded(_call(name, [self._value_of(argument) for argument in arguments]))
        raise CannotCalculate(
            f"Only numbers, + - * / // % **, parentheses and {', '.join(FUNCTIONS)} are known here."
        )

    def _decimal(self, node: ast.Constant) -> Fraction:
        """Read a number as it is written: 0.1 is exactly a tenth."""
        written = ast.get_source_segment(self._text, node) or ""
        exponent = _EXPONENT.search(written)
        if exponent and abs(int(exponent[1])) > _LARGEST_EXPONENT:
            raise CannotCalculate(f"Exponents go up to {_LARGEST_EXPONENT}.")
        return Fraction(written.replace("_", ""))


def _bounded(number: Fraction) -> Fraction:
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > BITS:
        raise CannotCalculate("A number on the way has more than 6,000 digits.")
    return number


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise CannotCalculate("Only whole exponents are exact; sqrt gives a square root.")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if size * abs(exponent.numerator) > BITS and abs(base) not in {0, 1}:
        raise CannotCalculate("A number on the way has more than 6,000 digits.")
    return Fraction(base**exponent.numerator)


def _call(name: str, arguments: list[Fraction]) -> Fraction:
    least, most, function = FUNCTIONS[name]
    if not least <= len(arguments) <= most:
        raise CannotCalculate(f"{name} does not take {len(arguments)} numbers.")
    return function(*arguments)


def _root(number: Fraction) -> Fraction:
    if number < 0:
        raise CannotCalculate("There is no square root of a negative number here.")
    if number.numerator.bit_length() > 1_000 or number.denominator.bit_length() > 1_000:
        raise CannotCalculate("That number is too large for a square root.")
    exact = Fraction(math.isqrt(number.numerator), math.isqrt(number.denominator))
    if exact * exact == number:
        return exact
    with localcontext(Context(prec=DIGITS)):
        return Fraction((Decimal(number.numerator) / Decimal(number.denominator)).sqrt())


def _rounded(number: Fraction, places: Fraction = Fraction(0)) -> Fraction:
    if places.denominator != 1 or abs(places) > 100:
        raise CannotCalculate("round takes a whole number of places, up to 100.")
    return Fraction(round(number, places.numerator))


OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: lambda one, other: one + other,
    ast.Sub: lambda one, other: one - other,
    ast.Mult: lambda one, other: one * other,
    ast.Div: lambda one, other: one / other,
    ast.FloorDiv: lambda one, other: Fraction(one // other),
    ast.Mod: lambda one, other: one % other,
    ast.Pow: _power,
}
FUNCTIONS: dict[str, tuple[int, int, Callable[..., Fraction]]] = {
    "abs": (1, 1, abs),
    "round": (1, 2, _rounded),
    "min": (1, 50, lambda *numbers: min(numbers)),
    "max": (1, 50, lambda *numbers: max(numbers)),
    "floor": (1, 1, lambda number: Fraction(math.floor(number))),
    "ceil": (1, 1, lambda number: Fraction(math.ceil(number))),
    "sqrt": (1, 1, _root),
}
"""Name → how many numbers it takes at least and at most, and what it does."""


def _as_text(number: Fraction) -> str:
    if number.denominator == 1 and abs(number.numerator) < 10**400:
        return str(number.numerator)
    with localcontext(Context(prec=400, Emax=100_000, Emin=-100_000)) as exact:
        decimal = Decimal(number.numerator) / Decimal(number.denominator)
        if not exact.flags[Inexact]:
            return (
                f"{decimal.normalize():f}"
                if abs(decimal.adjusted()) < 400
                else str(decimal.normalize())
            )
    with localcontext(Context(prec=DIGITS, Emax=100_000, Emin=-100_000)):
        short = +(Decimal(number.numerator) / Decimal(number.denominator))
    return f"{short:f}" if abs(short.adjusted()) < 50 else str(short)

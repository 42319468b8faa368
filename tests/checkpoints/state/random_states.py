"""States and values as Hypothesis makes them."""

from __future__ import annotations

from hypothesis import strategies as st

from checkpoints.state import codec, redaction

texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
"""Any code point: NUL and lone surrogates too."""
names = texts.filter(lambda name: not redaction.is_secret(name))
"""What stands under one of a secret's is not kept, and Hypothesis tries words of the product's."""


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)


values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


states = st.dictionaries(st.sampled_from(["a", "b", "c", "\x00", "\ud800"]), values)


def passes(value) -> bool:
    try:
        codec.check(value)
    except codec.NotJson:
        return False
    return True

"""Every text of a template that a person reads is marked (issue 19, 7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.languages import unmarked

pytestmark = pytest.mark.one_database
ROOT = Path(__file__).parents[2]


def test_every_text_of_a_template_is_marked():
    """A text that is not marked is English on a German page."""
    assert unmarked.everywhere(ROOT) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("<p>Look here</p>", ["Look here"]),
        ("<p>{% if a %}Look {{ x }}{% endif %}</p>", ["Look"]),
        ('<a title="Look here" class="card">→</a>', ["Look here"]),
        ("<button aria-label=\"{% translate 'In' %} out\"></button>", ["out"]),
        ('{% include "a.html" with label="More" of=one %}', ["More"]),
        (
            '{{ x|default:"None yet" }} row{{ n|pluralize }}',
            ['|default:"None yet"', "|pluralize", "row"],
        ),
        ("{# A note. #}{% comment %}Another{% endcomment %}<code>run</code> <kbd>Ctrl K</kbd>", []),
        ("{% block shape %}page narrow{% endblock %}<b>Waystation</b> · 12:00", []),
        ("{% translate 'In' %}{% blocktranslate %}Out {{ x }}{% endblocktranslate %}", []),
        ("<p{% if a %} class=\"wide\"{% endif %}>{{ x|default:_('None') }}</p>", []),
    ],
)
def test_what_is_not_marked_is_named(source, found):
    """A rule that never failed proves nothing."""
    lines = [line.split(": ", 1)[1] for line in unmarked.unmarked("a.html", source)]
    assert lines == [f"{text!r} is not marked" for text in found]

"""Every text of Python and JavaScript that a page shows is marked (issue 19, 7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.languages import code_texts

pytestmark = pytest.mark.one_database
ROOT = Path(__file__).parents[2]


def test_every_text_that_python_or_a_script_gives_a_page_is_marked():
    """A text that is not marked is English on a German page."""
    assert code_texts.everywhere(ROOT) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('messages.error(request, "It is gone.")', ["It is gone."]),
        ('messages.error(request, f"{name} is gone.")', [" is gone."]),
        ('self.message_user(request, "Gone." if a else _("Here."))', ["Gone."]),
        ('raise errors.ViewInvalid("name", "It has no name.")', ["It has no name."]),
        ('raise Http404(gettext("There is none.")) from error', []),
        ('@display(description="last run")\ndef last(self): ...', ["last run"]),
        ('admin.action(description=gettext_lazy("Send again"))', []),
        ('forms.CharField(label="Name", max_length=9)', ["Name"]),
        ('serializers.CharField(help_text="A name of it.")', []),
        ('class A:\n    search_help_text = "Words of it"', ["Words of it"]),
        ('form.add_error("name", "Choose another name.")', ["Choose another name."]),
        ('raise StepFailed("It is stored.")', []),
    ],
)
def test_what_is_not_marked_in_python_is_named(source, found):
    """A rule that never failed proves nothing."""
    lines = [line.split(": ", 1)[1] for line in code_texts.unmarked("a.py", source)]
    assert lines == [f"{text!r} is not marked" for text in found]


def test_a_mark_within_an_f_string_is_named():
    """Before: "Nothing was decided." of answers by mail and from Teams was English for everybody,
    and `make check` failed on Python 3.12 and newer alone, where the text is found.
    """
    source = (
        """said = f"{why} {gettext('It is open.')}"\nsaid = f"{why}" + gettext("It is open.")"""
    )
    assert list(code_texts.unmarked("a.py", source)) == [
        "a.py:1: gettext('It is open.') stands in an f-string"
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('line.textContent = "Not sent";', ["Not sent"]),
        ("line.title = `${count} are new`;", ["… are new"]),
        ('one.setAttribute("aria-label", a ? gettext("Open") : "Close");', ["Close"]),
        ('made("input", { "aria-label": gettext("Find a page"), type: "text" })', []),
        ('announce(ngettext("One row", "%(count)s rows", { count }));', []),
        ('if (line.textContent === "Not sent") return;', []),
    ],
)
def test_what_is_not_marked_in_a_script_is_named(source, found):
    lines = [line.split(": ", 1)[1] for line in code_texts.unmarked_script("a.js", source)]
    assert lines == [f"{text!r} is not marked" for text in found]

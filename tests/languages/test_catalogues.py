"""The catalogues are complete, and say what the sources say."""

from __future__ import annotations

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from django.template import engines
from django.utils import translation

from tests.languages import catalogues, extraction
from tests.languages.extraction import Text

pytestmark = pytest.mark.one_database


def test_every_marked_text_has_its_words_in_every_language():
    """Issue 19, 7: a text that is marked and has no German, lost a value or is gone fails here."""
    assert catalogues.problems() == []


def test_what_is_missing_from_a_catalogue_is_named(tmp_path):
    """A rule that never failed proves nothing."""
    path = tmp_path / "django.po"
    path.write_text(
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n'
        '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n'
        '#, fuzzy\nmsgid "Old"\nmsgstr "Alt"\n\n'
        'msgid "Gone"\nmsgstr "Weg"\n\n'
        'msgid "%(name)s waits"\nmsgstr "%(nam)s wartet"\n'
    )
    sources = Catalog()
    for id in ("Old", "%(name)s waits", ("one", "many")):
        sources.add(id)
    known, written = extraction.updated(path, sources)
    found = list(catalogues.incomplete(known))
    assert [line.split(" ")[-1] for line in found if "fuzzy" in line] == ["fuzzy"]
    assert any("its words ['%(nam)s']" in line for line in found)
    assert any("'one' has no words" in line for line in found)
    assert b"Gone" not in written


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("{% translate 'Log \"in\"' %}", ['Log "in"']),
        ("{% if a %}{% for x in y %}{% translate 'In' %}{% endfor %}{% endif %}", ["In"]),
        ("{{ a|default:_('None') }}{% include 'x' with label=_(\"More\") %}", ["None", "More"]),
        (
            "{% blocktranslate trimmed count n=a|length %}{{ n }}\n  one{% plural %}{{ n }} "
            "many{% endblocktranslate %}",
            [("%(n)s one", "%(n)s many")],
        ),
    ],
)
def test_texts_of_templates_are_found_as_django_looks_them_up(source, texts):
    assert list(extraction.texts_of(source)) == [Text(text) for text in texts]


@pytest.mark.parametrize(
    "inside",
    ["'Approve'", "'Approve' as x", "'50 % <b>'", "'Approve'|upper", "v", "_('Approve')",
     "'Approve' noop", "'deadline' context 'model'", "''"],
)  # fmt: skip
@pytest.mark.parametrize("language", ["en", "de"])
def test_words_of_templates_are_said_as_django_says_them(language, inside):
    """Our tag, which all templates have, beside Django's, which a template may ask for."""
    engine = engines["django"]
    source = f"{{% translate {inside} %}} {{{{ x }}}}"
    with translation.override(language):
        ours, theirs = (
            engine.from_string(f"{before}{source}").render({"v": "Approve"})
            for before in ("", "{% load i18n %}")
        )
    assert ours == theirs


def test_catalogues_can_be_read_by_gettext_without_any_program_of_the_machine(tmp_path):
    """A clone has no compiled file; `hitl.rendering.catalogues` makes them."""
    for _, path in catalogues.files("de"):
        assert path.with_suffix(".mo").stat().st_mtime >= path.stat().st_mtime
        with path.open("rb") as file:
            assert read_po(file).num_plurals == 2

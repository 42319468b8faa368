"""One table says which status an error has, at every door."""

import importlib
import pkgutil

import pytest

from checkpoints.store import CheckpointDamaged, StateLocked
from hitl import views
from hitl.decisions import services
from hitl.http import errors
from hitl.http.refusals import exception_handler
from runs.definitions import TemplateNotFound, TemplateNotNamed

pytestmark = pytest.mark.one_database


def modules():
    found = pkgutil.walk_packages(views.__path__, "hitl.views.")
    return [importlib.import_module(module.name) for module in found]


def test_no_page_has_a_table_of_its_own():
    """Pages had two more tables, which had drifted."""
    tables = [
        f"{module.__name__}.{name}"
        for module in modules()
        for name, value in vars(module).items()
        if isinstance(value, dict) and any(_is_error(key) for key in value)
    ]
    assert not tables
    shown = {
        kind for module in modules() for kind in getattr(module, "REFUSALS", ()) if _is_error(kind)
    }
    assert len(shown) > 20
    assert not [kind for kind in shown if not issubclass(kind, errors.KNOWN)]


@pytest.mark.parametrize("kind", [StateLocked, CheckpointDamaged, TemplateNotNamed])
def test_the_nearest_class_in_the_table_counts(kind):
    error = kind("words")
    assert (
        errors.status_of(error) == errors.STATUS[kind] == exception_handler(error, {}).status_code
    )
    assert errors.STATUS[TemplateNotFound] != errors.STATUS[TemplateNotNamed]


def test_an_error_beneath_one_of_the_table_is_refused_like_it():
    """Before, over REST it was an error of the server, and on a page it was not."""

    class NotFoundHere(services.NotFound):
        """An error that somebody adds."""

    answer = exception_handler(NotFoundHere("There is none."), {})
    assert (answer.status_code, answer.data["code"]) == (404, services.NotFound.code)


def _is_error(value):
    return isinstance(value, type) and issubclass(value, Exception)

"""`WAYSTATION_WORKFLOWS` names modules and folders; what cannot be loaded says where and why."""

from __future__ import annotations

import os
import sys
import threading
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from checkpoints import extension
from runs import defaults
from runs.definitions import loading
from runs.workflows import registry
from tests.databases import copies
from tests.programs.begun import Begun
from tests.servers.stack import Stack, until

ROOT = Path(__file__).resolve().parents[3]
GOOD = """
from runs.workflows import Done, step, workflow

@step("{name}.say")
def say(state, context):
    return Done(update={{"said": "{words}"}})

{name} = workflow("{slug}", title="{words}", steps=[say])
"""
PAUSING = """
from runs.workflows import Done, Go, Report, Review, step, use, workflow

@step("pausing.ask")
def ask(state, context):
    return Go(report=Report(content="asked by {words}"))

@step("pausing.end")
def end(state, context):
    return Done(update={{"said": "{words}"}})

pausing = workflow("pausing", title="{words}", steps=[
    use(ask, pause_after=True, review=Review(reviewers={{"groups": ["editors"]}})), end])
"""


def good(name: str, words: str = "Hello", slug: str = "") -> str:
    return GOOD.format(name=name, words=words, slug=slug or name)


@pytest.fixture
def folder(tmp_path, monkeypatch, settings):
    """An author's folder, which the setting names; what it registers is gone afterwards."""
    for name in ("_STEPS", "_TRAITS", "_LATEST"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    settings.WAYSTATION_WORKFLOWS = [str(tmp_path)]
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("named", "others"),
    [
        (["+"], ["a", "b", "c"]),
        (["+letters", "~/flows"], ["a", "b", "c", "letters", "~/flows"]),
        (["+", "letters"], ["a", "b", "c", "letters"]),
        (("letters", "~/flows"), ["letters", "~/flows"]),
        ([], []),
    ],
)
def test_plus_adds_to_what_the_extensions_declare(monkeypatch, settings, named, others):
    """A module of one's own took the names of all that is shipped beside it."""
    apps = [SimpleNamespace(workflows=("a", "b")), SimpleNamespace(workflows=("c",))]
    monkeypatch.setattr(extension, "installed", lambda: apps)
    settings.WAYSTATION_WORKFLOWS = named
    assert loading.entries() == others


def test_without_a_value_it_is_what_the_extensions_declare():
    assert defaults.WAYSTATION_WORKFLOWS == ["+"]
    assert "extensions.booking.templates" in loading.entries()


def test_each_module_and_package_of_a_folder_is_loaded(folder):
    (folder / "first_flow.py").write_text(good("first_flow"))
    (folder / "second_flow").mkdir()
    (folder / "second_flow" / "__init__.py").write_text("from second_flow import steps as steps\n")
    (folder / "second_flow" / "steps.py").write_text(good("second_flow"))
    for name in ("test_first_flow.py", "_draft.py", "conftest.py", "no-name.py", "notes.txt"):
        (folder / name).write_text("raise RuntimeError('this is no workflow')\n")
    (folder / "no_package").mkdir()
    kinds, found = loading.declared(loading.modules())
    assert [one.slug for one in found] == ["first_flow", "second_flow"]
    assert [one.slug for one in kinds] == ["first_flow-say", "second_flow-say"]
    assert found[1].place == f"{folder / 'second_flow' / 'steps.py'}, line 8"


SECRET = "a-shop-password-of-the-environment"
HOSTILE = {
    "nowhere": ("import shop_that_is_not_there\n", r"nowhere\.py, line 1: ModuleNotFoundError"),
    "unwritten": ("x = 1\ny = (\n", r"unwritten\.py, line 2: SyntaxError: '\(' was never closed"),
    "leaves": ("x = 1\nraise SystemExit(3)\n", r"leaves\.py, line 2: SystemExit: 3"),
    "deep": (
        "import json\ndef read():\n    return json.loads('no')\nread()\n",
        r"deep\.py, line 3: JSONDecodeError: Expecting value",
    ),
    "tells": (
        "import os\nraise KeyError('no login with ' + os.environ['SHOP_PASSWORD'])\n",
        r"tells\.py, line 2: KeyError: 'no login with \[redacted\]'",
    ),
    "long_words": ("raise ValueError('x' * 9_000)\n", r"ValueError: x{100,450} … Mend it"),
    "misspelt": (
        good("misspelt").replace("steps=[say]", "steps=[say], inptu={}"),
        r'misspelt\.py, line 8: workflow\(…\): There is no keyword "inptu". Did you mean input',
    ),
    "keys": (
        "TEMPLATES = {'a': {'title': 'A', 'steps': [], 'input_shema': {}}}\n",
        r"""keys\.py, 'a': There is no key "input_shema". Did you mean input_schema""",
    ),
    "shapeless": (
        "STEP_TEMPLATES = {'a': 7}\n",
        r"shapeless\.py, 'a': It is an object with a title",
    ),
    "worse": (
        "class Worse(BaseException):\n    def __str__(self):\n        return 7\nraise Worse\n",
        r"worse\.py, line 4: Worse\. Mend it",
    ),
    "endless_calls": (
        "def read():\n    return read()\nread()\n",
        r"endless_calls\.py, line 2: RecursionError",
    ),
    "waits": (
        good("waits").replace("def say", "async def say"),
        r"waits\.py, line 4: ValueError: 'waits\.say', .*an async function, of which a call runs",
    ),
    "yields": (
        good("yields").replace("return Done", "yield Done"),
        r"this is a generator, of which a call runs nothing",
    ),
    "climbs": (
        good("climbs").replace('"climbs.say"', '"../../climbs"'),
        r"climbs\.py, line 4: ValueError: '\.\./\.\./climbs'.* letters, digits, dots",
    ),
    "marks": (
        good("marks").replace('"marks.say"', '"<script>alert(1)</script>"'),
        r"a step's name has up to 120 letters",
    ),
    "json": (good("json_flow"), "Python has another one of that name"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_module_is_refused_with_its_file_and_line(folder, monkeypatch, name):
    """Only the kind of error was told; SystemExit ended the start without a word, and an error's
    words went to the server's log with the passwords that they quoted.
    """
    monkeypatch.setenv("SHOP_PASSWORD", SECRET)
    text, words = HOSTILE[name]
    (folder / f"{name}.py").write_text(text)
    with pytest.raises(ImproperlyConfigured, match=words) as refused:
        loading.declared(loading.modules())
    told = str(refused.value)
    assert SECRET not in told and len(told) < 800 and "\n" not in told


def test_two_workflows_of_one_slug_and_two_steps_of_one_name_are_told_with_both_places(folder):
    (folder / "one_flow.py").write_text(good("one_flow", slug="same"))
    (folder / "two_flow.py").write_text(good("two_flow", slug="same"))
    with pytest.raises(ImproperlyConfigured) as refused:
        loading.declared(loading.modules())
    assert f"{folder}/two_flow.py, line 8 and {folder}/one_flow.py, line 8" in str(refused.value)
    (folder / "two_flow.py").unlink()
    (folder / "three_flow.py").write_text(good("one_flow"))
    with pytest.raises(ImproperlyConfigured, match=r"three_flow\.py.*one_flow\.py, line 4"):
        loading.modules()


def test_a_folder_that_is_not_there_says_how_to_make_one(settings, tmp_path):
    settings.WAYSTATION_WORKFLOWS = [str(tmp_path / "none")]
    with pytest.raises(ImproperlyConfigured, match=r"no folder .*none.*startworkflow"):
        loading.modules()


def test_a_start_that_hangs_says_in_which_module_and_line(folder, monkeypatch, capsys):
    """A loop at a module's top level: the start stood still, and nobody knew where."""
    begun = threading.Event()

    class Patience(threading.Timer):
        """Ends once the loop is at work: an import takes its time where others work too."""

        def run(self) -> None:
            begun.wait()
            self.function()

    monkeypatch.setattr(threading, "Timer", Patience)
    monkeypatch.setattr(sys, "begun", begun, raising=False)
    told = StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    (folder / "endless_flow.py").write_text(
        "import sys\nwhile 'Still importing' not in sys.stderr.getvalue():\n    sys.begun.set()\n"
    )
    loading.modules()
    assert "endless_flow.py, line " in told.getvalue()
    assert "Still importing endless_flow" in told.getvalue()


@pytest.mark.parametrize(
    "server",
    [["-m", "daphne", "project.asgi:application"], ["-m", "celery", "-A", "project", "worker"]],
    ids=["web", "worker"],
)
def test_a_server_does_not_start_and_says_why_in_one_line(tmp_path, server):
    """Web server and worker ended with a hundred lines of traceback."""
    (tmp_path / "bad_flow.py").write_text("x = 1\nraise RuntimeError('no shop here')\n")
    stack = Stack(tmp_path, {"WAYSTATION_WORKFLOWS": f"+{tmp_path}"})
    assert stack.start("server", *server).wait() == 1
    said = (tmp_path / "server.log").read_text()
    assert "bad_flow.py, line 2: RuntimeError: no shop here" in said
    assert "Traceback" not in said and len(said.splitlines()) < 4


def test_a_new_workflow_begins_with_a_test_that_passes(tmp_path):
    """Issue 17, 2: `startworkflow` writes a workflow with its test that runs at once."""
    said = StringIO()
    folder = tmp_path / "flows"
    call_command("startworkflow", "refund-desk", "--folder", str(folder), stdout=said)
    assert f"make up WORKFLOWS={folder}" in said.getvalue()
    for wrong in ("refund-desk", "1st", "class", "json", "../up"):
        with pytest.raises(CommandError):
            call_command("startworkflow", wrong, "--folder", str(folder))
    assert sorted(path.name for path in folder.iterdir()) == [
        "refund_desk.py",
        "test_refund_desk.py",
    ]
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder))
    done = Begun(*words, environment={**os.environ}).ended()
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.stack
def test_a_changed_workflow_is_loaded_and_a_broken_one_stops_nothing(tmp_path):
    """Issue 17, 2: `make up` reloads on change; a broken file keeps the old code running, and
    work that waits goes on with the new.
    """
    flows = tmp_path / "flows"
    flows.mkdir()
    (flows / "pausing.py").write_text(PAUSING.format(words="Old"))
    stack = Stack(tmp_path, {"WAYSTATION_WORKFLOWS": f"+{flows}"})
    copies.sqlite(tmp_path / "data")
    log = tmp_path / "standalone.log"
    try:
        server = stack.standalone("--demo", "--reload")
        assert f"Loaded        pausing   {flows / 'pausing.py'}, line 12" in log.read_text()
        assert "Made group    editors   which a workflow names" in log.read_text()
        token = stack.manage("api_token", "reviewer").split()[-1]
        order = stack.call("POST", "/api/v1/work-orders", {"template": "pausing"}, token=token)[1][
            "id"
        ]
        stack.paused(order, token, "awaiting_ask_approval")

        (flows / "pausing.py").write_text(PAUSING.format(words="Old") + "x = (\n")
        until(lambda: "Not reloaded" in log.read_text(), what="the refusal")
        assert f"{flows / 'pausing.py'}, line 14: SyntaxError" in log.read_text()
        assert stack.paused(order, token, "awaiting_ask_approval")

        (flows / "pausing.py").write_text(PAUSING.format(words="The new one"))
        until(lambda: "\nReloaded" in log.read_text(), what="the new start")
        stack.wait_for_web()
        assert server.poll() is None
        address = "/api/v1/templates/workflows/pausing"
        assert stack.call("GET", address, token=token)[1]["title"] == "The new one"
        stack.answer(order, token, "approve")
        ended = stack.ended(order, token)
        state = stack.call("GET", f"/api/v1/threads/{ended['thread_id']}/state", token=token)[1]
        assert "The new one" in str(state), state
    finally:
        stack.stop()

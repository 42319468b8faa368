"""What begins in the middle is as what begins at its beginning."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.programs import warm
from tests.programs.begun import Begun

TELLS = """
import os, sys
print(sys.argv[1:], os.environ["GIVEN"], os.environ.get("HOME"), os.getcwd(), oct(os.umask(0)))
print(os.getsid(0) == os.getpid(), sys.stdin.read(), sorted(os.listdir("/proc/self/fd")))
print(sorted(name for name in sys.modules if name.split(".")[0] in {"project", "runs", "hitl"}))
print("trouble", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(TELLS)
    return tmp_path / "program.py"


GIVEN = {"GIVEN": "here", **warm.OWN}
TELLS_ITS_PRODUCT = """
import os, re, sys
import project
import django
django.setup()
from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.db import connection
from django.urls import get_resolver
from runs.workflows.registry import known
print(sys.argv[1:], oct(os.umask(0)), connection.settings_dict, sorted(known()))
print([(each.label, sorted(map(str, each.get_models()))) for each in apps.get_app_configs()])
for name in sorted(filter(str.isupper, dir(settings))):
    print(name, re.sub(" at 0x[0-9a-f]+", "", repr(getattr(settings, name))))
def look(resolver, before=""):
    for each in resolver.url_patterns:
        route = before + str(each.pattern)
        look(each, route) if hasattr(each, "url_patterns") else print(route, each.name)
look(get_resolver())
admin.autodiscover()
print([(str(model), type(page).__name__) for model, page in admin.site._registry.items()])
# Python itself says LC_CTYPE where no language is said
print(sorted(told for told in os.environ.items() if told[0] != "LC_CTYPE"))
"""


def begin(
    path: Path,
    *words: str,
    into: Path,
    environment: dict[str, str] = GIVEN,
    of_product: bool = False,
) -> warm.Process:
    with open(into, "wb") as output, open(into.with_suffix(".err"), "wb") as errors:
        return warm.start(
            [str(path), *words],
            environment=environment,
            output=output.fileno(),
            errors=errors.fileno(),
            umask=0o27,
            of_product=of_product,
        )


def begin_cold(path: Path, *words: str, into: Path, environment: dict[str, str] = GIVEN) -> None:
    with open(into, "wb") as output:
        subprocess.run(
            [sys.executable, path, *words],
            cwd=warm.ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            umask=0o27,
        )


def test_a_program_sees_and_says_what_it_would_from_a_cold_start(program, tmp_path):
    process = begin(program, "3", "more", into=tmp_path / "warm")
    assert process.wait(60) == 3 == process.poll()
    begin_cold(program, "3", "more", into=tmp_path / "cold")
    assert (tmp_path / "warm").read_text() == (tmp_path / "cold").read_text()
    assert (tmp_path / "warm.err").read_text() == "trouble\n"


@pytest.mark.parametrize(
    "told",
    [
        {
            "DJANGO_SETTINGS_MODULE": "tests.servers.slow_settings",
            "WAYSTATION_LEASE_SECONDS": "7",
            "WAYSTATION_MCP_TOOLS": "",
            "REDIS_URL": "redis://127.0.0.1:1/2",
        },
        {"WAYSTATION_EXTENSIONS": ""},
    ],
)
def test_a_program_of_the_product_is_set_up_as_from_a_cold_start(tmp_path, told):
    """Also one whose settings leave out what has been read ahead: it starts again."""
    (tmp_path / "program.py").write_text(TELLS_ITS_PRODUCT)
    environment = {
        **GIVEN,
        "PYTHONPATH": str(warm.ROOT),
        "WAYSTATION_DATA": str(tmp_path / "data"),
        **told,
    }
    begin_cold(tmp_path / "program.py", into=tmp_path / "cold", environment=environment)
    process = begin(
        tmp_path / "program.py",
        into=tmp_path / "warm",
        environment=environment,
        of_product=True,
    )
    assert process.wait(60) == 0, (tmp_path / "warm.err").read_text()
    assert (tmp_path / "warm").read_text() == (tmp_path / "cold").read_text()
    assert len((tmp_path / "cold").read_text().splitlines()) > 400


BEGINS_ANOTHER = """
import os, sys
from tests.programs import warm
told = ["-c", "import os; print(os.getppid())"]
files = {"output": 1, "errors": 2, "umask": 0o22}
process = warm.start(told, environment={**os.environ}, **files)
print(os.getppid(), process.wait(60), flush=True)
"""


def test_one_that_may_begin_others_does_so_where_it_began_itself():
    begun = Begun(
        "-c", BEGINS_ANOTHER, environment={**os.environ}, of_product=False, begins_more=True
    ).ended()
    assert begun.returncode == 0, begun.stderr
    child, own, code = begun.stdout.split()
    assert (child, code) == (own, "0")


def test_all_of_a_run_ask_one_process():
    """And with the run it ends."""
    # the way to a socket has a hundred characters at most
    with (
        TemporaryDirectory() as folder,
        warm.waiting_for_all(Path(folder, "doors"), os.environ, []) as told,
    ):
        environment = {**os.environ, **warm.OWN, **told}
        begun = [
            subprocess.run(
                [sys.executable, "-c", BEGINS_ANOTHER],
                cwd=warm.ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()[0]
            for _ in range(2)
        ]
    assert begun[0] == begun[1] != str(os.getpid())
    assert not Path("/proc", begun[0]).exists()


def test_of_another_version_nothing_is_read_here(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "tests" / "which.py").write_text("import os; print(__file__, os.getcwd())")
    with open(tmp_path / "out", "wb") as output:
        process = warm.start(
            ["-m", "tests.which"],
            environment=GIVEN,
            output=output.fileno(),
            errors=2,
            umask=0o22,
            root=tmp_path,
        )
    assert process.wait(60) == 0
    assert (tmp_path / "out").read_text() == f"{tmp_path}/tests/which.py {tmp_path}\n"


def test_it_is_killed_and_waited_for_as_a_child(tmp_path):
    (tmp_path / "program.py").write_text("import time; time.sleep(600)")
    process = begin(tmp_path / "program.py", into=tmp_path / "out")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(10) == -9


@pytest.mark.parametrize(("becomes", "code"), [("error", 1), ("ignore", 0)])
def test_code_is_told_its_words_and_what_becomes_of_warnings(becomes, code):
    words = "import sys, warnings; print(sys.argv); warnings.warn('old')"
    environment = {**os.environ, "PYTHONWARNINGS": becomes}
    ended = Begun("-c", words, "one", environment=environment, of_product=False).ended()
    assert (ended.returncode, ended.stdout) == (code, "['-c', 'one']\n"), ended.stderr
    assert ("UserWarning: old" in ended.stderr) == code


def test_what_python_reads_at_its_start_is_not_told_too_late():
    assert warm.may_be({**os.environ, **warm.OWN, "WAYSTATION_DATA": "elsewhere"})
    for name in ("PYTHONPATH", "PYTHONHASHSEED", "LD_PRELOAD", "FAKETIME", "LC_ALL"):
        assert not warm.may_be({**os.environ, **warm.OWN, name: "other"}), name

"""The files for containers and systemd, as far as they can be looked at without a daemon."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from hitl.management.commands.start import Command
from hitl.operations import starting
from runs.models import installation
from tests.project import optional
from tests.servers.stack import ROOT

pytestmark = [pytest.mark.one_database]

SHIPPING = ROOT / "project" / "shipping"
DOCKERFILE = SHIPPING / "Dockerfile"
UNITS = sorted((SHIPPING / "systemd").glob("*.service"))
PASSWORD = "POSTGRES_PASSWORD"
EXPOSED = 3.0
"""Of ten, by `systemd-analyze security`: below it says OK."""


def test_procfile_starts_what_the_entrypoint_starts():
    """One place says how a process is started."""
    lines = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
    told = {"host": "0.0.0.0", "port": "${PORT:-8000}", "concurrency": 16}
    for role, words in starting.PROCESSES.items():
        name = {"worker": "steps"}.get(role, role)
        own = [f"{key}={value}" for key, value in starting.OWN.get(role, {}).items()]
        made = " ".join([*own, *(word.format(name=name, **told) for word in words)])
        assert lines.pop(role) == made
    assert not lines


def test_each_process_of_compose_is_locked_down_and_known_to_the_entrypoint():
    services = yaml.safe_load((SHIPPING / "compose.yaml").read_text())["services"]
    ours = {name: one for name, one in services.items() if "build" in one}
    assert ours.keys() == starting.PROCESSES.keys()
    for name, one in ours.items():
        Command().create_parser("manage.py", "start").parse_args(one["command"])
        assert one["command"] == [name] and one["read_only"] and one["cap_drop"] == ["ALL"]
        assert one["security_opt"] == ["no-new-privileges:true"]
        assert ("healthcheck" in one) == (name != "web")  # the image's own asks /livez
    assert services["web"]["ports"] == ["127.0.0.1:8000:8000"]  # TLS stands in front
    for one in ours.values():
        # any password will do: it stands in no address, where signs have a meaning
        assert "POSTGRES_PASSWORD" not in one["environment"]["DATABASE_URL"]
        assert one["environment"]["PGPASSWORD"] == services["database"]["environment"][PASSWORD]
    assert "ports" not in services["database"] and "ports" not in services["redis"]
    # a database that sets itself up listens on its socket, and goes away once more
    assert services["database"]["healthcheck"]["test"][:3] == ["CMD", "pg_isready", "-h"]


def _taken(command: str) -> set[str]:
    """The queues that a worker's command takes."""
    return set("".join(re.findall(r"--queues=(\S+)", command)).split(",")) - {""}


def _recipes() -> dict[str, list[set[str]]]:
    """What each process takes, by the file that starts it."""
    procfile = (ROOT / "Procfile").read_text().splitlines()
    services = yaml.safe_load((SHIPPING / "compose.yaml").read_text())["services"]
    composed = [one["command"][0] for one in services.values() if "build" in one]
    started = re.compile(r"^ExecStart=\S+ manage\.py start (\S+)", re.MULTILINE)
    units = [role for unit in UNITS for role in started.findall(unit.read_text())]
    named = {
        "compose": [" ".join(starting.PROCESSES[role]) for role in composed],
        "systemd": [" ".join(starting.PROCESSES[role]) for role in units],
        "Procfile": procfile,
    }
    return {name: [_taken(command) for command in commands] for name, commands in named.items()}


def test_no_step_takes_the_threads_that_look_for_what_is_due():
    """A deadline is not late by the length of somebody's steps (P8)."""
    for name, processes in _recipes().items():
        for queue in ("control", "outbound"):
            takers = [taken for taken in processes if queue in taken]
            assert takers and not any(taken & {"steps", "agents"} for taken in takers), name
        assert set().union(*processes) >= {"control", "outbound", "steps", "agents"}, name


def test_what_dies_is_started_again():
    services = yaml.safe_load((SHIPPING / "compose.yaml").read_text())["services"]
    assert {one["restart"] for one in services.values()} == {"unless-stopped"}
    for unit in UNITS:
        lines = unit.read_text().splitlines()
        # and when the target starts or stops, so do its processes
        assert {"Restart=always", "PartOf=waystation.target"} <= set(lines), unit.name
        assert "WantedBy=waystation.target" in lines, unit.name


def test_the_image_has_what_runs_and_no_more():
    said = DOCKERFILE.read_text()
    assert "USER 10001:10001" in said and "HEALTHCHECK" in said and "/livez" in said
    # translations are made as root beside the code; its user may read them, and owns what it serves
    order = [
        "start static",
        "chmod -R a+rX .",
        "chown -R waystation:waystation /srv/static",
        "USER",
    ]
    assert sorted(order, key=said.index) == order
    allowed = (SHIPPING / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in allowed  # nothing that is not named: no data, no keys, no history
    for copied in re.findall(r"^COPY (?!--from)(.+) \S+$", said, re.MULTILINE):
        for path in copied.split():
            names = {path, path.partition("/")[0]}
            assert names & {line.removeprefix("!") for line in allowed}, path
            assert list(ROOT.glob(path)), path
    extras = re.findall(r'ARG EXTRAS="(.+)"', said)[0].split()
    assert set(extras) <= optional.files().keys()


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_image_s_health_check_asks_the_server_itself_and_no_proxy(monkeypatch, status, code):
    """Podman hands the host's proxy to its containers."""

    class Probe(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/livez" else 404)
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    (words,) = re.findall(r"^HEALTHCHECK .+\n  CMD (.+)$", DOCKERFILE.read_text(), re.MULTILINE)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with HTTPServer(("127.0.0.1", 0), Probe) as server:
        Thread(target=server.handle_request, daemon=True).start()
        _, *arguments = json.loads(words.replace("8000", str(server.server_port)))
        done = subprocess.run([sys.executable, *arguments], check=False, timeout=30)
    assert done.returncode == code


@pytest.fixture
def installed(tmp_path: Path) -> list[str]:
    """The units, with programs and folders of this machine."""
    folder = tmp_path / "units"
    shutil.copytree(SHIPPING / "systemd", folder)
    for unit in folder.glob("*.service"):
        text = unit.read_text().replace("/opt/waystation/.venv/bin/python", sys.executable)
        text = text.replace("/opt/waystation", str(ROOT)).replace("User=waystation", "User=root")
        name = unit.name.replace("@", "@1")
        (folder / name).write_text(text.replace("Group=waystation", "Group=root"))
        if name != unit.name:
            unit.unlink()
    return sorted(map(str, folder.iterdir()))


def test_systemd_takes_the_units_and_finds_them_locked_down(installed):
    """`systemd-analyze verify` and `security`, without a running systemd."""
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *installed], capture_output=True, text=True
    )
    complaints = [line for line in done.stderr.splitlines() if "waystation" in line]
    assert done.returncode == 0 and not complaints, done.stderr
    for unit in (path for path in installed if path.endswith(".service")):
        name = Path(unit).name
        done = subprocess.run(
            [
                "systemd-analyze",
                "security",
                "--offline=true",
                f"--threshold={EXPOSED * 10:.0f}",
                name,
            ],
            capture_output=True,
            text=True,
            env={"SYSTEMD_UNIT_PATH": str(Path(unit).parent), "PATH": "/usr/bin:/bin"},
        )
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_process_of_the_entrypoint(unit):
    words = re.findall(r"^ExecStart=\S+ manage\.py start (.+)$", unit.read_text(), re.MULTILINE)
    (options,) = words
    told = Command().create_parser("manage.py", "start").parse_args(options.split())
    assert told.role in starting.PROCESSES and told.role in unit.stem


@pytest.mark.django_db
def test_people_who_are_logged_in_see_version_and_commit_and_others_do_not(page, client, settings):
    settings.WAYSTATION_COMMIT = "abc1234def"
    installation.commit.cache_clear()
    try:
        assert "Waystation 0.1.0 · abc1234<" in page.get("/").content.decode()
        assert "abc1234" not in client.get("/login").content.decode()
    finally:
        installation.commit.cache_clear()

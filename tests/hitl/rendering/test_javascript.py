"""`make check` lints and type-checks the pages' JavaScript, or says that it did not. That it has no
fault is for `make check`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node import install, javascript

PROGRAMS = Path(".venv/node")
WRONG = {
    "a name that is not there": 'export const shown = documnet.querySelector("p");',
    "a method that no element has": (
        'export const gone = () => document.querySelector("p").vanish();'
    ),
    "an assignment that is no comparison": (
        "export const same = (one, other) => { if (one = other) return 1; };"
    ),
    "no JavaScript": "export const = ;",
}


@pytest.fixture
def programs():
    if javascript.why_not(PROGRAMS.resolve() / "node_modules" / ".bin" / "tsc", PROGRAMS):
        pytest.skip(
            "JavaScript is not checked here: Node's programs are not installed (make .venv/node)."
        )
    return PROGRAMS


def test_what_is_wrong_is_found(programs, tmp_path, capfd):
    """S4-54: JavaScript was neither linted nor type-checked. The check fails where it should, and
    names each file; beside one that is no JavaScript TypeScript looks at no types.
    """
    for together in (["no JavaScript"], [what for what in WRONG if what != "no JavaScript"]):
        files = {what: tmp_path / f"{what.replace(' ', '-')}.js" for what in together}
        for what, file in files.items():
            file.write_text(WRONG[what] + "\n")
        assert javascript.main(programs, [str(file) for file in files.values()]) != 0
        told = "".join(capfd.readouterr())
        assert [what for what, file in files.items() if file.name not in told] == []


def test_without_nodes_programs_it_says_that_nothing_was_checked_and_why(
    tmp_path, monkeypatch, capfd
):
    """S4-54: a machine without a registry checks the rest."""

    def unreachable(folder):
        raise OSError("no registry")

    monkeypatch.setattr(install, "install", unreachable)
    assert install.main(tmp_path / "node") == 0
    for _ in range(2):
        assert javascript.main(tmp_path / "node", []) == 0
        assert (
            "JavaScript was not checked: Node's programs could not be installed: no registry"
            in capfd.readouterr().out
        )

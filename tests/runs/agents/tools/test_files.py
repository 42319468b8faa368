"""The tools on files: what they do inside the workspace, and that no path leads out of it (F6,
F20).
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from runs.agents import approval, tools
from runs.agents.tools import ToolFailed, ToolUse, files
from runs.workflows.base import Order, StepFailed, Stopped
from tests.worlds.repositories import Desk, bare_copy, make_repository
from tests.worlds.tool_context import context

pytestmark = pytest.mark.one_database
OUTSIDE = "outside, and nobody's business"
NAMES = ["list_files", "read_file", "search_files", "write_file", "patch_file", "delete_file"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A workspace with links, beside what nothing may touch."""
    root = tmp_path / "work"
    (root / "src" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "src" / "app.py").write_text("first\nsecond\nthird\n")
    (root / "src" / "deep" / "x.txt").write_text("second here\n")
    (root / "README.md").write_text("# Read\n")
    (root / ".git" / "config").write_text(OUTSIDE)
    out = tmp_path / "out"
    out.mkdir()
    (out / "secret.txt").write_text(OUTSIDE)
    (root / "link").symlink_to(out)
    (root / "link.txt").symlink_to(out / "secret.txt")
    (root / "loop").symlink_to("loop")
    (root / "src" / "up").symlink_to("../..")
    (root / "inner").symlink_to("src")
    return root


def call(root: Path, name: str, **arguments: Any) -> Any:
    workspace = SimpleNamespace(path=root)
    made = context(workspace=workspace)
    order = Order(id="wo_1", title="", request="", input={}, repository_url="/origin", branch="b")
    made = type(made)(**{**vars(made), "order": order})
    return tools.call(tools.find(name), arguments, ToolUse(context=made, call_id="c"))


def refusal(root: Path, name: str, **arguments: Any) -> str:
    with pytest.raises(ToolFailed) as refused:
        call(root, name, **arguments)
    assert OUTSIDE not in str(refused.value)
    return str(refused.value)


# What they do


def test_files_are_listed_in_order_with_links_apart_and_nothing_of_gits(tree: Path) -> None:
    told = call(tree, "list_files")
    assert told["files"] == ["README.md", "src/app.py", "src/deep/x.txt"]
    assert told["special"] == ["inner", "link", "link.txt", "loop", "src/up"]
    assert call(tree, "list_files", folder="src", glob="*.py")["files"] == ["src/app.py"]
    assert call(tree, "list_files", glob="src/*")["files"] == ["src/app.py", "src/deep/x.txt"]


def test_a_file_is_read_from_a_line_on(tree: Path) -> None:
    assert call(tree, "read_file", path="src/app.py")["text"] == "first\nsecond\nthird\n"
    told = call(tree, "read_file", path="./src//app.py", from_line=2, lines=1)
    assert (told["text"], told["from_line"], told["total_lines"], told["cut"]) == (
        "second",
        2,
        4,
        False,
    )


def test_what_is_long_is_cut_and_says_so(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "long.txt").write_text("x\n" * 40_000)
    assert len(call(tree, "read_file", path="long.txt")["text"]) == files.SHOWN
    for name, limit in (("ENTRIES", 2), ("MATCHES", 3)):
        monkeypatch.setattr(files, name, limit)
    listed, found = call(tree, "list_files"), call(tree, "search_files", pattern="x")
    assert listed["cut"] and len(listed["files"]) + len(listed["special"]) == 2
    assert found["cut"] and len(found["matches"]) == 3


def test_lines_are_found_by_pattern(tree: Path) -> None:
    (tree / "binary.bin").write_bytes(b"second\0")
    assert call(tree, "search_files", pattern="^sec.nd")["matches"] == [
        {"path": "src/app.py", "line": 2, "text": "second"},
        {"path": "src/deep/x.txt", "line": 1, "text": "second here"},
    ]
    assert (
        call(tree, "search_files", pattern="second", folder="src/deep")["matches"][0]["path"]
        == "src/deep/x.txt"
    )
    assert "no pattern" in refusal(tree, "search_files", pattern="(?=a)")
    assert call(tree, "search_files", pattern="nobody's business") == {"matches": [], "cut": False}


def test_binary_and_large_files_are_refused_politely(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "a.png").write_bytes(b"\x89PNG\0")
    (tree / "latin.txt").write_bytes("Grüße".encode("latin-1"))
    assert "a.png is no text in UTF-8: 5 bytes" in refusal(tree, "read_file", path="a.png")
    assert "no text" in refusal(
        tree, "patch_file", path="latin.txt", edits=[{"old": "G", "new": "g"}]
    )
    monkeypatch.setattr(files, "LARGEST", 10)
    assert "19 bytes; files of up to 10" in refusal(tree, "read_file", path="src/app.py")
    assert "up to 10" in refusal(tree, "write_file", path="b", text="x" * 11)


def test_a_file_is_written_with_its_folders_and_keeps_its_mode(tree: Path) -> None:
    assert call(tree, "write_file", path="new/deep/a.sh", text="one\r\n")["new"]
    os.chmod(tree / "new/deep/a.sh", 0o755)
    assert call(tree, "write_file", path="new/deep/a.sh", text="two\n") == {
        "path": "new/deep/a.sh",
        "new": False,
        "bytes": 4,
    }
    written = tree / "new/deep/a.sh"
    assert (written.read_text(), written.stat().st_mode & 0o777) == ("two\n", 0o700)
    assert [one.name for one in written.parent.iterdir()] == ["a.sh"], "nothing is left beside it"


def test_all_edits_of_a_patch_are_done_or_none(tree: Path) -> None:
    edits = [{"old": "first\n", "new": "1\n"}, {"old": "1\nsecond", "new": "one two"}]
    assert call(tree, "patch_file", path="src/app.py", edits=edits)["edits"] == 2
    assert (tree / "src/app.py").read_text() == "one two\nthird\n"
    wrong = refusal(
        tree,
        "patch_file",
        path="src/app.py",
        edits=[{"old": "one", "new": "x"}, {"old": "t", "new": "y"}],
    )
    assert (
        "edit 2 replaces stands there 2 times" in wrong
        and (tree / "src/app.py").read_text() == "one two\nthird\n"
    )
    assert "does not stand there" in refusal(
        tree, "patch_file", path="src/app.py", edits=[{"old": "zzz", "new": "x"}]
    )


def test_a_file_is_deleted_and_nothing_else_is(tree: Path) -> None:
    assert call(tree, "delete_file", path="src/app.py") == {"deleted": "src/app.py"}
    for path in ("src/app.py", "src", "link", "link.txt", "."):
        assert "There is no file" in refusal(tree, "delete_file", path=path)
    assert (tree / "link").is_symlink()


def test_none_of_them_asks_unless_a_rule_says_so_and_a_rule_on_high_risk_finds_the_check(
    tree: Path,
) -> None:
    """S2-26: what stays in the workspace needs nobody."""
    for name in [*NAMES, "run_check"]:
        assert not approval.explain(tools.find(name), {"path": "a"}).ask
    rules = approval.parse([{"when": {"risk": "high"}, "ask": True}])
    assert [
        name for name in [*NAMES, "run_check"] if approval.explain(tools.find(name), {}, rules).ask
    ] == ["run_check"]


def test_what_would_be_written_is_shown_to_who_decides(tree: Path) -> None:
    write = tools.as_call(
        tools.find("write_file"), "c", {"path": "a.md", "text": "```\n<script>alert(1)</script>"}
    )
    patch = tools.as_call(
        tools.find("patch_file"), "c", {"path": "a", "edits": [{"old": "x\ny", "new": "x\nz"}]}
    )
    assert "````\n```\n<script>alert(1)</script>\n````" in write.preview
    assert "```diff\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n```" in patch.preview


def test_without_a_repository_there_are_no_files() -> None:
    use = ToolUse(context=context(workspace=None), call_id="c")
    with pytest.raises(ToolFailed, match="no repository"):
        tools.call(tools.find("list_files"), {}, use)


def test_without_a_workspace_the_run_ends(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="restore it first"):
        call(tmp_path / "gone", "list_files")


# That no path leads out


HOSTILE = [
    "/etc/passwd", "../out/secret.txt", "src/../../out/secret.txt", "link/secret.txt", "link.txt",
    "loop", "loop/x",
    "src/up/out/secret.txt", "inner/app.py", "..", ".git/config", ".GIT/config", "src/.git/x",
    ".git", "./.git/config", ".git./config",
    ".git /x", ".g\u200bit/config", "git~1/config", ".git::$INDEX_ALLOCATION/x", "\uff0egit/config",
    "a\\..\\b", "a\0b", "~/x\n",
    "x" * 300, "a/" * 100 + "b", "/proc/self/environ",
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_path_is_refused_by_every_tool(tree: Path, path: str) -> None:
    """F20."""
    before = snapshot(tree.parent)
    refusal(tree, "read_file", path=path)
    refusal(tree, "write_file", path=path, text="mine")
    refusal(tree, "patch_file", path=path, edits=[{"old": "a", "new": "b"}])
    refusal(tree, "delete_file", path=path)
    for name, more in (("list_files", {}), ("search_files", {"pattern": "."})):
        refusal(tree, name, folder=path, **more)
    assert snapshot(tree.parent) == before


def test_what_is_no_regular_file_is_neither_read_nor_written(tree: Path) -> None:
    """A pipe would block, a socket or a device do worse."""
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tree / "s"))
        for path in ("pipe", "s", "src"):
            refusal(tree, "read_file", path=path)
            refusal(tree, "write_file", path=path, text="x")
    assert call(tree, "list_files")["special"] == [
        "inner",
        "link",
        "link.txt",
        "loop",
        "pipe",
        "s",
        "src/up",
    ]
    call(tree, "search_files", pattern="x")


def test_a_hard_link_to_a_file_outside_is_replaced_and_not_written_through(tree: Path) -> None:
    outside = tree.parent / "out" / "secret.txt"
    os.link(outside, tree / "hard.txt")
    call(tree, "write_file", path="hard.txt", text="mine")
    assert outside.read_text() == OUTSIDE and (tree / "hard.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["read_file", "write_file", "delete_file"])
def test_a_folder_that_becomes_a_link_between_two_looks_leads_nowhere(
    tree: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A race: a program that the check left running swaps a folder while a path is walked."""
    (tree / "src" / "secret.txt").write_text("inside")
    real, before = os.open, snapshot(tree.parent / "out")

    def swapping(path: Any, *arguments: Any, **more: Any) -> int:
        opened = real(path, *arguments, **more)
        if path == "src":  # looked at, and now something else
            (tree / "src").rename(tree / "moved")
            (tree / "src").symlink_to(tree.parent / "out")
        return opened

    monkeypatch.setattr(os, "open", swapping)
    more = {"text": "mine"} if name == "write_file" else {}
    told = call(tree, name, path="src/secret.txt", **more)
    monkeypatch.undo()
    assert OUTSIDE not in str(told) and snapshot(tree.parent / "out") == before


def test_no_file_is_written_when_the_folder_is_a_link_by_then(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def swapping(path: Any, *arguments: Any, **more: Any) -> int:
        if path == "src":
            (tree / "src").rename(tree / "moved")
            (tree / "src").symlink_to(tree.parent / "out")
        return real(path, *arguments, **more)

    monkeypatch.setattr(os, "open", swapping)
    assert "is a link" in refusal(tree, "write_file", path="src/secret.txt", text="mine")
    monkeypatch.undo()
    assert (tree.parent / "out" / "secret.txt").read_text() == OUTSIDE


def snapshot(folder: Path) -> dict[str, str]:
    """Path → what is there, of all below, links not followed."""
    found = {}
    for above, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(above) / name
            found[str(path.relative_to(folder))] = (
                f"-> {os.readlink(path)}" if path.is_symlink() else _content(path)
            )
    return found


def _content(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else "folder"


PARTS = st.one_of(
    st.sampled_from(
        [
            "..",
            ".",
            "",
            "src",
            "link",
            "link.txt",
            "loop",
            "up",
            "inner",
            ".git",
            ".GIT",
            "app.py",
            "out",
            "secret.txt",
            "~",
            "new",
        ]
    ),
    st.text(max_size=12),
)
PATHS = st.builds(
    lambda parts, start: start + "/".join(parts),
    st.lists(PARTS, min_size=1, max_size=6),
    st.sampled_from(["", "", "/", "//", "./"]),
)


@settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(path=PATHS, name=st.sampled_from(NAMES))
@example(path="link/secret.txt", name="read_file")
@example(path="src/up/out/secret.txt", name="write_file")
def test_no_path_at_all_reads_or_writes_outside_the_workspace(
    tree: Path, path: str, name: str
) -> None:
    """F6, F20: whatever a model writes as a path."""
    known: dict[str, dict[str, Any]] = {
        "write_file": {"text": "mine"},
        "patch_file": {"edits": [{"old": "o", "new": "mine"}]},
    }
    more = known.get(name, {})
    arguments: dict[str, Any] = {"pattern": "."} if name == "search_files" else more
    key = "folder" if name in {"list_files", "search_files"} else "path"
    before, gits = snapshot(tree.parent / "out"), snapshot(tree / ".git")
    try:
        told = str(call(tree, name, **{key: path}, **arguments))
    except ToolFailed as refused:
        told = str(refused)
    assert OUTSIDE not in told
    assert (snapshot(tree.parent / "out"), snapshot(tree / ".git")) == (before, gits)
    assert sorted(one.name for one in tree.parent.iterdir()) == ["out", "work"]


# In a real repository


CHECK = [
    sys.executable,
    "-c",
    (
        "import pathlib,sys; pathlib.Path('report.xml').write_text('x'); "
        "print(open('a.txt').read()); sys.exit(3)"
    ),
]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    origin = bare_copy(
        make_repository(
            tmp_path / "r", {"a.txt": "one\n", "b.txt": "b\n", ".gitignore": "*.log\n"}
        ),
        tmp_path / "origin",
    )
    return Desk(tmp_path, origin, check_command=CHECK)


def in_loop(desk: Desk, *calls: tuple[str, dict[str, Any]], check: Any = lambda: None) -> list[Any]:
    """What the calls of one loop give; their work is not kept."""
    told: list[Any] = []

    def loop(state: Any, context: Any) -> Any:
        context.workspace.restore()
        for number, (name, arguments) in enumerate(calls):
            told.append(
                tools.call(
                    tools.find(name), arguments, ToolUse(context=context, call_id=f"c{number}")
                )
            )

    desk.attempt(loop, check=check)
    return told


def test_work_of_a_loop_that_crashed_is_gone_when_it_begins_anew(desk: Desk) -> None:
    """So a call that is made again finds what it found the first time (`Tool.in_workspace`)."""
    edit = ("patch_file", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]})
    for _ in range(2):
        in_loop(
            desk,
            edit,
            ("write_file", {"path": "c/d.txt", "text": "new\n"}),
            ("delete_file", {"path": "b.txt"}),
        )
        assert (desk.read("a.txt"), desk.read("c/d.txt"), (desk.path / "b.txt").exists()) == (
            b"two\n",
            b"new\n",
            False,
        )


def test_the_repositorys_own_check_is_run_and_what_it_leaves_behind_is_dropped(desk: Desk) -> None:
    told = in_loop(desk, ("run_check", {}), ("list_files", {}))
    assert told[0] == {"passed": False, "exit_code": 3, "output": "one", "cut": False}
    assert told[1]["files"] == [".gitignore", "a.txt", "b.txt"]


def test_a_check_that_does_not_end_or_cannot_begin_is_told_to_the_model(
    tmp_path: Path, desk: Desk
) -> None:
    """F6: prints without end; a program that is not there; no command at all."""
    for command, words in (
        ([sys.executable, "-c", "while True: print('x' * 10000)"], "did not end"),
        (["nowhere-to-be-found"], "did not end"),
        ([], "no check command"),
    ):
        other = Desk(tmp_path, desk.order.repository_url, check_command=command)
        other.limits = type(other.limits)(lock_seconds=5, output_bytes=100_000)
        with pytest.raises(ToolFailed, match=words):
            in_loop(other, ("run_check", {}))


def test_a_check_is_ended_with_its_run(desk: Desk) -> None:
    """What stops the run is no failure of the tool."""
    slow = Desk(
        desk.path.parent.parent,
        desk.order.repository_url,
        check_command=[sys.executable, "-c", "import time; time.sleep(60)"],
    )
    begun: list[int] = []

    def check() -> None:
        begun.append(1)
        if (slow.path.with_name("wo_1.home")).is_dir() and len(begun) > 3:
            raise Stopped("cancelled")

    with pytest.raises(Stopped):
        in_loop(slow, ("run_check", {}), check=check)

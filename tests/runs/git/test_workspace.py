import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runs.git.workspace import GitWorkspace, Saved, WorkspaceLimits
from runs.workflows.base import Commit, StepFailed, Stopped
from tests.servers.stack import until
from tests.worlds.repositories import add_commit, bare_copy, git, make_repository, never, order_for


@pytest.fixture
def origin(tmp_path):
    return make_repository(tmp_path / "origin", {"a.py": "a = 1\n", "folder/b.py": "b = 1\n"})


@pytest.fixture
def open_workspace(tmp_path):
    opened = []

    def make(origin, at=None, check=never, path=tmp_path / "work" / "wo_1", limits=None, **order):
        workspace = GitWorkspace(
            path,
            order_for(origin, **order),
            at=at,
            check=check,
            limits=limits or WorkspaceLimits(lock_seconds=3),
        )
        opened.append(workspace)
        return workspace

    yield make
    for workspace in opened:
        workspace.close()


@pytest.fixture
def restored(open_workspace, origin):
    workspace = open_workspace(origin)
    workspace.restore()
    return workspace


def saved(commit: Commit) -> Saved:
    return Saved(sha=commit.sha, base=commit.base, read_bundle=lambda: commit.bundle)


def write_and_commit(workspace, name="a.py", text="a = 2\n"):
    (workspace.path / name).write_text(text)
    return workspace.commit(f"Change {name}", [name])


def failure(call, *arguments):
    with pytest.raises(StepFailed) as failed:
        call(*arguments)
    return failed.value


def test_a_first_restore_is_the_origins_default_branch_on_the_orders_branch(restored, origin):
    assert restored.head() == restored.base() == git(origin, "rev-parse", "HEAD")
    assert restored.git("branch", "--show-current").strip() == "waystation/wo_1"
    assert restored.snapshot() == Commit(sha=restored.head(), base=restored.base(), commits=0)


@pytest.mark.parametrize("kind", ["detached", "bare", "other branch"])
def test_every_kind_of_origin_can_be_cloned(tmp_path, open_workspace, kind):
    origin = make_repository(
        tmp_path / "origin", {"a.py": "1\n"}, branch="trunk" if kind == "other branch" else "main"
    )
    add_commit(origin, {"a.py": "2\n"})
    if kind == "detached":
        git(origin, "checkout", "-q", "--detach")
        add_commit(origin, {"a.py": "3\n"})
    workspace = open_workspace(
        bare_copy(origin, tmp_path / "bare.git") if kind == "bare" else origin
    )
    workspace.restore()
    assert workspace.head() == git(origin, "rev-parse", "HEAD")


def test_an_empty_origin_is_a_clear_failure(tmp_path, open_workspace):
    (tmp_path / "origin").mkdir()
    git(tmp_path / "origin", "init", "-q")
    failed = failure(open_workspace(tmp_path / "origin").restore)
    assert failed.code == "empty_repository"
    assert not (tmp_path / "work" / "wo_1").exists()


def test_an_origin_that_is_gone_is_a_clear_failure(tmp_path, open_workspace):
    assert failure(open_workspace(tmp_path / "none").restore).code == "clone_failed"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        StepFailed("git clone failed: fatal: write error: No space left on device.", code="x"),
    ],
)
def test_a_disk_without_room_has_one_code_whoever_noticed_it(
    open_workspace, origin, monkeypatch, error
):
    workspace = open_workspace(origin)

    def refuse(*_: object) -> str:
        raise error

    monkeypatch.setattr(workspace, "_cloned", refuse)
    assert failure(workspace.restore).code == "disk_full"
    monkeypatch.undo()
    workspace.restore()
    assert (workspace.path / ".git").is_dir()


def test_restore_removes_what_a_dead_worker_left(restored):
    head = restored.head()
    write_and_commit(restored)
    (restored.path / "a.py").write_text("half")
    (restored.path / "new").mkdir()
    (restored.path / "new" / "x.py").write_text("")
    (restored.path / ".git" / "index.lock").write_text("")
    restored.restore()
    assert restored.head() == head
    assert restored.git("status", "--porcelain", "--ignored") == ""


def test_a_deleted_workspace_comes_back_from_the_bundle(restored, open_workspace, origin, tmp_path):
    write_and_commit(restored)
    commit = restored.snapshot()
    restored.remove()
    assert not restored.path.exists()
    again = open_workspace(origin, saved(commit))
    again.restore()
    assert again.head() == commit.sha
    assert (again.path / "a.py").read_text() == "a = 2\n"
    assert again.snapshot() == commit
    elsewhere = open_workspace(origin, saved(commit), path=tmp_path / "host2" / "wo_1")
    elsewhere.restore()
    assert elsewhere.head() == commit.sha


def test_the_base_stays_where_the_order_began_when_the_origin_moves_on(
    restored, open_workspace, origin
):
    write_and_commit(restored)
    commit = restored.snapshot()
    restored.remove()
    add_commit(origin, {"c.py": ""})
    again = open_workspace(origin, saved(commit))
    again.restore()
    assert again.base() == commit.base
    assert not (again.path / "c.py").exists()


def test_a_base_that_the_origin_lost_is_a_clear_failure(restored, open_workspace, tmp_path):
    commit = restored.snapshot()
    restored.remove()
    shutil.rmtree(tmp_path / "origin")
    make_repository(tmp_path / "origin", {"other.py": ""})
    assert failure(open_workspace(tmp_path / "origin", saved(commit)).restore).code == "base_lost"


def test_a_damaged_bundle_is_a_clear_failure(restored, open_workspace, origin):
    write_and_commit(restored)
    commit = restored.snapshot()
    restored.remove()
    broken = Saved(sha=commit.sha, base=commit.base, read_bundle=lambda: commit.bundle[:40])
    assert failure(open_workspace(origin, broken).restore).code == "bundle_damaged"


@pytest.mark.parametrize(
    "damage",
    ["index", "HEAD", "objects", "no .git", ".git is a link", "a file", "a link", "other origin"],
)
def test_a_damaged_workspace_is_cloned_again(restored, origin, tmp_path, damage):
    head, path = restored.head(), restored.path
    if damage in ("index", "HEAD"):
        (path / ".git" / damage).write_bytes(b"nonsense")
    elif damage in ("objects", "no .git", ".git is a link"):
        shutil.rmtree(path / ".git" / ("objects" if damage == "objects" else ""))
        if damage == ".git is a link":
            (path / ".git").symlink_to(origin / ".git")
    elif damage == "other origin":
        config = path.with_name("wo_1.config")
        config.write_text(config.read_text().replace(str(origin), "/elsewhere"))
    else:
        shutil.rmtree(path)
        path.write_text("") if damage == "a file" else path.symlink_to(origin)
    restored.restore()
    assert restored.head() == head
    assert path.is_dir()
    assert not path.is_symlink()
    assert git(origin, "status", "--porcelain") == ""


def test_commit_takes_just_the_paths_and_the_orders_author(restored):
    (restored.path / "a.py").write_text("a = 3\n")
    (restored.path / "folder" / "b.py").write_text("b = 3\n")
    before = restored.head()
    sha = restored.commit("Change a\n\n# not a comment", ["a.py"])
    assert sha == restored.head() != before
    assert (
        restored.git("show", "--format=%an <%ae> %cn|%B", "--name-only", sha).split("\n")[0]
        == "Ada <ada@example.org> Ada|Change a"
    )
    assert "# not a comment" in restored.git("log", "-1", "--format=%B")
    assert restored.git("diff", "--name-only").split() == ["folder/b.py"]


def test_commit_of_nothing_changed_makes_no_commit(restored):
    assert restored.commit("Nothing", ["a.py"]) == restored.base()
    assert restored.commit("Nothing", []) == restored.base()


@pytest.mark.parametrize(
    "name", ["a b.py", "qu'o\"te.py", "new\nline.py", "-dash.py", "*.py", ":(top)x.py", "é.py"]
)
def test_strange_names_are_committed_as_they_are(restored, name):
    (restored.path / "a.py").write_text("a = 9\n")
    (restored.path / name).write_text("x = 1\n")
    restored.commit("Strange", [name])
    assert restored.git("show", "--format=", "--name-only", "-z").split("\0")[:-1] == [name]


def test_push_is_seen_in_a_bare_origin_and_again_changes_nothing(origin, tmp_path, open_workspace):
    bare = bare_copy(origin, tmp_path / "bare.git")
    workspace = open_workspace(bare)
    workspace.restore()
    sha = write_and_commit(workspace)
    workspace.push()
    workspace.push()
    assert git(bare, "rev-parse", "waystation/wo_1") == sha
    assert git(bare, "rev-parse", "main") == workspace.base()


def test_what_is_pushed_into_a_local_origin_is_read_by_whoever_reads_that(
    origin, tmp_path, open_workspace
):
    """What Waystation keeps is its own user's alone; what it delivers into a repository of others
    is as that repository's.
    """
    bare = bare_copy(origin, tmp_path / "shared.git")
    before = {path for path in bare.rglob("*") if path.is_file()}
    workspace = open_workspace(bare)
    workspace.restore()
    write_and_commit(workspace)
    umask = os.umask(0o077)
    try:
        workspace.push()
    finally:
        os.umask(umask)
    new = {path for path in bare.rglob("*") if path.is_file()} - before
    assert new
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in new)


def test_a_rejected_push_says_so(restored, origin):
    git(origin, "checkout", "-q", "-b", "waystation/wo_1")
    add_commit(origin, {"z.py": ""})
    write_and_commit(restored)
    failed = failure(restored.push)
    assert failed.code == "push_rejected"
    assert "waystation/wo_1" in str(failed)
    assert "rejected" in str(failed)


def test_only_one_worker_works_in_a_folder(restored, open_workspace, origin):
    second = open_workspace(origin, limits=WorkspaceLimits(lock_seconds=0.2))
    assert failure(second.restore).code == "workspace_busy"
    restored.close()
    second.restore()


def test_a_worker_that_waits_for_the_folder_can_be_stopped(restored, open_workspace, origin):
    def stop():
        raise Stopped("cancelled")

    with pytest.raises(Stopped):
        open_workspace(origin, check=stop, limits=WorkspaceLimits(lock_seconds=30)).restore()


def test_the_heir_of_a_killed_worker_gets_the_folder_and_ends_its_children(restored, tmp_path):
    restored.close()
    marker = tmp_path / "still-writing"
    script = f"""
import os, sys, threading
sys.path.insert(0, {os.getcwd()!r})
from pathlib import Path
from runs.git.workspace import GitWorkspace
from tests.worlds.repositories import never, order_for
work = GitWorkspace(Path({str(restored.path)!r}), order_for({restored._order.repository_url!r}), at=None, check=never)
threading.Timer(1.0, lambda: os.kill(os.getpid(), 9)).start()
work.run(["sh", "-c", "while true; do date >> {marker}; sleep 0.05; done"])
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert writers(marker)  # the orphan is alive
    restored.restore()
    until(lambda: not writers(marker), seconds=5, what="the orphan's end")


def writers(marker):
    """The processes whose command line names the file."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            named = os.fsencode(marker) in (process / "cmdline").read_bytes()
        except OSError:  # it ended while we looked
            continue
        if named:
            found.append(process.name)
    return found


def test_a_repository_over_the_size_limit_is_not_kept(tmp_path, open_workspace):
    origin = make_repository(tmp_path / "origin", {"big.bin": os.urandom(3_000_000)})
    workspace = open_workspace(origin, limits=WorkspaceLimits(clone_bytes=1_000_000))
    assert failure(workspace.restore).code == "clone_too_large"
    assert not workspace.path.exists()


def test_content_that_unpacks_beyond_the_limit_is_stopped(tmp_path, open_workspace):
    origin = make_repository(tmp_path / "origin", {"zeros": b"\0" * 30_000_000})
    assert (
        failure(open_workspace(origin, limits=WorkspaceLimits(clone_bytes=1_000_000)).restore).code
        == "clone_too_large"
    )

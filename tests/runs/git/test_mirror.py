"""A remote repository is copied once per machine; workspaces borrow its objects, and nothing that
happens in one reaches another.
"""

from __future__ import annotations

import shutil
import threading

import pytest

from runs.git.access import Access
from runs.git.workspace import GitWorkspace, Saved, WorkspaceLimits
from runs.workflows.base import DeliveryPolicy, StepFailed
from tests.servers.forge import PROJECT, TOKEN, serving
from tests.worlds.repositories import add_commit, bare_copy, git, make_repository, never, order_for

pytestmark = pytest.mark.one_database


@pytest.fixture
def work(tmp_path):
    """The repository as its people have it; `publish` puts it on the forge."""
    return make_repository(tmp_path / "work", {"a.py": "a = 1\n"})


@pytest.fixture
def forge(tmp_path, work):
    bare = tmp_path / "srv" / f"{PROJECT}.git"
    bare.parent.mkdir(parents=True)
    bare_copy(work, bare)
    git(work, "remote", "add", "forge", str(bare))
    with serving(tmp_path / "srv") as forge:
        yield forge


@pytest.fixture
def opened(tmp_path, forge):
    made = []

    def make(name="wo_1", *, at=None, token=TOKEN, limits=None, **order):
        workspace = GitWorkspace(
            tmp_path / "data" / "workspaces" / name,
            order_for(forge.clone_url, id=name, branch=f"waystation/{name}", **order),
            at=at,
            check=never,
            limits=limits or WorkspaceLimits(lock_seconds=3),
            protocols=["http"],
            mirror=tmp_path / "data" / "mirrors" / "m",
            access=lambda: Access(token=token),
        )
        made.append(workspace)
        return workspace

    yield make
    for workspace in made:
        workspace.close()


def publish(work, forge, *, force=False):
    git(work, "push", "-q", *(["-f"] if force else []), "forge", "--all")


def code(call):
    with pytest.raises(StepFailed) as failed:
        call()
    assert TOKEN not in str(failed.value)
    return failed.value.code


def saved(workspace):
    commit = workspace.snapshot()
    return Saved(sha=commit.sha, base=commit.base, read_bundle=lambda: commit.bundle)


def write_and_commit(workspace):
    (workspace.path / "a.py").write_text("a = 2\n")
    return workspace.commit("Change", ["a.py"])


def test_orders_begin_at_what_the_origin_has_by_then(opened, work, forge):
    first = opened()
    first.restore()
    add_commit(work, {"b.py": "b = 1\n"})
    publish(work, forge)
    second = opened("wo_2")
    second.restore()
    assert first.head() != second.head() == git(work, "rev-parse", "HEAD")
    assert git(second.path, "config", "remote.origin.url") == forge.clone_url


def mirror_of(tmp_path):
    return tmp_path / "data" / "mirrors" / "m"


def alternates_of(workspace):
    return workspace.path / ".git" / "objects" / "info" / "alternates"


def own_objects(workspace):
    return [
        path
        for path in (workspace.path / ".git" / "objects").rglob("*")
        if path.is_file() and path != alternates_of(workspace)
    ]


def test_a_workspace_copies_nothing_of_what_the_mirror_has(opened, tmp_path):
    """Issue 7, 9: one copy of the objects per machine; an order adds what is its own."""
    workspace = opened()
    workspace.restore()
    assert own_objects(workspace) == []
    assert alternates_of(workspace).read_text() == f"{mirror_of(tmp_path)}/.git/objects\n"
    write_and_commit(workspace)
    assert len(own_objects(workspace)) == 3, "a file, a folder and a commit"
    assert workspace.git("fsck") is not None


def test_what_a_hostile_tree_does_to_its_own_git_reaches_no_other(opened, tmp_path):
    """It may write to all of its own `.git`; no other order's git reads any of that."""
    opened().restore()
    other = opened("wo_2")
    other.restore()
    write_and_commit(other)
    other.run(["git", "gc", "-q", "--prune=now"])
    other.run(["git", "repack", "-q", "-a", "-d"])
    objects = own_objects(other)
    assert objects and {path.stat().st_nlink for path in objects} == {1}
    assert (other.path / ".git").is_dir() and not (other.path / ".git" / "commondir").exists()
    for path in objects:
        path.chmod(0o600)
        path.write_bytes(b"spoilt")
    (other.path / ".git" / "hooks").mkdir(exist_ok=True)
    third = opened("wo_3")
    third.restore()
    git(tmp_path / "data" / "mirrors" / "m", "fsck", "--strict")
    assert third.git("fsck") is not None


def test_the_default_branch_may_be_another_one_or_have_changed(opened, work, forge):
    opened().restore()
    git(work, "checkout", "-q", "-b", "trunk")
    add_commit(work, {"t.py": "t\n"})
    publish(work, forge)
    git(forge.repositories / f"{PROJECT}.git", "symbolic-ref", "HEAD", "refs/heads/trunk")
    second = opened("wo_2")
    second.restore()
    assert second.head() == git(work, "rev-parse", "trunk")
    assert git(second.path, "rev-parse", "refs/remotes/origin/main") == git(
        work, "rev-parse", "main"
    )


def test_an_order_begins_at_the_base_branch_that_was_settled(opened, work, forge):
    main = git(work, "rev-parse", "main")
    git(work, "checkout", "-q", "-b", "stable/1")
    add_commit(work, {"s.py": "s\n"})
    publish(work, forge)
    stable, usual = opened(delivery=DeliveryPolicy(base_branch="stable/1")), opened("wo_2")
    stable.restore()
    usual.restore()
    assert (stable.head(), usual.head()) == (git(work, "rev-parse", "stable/1"), main)
    assert (
        code(opened("wo_3", delivery=DeliveryPolicy(base_branch="none")).restore)
        == "no_base_branch"
    )
    at = saved(stable)
    stable.remove()
    git(forge.repositories / f"{PROJECT}.git", "branch", "-D", "stable/1")
    opened("wo_4").restore()
    again = opened(at=at, delivery=DeliveryPolicy(base_branch="stable/1"))
    again.restore()  # it began there when there was one
    assert again.head() == at.sha


def test_a_local_repository_has_a_base_branch_too(tmp_path, work):
    git(work, "branch", "stable")
    add_commit(work, {"b.py": "b = 1\n"})
    order = order_for(work, delivery=DeliveryPolicy(base_branch="stable"))
    with GitWorkspace(tmp_path / "w" / "wo_1", order, at=None, check=never) as workspace:
        workspace.restore()
        assert (
            workspace.head() == git(work, "rev-parse", "stable") != git(work, "rev-parse", "main")
        )


def test_a_lost_workspace_comes_back_while_the_origin_is_away(opened, forge):
    """Issue 7, 9: from the mirror, and the bundle of the checkpoint."""
    workspace = opened()
    workspace.restore()
    head = write_and_commit(workspace)
    at = saved(workspace)
    workspace.remove()
    forge.git_status = 503
    again = opened(at=at)
    again.restore()
    assert again.head() == head
    # a new order does not begin at what may be old
    assert code(opened("wo_2").restore) == "clone_failed"


def test_what_an_order_began_at_is_kept_when_the_origin_forgets_it(opened, work, forge):
    workspace = opened()
    workspace.restore()
    head = write_and_commit(workspace)
    at = saved(workspace)
    workspace.remove()
    git(work, "commit", "-q", "--amend", "-m", "Rewritten")
    publish(work, forge, force=True)
    bare = forge.repositories / f"{PROJECT}.git"
    git(bare, "reflog", "expire", "--expire=now", "--all")
    git(bare, "gc", "-q", "--prune=now")
    opened("wo_2").restore()  # the mirror is up to date, without the old branch
    again = opened(at=at)
    again.restore()
    assert again.head() == head


def test_a_tree_cannot_borrow_from_elsewhere(opened, tmp_path, work):
    """Else what runs there could have our git read, and push, objects of a repository that is none
    of its business.
    """
    stranger = make_repository(tmp_path / "stranger", {"secret.txt": "secret\n"})
    workspace = opened()
    workspace.restore()
    alternates_of(workspace).write_text(f"{stranger}/.git/objects\n")
    assert workspace._repository.git(
        "cat-file", "-e", git(stranger, "rev-parse", "HEAD"), fine=None
    ).returncode
    shutil.rmtree(workspace.path / ".git" / "objects")
    (workspace.path / ".git" / "objects").symlink_to(stranger / ".git" / "objects")
    assert code(workspace.head) == "no_workspace"
    workspace.restore()
    assert workspace.head() == git(work, "rev-parse", "HEAD")
    assert not (stranger / ".git" / "objects" / "info" / "alternates").exists()


def test_orders_on_one_repository_begin_at_the_same_time(opened, work):
    """Each in a folder of its own; the first makes the mirror, and nobody reads half of one."""
    workspaces = [
        opened(f"wo_{number}", limits=WorkspaceLimits(lock_seconds=60)) for number in range(4)
    ]
    threads = [threading.Thread(target=workspace.restore) for workspace in workspaces]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {workspace.head() for workspace in workspaces} == {git(work, "rev-parse", "HEAD")}


def test_a_new_mirror_takes_the_place_of_a_damaged_one_under_live_workspaces(
    opened, tmp_path, work, forge
):
    """What they began at comes along, and they go on where they are, uncommitted work included."""
    first = opened()
    first.restore()
    head = write_and_commit(first)
    (first.path / "draft.py").write_text("draft = 1\n")
    git(work, "commit", "-q", "--amend", "-m", "Rewritten")
    publish(work, forge, force=True)
    broken = mirror_of(tmp_path) / ".git" / "refs" / "heads" / "broken"
    broken.write_text(f"{'1' * 40}\n")
    mirror = opened("wo_2")._mirror
    assert (mirror.mend(), mirror.mend()) == (True, False)
    assert not broken.exists() and first.head() == head and first.git("fsck") is not None
    assert (first.path / "draft.py").exists()
    assert git(mirror_of(tmp_path), "rev-parse", "refs/waystation/kept/wo_1") == first.base()
    assert not mirror_of(tmp_path).with_name("m.old").exists()
    # one that was killed between the two moves took what was kept along, and it was forgotten
    mirror_of(tmp_path).rename(mirror_of(tmp_path).with_name("m.old"))
    assert mirror.mend() and first.git("fsck") is not None
    assert git(mirror_of(tmp_path), "rev-parse", "refs/waystation/kept/wo_1") == first.base()


@pytest.mark.parametrize("left", ["nothing", "objects"])
def test_a_workspace_whose_mirror_broke_is_made_again_with_it(opened, tmp_path, left):
    """A mirror that was swept away, or whose maker was killed between two renames; and one whose
    disk went bad.
    """
    workspace = opened()
    workspace.restore()
    head = write_and_commit(workspace)
    at = saved(workspace)
    workspace.close()
    if left == "nothing":
        mirror_of(tmp_path).rename(mirror_of(tmp_path).with_name("m.old"))
    else:
        spoil_mirror(mirror_of(tmp_path) / ".git", left)
    again = opened(at=at)
    again.restore()
    assert again.head() == head and again.git("status", "--porcelain") == ""
    git(mirror_of(tmp_path), "fsck", "--strict")


def test_a_worker_that_was_killed_while_it_made_a_clone_leaves_nothing_in_the_way(opened, tmp_path):
    opened().restore()
    half = tmp_path / "data" / "workspaces" / "wo_2.new"
    (half / ".git").mkdir(parents=True)
    (mirror_of(tmp_path).with_name("m.new") / "x").mkdir(parents=True)
    (mirror_of(tmp_path) / ".git" / "HEAD").unlink()
    second = opened("wo_2")
    second.restore()
    assert second.git("status", "--porcelain") == "" and not half.exists()


def test_many_fetches_stay_quick_to_look_through(opened, work, forge, tmp_path, monkeypatch):
    """Packs are only added, since workspaces read them; one index over all of them keeps that
    cheap.
    """
    monkeypatch.setattr("runs.git.mirror._MANY_PACKS", 2)
    for number in range(3):
        add_commit(work, {f"n{number}.py": f"n = {number}\n"})
        publish(work, forge)
        opened(f"wo_{number}").restore()
    packs = mirror_of(tmp_path) / ".git" / "objects" / "pack"
    assert len(list(packs.glob("*.pack"))) == 3 and (packs / "multi-pack-index").is_file()


def test_a_mirror_that_is_lost_or_damaged_is_made_anew(opened, tmp_path):
    opened().restore()
    shutil.rmtree(tmp_path / "data" / "mirrors")
    opened("wo_2").restore()
    mirror = tmp_path / "data" / "mirrors" / "m"
    for number, spoil in enumerate(("objects", "all", "HEAD")):
        spoil_mirror(mirror / ".git", spoil)
        workspace = opened(f"wo_1{number}")
        workspace.restore()
        assert workspace.git("status", "--porcelain") == ""
        assert workspace.head() == workspace.base()


def spoil_mirror(git_dir, what):
    if what == "all":
        return shutil.rmtree(git_dir)
    if what == "HEAD":
        return (git_dir / "HEAD").unlink()
    for path in (git_dir / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"spoilt")
    return None


def test_a_wrong_token_clones_nothing_and_is_not_repeated(opened, tmp_path):
    wrong = opened(token="a-wrong-token")
    with pytest.raises(StepFailed) as failed:
        wrong.restore()
    assert failed.value.code == "clone_failed"
    assert "a-wrong-token" not in str(failed.value)
    assert not wrong.path.exists()


def test_programs_in_the_workspace_see_no_token(opened):
    workspace = opened()
    workspace.restore()
    write_and_commit(workspace)
    workspace.push()
    assert TOKEN not in workspace.run(["env"]).output
    assert (
        TOKEN
        not in workspace.run(["sh", "-c", "cat ../wo_1.* .git/config 2>/dev/null; true"]).output
    )
    asked = workspace.run(
        ["sh", "-c", "../wo_1.askpass \"Password for 'http://x-access-token@127.0.0.1': \""]
    )
    assert (asked.returncode, asked.output) == (1, "")


def test_the_token_is_for_one_origin_only(opened, tmp_path, forge):
    """A work tree that names another remote gets no token for it: its configuration is pinned, and
    the answer is for the origin alone.
    """
    workspace = opened()
    workspace.restore()
    with serving(tmp_path / "srv") as other:
        config = workspace.path / ".git" / "config"
        config.write_text(config.read_text().replace(forge.url, other.url))
        write_and_commit(workspace)
        workspace.push()
        assert forge.branch_head("waystation/wo_1") == workspace.head()
        access = workspace._repository._for_git(remote=True)
        stolen = workspace._repository._run(["git", "ls-remote", other.clone_url], access, 20)
        assert stolen.returncode


def test_a_repository_larger_than_allowed_leaves_no_mirror(opened, work, forge, tmp_path):
    add_commit(work, {"big.bin": bytes(range(256)) * 40 + __import__("os").urandom(3_000_000)})
    publish(work, forge)
    assert (
        code(opened(limits=WorkspaceLimits(clone_bytes=1_000_000, lock_seconds=3)).restore)
        == "clone_too_large"
    )
    assert not (tmp_path / "data" / "mirrors" / "m").exists()


def test_a_program_that_fills_the_workspace_is_ended(opened, monkeypatch):
    monkeypatch.setattr("runs.git.repository.LOOK_SECONDS", 0.1)
    workspace = opened(limits=WorkspaceLimits(folder_bytes=2_000_000, lock_seconds=3))
    workspace.restore()
    endless = ["sh", "-c", "while true; do head -c 500000 /dev/zero >> $HOME/x; done"]
    assert code(lambda: workspace.run(endless, timeout=20)) == "disk_quota"
    assert (workspace.path.with_name("wo_1.home") / "x").stat().st_size < 500_000_000

"""What somebody with access to the database may do to an order's code behind an approval."""

from __future__ import annotations

from pathlib import Path

from checkpoints import store
from checkpoints.models import Checkpoint
from runs.models import WorkOrder
from tests.conftest import fresh
from tests.worlds.repositories import add_commit, git


def swap_commit(order: WorkOrder, origin: Path, folder: Path) -> str:
    """Let the order's head carry another commit than the one that it was asked about; gives that
    commit.
    """
    head = fresh(order).thread.head
    assert head is not None
    code = head.metadata["git"]
    git(folder.parent, "clone", "-q", str(origin), folder.name)
    git(folder, "checkout", "-q", "-B", order.branch, code["base"])
    add_commit(folder, {"evil.txt": "not approved\n"})
    git(folder, "bundle", "create", "-q", "other.bundle", f"{code['base']}..{order.branch}")
    sha = git(folder, "rev-parse", "HEAD")
    digest = store.put_blob((folder / "other.bundle").read_bytes())
    changed = {**head.metadata, "git": {**code, "commit": sha, "bundle": digest}}
    Checkpoint.objects.filter(pk=head.pk).update(metadata=changed)
    return sha

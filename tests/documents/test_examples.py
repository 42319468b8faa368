"""The examples of `docs/examples` hold what their tests say, in a process that has nothing else."""

from __future__ import annotations

import pytest

from tests.documents.blocks import ROOT
from tests.programs.begun import Begun, plain

EXAMPLES = ROOT / "docs" / "examples"
LONGEST = 150
PRODUCT = {"checkpoints", "extensions", "hitl", "project", "runs"}
BESIDE = {"customer_answer": ["runs.agents.tools", "extensions.langgraph.graphs.named"]}


@pytest.mark.one_database
def test_the_examples_are_short_survive_every_crash_and_are_written_with_the_face_alone(tmp_path):
    """A workflow of one's own needs `runs.workflows` and nothing else of the product, but for what
    an agent and a graph have of their own.
    """
    workflows = [path for path in EXAMPLES.glob("*.py") if not path.name.startswith(("_", "test_"))]
    assert len(workflows) == 9
    for path in workflows:
        text = path.read_text()
        assert len(text.splitlines()) < LONGEST, path
        ours = {
            line.split()[1]
            for line in text.splitlines()
            if line.startswith(("from ", "import ")) and line.split()[1].split(".")[0] in PRODUCT
        }
        assert ours == {"runs.workflows", *BESIDE.get(path.stem, ())}, path
        assert "survives_every_crash(" in (path.parent / f"test_{path.name}").read_text()
    # tables of the models as they are: migrations take as long as all that is tried
    options = ["-q", "-p", "no:cacheprovider", "--nomigrations"]
    words = ("-m", "pytest", *options, str(EXAMPLES))
    ran = Begun(*words, environment={**plain(), "HOME": str(tmp_path)}).ended()
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-1000:]
    assert "40 passed" in ran.stdout

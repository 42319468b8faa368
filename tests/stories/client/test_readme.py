"""Every command and every code block of the client's README, run as they stand there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading

import pytest

from tests.documents.blocks import blocks
from waystation_client import Conflict

pytestmark = pytest.mark.stack
PAGE = "client/README.md"


@pytest.fixture
def answering(client):
    """Somebody who answers whatever `ana` asks, in a thread."""
    ben, done = client("ben"), threading.Event()

    def answer(pause):
        asked = pause["required_inputs"].get("properties", {})
        data = {"supplier": "Ruiz"} if "supplier" in asked else None
        ben.answer(ben.question(pause["id"]), "answer" if data else "approve", data=data)

    def work():
        while not done.wait(0.2):
            for pause in ben.inbox():
                if pause["agent_work_order_id"] is None:
                    try:
                        answer(pause)
                    except Conflict:  # answered between two looks
                        continue

    thread = threading.Thread(target=work)
    thread.start()
    yield
    done.set()
    thread.join()


def test_who_does_what_the_readme_says_gets_what_it_says(stack, token, client, script, answering):
    """Issue 21, item 4."""
    python = [block.text for block in blocks(PAGE) if block.language == "python"]
    install, commands = [block.commands for block in blocks(PAGE) if not block.language]
    assert install[0] == "pip install ./client"  # as the fixture `script` does
    assert len(install) == 2 and install[1].startswith("export WAYSTATION_URL=http")
    repository = str(stack.folder / "celery")
    environment = {
        **os.environ,
        "PYTHONPATH": str(script),
        "PATH": f"{script / 'bin'}:{os.environ['PATH']}",
        "WAYSTATION_URL": stack.url,
        "WAYSTATION_TOKEN": token("ana"),
    }
    more = """
import json
told = {"answer": [answer.decision, answer.data, answer.by], "order": order["id"],
        "answers": [one.approved for one in answers], "runs": len(runs["results"]) > 0,
        "forged": receive(b"{}", {}, "whsec_" + "A" * 32)}
print(json.dumps(told))
"""
    text = "\n".join(python).replace("/srv/celery", repository) + more
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("order").startswith("wo_")
    assert told == {
        "answer": ["answer", {"supplier": "Ruiz"}, "ben"],
        "answers": [True, True],
        "runs": True,
        "forged": 400,
    }
    assert "C-17 got 2500" in done.stdout and "approval_requested" in done.stdout

    ana = client("ana")
    asked = {"type": "object", "properties": {"supplier": {"type": "string"}}}
    # ben does not see it; and the token that asks does not answer
    pause = client("ana", "ask").ask("Which one?", required_inputs=asked).pause_id
    order = ""
    for command in commands:
        line = command.replace("pse_…", pause).replace("wo_…", order)
        line = line.replace("/srv/celery", repository)
        done = subprocess.run(
            ["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=120
        )
        failed = 6 if "tail" in line else 0
        assert done.returncode == failed, f"{line}: {done.stdout}{done.stderr}"
        order = found[0] if (found := re.findall(r"^wo_\w+$", done.stdout)) else order
    assert ana.question(pause)["user_decision"] == "answer"

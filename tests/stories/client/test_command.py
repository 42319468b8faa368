"""The command line `waystation`, as a process, on the real server."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys

import pytest

from tests.servers.private import free_port
from waystation_client import command, requests

pytestmark = pytest.mark.stack


@pytest.fixture
def run(script, stack, token):
    """Run a command of Ana's as a process; gives its exit code, output and complaint."""

    def run(*words):
        environment = {
            **os.environ,
            "PYTHONPATH": str(script),
            "WAYSTATION_URL": stack.url,
            "WAYSTATION_TOKEN": token("ana"),
        }
        done = subprocess.run(
            [script / "bin" / "waystation", *words],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=120,
            env=environment,
        )
        for text in (done.stdout, done.stderr):
            assert token("ana") not in text and "Traceback" not in text, text
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def call(stack, token, monkeypatch, capsys):
    """The same as anybody, in this process, which spares starting one for each."""

    def call(*words, url=stack.url, secret=None, input=""):
        secret = token("ana") if secret is None else secret
        monkeypatch.setenv("WAYSTATION_URL", url)
        monkeypatch.setenv("WAYSTATION_TOKEN", secret)
        monkeypatch.setattr(sys, "stdin", io.StringIO(input))
        code: object
        try:
            code = command.main(list(words))
        except SystemExit as left:
            code = left.code
        told = capsys.readouterr()
        assert not secret or secret not in told.out + told.err
        return code, told.out, told.err

    return call


def test_the_main_job_is_done_from_a_terminal(run, call, stack, token):
    """Start, see, revise, approve by what was seen, follow to the end (issue 21, item 4)."""
    given = ["--repository", str(stack.folder / "celery")]
    given += ["--input", '{"rules": "I001", "paths": "src/sample"}']
    code, order, _ = run("start", "repo-tidy", *given, "--key", "from-a-terminal")
    assert (code, order[:3]) == (0, "wo_")
    order = order.strip()
    assert call("start", "repo-tidy", *given, "--key", "from-a-terminal")[1].strip() == order
    pause = stack.paused(order, token("ana"), "awaiting_plan_approval")["id"]
    [row] = [one for one in json.loads(run("inbox", "--json")[1]) if one["id"] == pause]
    assert row["agent_work_order_id"] == order
    assert pause in call("inbox")[1]
    code, shown, _ = call("show", pause)
    assert code == 0 and "revision 1" in shown and "Answers: approve, revise, cancel" in shown
    # nobody approves what they have not seen
    code, _, why = run("approve", pause)
    assert code == 2 and "--revision 1" in why and "Nothing was answered." in why
    assert call("approve", pause, "--revision", "7")[0] == 1
    assert run("revise", pause, "not in tests/", "--revision", "1")[:2] == (
        0, f"{pause} was answered: revise.\n"
    )  # fmt: skip
    code, _, why = call("approve", pause, "--revision", "1")
    assert code == 1 and "pause_closed" in why
    pause = stack.paused(order, token("ana"), "awaiting_plan_approval", revision=2)["id"]
    digest = json.loads(call("show", pause, "--json")[1])["content_digest"]
    assert call("cancel", pause, "never mind", "--digest", digest)[0] == 0
    code, told, _ = run("tail", order)
    assert code == 6 and "run_cancelled" in told
    lines = [
        json.loads(line) for line in call("tail", order, "--json", "--after", "2")[1].splitlines()
    ]
    assert [line["seq"] for line in lines] == list(range(3, 3 + len(lines)))
    assert "failed" in call("show", order)[1]


def test_data_is_answered_and_a_terminal_asks_before_it_answers(
    call, script, client, stack, token, scoped
):
    """What a question holds moves no cursor of the terminal in which it is read."""
    ana = client("ana", "ask")
    asked = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    question = ana.ask("How many?", required_inputs=asked, team="platform")
    pause = question.pause_id
    words, ben = ["answer", pause, "--revision", "1", "--input"], scoped["ben", "answer"]
    code, _, why = call(*words, '{"n": "x"}', secret=ben)
    assert code == 1 and "input.n" in why
    assert call(*words, "-", secret=ben, input='{"n": 7}')[0] == 0
    assert ana.wait(question, timeout=30).data == {"n": 7}
    assert call("show", question.run_id)[1].count("Answered: answer by ben") == 1

    question = ana.ask("Clear \x1b[2Jthe screen\u202e?", content="\x1b]0;x\x07", team="platform")
    shown = call("show", question.pause_id, secret=token("ben"))[1]
    assert "\x1b" not in shown and "\u202e" not in shown and "\\x1b[2J" in shown
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [script / "bin" / "waystation", "approve", question.pause_id],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": str(script),
            "WAYSTATION_URL": stack.url,
            "WAYSTATION_TOKEN": ben,
        },
    )
    os.write(ours, b"y\n")
    told, asked_first = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert told == f"{question.pause_id} was answered: approve.\n"
    assert "the screen" in asked_first and asked_first.endswith("Answer approve? [y/N] ")
    assert ana.wait(question, timeout=30).approved


def test_each_refusal_has_its_exit_code_and_calm_words(call, token, scoped, monkeypatch):
    """No traceback and no secret, whatever goes wrong."""
    monkeypatch.setattr(requests, "delay", lambda tried, told=None: 0)
    nowhere = f"http://127.0.0.1:{free_port()}"
    unknown = "pse_01m8899rt1fvntn1f7qwtvh25z"
    for words, more, code, told in (
        (["inbox"], {"secret": ""}, 2, "needs a token (WAYSTATION_TOKEN)"),
        (["inbox"], {"url": ""}, 2, "needs an address (WAYSTATION_URL)"),
        (["inbox"], {"secret": "wst_wrong"}, 3, "token_invalid"),
        (["inbox"], {"url": nowhere}, 5, "could not be reached"),
        (["inbox"], {"url": "ftp://x"}, 5, "ftp"),
        (["inbox"], {"url": "no address"}, 5, "protocol"),
        (["show", unknown], {}, 4, "not_found"),
        (["show", ".."], {}, 2, "names nothing"),
        (["answer", unknown, "--input", "{"], {}, 2, "--input is no JSON"),
        (["answer", unknown, "--input", "@/nowhere"], {}, 2, "--input cannot be read"),
        (["start", "no-such-template"], {}, 4, "no-such-template"),
        (["start", "repo-tidy"], {}, 1, "repository_url"),
        (["sing"], {}, 2, "invalid choice"),
    ):
        found = call(*words, **more)
        assert found[0] == code and told in found[2] and not found[1], (words, found)
    code, _, why = call("start", "repo-tidy", "--json", secret=scoped["ana", "read"])
    assert code == 3 and json.loads(why)["code"] == "scope_missing"
    assert call("inbox", secret=token("zoe"))[1] == "Nothing waits for you.\n"

"""The command line `waystation`, as a process, on the real server."""

from __future__ import annotations

import json
import os
import pty
import subprocess

import pytest

from tests.servers.private import free_port
from tests.servers.stack import until
from waystation_client import command, requests

pytestmark = pytest.mark.stack


@pytest.fixture
def run(script, stack, token, scoped):
    """Run a command as somebody; gives its exit code, output and complaint."""

    def call(*words, who="ana", scope="", input="", **environment):
        secret = scoped[who, scope] if scope else token(who)
        done = subprocess.run(
            [script / "bin" / "waystation", *words],
            capture_output=True,
            text=True,
            input=input,
            timeout=120,
            env={
                **os.environ,
                "PYTHONPATH": str(script),
                "WAYSTATION_URL": stack.url,
                "WAYSTATION_TOKEN": secret,
                **environment,
            },
        )
        for text in (done.stdout, done.stderr):
            assert secret not in text and "Traceback" not in text, text
        return done.returncode, done.stdout, done.stderr

    return call


def test_the_main_job_is_done_from_a_terminal(run, stack):
    """Start, see, revise, approve by what was seen, follow to the end (issue 21, item 4)."""
    given = ["--repository", str(stack.folder / "celery"), "--input", '{"rules": "I001"}']
    code, order, _ = run("start", "repo-tidy", *given, "--key", "from-a-terminal")
    assert (code, order[:3]) == (0, "wo_")
    order = order.strip()
    assert run("start", "repo-tidy", *given, "--key", "from-a-terminal")[1].strip() == order

    def asks():
        rows = json.loads(run("inbox", "--json")[1])
        return next((row for row in rows if row["agent_work_order_id"] == order), None)

    pause = until(asks, what="the plan", every=0.5)["id"]
    assert pause in run("inbox")[1]
    code, shown, _ = run("show", pause)
    assert code == 0 and "revision 1" in shown and "Answers: approve, revise, cancel" in shown
    # nobody approves what they have not seen
    code, _, why = run("approve", pause)
    assert code == 2 and "--revision 1" in why and "Nothing was answered." in why
    assert run("approve", pause, "--revision", "7")[0] == 1
    assert run("revise", pause, "not in tests/", "--revision", "1")[:2] == (
        0, f"{pause} was answered: revise.\n"
    )  # fmt: skip
    code, _, why = run("approve", pause, "--revision", "1")
    assert code == 1 and "pause_closed" in why
    pause = until(asks, what="the second plan", every=0.5)["id"]
    digest = json.loads(run("show", pause, "--json")[1])["content_digest"]
    assert run("cancel", pause, "never mind", "--digest", digest)[0] == 0
    code, told, _ = run("tail", order)
    assert code == 6 and "run_cancelled" in told
    lines = [
        json.loads(line) for line in run("tail", order, "--json", "--after", "2")[1].splitlines()
    ]
    assert [line["seq"] for line in lines] == list(range(3, 3 + len(lines)))
    assert "failed" in run("show", order)[1]


def test_data_is_answered_and_a_terminal_asks_before_it_answers(run, script, client, stack, scoped):
    """What a question holds moves no cursor of the terminal in which it is read."""
    ana = client("ana", "ask")
    asked = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    question = ana.ask("How many?", required_inputs=asked, team="platform")
    pause = question.pause_id
    code, _, why = run(
        "answer", pause, "--revision", "1", "--input", '{"n": "x"}', who="ben", scope="answer"
    )
    assert code == 1 and "input.n" in why
    words = ["answer", pause, "--revision", "1", "--input", "-"]
    assert run(*words, who="ben", scope="answer", input='{"n": 7}')[0] == 0
    assert ana.wait(question, timeout=30).data == {"n": 7}
    assert run("show", question.run_id)[1].count("Answered: answer by ben") == 1

    question = ana.ask("Clear \x1b[2Jthe screen\u202e?", content="\x1b]0;x\x07", team="platform")
    shown = run("show", question.pause_id, who="ben")[1]
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
            "WAYSTATION_TOKEN": scoped["ben", "answer"],
        },
    )
    os.write(ours, b"y\n")
    told, asked_first = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert told == f"{question.pause_id} was answered: approve.\n"
    assert "the screen" in asked_first and asked_first.endswith("Answer approve? [y/N] ")
    assert ana.wait(question, timeout=30).approved


def test_each_refusal_has_its_exit_code_and_calm_words(
    stack, token, scoped, client, monkeypatch, capsys
):
    """No traceback and no secret, whatever goes wrong; in this process, which spares starting one
    for each.
    """
    monkeypatch.setattr(requests, "delay", lambda tried, told=None: 0)

    def call(*words, url=stack.url, secret=None):
        secret = token("ana") if secret is None else secret
        monkeypatch.setenv("WAYSTATION_URL", url)
        monkeypatch.setenv("WAYSTATION_TOKEN", secret)
        code: object
        try:
            code = command.main(list(words))
        except SystemExit as left:
            code = left.code
        told = capsys.readouterr()
        assert not secret or secret not in told.out + told.err
        return code, told.out, told.err

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

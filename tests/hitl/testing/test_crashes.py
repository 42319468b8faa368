"""`survives_every_crash`: it names each effect that a death doubles or loses, with the author's
line, and lets good workflows pass.
"""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import re

import pytest

from hitl.testing import NotCrashProof, outside, survives_every_crash
from runs.workflows import Done, step, use, wait_for_input, workflow
from tests.hitl.testing import broken, shop
from tests.hitl.testing.broken import one
from tests.hitl.testing.shop import BANK, PARTS, PAY, PRICE, REFUND, flow
from tests.programs.begun import Begun, plain


@pytest.fixture(autouse=True)
def empty_world():
    BANK.reset()
    broken.OUTBOX.clear()


def line_of(function, words):
    """`testing/broken.py:41`: where a function of `broken` says these words."""
    lines, first = inspect.getsourcelines(function)
    number = next(number for number, line in enumerate(lines) if words in line)
    return f"testing/broken.py:{first + number} in {function.__name__}()"


def test_a_good_workflow_survives_every_crash():
    """17-3, P4: before, an author could only hope."""
    found = survives_every_crash(
        REFUND,
        input={"amount": 200},
        answers=["approve"],
        watch=[shop.Bank.pay],
        fresh=BANK.reset,
    )
    assert found.effects == {"Bank.pay": 1} and found.crashes > 10


def test_an_effect_outside_of_once_is_doubled_and_its_line_is_named():
    """17-3: the line that should have been in `context.once`."""
    with pytest.raises(NotCrashProof) as caught:
        survives_every_crash(one("broken.bare"), watch=["tests.hitl.testing.broken.send"])
    assert "send was doubled: done 2 times, not once" in str(caught.value)
    wanted = f"{line_of(broken.bare, 'send(')}: put this into context.once"
    assert wanted in str(caught.value)
    assert "the worker died in bare, after send (" in str(caught.value)


def test_an_effect_that_is_noted_before_it_is_done_is_lost():
    with pytest.raises(NotCrashProof) as caught:
        survives_every_crash(one("broken.marked"), watch=[broken.send])
    wanted = f"{line_of(broken.marked, 'send(')}: do it in the function of context.once"
    assert "send was lost: done 0 times, not once" in str(caught.value)
    assert wanted in str(caught.value)


def test_a_call_without_a_key_is_doubled_even_in_once():
    """P4 says so: between the call and its record a worker may die. The receiver must be able to
    tell, or not mind.
    """
    with pytest.raises(
        NotCrashProof, match=r"hand context\.key to the receiver, or name"
    ) as caught:
        survives_every_crash(one("broken.keyless"), watch=[broken.send])
    moments = "in keyless, after send (3); in keyless, before a commit (4)"
    assert f"the worker died {moments}\n" in f"{caught.value}\n"  # the record was not kept
    survives_every_crash(one("broken.keyless"), idempotent=[broken.send])
    assert survives_every_crash(one("broken.keyed"), watch=[broken.charge]).crashes > 4


def test_a_step_of_chance_is_named_with_the_place_in_the_state():
    with pytest.raises(NotCrashProof, match=r"Two runs without any crash differ.*\n.*/state/lucky"):
        survives_every_crash(one("broken.chance"))
    assert survives_every_crash(one("broken.chance"), ignore=["lucky"]).crashes


def test_a_step_that_goes_by_what_its_process_remembers_is_found():
    """Without a crash each run is the same; the next worker is another process."""
    with pytest.raises(NotCrashProof, match=r"/state/seen: 1 → 2 \(without a crash → with it\)"):
        survives_every_crash(one("broken.remembers"), fresh=BANK.reset)


def test_a_dead_worker_does_nothing_more_whatever_the_step_catches():
    """No handler runs in a process that is gone: neither the step's nor the engine's."""
    found = survives_every_crash(
        one("broken.swallows"), idempotent=[broken.send, "tests.hitl.testing.broken.charge"]
    )
    assert found.effects == {"send": 1, "charge": 1}


def test_a_fake_may_tell_of_its_effects_itself(monkeypatch):
    def told(key, amount):
        outside("transfer", amount)
        return f"receipt {amount}"

    monkeypatch.setattr(BANK, "pay", told, raising=False)
    with pytest.raises(NotCrashProof) as caught:
        survives_every_crash(REFUND, answers=["approve"])
    assert "transfer was doubled" in str(caught.value)
    assert "testing/shop.py" in str(caught.value) and " in pay(): " in str(caught.value)


def test_child_runs_retries_and_deadlines_survive_too():
    found = survives_every_crash(
        PARTS,
        answers=[lambda run: run.approve(at="card"), lambda run: run.approve(at="box")],
        watch=[shop.Bank.pay],
        fresh=BANK.reset,
    )
    assert found.effects == {"Bank.pay": 2}

    def closed():
        BANK.reset()
        BANK.refusals = 1

    expires = PRICE | {"review": {"deadline": {"after": "PT1H", "outcome": "expire"}}}
    retried = PAY | {"retry": {"attempts": 3, "base": 600, "cap": 600}}
    survives_every_crash(
        flow(PRICE, {"function": "shop.rest"}, retried),
        answers=["approve"],
        watch=[shop.Bank.pay],
        fresh=closed,
    )
    survives_every_crash(flow(expires, PAY), answers=[dt.timedelta(hours=2)], ends="expired")
    with pytest.raises(NotCrashProof, match="Without any crash the work ended expired"):
        survives_every_crash(flow(expires, PAY), answers=[dt.timedelta(hours=2)])


def test_work_that_is_to_fail_or_is_cancelled_asleep_is_tried_too():
    """Before, failed work was `NothingAsked`, and only a question could be cancelled."""

    def shut():
        BANK.reset()
        BANK.refusals = 99

    closed = flow(PRICE, PAY)
    survives_every_crash(closed, answers=["approve"], fresh=shut, ends="failed")
    with pytest.raises(NotCrashProof, match=r"failed, not completed: .* is closed\. \(.*shop.py"):
        survives_every_crash(closed, answers=["approve"], fresh=shut)
    asleep = flow(PRICE, {"function": "shop.rest"}, PAY)
    survives_every_crash(
        asleep,
        answers=["approve", dt.timedelta(hours=1), ("cancel", "No.")],
        ends="cancelled",
    )


REAL = """
import sys
from pathlib import Path
from hitl.testing import NotCrashProof, survives_every_crash
from tests.databases.copies import ROOT
from tests.hitl.testing import broken
from tests.hitl.testing.broken import one

broken.OUTBOX.append(Path(sys.argv[1]))
good = survives_every_crash(one("broken.keyless"), idempotent=[broken.send], kill=True)
print(good.crashes, dict(good.effects))
try:
    survives_every_crash(one("broken.bare"), watch=[broken.send], kill=True)
except NotCrashProof as fault:
    print(fault)
"""


def test_workers_that_are_processes_die_by_sigkill(tmp_path):
    """The real thing: no `finally`, no rollback, and nothing in memory is left.

    In a process without threads of other tests: a fork of those may hang.
    """
    outbox = tmp_path / "outbox"
    environment = {**plain(), "PYTHONWARNINGS": "error"}
    done = Begun("-c", REAL, str(outbox), environment=environment).ended()
    assert done.returncode == 0, done.stderr
    first, *fault = done.stdout.splitlines()
    crashes = int(first.split()[0])
    assert first == f"{crashes} {{'send': 1}}" and crashes > 5
    assert "send was doubled: done 2 times, not once" in fault[1]
    assert "put this into context.once" in fault[2]
    [others] = re.findall(r"\(\d of (\d+)\)", fault[0])
    good, bare = (
        crashes + 2 + 2,
        int(others) + 2 + 2,
    )  # each run once; twice where the death lay between
    assert len(outbox.read_text().splitlines()) == good + bare


def test_answers_must_be_as_many_as_questions():
    with pytest.raises(
        NotCrashProof, match=r"price asks once more than `answers` has entries \(0\), in the first"
    ):
        survives_every_crash(REFUND)
    with pytest.raises(NotCrashProof, match="completed with 1 answer left, in the first"):
        survives_every_crash(one("broken.late"), answers=["approve"])
    with pytest.raises(NotCrashProof, match="`most` is 3"):
        survives_every_crash(one("broken.late"), most=3)
    with pytest.raises(LookupError, match="No module refers to"):
        survives_every_crash(one("broken.late"), watch=[lambda: None])


def test_a_fake_that_remembers_is_told_by_the_run_that_it_spoils():
    """Before, it read as if the test had answers too many."""
    told_of: list[str] = []

    @step("t.asks_until_told", asks=True)
    def asks_until_told(state, context):
        street = {"street": {"type": "string"}}
        needs = {"type": "object", "properties": street, "required": ["street"]}
        wanted = functools.partial(wait_for_input, blocking_reason="address", question="Where to?")
        if not told_of and (asked := wanted(state, context, required_inputs=needs)):
            return asked
        told_of.append("the street")
        return Done()

    asks = workflow("asks-until-told", title="Asks", steps=[use(asks_until_told)])
    answers = [{"street": "Main Street"}]
    with pytest.raises(NotCrashProof, match=r"1 answer left, in the second run.* `fresh=`"):
        survives_every_crash(asks, answers=answers)
    survives_every_crash(asks, answers=answers, fresh=told_of.clear)

"""What a person approved, carried by the checkpoints that follow, and checked again before something is done for it (P6).

A checkpoint's metadata holds, by step, the answer to what that step asked last: `approved: {step: {pause, decision, action, revision,
content, material}}`. It comes along to retries and forks, so that a state that was edited behind an approval does not pass for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from checkpoints import codec
from runs.engine.interruptions import STOPS
from runs.models import Pause
from runs.workflows import sequence
from runs.workflows.base import Approval, StepFailed
from runs.workflows.sequence import FrozenStep

KEY, MATERIAL = "approved", "material"


def digest_of(material: Any) -> str:
    """Raises codec.NotJson."""
    codec.check(material, "material")
    return codec.digest(codec.encode(material))


def asking(metadata: Mapping[str, Any], step: str, material: Any) -> dict[str, Any]:
    """What the checkpoint of a question records: an earlier approval of the step holds no more."""
    before = metadata.get(KEY, {})
    left = {KEY: {name: one for name, one in before.items() if name != step}} if before else {}
    return {**left, **({MATERIAL: digest_of(material)} if material is not None else {})}


def answered(pause: Pause, action: str, decision_id: str, *, edited: str = "") -> dict[str, Any]:
    """The approvals after an answer that lets the run go on. Where the content itself was material, what counts is the text as `edited`."""
    metadata = pause.checkpoint.metadata
    before = metadata.get(KEY, {})
    if pause.phase in STOPS or action == sequence.REVISE:
        return {KEY: before} if before else {}
    material = metadata.get(MATERIAL, "")
    if edited and material == digest_of(pause.content):
        material = digest_of(edited)
    given = {
        "pause": pause.shown_id,
        "decision": decision_id,
        "action": action,
        "revision": pause.revision,
        "content": pause.content_digest,
        "material": material,
    }
    return {KEY: {**before, pause.step: given}}


def given(metadata: Mapping[str, Any], steps: Sequence[FrozenStep]) -> dict[str, Approval]:
    """The approvals by step, and by the name of its function too."""
    found: dict[str, Approval] = {}
    for step in steps:
        if (one := metadata.get(KEY, {}).get(step["name"])) is not None:
            approval = Approval(action=one["action"], decision_id=one["decision"], revision=one["revision"], material=one["material"])
            found |= {step["function"]: approval, step["name"]: approval}
    return found


def require(metadata: Mapping[str, Any], steps: Sequence[FrozenStep], of: str, material: Any = None, *, at: str = "") -> None:
    """See `runs.workflows.base.Context.require_approval`. `at` is the step that wants to know."""
    if not of:
        pausing = _pausing_before(steps, at)
        of = next((step["name"] for step in reversed(pausing) if step["name"] in metadata.get(KEY, {})), "")
        steps = pausing if of else [step for step in pausing if not _passed_over(metadata, [step])]
    asked = [step for step in steps if of in ("", step["name"], step["function"])]
    approval = given(metadata, asked).get(of)
    if approval is None:
        if any(step["pause_after"] for step in asked) and not _passed_over(metadata, asked):
            raise StepFailed(
                f"Nobody has approved what {asked[-1]['title']} came to, and this template asks for that. Nothing was done. "
                "Go on from the checkpoint where it is asked.",
                code="approval_missing",
            )
        return
    if material is not None and approval.material != digest_of(material):
        raise StepFailed(
            f"What was to be done is not what was approved: {approval.decision_id} approved revision {approval.revision} of what "
            f"{asked[-1]['title']} came to, and that was changed since. Nothing was done. Have it approved as it is now, or go on from the "
            "checkpoint of the answer.",
            code="content_changed",
        )


def _pausing_before(steps: Sequence[FrozenStep], at: str) -> list[FrozenStep]:
    names = [step["name"] for step in steps]
    return [step for step in steps[: names.index(at) if at in names else None] if step["pause_after"]]


def _passed_over(metadata: Mapping[str, Any], asked: Sequence[FrozenStep]) -> bool:
    """Whether those steps were skipped by their own condition: then there was nothing to approve."""
    return bool(set(metadata.get("skipped", ())) & {step["name"] for step in asked})

"""Says what the steps of a tidy-up will understand of a reviewer's words, before they are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from extensions.repo_tidy.plan import SHOWN_FILES, Plan, RuffRule, fixing
from extensions.repo_tidy.requests import apply_feedback, read_changes, read_request
from extensions.repo_tidy.scope import ScopeWish, TidyScope, describe, selects, within
from runs.workflows import FeedbackReader, Suggestion, Understood
from runs.workflows.text import count, plain

MOST_FILES = 20_000


class Vocabulary(TypedDict):
    """What a reviewer may name: kept with the plan, for pages know neither ruff nor the files."""

    codes: list[str]  # all rules that ruff knows
    files: list[str]  # of the repository


def vocabulary(codes: Sequence[str], files: Sequence[str]) -> Vocabulary | None:
    """None where a state should not hold so many files."""
    shown = [path for path in files if path.isprintable()]
    return Vocabulary(codes=list(codes), files=shown) if len(files) <= MOST_FILES else None


class Narrowed(NamedTuple):
    """Wishes as far as an approved plan goes."""

    taken: list[ScopeWish]
    beyond: list[ScopeWish]
    not_understood: list[str]


def narrow(
    approved: Plan,
    words: str,
    *,
    known_codes: Sequence[str],
    exists: Callable[[str], bool],
) -> Narrowed:
    """Read wishes about an execution: what is not part of the approved plan is not done."""
    changes, not_understood = read_changes(words, known_codes=known_codes, exists=exists)
    taken = [
        change for change in changes if change["verb"] == "skip" or _is_in_plan(change, approved)
    ]
    beyond = [change for change in changes if change not in taken]
    return Narrowed(taken, beyond, not_understood)


def _is_in_plan(change: ScopeWish, approved: Plan) -> bool:
    return any(
        (
            not change["codes"]
            or any(selects(selector, rule["code"]) for selector in change["codes"])
        )
        and (
            not change["paths"]
            or any(within(path, pattern) for path in rule["files"] for pattern in change["paths"])
        )
        for rule in fixing(approved)
    )


class PlanFeedback(FeedbackReader):
    """Of the plan, and of the question that comes before one where an order was not understood."""

    help = (
        "Understood are rules (F401, UP) and paths (src/, tests/), with “skip”, “only” or “add”: "
        "“skip UP007, not in tests/”."
    )

    def read(self, state: Mapping[str, Any], words: str) -> Understood | None:
        known: Vocabulary | None = state.get("vocabulary")
        scope: TidyScope | None = state.get("scope")
        if known is None or scope is None:
            return None
        if not state.get("plan"):
            heard = read_request(
                scope, words, known_codes=known["codes"], exists=_exists(known)
            ) or (scope, [], [plain(words, 200)])
        else:
            heard = apply_feedback(scope, words, known_codes=known["codes"], exists=_exists(known))
        _, applied, not_understood = heard
        return Understood(applied, not_understood)

    def suggestions(self, state: Mapping[str, Any]) -> list[Suggestion]:
        """Each rule and file of the plan, to be left out."""
        plan: Plan | None = state.get("plan")
        rules = fixing(plan) if plan else []
        files = sorted({path for rule in rules for path in rule["files"]})
        return [
            *(Suggestion(f"skip {rule['code']}", _leave_out(rule), "Rules") for rule in rules),
            *(
                Suggestion(f'skip "{path}"', f"Leave out {path}", "Files")
                for path in files[:SHOWN_FILES]
                if '"' not in path
            ),
        ]


def _leave_out(rule: RuffRule) -> str:
    fixes, files = count(rule["fixable"], "fix", "fixes"), count(len(rule["files"]), "file")
    return f"Leave out {rule['code']} ({rule['name']}): {fixes} in {files}"


class ExecutionFeedback(PlanFeedback):
    """Of what was done: less of the approved plan, and never more."""

    help = (
        "Understood are rules (F401) and paths (src/) of the approved plan, with “skip”: “skip "
        "UP007 in tests/”."
    )

    def read(self, state: Mapping[str, Any], words: str) -> Understood | None:
        known: Vocabulary | None = state.get("vocabulary")
        approved: Plan | None = state.get("plan")
        if known is None or not approved:
            return None
        heard = narrow(approved, words, known_codes=known["codes"], exists=_exists(known))
        beyond = [f"{describe(change)} (not part of the approved plan)" for change in heard.beyond]
        return Understood(
            [describe(change) for change in heard.taken], [*beyond, *heard.not_understood]
        )


def _exists(known: Vocabulary) -> Callable[[str], bool]:
    return lambda pattern: any(within(path, pattern) for path in known["files"])

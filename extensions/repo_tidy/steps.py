"""Tidy a Python repository with ruff: plan, fix what was approved, prove it, deliver.

Offline, without a language model.

Every step begins with `workspace.restore()`: what a killed worker left half done is gone, and the
step comes out the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, cast

from extensions.repo_tidy import proof as tidy_proof
from extensions.repo_tidy.feedback import (
    ExecutionFeedback,
    PlanFeedback,
    Vocabulary,
    narrow,
    vocabulary,
)
from extensions.repo_tidy.plan import Baseline, Feedback, Plan, RuffRule, fixing, render
from extensions.repo_tidy.planning import (
    already_in,
    begin,
    check_scope,
    followers_gone,
    make_plan,
)
from extensions.repo_tidy.python_versions import FROM_REPOSITORY
from extensions.repo_tidy.report import Fixed, VerdictRow, execution, subject, verdict
from extensions.repo_tidy.requests import apply_feedback, read_request
from extensions.repo_tidy.scope import (
    TidyScope,
    covers,
    describe,
    with_changes,
    within,
)
from extensions.repo_tidy.tools import (
    Ruff,
    all_files,
    broken_since,
    fix_rule,
    known_codes,
    ruff_for,
    run_check,
)
from runs.workflows import REVISE, Ask, Context, Done, Go, Outcome, Report, State, StepFailed, step
from runs.workflows.deliver import effects, hand_over, material
from runs.workflows.patches import cut_patch, read_numstat
from runs.workflows.text import code, count, plain, quoted, showable

INPUT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "title": "Tidy a repository",
    "additionalProperties": False,
    "properties": {
        "rules": {
            "type": "string",
            "title": "Rules",
            "description": "Codes of ruff rules, or their beginnings, by commas or spaces: F401, "
            "I, UP. "
            "Empty for those that the repository selects, else F, I, UP, E7.",
            "default": "",
            "maxLength": 1000,
            "pattern": r"^[A-Za-z0-9,;\s]*$",
        },
        "paths": {
            "type": "string",
            "title": "Paths",
            "description": (
                "Folders or files inside the repository, separated by commas or spaces. Empty "
                "for the whole repository."
            ),
            "default": "",
            "maxLength": 4000,
        },
        "target_version": {
            "type": "string",
            "title": "Oldest Python version",
            "description": "The oldest Python that the code must still run on; “repository” for "
            "what the "
            "repository says. "
            "Where it supports an older one than is named here, that counts.",
            "enum": [FROM_REPOSITORY, *(f"py3{minor}" for minor in range(7, 16))],
            "default": FROM_REPOSITORY,
        },
        "unsafe_fixes": {
            "type": "boolean",
            "title": "Unsafe fixes too",
            "description": "Also fixes that may change what the code does.",
            "default": False,
        },
        "push": {
            "type": "boolean",
            "title": "Push the branch",
            "description": (
                "When all is approved, push the branch to where it came from, if the repository "
                "leaves that to the order."
            ),
            "default": False,
        },
    },
}


class Execution(TypedDict):
    head: str  # the last commit
    fixed: list[Fixed]


class TidyReview(TypedDict):
    passed: bool
    rows: list[VerdictRow]


class TidyState(TypedDict, total=False):
    revision_feedback: str  # the reviewer's words when a step is run again for them, else ""
    decided: dict[str, str]  # a person's answers by step, set by the engine: {"review": "approve"}
    scope: TidyScope  # what the plan is about; grows with each revision of the plan
    vocabulary: Vocabulary | None  # what feedback may name; None where that is too much
    plan: Plan  # what execute may do
    narrowed: (
        TidyScope | None
    )  # the scope after feedback on the execution; None until there is some
    execution: Execution  # what was done of the plan
    review: TidyReview | None  # the proof of this execution; None or missing where it was skipped
    branch: str  # delivered
    head: str  # delivered: its last commit
    git_commit_count: int  # delivered: commits since the base
    pushed: bool  # delivered: the branch is on the origin
    # delivered: where its pull request is seen; missing where none was wanted
    github_pull_request_url: str


@step("repo_tidy.plan", asks=True, feedback=PlanFeedback())
def plan(state: State, context: Context) -> Outcome:
    """Find what ruff would fix, by trying it in the work tree and putting it back.

    Asks where the order's words are not understood.
    """
    before = cast(TidyState, state)
    workspace = context.workspace
    workspace.restore()
    base = workspace.base()
    workspace.reset(base)
    known, tracked = known_codes(workspace), all_files(workspace)
    scope = before.get("scope") or begin(context, known)
    ruff = ruff_for(context, scope)
    check_scope(scope, known, tracked)
    earlier = before.get("plan")
    request = before.get("revision_feedback", "") or (
        "" if earlier else context.order.request.strip()
    )
    heard = (
        (scope, [], [])
        if not request
        else (apply_feedback if earlier else read_request)(
            scope,
            request,
            known_codes=known,
            exists=lambda pattern: any(within(path, pattern) for path in tracked),
        )
    )
    nameable = vocabulary(known, tracked)
    if heard is None:
        return _ask_again(request, scope, context, nameable)
    was, (scope, applied, not_understood) = scope, heard
    made = make_plan(ruff, scope, tracked, earlier=earlier)
    notes = [*already_in(was, scope, made, tracked), *followers_gone(scope, made, earlier)]
    context.log(
        f"Planned {count(made['fixes'], 'fix', 'fixes')} in {count(made['files'], 'file')}",
        fixes=made["fixes"],
    )
    feedback = Feedback(
        whose="feedback" if earlier else "request",
        applied=applied,
        not_understood=not_understood,
        notes=notes,
    )
    content = render(made, scope, feedback)
    report = Report(
        content=content, facts=_plan_facts(made), material={"plan": made, "scope": scope}
    )
    return Go(
        update={
            "scope": scope,
            "vocabulary": nameable,
            "plan": made,
            "narrowed": None,
            "review": None,
            "execution": None,
        },
        report=report,
        commit=workspace.snapshot(),
    )


def _ask_again(said: str, scope: TidyScope, context: Context, nameable: Vocabulary | None) -> Ask:
    """Nothing of an order's words is understood: whoever asked for a login page does not want
    unused imports removed instead.
    """
    context.log("The request was not understood, so nothing is planned yet", level="warning")
    content = "\n\n".join(
        [
            f"# Not understood\n\n- “{plain(said, 500)}”",
            (
                "This template removes what ruff finds in Python code, and does nothing else. "
                "Nothing has been planned or changed."
            ),
            "Revise with the rules and places that you mean, such as “only F401 in src/”, “skip "
            "UP007, not in tests/”, or “tidy” for the"
            f" rules of the order ({', '.join(scope['select'])}). Use another template for "
            "other work.",
        ]
    )
    return Ask(
        question="What should be tidied? The request was not understood.",
        answers={REVISE: context.step},
        report=Report(content=content),
        update={"scope": scope, "vocabulary": nameable},
        phase="request_not_understood",
        max_revisions=10,
    )


def _plan_facts(made: Plan) -> Mapping[str, str | int]:
    reported = sum(rule["count"] - rule["fixable"] for rule in made["rules"])
    return {
        "Fixes": made["fixes"],
        "Files": made["files"],
        "Commits": len(fixing(made)),
        "Reported only": reported,
        "At": made["base"][:10],
    }


@step("repo_tidy.execute", feedback=ExecutionFeedback())
def execute(state: State, context: Context) -> Outcome:
    """Do what the approved plan says, less what the reviewer took out since; one commit a rule."""
    before = cast(TidyState, state)
    approved = before["plan"]
    context.require_approval(
        "repo_tidy.plan", {"plan": approved, "scope": before["scope"]}, optional=True
    )
    workspace = context.workspace
    workspace.restore()
    workspace.reset(approved["base"])
    # only what was approved says how ruff is called
    scope, how = before.get("narrowed") or before["scope"], before["scope"]
    ruff = ruff_for(context, how)
    applied: list[str] = []
    answers: list[str] = []
    if feedback := before.get("revision_feedback", ""):
        scope, applied, answers = _narrow(ruff, scope, approved, feedback)
    fixed, dropped = [], []
    for rule in fixing(approved):
        files = [path for path in rule["files"] if covers(scope, rule["code"], path)]
        if len(files) < len(rule["files"]):
            dropped.append(
                f"{rule['code']} in {count(len(rule['files']) - len(files), 'file')}: taken "
                "out by feedback"
            )
        if files:
            context.check()
            fixed.append(_carry_out(ruff, rule, files))
    head = workspace.head()
    update = {"execution": Execution(head=head, fixed=fixed), "narrowed": scope, "review": None}
    report = replace(
        _execution_report(context, approved["base"], fixed, dropped, applied, answers),
        material=material(head),
    )
    return Go(update=update, report=report, commit=workspace.snapshot())


def _narrow(
    ruff: Ruff, scope: TidyScope, approved: Plan, feedback: str
) -> tuple[TidyScope, list[str], list[str]]:
    """Take wishes in as far as the approved plan goes, and answer those that go further."""
    tracked = all_files(ruff.context.workspace)
    taken, beyond, not_understood = narrow(
        approved,
        feedback,
        known_codes=known_codes(ruff.context.workspace),
        exists=lambda pattern: any(within(path, pattern) for path in tracked),
    )
    answers = [
        f"“{describe(change)}”: not part of the approved plan; make a new order for it"
        for change in beyond
    ]
    answers += [
        f"“{plain(text, 200)}”: not understood; use a rule code or a path"
        for text in not_understood
    ]
    return with_changes(scope, taken), [describe(change) for change in taken], answers


def _carry_out(ruff: Ruff, rule: RuffRule, files: Sequence[str]) -> Fixed:
    context = ruff.context
    paths, put_back = fix_rule(ruff, rule["code"], files)
    fixes = rule["fixable"] if list(files) == rule["files"] and not put_back else 0
    done = Fixed(
        code=rule["code"],
        name=rule["name"],
        fixes=fixes,
        files=paths,
        planned=list(files),
        commit="",
        put_back=put_back,
    )
    if paths:
        message = f"{subject(done)}\n\nMade by ruff for the work order {context.order.id}.\n"
        done["commit"] = context.workspace.commit(message, paths)
        context.log(subject(done), commit=done["commit"])
    return done


def _execution_report(
    context: Context,
    base: str,
    fixed: Sequence[Fixed],
    dropped: Sequence[str],
    applied: Sequence[str],
    answers: Sequence[str],
) -> Report:
    workspace = context.workspace
    plainly = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
    numbers = read_numstat(workspace.git("diff", *plainly, "--numstat", "-z", base, "HEAD"))
    whole = showable(workspace.git("diff", *plainly, base, "HEAD"))
    if (patch := cut_patch(whole)) == whole:
        numbers["lines"] = []  # it names them itself
    lines = f"+{numbers['added']} −{numbers['removed']}"
    return Report(
        content=execution(fixed, numbers, dropped=dropped, applied=applied, answers=answers),
        patch=patch,
        facts={
            "Commits": sum(1 for rule in fixed if rule["commit"]),
            "Files": numbers["files"],
            "Lines": lines,
            "Branch": context.order.branch,
        },
    )


@step("repo_tidy.review")
def review(state: State, context: Context) -> Outcome:
    """Prove the result. What does not hold is a finding for the reviewer, not an error."""
    before = cast(TidyState, state)
    context.workspace.restore()
    rows = [_findings_row(before, context), *_file_rows(before, context)]
    details: list[str] = []
    if (baseline := before["plan"]["baseline"]) is not None:
        row, detail = _check_row(baseline, context)
        rows.append(row)
        details.append(detail)
    passed = all(row["passed"] for row in rows)
    context.log(
        "The result holds" if passed else "The result does not hold",
        level="info" if passed else "warning",
    )
    facts = {
        "Verdict": "✓ holds" if passed else "✗ does not hold",
        "Head": before["execution"]["head"][:10],
    }
    report = Report(
        content=verdict(rows, details=details),
        facts=facts,
        effects=effects(context, asked=_asks_for_push(context)),
        material=material(before["execution"]["head"]),
    )
    return Go(
        update={"review": TidyReview(passed=passed, rows=rows)},
        report=report,
        commit=context.workspace.snapshot(),
    )


def _findings_row(before: TidyState, context: Context) -> VerdictRow:
    scope, fixed = before["scope"], before["execution"]["fixed"]
    ruff = ruff_for(context, scope)
    planned = {(rule["code"], path) for rule in fixed for path in rule["planned"]}
    findings = (
        ruff.find(sorted({rule["code"] for rule in fixed}), sorted({path for _, path in planned}))
        if planned
        else []
    )
    left = [
        finding
        for finding in findings
        if finding.fixable and (finding.code, finding.path) in planned
    ]
    named = ", ".join(f"{finding.code} {finding.path}:{finding.line}" for finding in left[:5])
    return VerdictRow(
        claim="What was to be fixed is gone",
        passed=not left,
        found=f"{len(left)} findings are left: {named}"
        if left
        else f"{count(len(fixed), 'rule')} checked: ruff finds none of it in these files",
    )


def _file_rows(before: TidyState, context: Context) -> list[VerdictRow]:
    workspace, base = context.workspace, before["plan"]["base"]
    changed = [
        path
        for path in workspace.git("diff", "--name-only", "--no-renames", "-z", base, "HEAD").split(
            "\0"
        )
        if path
    ]
    approved = {path for rule in fixing(before["plan"]) for path in rule["files"]}
    outside = [path for path in changed if path not in approved]
    broken = broken_since(workspace, base, changed)
    python = [path for path in changed if path.endswith((".py", ".pyi")) and path not in broken]
    version = (
        before["scope"]["sources"]["python"]["version"] if "sources" in before["scope"] else ""
    )
    on_oldest = (
        tidy_proof.rows(ruff_for(context, before["scope"]), base, python, version)
        if version
        else []
    )
    return [
        VerdictRow(
            claim="Nothing outside the approved plan changed",
            passed=not outside,
            found=f"{len(outside)} other files, {outside[0]!r} first"
            if outside
            else f"{count(len(changed), 'file')}, all of the plan",
        ),
        VerdictRow(
            claim="Every Python file still parses",
            passed=not broken,
            found=f"{', '.join(broken[:5])} no longer"
            if broken
            else "the changed ones do; the others are byte for byte as before",
        ),
        *on_oldest,
    ]


def _check_row(baseline: Baseline, context: Context) -> tuple[VerdictRow, str]:
    context.log("Running the repository's check on the result")
    ran = run_check(context)
    shown = "did not end by itself" if ran.exit_code is None else f"exit code {ran.exit_code}"
    was = (
        "did not end by itself"
        if baseline["exit_code"] is None
        else f"exit code {baseline['exit_code']}"
    )
    row = VerdictRow(
        claim="The repository's check gives what it gave",
        passed=ran.exit_code == baseline["exit_code"],
        found=f"{shown}; before: {was}",
    )
    return (
        row,
        f"## The check's last lines\n\n- {code(' '.join(context.order.check_command))}"
        + quoted(ran.end),
    )


@step("repo_tidy.deliver", delivers=True)
def deliver(state: State, context: Context) -> Outcome:
    before = cast(TidyState, state)
    proof = before.get("review")
    if proof is not None and not proof["passed"] and not _approved(context):
        failed = "; ".join(
            f"{row['claim']}: {row['found']}" for row in proof["rows"] if not row["passed"]
        )
        raise StepFailed(
            "The result failed its review and nobody approved it, so nothing was "
            f"delivered. {failed}",
            code="review_failed",
        )
    workspace = context.workspace
    workspace.restore()
    # who approved may pass it over
    reviewed = ["repo_tidy.review"] if context.approved("repo_tidy.review") else []
    for of in ("repo_tidy.execute", *reviewed):
        context.require_approval(of, material(workspace.head()), optional=True)
    return Done(
        update=hand_over(context, asked=_asks_for_push(context)), commit=workspace.snapshot()
    )


def _approved(context: Context) -> bool:
    approval = context.approved("repo_tidy.review")
    return approval is not None and approval.action == "approve"


def _asks_for_push(context: Context) -> bool:
    return bool(context.order.input.get("push"))

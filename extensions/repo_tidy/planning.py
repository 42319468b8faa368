"""Makes the plan of a tidy-up by trying the fixes in the work tree and putting everything back."""

from __future__ import annotations

from collections.abc import Sequence

from extensions.repo_tidy.plan import (
    SHOWN_ERRORS,
    SHOWN_EXAMPLES,
    Baseline,
    Plan,
    RuffRule,
    fix_order,
)
from extensions.repo_tidy.python_versions import target_of
from extensions.repo_tidy.scope import (
    ScopeWish,
    TidyScope,
    asked_version,
    covers,
    describe,
    first_scope,
    selectors,
    selects,
    within,
)
from extensions.repo_tidy.tools import (
    LintFinding,
    Ruff,
    fix_rule,
    look_around,
    python_files,
    run_check,
    unshowable,
)
from runs.workflows import Context, StepFailed
from runs.workflows.text import count

FOLLOWERS = ("F401", "I001")  # follow from other fixes, even where they have no findings yet


def begin(context: Context, known: Sequence[str]) -> TidyScope:
    """What the order asks for, called as the repository says.

    The work tree is at the order's base.
    """
    asked = context.order.input
    sources, settings = look_around(context, asked_version(asked))
    # those in preview are not run
    own = [rule for rule in settings.select if any(selects(rule, code) for code in known)]
    scope = first_scope(asked, own)
    sources["own_rules"] = bool(own) and scope["select"] == sorted(set(own))
    if settings.select and not sources["own_rules"]:
        sources["overridden"].append(
            f"its selected rules ({', '.join(settings.select[:20])}), for the order names others"
        )
    return TidyScope(
        **{**scope, "target_version": target_of(sources["python"]), "sources": sources}
    )


def check_scope(scope: TidyScope, known: Sequence[str], tracked: Sequence[str]) -> None:
    """Raise StepFailed for rules that ruff does not know and paths that the repository does not
    have.
    """
    for rule in scope["select"]:
        if not any(selects(rule, code) for code in known):
            raise StepFailed(
                f"ruff knows no rule {rule} (outside its preview mode). Order again with "
                "other rules.",
                code="unknown_rule",
            )
    for pattern in scope["paths"]:
        if not any(within(path, pattern) for path in tracked):
            raise StepFailed(
                f"“{pattern}” is not in the repository. Order again with other paths.",
                code="no_such_path",
            )


def make_plan(
    ruff: Ruff, scope: TidyScope, tracked: Sequence[str], *, earlier: Plan | None
) -> Plan:
    """The plan for the commit the work tree is at.

    Of an `earlier` one about this commit the check's result is taken over.
    """
    asked = selectors(scope)
    files = python_files(ruff.context.workspace)
    findings = ruff.find(asked, files)
    findings += unshowable(ruff.context.workspace, {finding.path for finding in findings})
    codes = {finding.code for finding in findings if finding.code}
    codes |= {
        follower for follower in FOLLOWERS if any(selects(selector, follower) for selector in asked)
    }
    # A rule without findings has no code here, but the places it was asked about are in scope all
    # the same.
    in_scope = {
        path for path in files if any(covers(scope, code, path) for code in codes.union(asked))
    }
    errors = [finding for finding in findings if not finding.code and finding.path in in_scope]
    rules = _try_out(ruff, scope, codes, findings)
    base = ruff.context.workspace.head()
    return Plan(
        base=base,
        rules=rules,
        broken=[
            f"{error.path}:{error.line} {error.message}"[:300] for error in errors[:SHOWN_ERRORS]
        ],
        broken_count=len({error.path for error in errors}),
        checked=len(in_scope) - len({error.path for error in errors}),
        fixes=sum(rule["fixable"] for rule in rules),
        files=len({path for rule in rules for path in rule["files"]}),
        has_tests=any(_is_test(path) for path in tracked),
        baseline=earlier["baseline"]
        if earlier and earlier["base"] == base
        else _baseline(ruff.context),
    )


def already_in(was: TidyScope, scope: TidyScope, made: Plan, tracked: Sequence[str]) -> list[str]:
    """Wishes to add what was in scope before: they are understood, and change nothing."""
    pairs = [
        (rule["code"], path)
        for rule in made["rules"]
        for path in tracked
        if path.endswith((".py", ".pyi"))
    ]
    added = [
        change
        for change in scope["changes"]
        if change["verb"] == "add" and change not in was["changes"]
    ]
    return [
        f"{describe(change)}: the plan is the same without it"
        for change in added
        if all(covers(was, code, path) for code, path in pairs if _is_about(change, code, path))
    ]


def _is_about(change: ScopeWish, code: str, path: str) -> bool:
    by_code = not change["codes"] or any(selects(selector, code) for selector in change["codes"])
    return by_code and (
        not change["paths"] or any(within(path, pattern) for pattern in change["paths"])
    )


def followers_gone(scope: TidyScope, made: Plan, earlier: Plan | None) -> list[str]:
    """Rules in scope that have fewer fixes than in the earlier plan where they are in scope: the
    others followed from other rules.
    """
    sentences = []
    for rule in earlier["rules"] if earlier else []:
        places = [path for path in rule["files"] if covers(scope, rule["code"], path)]
        now = next((planned for planned in made["rules"] if planned["code"] == rule["code"]), None)
        left = now["fixable"] if now else 0
        gone = {*places} - {*(now["files"] if now and left else [])}
        if left < rule["fixable"] and gone:
            sentences.append(
                f"{rule['code']}: {count(rule['fixable'] - left, 'fix', 'fixes')} of the earlier "
                "plan are not in this one: those elsewhere,"
                " and those that only follow from fixes of other rules (an import that nobody "
                "needs any more, say)"
            )
    return sentences


def _try_out(
    ruff: Ruff, scope: TidyScope, codes: set[str], found: Sequence[LintFinding]
) -> list[RuffRule]:
    """Fix rule by rule as execute will, to learn what each has to do when its turn comes."""
    workspace = ruff.context.workspace
    base = workspace.head()
    broken = {finding.path for finding in found if not finding.code}
    changed: set[str] = set()
    rules = []
    for code in fix_order(codes):
        at_first = [
            finding
            for finding in found
            if finding.code == code
            and finding.path not in broken
            and covers(scope, code, finding.path)
        ]
        suspects = {finding.path for finding in at_first} | {
            path for path in changed if covers(scope, code, path)
        }
        now = [finding for finding in ruff.find([code], sorted(suspects)) if finding.code == code]
        if not now:
            continue
        files = sorted({finding.path for finding in now if finding.fixable})
        if files:
            paths, _ = fix_rule(ruff, code, files)
            workspace.commit(f"Try {code}", paths)
            changed.update(paths)
        examples = [
            f"{finding.path}:{finding.line} {finding.message}"[:300]
            for finding in at_first[:SHOWN_EXAMPLES]
        ]
        fixable = sum(finding.fixable for finding in now)
        rules.append(
            RuffRule(
                code=code,
                name=now[0].name,
                count=len(now),
                fixable=fixable,
                files=files,
                examples=examples,
            )
        )
    workspace.reset(base)
    return sorted(rules, key=lambda rule: not rule["fixable"])  # stable: otherwise in their order


def _baseline(context: Context) -> Baseline | None:
    if not context.order.check_command:
        return None
    context.log("Running the repository's check before the changes")
    ran = run_check(context)
    return Baseline(command=list(context.order.check_command), exit_code=ran.exit_code, end=ran.end)


def _is_test(path: str) -> bool:
    *folders, name = path.split("/")
    return path.endswith(".py") and (
        name.startswith("test_")
        or name.endswith("_test.py")
        or not {"test", "tests"}.isdisjoint(folders)
    )

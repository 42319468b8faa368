"""The plan of a tidy-up: what is kept of the findings, and how it reads.

Pure: the same findings give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from extensions.repo_tidy.python_versions import OLDEST_OF_RUFF, UPGRADES, version_of
from extensions.repo_tidy.scope import Sources, TidyScope
from runs.workflows.text import bounded, code, count, plain, quoted

SHOWN_FILES = 40
SHOWN_EXAMPLES = 3
SHOWN_ERRORS = 20


class RuffRule(TypedDict):
    code: str
    name: str
    # findings when this rule's turn comes; fixes of earlier rules may add some (an import that is
    # no longer used)
    count: int
    fixable: int  # of these, those that ruff fixes with the scope's settings; 0 means reported only
    files: list[str]  # with something to fix; sorted
    examples: list[str]  # a few, `path:line message`


class Baseline(TypedDict):
    """What the repository's own check gave before anything was changed."""

    command: list[str]
    exit_code: int | None  # None: it did not end by itself
    end: str  # its last lines


class Plan(TypedDict):
    base: str  # the commit it is about
    rules: list[RuffRule]  # in the order of their commits; those without fixes last
    # files that do not parse, or cannot be read, and are left alone, a few of them as `path:line
    # message`
    broken: list[str]
    broken_count: int
    checked: int  # Python files in scope, without those
    fixes: int
    files: int  # with something to fix
    has_tests: bool
    baseline: Baseline | None  # None: no check command


def fix_order(codes: Iterable[str]) -> list[str]:
    """By code, but unused imports second to last and sorting last: the other fixes leave and bring
    imports.
    """
    return sorted(codes, key=lambda code: ({"F401": 1, "I001": 2}.get(code, 0), code))


def fixing(plan: Plan) -> list[RuffRule]:
    return [rule for rule in plan["rules"] if rule["fixable"]]


@dataclass(frozen=True, kw_only=True)
class Feedback:
    """What became of a person's words."""

    whose: str
    """`feedback` of a reviewer, or the order's `request`."""
    applied: Sequence[str] = ()
    not_understood: Sequence[str] = ()
    notes: Sequence[str] = ()
    """What followed from them that nobody would expect."""


def render(plan: Plan, scope: TidyScope, feedback: Feedback) -> str:
    """The plan as a reviewer reads it, in Markdown.

    Where nothing of their words was understood, that comes first.
    """
    understood = _feedback(feedback)
    parts = (
        [*understood, _title(plan)]
        if feedback.not_understood and not feedback.applied
        else [_title(plan), *understood]
    )
    parts += [*_rules(plan), *_examples(plan), *_files(plan), *_left_alone(plan)]
    return "\n\n".join([*parts, *_sources(scope), _risk(plan, scope), _asked(scope)]) + "\n"


def _title(plan: Plan) -> str:
    left = plan["broken_count"]
    but = f" {count(left, 'more file')} could not be checked: see below." if left else ""
    if not plan["checked"] and not left:
        return "# Plan: nothing to do\n\nThere are no Python files in scope."
    if not plan["fixes"]:
        return (
            "# Plan: nothing to do\n\nruff has no fix to offer in the "
            f"{count(plan['checked'], 'Python file')} in scope.{but}"
        )
    return (
        f"# Plan: {count(plan['fixes'], 'fix', 'fixes')} in {count(plan['files'], 'file')}\n\n"
        f"{count(plan['checked'], 'Python file')} checked at commit `{plan['base'][:10]}`.{but}"
        " Each rule becomes one commit."
        " Nothing outside the files listed here will be touched."
    )


def _feedback(feedback: Feedback) -> list[str]:
    parts = []
    if feedback.applied:
        heading = (
            "Your feedback was applied:"
            if feedback.whose == "feedback"
            else "Understood of the request:"
        )
        parts.append(f"**{heading}** {'; '.join(feedback.applied)}.")
    if feedback.notes:
        parts.append("\n".join(f"- {plain(note, 400)}." for note in feedback.notes[:20]))
    if feedback.not_understood:
        wishes = "\n".join(f"- “{plain(text, 200)}”" for text in feedback.not_understood[:20])
        nothing = (
            ""
            if feedback.applied
            else "None of this was understood, so the plan below is as it was. "
        )
        use = "Use a rule code or a path, as in “skip UP007, not in tests/”."
        parts.append(
            f"{'##' if feedback.applied else '#'} Not understood\n\n{wishes}\n\n{nothing}{use}"
        )
    return parts


def _rules(plan: Plan) -> list[str]:
    if not plan["rules"]:
        return []
    rows = ["| Rule | | Findings | Fixed automatically | What happens |", "|---|---|---:|---:|---|"]
    for rule in plan["rules"]:
        happens = (
            f"fixed in {count(len(rule['files']), 'file')}, one commit"
            if rule["fixable"]
            else "reported only, no automatic fix"
        )
        if 0 < rule["fixable"] < rule["count"]:
            happens += f"; {rule['count'] - rule['fixable']} reported only"
        rows.append(
            f"| {rule['code']} | {rule['name'].replace('-', ' ')} | {rule['count']} | "
            f"{rule['fixable']} | {happens} |"
        )
    return ["## Findings\n\n" + "\n".join(rows)]


def _examples(plan: Plan) -> list[str]:
    lines = []
    for rule in plan["rules"]:
        shown = rule["examples"] or ["follows from the fixes before it"]
        lines.append(f"- **{rule['code']}**: {'; '.join(code(text) for text in shown)}")
    return ["## Examples\n\n" + "\n".join(lines)] if lines else []


def _files(plan: Plan) -> list[str]:
    by_file: dict[str, list[str]] = {}
    for rule in fixing(plan):
        for path in rule["files"]:
            by_file.setdefault(path, []).append(rule["code"])
    lines = [f"- {code(path)} ({', '.join(codes)})" for path, codes in sorted(by_file.items())]
    return ["## Files that change\n\n" + bounded(lines, SHOWN_FILES)] if lines else []


def _left_alone(plan: Plan) -> list[str]:
    if not plan["broken_count"]:
        return []
    lines = [f"- {code(text)}" for text in plan["broken"]]
    rest = (
        [f"- … and {plan['broken_count'] - len(lines)} more"]
        if plan["broken_count"] > len(lines)
        else []
    )
    return [
        "## Left alone: files that do not parse, cannot be read, or not on the oldest Python\n\n"
        + "\n".join([*lines, *rest])
    ]


def _sources(scope: TidyScope) -> list[str]:
    """What the repository says of its Python and of ruff, and what of that does not count."""
    if "sources" not in scope:
        return []
    sources = scope["sources"]
    lines = [*_python(sources), *_settings(sources)]
    return ["## What the repository says\n\n" + "\n".join(f"- {line}" for line in lines)]


def _python(sources: Sources) -> list[str]:
    python = sources["python"]
    source = (
        f"by {code(python['source'])}"
        if python["source"]
        else "the repository does not say which it supports"
    )
    lines = [f"Oldest Python: **{python['version']}** ({source})."]
    if python["asked"] and python["asked"] != python["version"]:
        lines[0] += (
            f" The order asks for {python['asked']}; the older one counts, for the "
            "repository supports it."
        )
    elif not python["source"]:
        lines[0] += " " + (
            "The order names it."
            if python["asked"]
            else "That is a guess: name another one in the order."
        )
    if version_of(python) < OLDEST_OF_RUFF:
        lines.append(
            f"ruff writes Python 3.7 and newer, so the rules {', '.join(UPGRADES)} are left out."
        )
    return lines


def _settings(sources: Sources) -> list[str]:
    if sources["refused"]:
        return [f"Its ruff configuration is **not used**: {code(sources['refused'])}."]
    if not sources["settings"]:
        return ["It has no ruff configuration."]
    named = ", ".join(code(path) for path in sources["settings"][:5])
    out = f" Left out by it: {', '.join(sources['ignored'][:20])}." if sources["ignored"] else ""
    lines = [
        f"Its ruff configuration ({named}) is respected: ignored rules, per-file ignores, "
        f"excluded files, unfixable rules, sorting.{out}"
    ]
    return (
        [*lines, f"Overridden: {'; '.join(sources['overridden'])}."]
        if sources["overridden"]
        else lines
    )


def _risk(plan: Plan, scope: TidyScope) -> str:
    safety = (
        "**Unsafe fixes are in**: some may change what the code does."
        if scope["unsafe_fixes"]
        else "Only fixes that ruff calls safe; unsafe ones are out."
    )
    tests = (
        "The repository has tests."
        if plan["has_tests"]
        else "No tests were found in the repository."
    )
    lines = [
        f"{count(plan['files'], 'file')} of {plan['checked']} will change.",
        safety,
        tests,
        _baseline(plan["baseline"]),
    ]
    return "## Risk\n\n" + "\n".join(f"- {line}" for line in lines)


def _baseline(baseline: Baseline | None) -> str:
    if baseline is None:
        return (
            "There is no check command for this repository, so nothing but ruff and Python's "
            "parser judges the result."
        )
    command = code(" ".join(baseline["command"]))
    if baseline["exit_code"] is None:
        return (
            f"The check {command} could not be run to its end before the changes: "
            f"{plain(baseline['end'], 300)}"
        )
    gave = (
        "passes"
        if baseline["exit_code"] == 0
        else f"**already fails** (exit code {baseline['exit_code']})"
    )
    return f"The check {command} {gave} before the changes; the review runs it again." + quoted(
        baseline["end"]
    )


def _asked(scope: TidyScope) -> str:
    places = ", ".join(code(path) for path in scope["paths"]) or "the whole repository"
    whose = (
        "The repository's rules"
        if "sources" in scope and scope["sources"]["own_rules"]
        else "Asked for: rules"
    )
    return (
        f"{whose} {', '.join(scope['select'])} in {places}, for Python "
        f"{scope['target_version'][2]}.{scope['target_version'][3:]}."
    )

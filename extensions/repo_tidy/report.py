"""How the result of a tidy-up and its proof read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from runs.workflows.patches import Numbers
from runs.workflows.text import bounded, code, count, plain


class Fixed(TypedDict):
    """One rule that was carried out."""

    code: str
    name: str
    # as planned for these files, if the reviewer narrowed the plan: 0, unknown until the review
    fixes: int
    files: list[str]  # that the commit changed
    planned: list[str]  # that the rule was allowed to change
    commit: str  # "" where nothing was left to fix
    put_back: list[str]  # no longer parsed after the fix


class VerdictRow(TypedDict):
    """One line of the verdict."""

    claim: str
    passed: bool
    found: str


def execution(
    fixed: Sequence[Fixed],
    numbers: Numbers,
    *,
    dropped: Sequence[str],
    applied: Sequence[str],
    answers: Sequence[str],
) -> str:
    commits = [rule for rule in fixed if rule["commit"]]
    parts = [
        f"# {count(len(commits), 'commit')}, {count(numbers['files'], 'file')} changed"
        if commits
        else "# Nothing was changed\n\nThe approved plan has nothing left to fix."
    ]
    if answers and not applied:
        parts.insert(0, "**Nothing of your feedback was applied**, so this is what it was before.")
    if applied:
        parts.append(f"**Your feedback was applied:** {'; '.join(applied)}.")
    if answers:
        parts.append(
            "## Not done of your feedback\n\n" + "\n".join(f"- {answer}" for answer in answers[:20])
        )
    if commits:
        parts.append(
            "## Commits\n\n"
            + "\n".join(f"- `{rule['commit'][:10]}` {subject(rule)}" for rule in commits)
        )
    if commits and numbers["lines"]:
        lines = f"+{numbers['added']} −{numbers['removed']}"
        parts.append(f"## Files: {lines}\n\n{bounded(numbers['lines'], 60)}")
    if left := [*dropped, *_left(fixed)]:
        parts.append("## Left as it was\n\n" + bounded([f"- {line}" for line in left], 40))
    return "\n\n".join(parts) + "\n"


def _left(fixed: Sequence[Fixed]) -> list[str]:
    lines = [
        f"{rule['code']}: there was nothing left to fix when its turn came"
        for rule in fixed
        if not rule["commit"] and not rule["put_back"]
    ]
    for rule in fixed:
        lines += [
            f"{rule['code']} in {code(path)}: put back, the file no longer parsed after the fix"
            for path in rule["put_back"]
        ]
    return lines


def subject(rule: Fixed) -> str:
    name = rule["name"].replace("-", " ")
    where = count(len(rule["files"]), "file")
    return (
        f"Fix {rule['code']}: {name} ({count(rule['fixes'], 'finding')} in {where})"
        if rule["fixes"]
        else f"Fix {rule['code']}: {name} (in {where})"
    )


def verdict(rows: Sequence[VerdictRow], *, details: Sequence[str]) -> str:
    passed = all(row["passed"] for row in rows)
    table = ["| | Claim | Found |", "|---|---|---|"]
    table += [
        (
            f"| {'✓' if row['passed'] else '✗'} | {row['claim']} | "
            f"{plain(row['found'], 400).replace('|', '¦')} |"
        )
        for row in rows
    ]
    title = "# ✓ The result holds" if passed else "# ✗ The result does not hold"
    return "\n\n".join([title, "\n".join(table), *details]) + "\n"

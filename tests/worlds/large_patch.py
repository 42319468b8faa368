"""A patch as large as people still read one."""

from __future__ import annotations

LINES, FILES, FOLDERS = 3_000, 50, 7


def part_of(path: str, lines: int) -> str:
    """A file's part of so many lines, of which every second one was changed."""
    rows = []
    for number in range(lines // 4):
        rows += [f" def call_{number}(value: int) -> str:", '     """Say it."""']
        rows += [
            f'-    return f"{{value}} of {number}"',
            f'+    return f"{{value:,}} of {number}"',
        ]
    old = sum(row[0] in " -" for row in rows)
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    return f"{head}@@ -1,{old} +1,{old} @@\n" + "".join(f"{row}\n" for row in rows)


def large_patch() -> str:
    each = LINES // FILES
    paths = sorted(f"src/app{n % FOLDERS}/file{n}.py" for n in range(FILES))
    return "".join(part_of(path, each) for path in paths)

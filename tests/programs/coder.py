"""A scripted coding agent: a real process that reads its prompt, speaks stream-JSON, and changes
files. It does the same each time.

`python coder.py <folder>`: each start leaves a file `<what>-<number>` with its process id there,
and as long as `<folder>/hold-<what>` exists it waits, with a line each tenth of a second.
`tests.programs.hostile` holds what a hostile one does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def say(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def words(text: str) -> None:
    say(type="assistant", message={"content": [{"type": "text", "text": text}]})


def call(number: str, name: str, **arguments: object) -> None:
    say(
        type="assistant",
        message={"content": [{"type": "tool_use", "id": number, "name": name, "input": arguments}]},
    )
    say(
        type="user",
        message={"content": [{"type": "tool_result", "tool_use_id": number, "content": "done"}]},
    )


def section(prompt: str, heading: str) -> str:
    """What stands under a heading of the prompt; "" where it is not there."""
    found = prompt.partition(f"\n# {heading}")[2]
    return found.partition("\n\n")[2].partition("\n# ")[0].strip()


def kind_of(prompt: str) -> str:
    if prompt.startswith("Several people"):
        return "merge"
    return {"Plan": "plan", "Carry": "execute", "Review": "review"}[prompt.split(" ", 1)[0]]


def plan(prompt: str) -> str:
    call("t1", "Read", path="README.md")
    feedback = section(prompt, "What a person says about that plan")
    focus = section(prompt, "What to look at most").split(":")[0] or "All of it"
    small = (
        "".join(f"\n\n{number}. A small step." for number in range(1, 31))
        if "in small steps" in prompt
        else ""
    )
    return (
        f"**{focus}.** Add `greeting.py` with a "
        f"test.{f' As you say: {feedback}.' if feedback else ''}{small}"
    )


def execute(prompt: str) -> str:
    feedback = section(prompt, "What a person wants changed in it")
    if feedback:
        Path("greeting.py").write_text('"""Greets."""\n\nGREETING = "Hello, world"\n')
        return f"Corrected: {feedback}"
    call("t2", "Write", path="greeting.py")
    Path("greeting.py").write_text('GREETING = "Hello"\n')
    Path("test_greeting.py").write_text("from greeting import GREETING\n\nassert GREETING\n")
    return "Added the greeting and its test."


def review(prompt: str) -> str:
    assert section(prompt, "The patch").startswith("diff --git")
    return "The module says nothing about itself." if '"""' not in prompt else "All is well."


def main() -> None:
    control, prompt = Path(sys.argv[1]), sys.stdin.read()
    what = kind_of(prompt)
    number = 1 + len(list(control.glob(f"{what}-*")))
    (control / f"{what}-{number}-{os.getpid()}").write_text(str(os.getpid()))
    say(type="system", subtype="init")
    words(f"Working on: {what}\n")
    while (control / f"hold-{what}").exists():
        words(".")
        time.sleep(0.1)  # until the test takes the file away
    answer = {"plan": plan, "merge": plan, "execute": execute, "review": review}[what](prompt)
    usage = {"input_tokens": 1000, "output_tokens": 200}
    say(
        type="result",
        subtype="success",
        is_error=False,
        result=answer,
        usage=usage,
        total_cost_usd=0.0125,
    )


if __name__ == "__main__":
    main()

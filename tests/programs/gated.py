"""A scripted stand-in of Claude Code with `--print` and a `PreToolUse` hook: it asks the hook about
each call of its script, ends where that defers one, and goes on with `--resume`.

`python gated.py <folder> --settings FILE [--resume FILE]`: `<folder>/script.json` holds the calls,
`{"name", "input"}` each, `Bash` and `Write` alone, or lists of those of one message; `{tree}` in it
is the work tree. Of several that are deferred in one message it forgets all but the last, as Claude
Code 2.1.332. While `<folder>/die` is there it dies after the first call that it made. Without
`--settings` it plans: it says a word and ends.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SESSION = "5f0c1d2e-0000-4000-8000-000000000001"


def say(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def said_by_hook(settings: Any, number: int, call: Any) -> dict[str, Any]:
    """What the hook decides; {} where it leaves the call to the rules."""
    hook = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    asked = {
        "hook_event_name": "PreToolUse",
        "session_id": SESSION,
        "tool_name": call["name"],
        "tool_input": call["input"],
        "tool_use_id": f"toolu_{number}",
    }
    done = subprocess.run(
        hook, shell=True, input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    if done.returncode == 2:
        return {"permissionDecision": "deny", "permissionDecisionReason": done.stderr}
    answer: dict[str, Any] = json.loads(done.stdout or "{}").get("hookSpecificOutput", {})
    return answer


def made(settings: Any, call: Any, arguments: Any) -> str:
    if call["name"] == "Bash":
        return subprocess.run(
            arguments["command"], shell=True, capture_output=True, text=True, check=False
        ).stdout
    allowed = f"Edit(/{os.getcwd()}/**)" in settings["permissions"]["allow"]
    if not allowed or not arguments["file_path"].startswith(f"{os.getcwd()}/"):
        return "You may not write there."
    Path(arguments["file_path"]).write_text(arguments["content"])
    return "Written."


class Agent:
    """A session: what its calls gave, and the one that it waits with."""

    def __init__(self, folder: Path, settings: Any, kept: Any) -> None:
        self.folder, self.settings = folder, settings
        self.results: list[str] = kept["results"]
        self.begun: int = kept["begun"]
        """Messages of the script."""
        self.waits: Any = kept["waits"]

    def work(self, messages: list[list[Any]]) -> None:
        """Until a call is deferred, or the script ends."""
        waited, self.waits = self.waits, None
        if waited:
            self.make(*waited)
        while not self.waits and self.begun < len(messages):
            first = sum(map(len, messages[: self.begun]))
            calls = list(enumerate(messages[self.begun], start=first))
            self.begun += 1
            for number, call in calls:
                content = {"type": "tool_use", "id": f"toolu_{number}", **call}
                say(type="assistant", message={"content": [content]})
            for number, call in calls:
                self.make(number, call)

    def make(self, number: int, call: Any) -> None:
        answer = said_by_hook(self.settings, number, call)
        decision = answer.get("permissionDecision", "")
        if decision == "defer":
            self.waits = [number, call]
        elif decision == "deny":
            self.results.append(f"Denied: {answer['permissionDecisionReason']}")
        elif decision == "allow" or call["name"] == "Write":
            arguments = answer.get("updatedInput", call["input"])
            self.results.append(made(self.settings, call, arguments))
            if (self.folder / "die").exists():
                sys.exit(3)
        else:
            self.results.append("Nobody allowed this.")

    @property
    def end(self) -> dict[str, Any]:
        if self.waits:
            number, call = self.waits
            use = {"id": f"toolu_{number}", **call}
            return {"stop_reason": "tool_deferred", "result": "", "deferred_tool_use": use}
        return {"stop_reason": "end_turn", "result": "\n".join(self.results)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--settings", type=Path)
    parser.add_argument("--resume", type=Path)
    given = parser.parse_args()
    if given.settings is None:
        say(type="result", is_error=False, result="A plan.", stop_reason="end_turn")
        return
    settings = json.loads(given.settings.read_text())
    script = (given.folder / "script.json").read_text()
    calls = json.loads(script.replace("{tree}", os.getcwd()))
    fresh = Path.home() / ".claude" / "projects" / "-a-b" / f"{SESSION}.jsonl"
    file: Path = given.resume or fresh
    file.parent.mkdir(parents=True, exist_ok=True)
    begun = {"results": [], "begun": 0, "waits": None}
    agent = Agent(given.folder, settings, json.loads(file.read_text()) if given.resume else begun)
    agent.work([call if isinstance(call, list) else [call] for call in calls])
    kept = {"results": agent.results, "begun": agent.begun, "waits": agent.waits}
    file.write_text(json.dumps(kept))
    say(
        type="result",
        is_error=False,
        session_id=SESSION,
        usage={"input_tokens": 100, "output_tokens": 10},
        total_cost_usd=0.001 * (1 + len(agent.results)),
        **agent.end,
    )


if __name__ == "__main__":
    main()

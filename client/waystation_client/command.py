"""The command line: `waystation inbox`, `show`, `approve`, `revise`, `cancel`, `answer`, `tail`,
`start`.

It needs an address and a token, both from the environment: a token among the arguments would stand
in the list of processes. No output holds it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from waystation_client import errors, terminal
from waystation_client.rest import models, operations
from waystation_client.sync import Waystation

DONE, REFUSED, USAGE, NOT_ALLOWED, NOT_FOUND, NO_ANSWER, FAILED = range(7)
"""Exit codes."""
INTERRUPTED = 130
CODES: dict[type[errors.WaystationError], int] = {
    errors.Unauthorized: NOT_ALLOWED,
    errors.Forbidden: NOT_ALLOWED,
    errors.NotFound: NOT_FOUND,
    errors.TooMany: NO_ANSWER,
    errors.Unavailable: NO_ANSWER,
    errors.Unreachable: NO_ANSWER,
    errors.NotWaystation: NO_ANSWER,
}
EPILOGUE = """Set WAYSTATION_URL to the server's address and WAYSTATION_TOKEN to an API token.

Exit codes: 0 done; 1 refused, as things stand; 2 wrong usage; 3 the token may not; 4 there is
nothing of this id; 5 no answer from the server; 6 what `tail` followed did not complete."""
BAD_ENDS = {"run_failed", "run_cancelled", "run_expired"}
ENDS = {"run_completed", *BAD_ENDS}


class WrongUsage(Exception):
    """The words of the command cannot be carried out."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="waystation",
        description="Questions that wait for people, and work, on a Waystation server.",
        epilog=EPILOGUE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--url", help="instead of WAYSTATION_URL")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print what the server says, as JSON")
    answers = argparse.ArgumentParser(add_help=False)
    answers.add_argument("--revision", type=int, help="the revision that you looked at")
    answers.add_argument("--digest", help="the digest that you looked at")
    answers.add_argument("--input", help="the data asked for: JSON, @FILE, or - for the input")
    answers.add_argument("--stage", default="", help="the stage of the review that you answer")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, about: str, *more: argparse.ArgumentParser) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=about, description=about, parents=[shared, *more])

    inbox = add("inbox", "List the questions that wait for you.")
    inbox.add_argument("words", nargs="*", metavar="NAME=VALUE", help="such as due=overdue q=mail")
    show = add("show", "Show a question, an order, or a run of yours.")
    show.add_argument("id")
    for name, about in (("approve", "Approve."), ("revise", "Send it back with words.")):
        command = add(name, about, answers)
        command.add_argument("id", help="pse_…")
        command.add_argument("feedback", nargs="?" if name == "approve" else None, default="")
    cancel = add("cancel", "Answer a question with cancel, or end an order or a run.", answers)
    cancel.add_argument("id", help="pse_…, wo_… or run_…")
    cancel.add_argument("feedback", nargs="?", default="", help="why")
    answer = add("answer", "Give data, or an answer of the question's own.", answers)
    answer.add_argument("id", help="pse_…")
    answer.add_argument("decision", nargs="?", default="answer")
    answer.add_argument("--feedback", default="")
    tail = add("tail", "Follow an order, a run, a thread, or a run of yours.")
    tail.add_argument("id")
    tail.add_argument("--after", type=int, default=0, help="the number of the last event you have")
    start = add("start", "Start a work order.")
    start.add_argument("template")
    start.add_argument("--input", help="JSON, @FILE, or - for the input")
    start.add_argument("--title", default="")
    start.add_argument("--request", default="", help="what is asked for, in words")
    start.add_argument("--repository", default="", help="the repository's address")
    start.add_argument("--team")
    start.add_argument("--key", help="the same key makes the order once")
    return made


def main(words: list[str] | None = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    options = parser().parse_args(words)
    try:
        with Waystation(options.url) as waystation:
            return COMMANDS[options.command](waystation, options)
    except (WrongUsage, ValueError) as error:  # no address, no token, an id that names nothing
        return complain(options, str(error), USAGE)
    except errors.Refused as refused:
        told = [f"{name}: {wrong}" for name, wrong in refused.errors.items()]
        code = next((code for kind, code in CODES.items() if isinstance(refused, kind)), REFUSED)
        return complain(options, "\n".join([str(refused), *told]), code, refused.problem)
    except errors.WaystationError as error:
        code = next((code for kind, code in CODES.items() if isinstance(error, kind)), REFUSED)
        return complain(options, str(error), code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `waystation tail … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def complain(
    options: argparse.Namespace, words: str, code: int, problem: dict[str, Any] | None = None
) -> int:
    told = json.dumps(problem or {"detail": words}) if options.json else terminal.plain(words)
    sys.stderr.write(f"{told}\n")
    return code


def say(options: argparse.Namespace, found: Any, lines: Iterable[str]) -> None:
    """Print JSON, or lines for people."""
    told = json.dumps(found, indent=2) if options.json else terminal.plain("\n".join(lines))
    sys.stdout.write(f"{told}\n")


def inbox(waystation: Waystation, options: argparse.Namespace) -> int:
    words = dict(word.split("=", 1) for word in options.words if "=" in word)
    if len(words) < len(options.words):
        raise WrongUsage("Say each filter once, as name=value: due=overdue.")
    pauses = list(waystation.inbox(**words))
    nothing = "Nothing fits." if words else "Nothing waits for you."
    say(options, pauses, map(terminal.row, pauses) if pauses else [nothing])
    return DONE


def show(waystation: Waystation, options: argparse.Namespace) -> int:
    if options.id.startswith("pse_"):
        pause = waystation.question(options.id)
        say(options, pause, terminal.question(pause))
    elif options.id.startswith("wo_"):
        order = waystation.order(options.id)
        say(options, order, terminal.order(order))
    else:
        workflow = waystation.send(operations.get_workflow(options.id))
        say(options, workflow, terminal.workflow(workflow))
    return DONE


def approve(waystation: Waystation, options: argparse.Namespace) -> int:
    return decide(waystation, options, "approve")


def revise(waystation: Waystation, options: argparse.Namespace) -> int:
    return decide(waystation, options, "revise")


def answer(waystation: Waystation, options: argparse.Namespace) -> int:
    return decide(waystation, options, options.decision)


def cancel(waystation: Waystation, options: argparse.Namespace) -> int:
    if options.id.startswith("pse_"):
        return decide(waystation, options, "cancel")
    if options.id.startswith("wo_"):
        waystation.cancel(options.id, options.feedback)
    else:
        waystation.send(operations.cancel_run(options.id))
    say(options, {"cancelled": options.id}, [f"{options.id} was cancelled."])
    return DONE


def decide(waystation: Waystation, options: argparse.Namespace, decision: str) -> int:
    """Answer exactly what was looked at: named by its revision or digest, or shown now."""
    data = json_of(options.input)
    seen = waystation.question(options.id)
    if options.revision is None and options.digest is None:
        look_at(seen, decision)
    for name, given, present in (
        ("revision", options.revision, seen["revision"]),
        ("digest", options.digest, seen["content_digest"]),
    ):
        if given is not None and given != present:
            words = f"{seen['id']} has {name} {present} by now, not {given}. Nothing was answered."
            return complain(options, words, REFUSED)
    made = waystation.answer(
        seen, decision, feedback=options.feedback, data=data, stage=options.stage
    )
    say(options, made, [told_of(made, seen, decision)])
    return DONE


def told_of(
    made: models.DecisionOut | models.VotedOut, seen: models.PauseOut, decision: str
) -> str:
    if "quorum" in made:  # a vote; others must approve too
        voted = cast(models.VotedOut, made)
        return f"Your vote on {seen['id']} counts: {voted['votes']} of {voted['quorum']}."
    return f"{seen['id']} was answered: {decision}."


def look_at(seen: models.PauseOut, decision: str) -> None:
    """Show the question and ask; a program names what it looked at."""
    if not sys.stdin.isatty():
        raise WrongUsage(
            f"Name what you looked at: --revision {seen['revision']}, after `waystation show"
            f" {seen['id']}`. Nothing was answered."
        )
    sys.stderr.write(terminal.plain("\n".join(terminal.question(seen))))
    sys.stderr.write(f"\nAnswer {decision}? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise WrongUsage("Nothing was answered.")


def tail(waystation: Waystation, options: argparse.Namespace) -> int:
    last = ""
    for event in waystation.events(options.id, after=options.after):
        last = event["event"] if event["event"] in ENDS else last
        told = json.dumps(event) if options.json else terminal.plain(terminal.event(event))
        sys.stdout.write(f"{told}\n")
        sys.stdout.flush()
    return FAILED if last in BAD_ENDS else DONE


def start(waystation: Waystation, options: argparse.Namespace) -> int:
    given = {
        "title": options.title,
        "user_request": options.request,
        "repository_url": options.repository,
        "input": json_of(options.input),
        "team": options.team,
    }
    more = {name: value for name, value in given.items() if value}
    body: models.WorkOrderIn = {"template": options.template, **more}  # type: ignore[typeddict-item]
    order = waystation.start(idempotency_key=options.key, **body)
    say(options, order, [order["id"]])
    return DONE


def json_of(text: str | None) -> Any:
    """What `--input` says."""
    if text is None:
        return None
    try:
        if text == "-":
            return json.load(sys.stdin)
        return json.loads(Path(text[1:]).read_text("utf-8") if text.startswith("@") else text)
    except OSError as error:
        raise WrongUsage(f"--input cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise WrongUsage(f"--input is no JSON: {error}") from error


COMMANDS = {
    "inbox": inbox,
    "show": show,
    "approve": approve,
    "revise": revise,
    "cancel": cancel,
    "answer": answer,
    "tail": tail,
    "start": start,
}

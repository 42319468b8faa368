from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints import ids
from checkpoints.checks import OURS
from checkpoints.database.people import User, active
from checkpoints.management.shown import PlainCommand
from checkpoints.store import CheckpointDamaged
from hitl.decisions import services, voting
from hitl.decisions.reviewers import policy
from hitl.find import shell
from hitl.find.orders import ORDERS
from hitl.find.shell import MOST
from hitl.models import Via, Vote
from runs import services as runs
from runs.definitions import TemplateInvalid, TemplateNotFound
from runs.definitions.readiness import CannotRun
from runs.definitions.rights import NotPermitted
from runs.git.sources import BadSource
from runs.models import WorkOrder
from runs.services import InputInvalid, OrdersStopped
from runs.states import RunEnded
from runs.workflows.sequence import APPROVE
from runs.workflows.wait_for_input import ANSWER

REFUSALS = (
    services.NotFound,
    services.AnswerInvalid,
    services.AlreadyAnswered,
    services.NotPaused,
    services.RevisionMismatch,
    services.SeveralQuestions,
    policy.NotAllowed,
    policy.NotNow,
    CheckpointDamaged,
    RunEnded,
    InputInvalid,
    OrdersStopped,
    NotPermitted,
    CannotRun,
    TemplateInvalid,
    TemplateNotFound,
    BadSource,
)


DONE = {
    "approve": "Recorded; the run goes on.",
    "revise": "Recorded; the step runs again with your feedback.",
    "cancel": "Cancelled.",
}


def _meant(action: str, order: WorkOrder) -> str:
    """Of a question that is for data alone, `approve --input` is the answer."""
    pause = services.open_pause(order)
    data = pause is not None and APPROVE not in pause.answers and ANSWER in pause.answers
    return ANSWER if action == APPROVE and data else action


class Command(PlainCommand):
    help = (
        "Make, list, show and answer work orders from the shell, as a user: workorder "
        "create|list|show|approve|revise|cancel."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", required=True, help="act as this user")
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="make a work order and start it; prints its id")
        create.add_argument("repository", nargs="?", default="")
        create.add_argument(
            "--template",
            default="",
            help="left out, the repository's own; without one, those there are are listed",
        )
        create.add_argument("--title", default="")
        create.add_argument("--request", default="")
        create.add_argument("--input", default="{}", help="a JSON object")
        listing = actions.add_parser(
            "list", help="the newest orders that the user may see, one a line"
        )
        listing.add_argument("--limit", type=int, default=20, help=f"how many, up to {MOST} (20)")
        listing.add_argument("words", nargs="*", metavar="NAME=VALUE", help="such as status=failed")
        actions.add_parser("show", help="status, phase and the open question").add_argument("order")
        for action in ("approve", "revise", "cancel"):
            answer = actions.add_parser(action)
            answer.add_argument("order")
            answer.add_argument(
                "--pause", help="refuse unless this is the open question, as `show` names it"
            )
            if action != "cancel":
                answer.add_argument(
                    "--revision", type=int, help="refuse unless this is the open revision"
                )
            if action == "revise":
                answer.add_argument("feedback")
            else:
                answer.add_argument(
                    "--reason",
                    default="",
                    help="kept with the answer; the rules of some steps ask for one",
                )
            if action == "approve":
                answer.add_argument(
                    "--input", help="a JSON object: the data that the question asks for"
                )

    def handle(self, *args: Any, **options: Any) -> None:
        user = active(options["user"])
        if user is None:
            raise CommandError(f"There is no active user {options['user']!r}.")
        try:
            if options["action"] == "create":
                self._create(user, options)
            elif options["action"] == "list":
                self._list(user, options["words"], limit=options["limit"])
            else:
                self._on_order(user, options)
        except REFUSALS as error:
            raise CommandError(str(error)) from error

    def _create(self, user: User, options: dict[str, Any]) -> None:
        values = self._object("--input", options["input"])
        order = runs.submit(
            options["template"],
            by=user,
            title=options["title"],
            request=options["request"],
            input=values,
            repository_url=options["repository"],
        )
        self.stdout.write(order.shown_id)

    def _list(self, user: User, words: list[str], *, limit: int) -> None:
        found = shell.lines(ORDERS.name, words, by=user, limit=limit)
        for line in found or ["No work orders."]:
            self.stdout.write(line)

    def _object(self, name: str, text: str) -> dict[str, Any]:
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CommandError(f"{name} is no JSON: {error}") from error
        if not isinstance(values, dict):
            raise CommandError(f'{name} is a JSON object, such as \'{{"rules": "F401"}}\'.')
        return values

    def _on_order(self, user: User, options: dict[str, Any]) -> None:
        try:
            order_id = ids.parse("wo", options["order"])
        except ValueError as error:
            raise CommandError(str(error)) from error
        action = options["action"]
        if action == "show":
            self._show(services.look_at_order(order_id, by=user))
        elif action == "cancel" and options["pause"] is None:
            services.cancel_order(order_id, by=user, via=Via.COMMAND, reason=options["reason"])
            self.stdout.write("Cancelled.")
        else:
            revision, feedback = (
                options.get("revision"),
                options.get("feedback") or options.get("reason") or "",
            )
            payload = self._object("--input", options["input"]) if options.get("input") else None
            answer = services.Answer(
                _meant(action, services.look_at_order(order_id, by=user)),
                Via.COMMAND,
                feedback=feedback,
                revision=revision,
                payload=payload,
            )
            given = services.answer_order(order_id, answer, by=user, pause_id=options["pause"])
            self.stdout.write(
                f"{voting.words(given).capitalize()}." if isinstance(given, Vote) else DONE[action]
            )

    def _show(self, order: WorkOrder) -> None:
        pause = services.open_pause(order)
        facts = {
            "id": order.shown_id,
            "title": order.title,
            "status": order.status,
            "phase": order.phase,
            "repository": order.repository_url,
            "branch": order.branch,
            "error": order.latest_run.error if order.latest_run else "",
            "commits": order.outputs.get("git_commit_count", 0),
            "conclusion": order.outputs.get("conclusion", ""),
            "question": f"{pause.question} (revision {pause.revision})" if pause else "",
            "pause": pause.shown_id if pause else "",
        }
        for name, value in facts.items():
            if value != "":
                self.stdout.write(f"{name:<11} {value}")
        if pause:
            self.stdout.write(f"\n{pause.content}")

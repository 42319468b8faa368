"""What becomes of the rows about people: how they are exported, kept and erased."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Q

from checkpoints import registry, store
from checkpoints.models.fields import demand
from checkpoints.registry import Rows, Table
from checkpoints.state import codec
from hitl.models import (
    Comment,
    Decision,
    Delegation,
    EarlyAnswer,
    Erasure,
    Import,
    LangGraphRun,
    LangGraphTag,
    LangGraphThread,
    Mention,
    OuterRun,
    Presence,
    SeenFile,
    Snooze,
    StartDelivery,
    Vote,
    Wait,
)
from hitl.models.outbound import Delivery, Endpoint, InboundMail, Link
from runs.threads import tables as machine


def _take_words(decisions: Rows, erasure: Any) -> None:
    """A decision keeps its place in the ledger, who took it, when, and its digest."""
    decisions.update(**Decision.ERASED, erasure=erasure)


def _evidence(decision: Decision) -> Iterable[str]:
    """What its reviewer was shown; one that was erased holds none any more."""
    return [decision.evidence] if decision.evidence and decision.erasure_id is None else []


def _imported(row: Import) -> Iterable[str]:
    """The patches and evidence that imported questions and decisions name."""
    return store.DIGEST.findall(codec.encode(demand(row.source)))


def _forget_start(deliveries: Rows, erasure: Any) -> None:
    """The message keeps its id, so that it starts nothing again."""
    deliveries.update(order=None)


TABLES = (
    Table(
        model=StartDelivery,
        kind="start_deliveries",
        of=lambda threads: StartDelivery.objects.filter(order__thread__in=threads),
        unexported="It is a message that came to this server.",
        erase=_forget_start,
    ),
    Table(
        model=Decision,
        kind="decisions",
        of=lambda threads: Decision.objects.filter(pause__run__thread__in=threads),
        section="decisions",
        references=_evidence,
        referring=lambda rows: rows.only("evidence", "erasure"),
        erase=_take_words,
        named=True,
    ),
    Table(
        model=Vote,
        kind="votes",
        of=lambda threads: Vote.objects.filter(pause__run__thread__in=threads),
        section="pauses",
    ),
    Table(
        model=Mention,
        kind="mentions",
        of=lambda threads: Mention.objects.filter(comment__pause__run__thread__in=threads),
        section="pauses",
    ),
    Table(
        model=Comment,
        kind="comments",
        of=lambda threads: Comment.objects.filter(pause__run__thread__in=threads),
        section="pauses",
        named=True,
    ),
    Table(
        model=Delegation,
        kind="handed_over",
        of=lambda threads: Delegation.objects.filter(pause__run__thread__in=threads),
        unexported="It lets somebody answer here, and nowhere else.",
    ),
    Table(
        model=Snooze,
        kind="snoozes",
        of=lambda threads: Snooze.objects.filter(pause__run__thread__in=threads),
        unexported="It is about one person's inbox here.",
    ),
    Table(
        model=Presence,
        kind="presences",
        of=lambda threads: Presence.objects.filter(pause__run__thread__in=threads),
        unexported="It says who looks at a page at this moment.",
    ),
    Table(
        model=InboundMail,
        kind="inbound_mails",
        of=lambda threads: InboundMail.objects.filter(link__pause__run__thread__in=threads),
        unexported="It is a mail that came to this server.",
    ),
    Table(
        model=SeenFile,
        kind="seen_files",
        of=lambda threads: SeenFile.objects.filter(thread__in=threads),
        unexported="It is about what one person has looked at here.",
    ),
    Table(
        model=Link,
        kind="links",
        of=lambda threads: Link.objects.filter(pause__run__thread__in=threads),
        unexported="It lets somebody answer here, and nowhere else.",
    ),
    Table(
        model=Delivery,
        kind="deliveries",
        of=lambda threads: Delivery.objects.filter(
            Q(pause__run__thread__in=threads) | Q(run__thread__in=threads)
        ),
        unexported="It is a message that this server sent or is to send.",
    ),
    Table(
        model=Endpoint,
        kind="endpoints",
        of=lambda threads: Endpoint.objects.filter(thread__in=threads),
        unexported="It holds the secret of whom this server calls.",
    ),
    Table(
        model=EarlyAnswer,
        kind="early_answers",
        of=lambda threads: EarlyAnswer.objects.filter(thread__in=threads),
        unexported="It waits for a question that only a run of this server can ask.",
    ),
    Table(
        model=Wait,
        kind="waits",
        of=lambda threads: Wait.objects.filter(outer__thread__in=threads),
        unexported="It belongs to another engine's run, which waits here; its question is a pause.",
    ),
    Table(
        model=OuterRun,
        kind="outer_runs",
        of=lambda threads: OuterRun.objects.filter(thread__in=threads),
        unexported="It is another engine's run, which knows this server alone.",
    ),
    Table(
        model=LangGraphTag,
        kind="langgraph_tags",
        of=lambda threads: LangGraphTag.objects.filter(thread__in=threads),
        unexported="It is made of the metadata of a client that knows this server's address.",
    ),
    Table(
        model=LangGraphThread,
        kind="langgraph_threads",
        of=lambda threads: LangGraphThread.objects.filter(thread__in=threads),
        unexported="It is the id and the metadata of a client that knows this server's address.",
    ),
    Table(
        model=LangGraphRun,
        kind="langgraph_runs",
        of=lambda threads: LangGraphRun.objects.filter(thread__in=threads),
        unexported="It is what a client said of a run under an id of this server's.",
    ),
    Table(
        model=Import,
        kind="imports",
        of=lambda threads: Import.objects.filter(thread__in=threads),
        section="decisions",
        references=_imported,
        referring=lambda rows: rows.only("source"),
    ),
)
registry.register(TABLES, above=machine.TABLES)
registry.stays(Erasure, "It says that the thread was erased, by whom and why.")

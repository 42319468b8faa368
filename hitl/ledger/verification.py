"""Whether the ledger is as it was written: every chain from its first decision to its tip, what its
reviewers were shown, and its anchors.

It reads row after row, so it needs no more memory for a million decisions than for a hundred. What
it cannot find by itself is a ledger that somebody wrote anew from end to end, anchors too: that
does not fit an anchor that was kept elsewhere (`against`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from django.db.models import QuerySet

from checkpoints import store
from checkpoints.models import Blob, append_only
from checkpoints.models.fields import Locked
from hitl.ledger import evidence
from hitl.ledger.triggers import guards
from hitl.models import Anchor, Decision, Ledger, Vote

PAGE = 200


@dataclass(frozen=True)
class Breach:
    """Something that is not as it was written."""

    code: str
    ledger: str
    position: int | None
    id: str
    words: str


@dataclass
class LedgerCheck:
    """`breaches` says what is wrong; `looked_at` then counts what was read.

    Args:
        ledger: only this chain; "" for all.
        against: lines of `Anchor` that were kept elsewhere; those of other ledgers are passed over.
    """

    ledger: str = ""
    against: Sequence[str] = ()
    looked_at: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("ledgers", "decisions", "evidence", "anchors"), 0)
    )

    def breaches(self) -> Iterator[Breach]:
        for guard in guards():
            if append_only.missing(guard):
                yield Breach(
                    "unguarded",
                    "",
                    None,
                    guard.table,
                    f"The triggers that keep {guard.table} append-only are not there; migrate.",
                )
        held = [
            kept
            for kept in map(_kept, self.against)
            if not self.ledger or kept.ledger == self.ledger
        ]
        seen = set()
        for ledger in (
            Ledger.objects.filter(**({"pk": self.ledger} if self.ledger else {}))
            .order_by("pk")
            .iterator()
        ):
            seen.add(ledger.pk)
            self.looked_at["ledgers"] += 1
            yield from self._chain(
                ledger, {kept.position: kept for kept in held if kept.ledger == ledger.pk}
            )
        for kept in held:
            if kept.ledger not in seen:
                yield Breach(
                    "ledger_missing",
                    kept.ledger,
                    kept.position,
                    "",
                    f"The ledger of the kept anchor {kept.line!r} is not there.",
                )

    def _chain(self, ledger: Ledger, held: Mapping[int, KnownAnchor]) -> Iterator[Breach]:
        tip, position, end = "", 0, ledger
        anchors = _Anchors(ledger, held)
        decisions = (
            Decision.objects.filter(ledger=ledger)
            .order_by("position", "pk")
            .select_related("erasure", "ledger")
        )
        rows = decisions.iterator(chunk_size=PAGE)
        while page := list(islice(rows, PAGE)):
            yield from self._evidence(page)
            yield from self._votes(page)
            for decision in page:
                self.looked_at["decisions"] += 1
                yield from _place(decision, position, tip)
                yield from anchors.at(decision.position, decision.digest)
                # the end as this query sees it: others may have decided since the first look
                position, tip, end = decision.position, decision.digest, decision.ledger
        yield from anchors.rest(position)
        self.looked_at["anchors"] += anchors.count
        if (end.length, end.tip) != (position, tip):
            message = (
                f"The chain ends at {position}, {tip[:12] or 'nothing'}; the ledger says "
                f"{end.length}, {end.tip[:12] or 'nothing'}."
            )
            yield Breach("end_is_another", ledger.pk, position, "", message)

    def _votes(self, page: Sequence[Decision]) -> Iterator[Breach]:
        """The votes that some decisions name, in one query."""
        voted = [decision for decision in page if decision.votes and decision.erasure_id is None]
        if not voted:
            return
        cast = {
            vote.digest: vote
            for vote in Vote.objects.filter(pause__in=[decision.pause_id for decision in voted])
        }
        for decision in voted:
            for digest in decision.votes:
                vote = cast.get(digest)
                if vote is None:
                    yield _breach(
                        "vote_missing", decision, f"A vote that it names, {digest[:12]}, is gone."
                    )
                elif vote.pause_id != decision.pause_id or vote.compute_digest() != digest:
                    yield _breach(
                        "vote_rewritten",
                        decision,
                        f"{vote.shown_id} was changed after it was written.",
                    )

    def _evidence(self, page: Sequence[Decision]) -> Iterator[Breach]:
        """What the reviewers of some decisions were shown, in one query."""
        wanted = {
            decision.evidence
            for decision in page
            if decision.evidence and decision.erasure_id is None
        }
        blobs = Blob.objects.in_bulk(wanted)
        for decision in page:
            if not decision.evidence or decision.erasure_id is not None:
                continue
            self.looked_at["evidence"] += 1
            if decision.evidence not in blobs:
                yield _breach("evidence_missing", decision, "What the reviewer was shown is gone.")
                continue
            try:
                document = evidence.read(store.content_of(blobs[decision.evidence]))
            except store.CheckpointDamaged as error:
                yield _breach("evidence_rewritten", decision, str(error))
                continue
            if (document["content_digest"], document["revision"]) != (
                decision.content_digest,
                decision.revision,
            ):
                yield _breach(
                    "evidence_of_another",
                    decision,
                    "What is kept as shown is of another content or revision.",
                )


def _breach(code: str, decision: Decision, message: str) -> Breach:
    return Breach(code, decision.ledger_id, decision.position, decision.shown_id, message)


def _place(decision: Decision, before: int, tip: str) -> Iterator[Breach]:
    """Whether a decision is what it was, and where it was."""
    if decision.position > before + 1:
        gone = (
            f"{before + 1}"
            if decision.position == before + 2
            else f"{before + 1} to {decision.position - 1}"
        )
        yield _breach("decision_missing", decision, f"Before it {gone} is missing.")
    elif decision.position < before + 1:
        yield _breach(
            "position_twice", decision, "Its position is another decision's too, or none."
        )
    if decision.previous != tip:
        yield _breach(
            "unlinked", decision, "It names another digest than that of the decision before it."
        )
    if isinstance(decision.feedback, Locked) or isinstance(decision.payload, Locked):
        yield _breach(
            "unreadable",
            decision,
            "Its words are encrypted with a key that is missing here, or damaged.",
        )
    elif not decision.intact:
        why = (
            "its erasure does not vouch for it"
            if decision.erasure_id
            else "it was changed after it was written"
        )
        yield _breach("rewritten", decision, f"Its digest is not that of what it says: {why}.")


@dataclass(frozen=True)
class KnownAnchor:
    """An anchor that somebody kept elsewhere."""

    line: str
    ledger: str
    position: int
    tip: str


class BadAnchor(Exception):
    """A line is none of an anchor's."""


def _kept(line: str) -> KnownAnchor:
    parts = line.split()
    if len(parts) != 5 or not (parts[2].isascii() and parts[2].isdecimal()) or len(parts[3]) != 64:
        raise BadAnchor(
            f"{line[:100]!r} is no anchor: day, ledger, position, tip and digest are expected."
        )
    return KnownAnchor(line, parts[1], int(parts[2]), parts[3])


class _Anchors:
    """The anchors of a ledger, met while its decisions go by."""

    def __init__(self, ledger: Ledger, held: Mapping[int, KnownAnchor]) -> None:
        rows: QuerySet[Anchor] = Anchor.objects.filter(ledger=ledger).order_by("day")
        self._rows = rows.iterator(chunk_size=PAGE)
        self._next = next(self._rows, None)
        self._held, self._ledger = dict(held), ledger
        self._before: Anchor | None = None
        self.count = 0

    def at(self, position: int, digest: str) -> Iterator[Breach]:
        """The anchors up to a decision's position."""
        if (kept := self._held.pop(position, None)) and kept.tip != digest:
            yield self._breach(
                "anchor_of_another",
                position,
                kept.line,
                "was kept elsewhere and has another digest at its position",
            )
        while self._next is not None and self._next.position <= position:
            yield from self._own(self._next)
            if self._next.position != position or self._next.tip != digest:
                yield self._breach(
                    "anchor_of_another",
                    self._next.position,
                    str(self._next),
                    "has another digest at its position",
                )
            self._step()

    def rest(self, position: int) -> Iterator[Breach]:
        """Those that are beyond the chain's end."""
        for kept in self._held.values():
            yield self._breach(
                "anchor_beyond",
                kept.position,
                kept.line,
                f"was kept elsewhere, and the chain ends at {position}",
            )
        while self._next is not None:
            yield from self._own(self._next)
            yield self._breach(
                "anchor_beyond",
                self._next.position,
                str(self._next),
                f"is beyond the chain's end at {position}",
            )
            self._step()

    def _own(self, anchor: Anchor) -> Iterator[Breach]:
        if anchor.digest != anchor.compute_digest():
            yield self._breach(
                "anchor_rewritten", anchor.position, str(anchor), "was changed after it was written"
            )
        if anchor.previous != (self._before.digest if self._before else ""):
            yield self._breach(
                "anchor_unlinked",
                anchor.position,
                str(anchor),
                "does not follow the anchor before it",
            )

    def _step(self) -> None:
        self._before, self._next = self._next, next(self._rows, None)
        self.count += 1

    def _breach(self, code: str, position: int, line: str, message: str) -> Breach:
        return Breach(
            code, self._ledger.pk, position, line.split()[0], f"The anchor {line!r} {message}."
        )

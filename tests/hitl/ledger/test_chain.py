"""The ledger: append-only at the database, and verifiable: P11."""

from __future__ import annotations

import datetime as dt
import json
from io import StringIO
from typing import Any

import pytest
from django.apps.registry import Apps
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, models, transaction
from django.test import override_settings
from django.utils import timezone

from checkpoints.models import Blob, append_only
from checkpoints.security import key_rotation
from checkpoints.state import codec, encryption
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.ledger import anchors, evidence, triggers, verification
from hitl.models import Anchor, Decision, Erasure, Ledger, Via
from hitl.threads import erasure
from runs import retention
from runs import services as runs
from runs.models import Pause
from tests.conftest import ROWS, drive, fresh, pause_of
from tests.databases import cleaning
from tests.databases.encryption_keys import NEW, keys
from tests.databases.undone import undone

pytestmark = pytest.mark.django_db

COLUMNS = [field.name for field in Decision._meta.concrete_fields]
TODAY = dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)


def answer(order, by, action="approve", feedback=""):
    decision = services.decide(
        pause_of(order).pk, Answer(action, Via.PAGE, feedback=feedback), by=by
    )
    drive(order)
    return decision


def breaches(**options):
    return [breach.code for breach in verification.LedgerCheck(**options).breaches()]


def verify(*words):
    """(exit code, output)"""
    out = StringIO()
    try:
        call_command("verify_ledger", *words, stdout=out)
    except SystemExit as ended:
        return ended.code, out.getvalue()
    return 0, out.getvalue()


@pytest.fixture(scope="module", autouse=True)
def order(django_db_setup, django_db_blocker, tmp_path_factory):
    """An order with four decisions in one ledger, for all tests here, each of which is taken back
    itself.
    """
    here = override_settings(WAYSTATION_DATA=tmp_path_factory.mktemp("ledger"))
    with django_db_blocker.unblock(), here, undone():
        cleaning.STANDING.update({name: make() for name, make in ROWS.items()})
        ana, ben, team = (cleaning.STANDING[name] for name in ("ana", "ben", "team"))
        made = drive(runs.submit("writing", by=ana, team=team))
        for by, action, words in (
            (ana, "revise", "Shorter"),
            (ben, "approve", ""),
            (ana, "approve", ""),
            (ben, "approve", ""),
        ):
            answer(made, by, action, words)
        connection.check_constraints()  # else PostgreSQL truncates no table before that
        yield fresh(made)
    cleaning.STANDING.clear()


@pytest.fixture
def chain(db, order):
    """Its decisions."""
    assert order.status == "completed"
    return list(Decision.objects.order_by("position"))


# Refused by the database


def test_the_database_refuses_to_change_or_delete_any_row(chain, zoe):
    """P11: through the ORM as through anything else that sends SQL."""
    anchors.drop_due(now=TODAY)
    Erasure.objects.create(
        thread_id=chain[0].pk, reason="x", erased_at=TODAY, counts={}, decisions=[]
    )
    for model in (Decision, Anchor, Erasure):
        for act in (lambda rows: rows.update(digest="0" * 64), lambda rows: rows.delete()):
            with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
                act(model.objects.all())


def test_no_column_of_a_decision_can_be_changed(chain, zoe):
    for name in COLUMNS:
        with pytest.raises(IntegrityError), transaction.atomic():
            Decision.objects.filter(pk=chain[1].pk).update(**{name: another(chain[1], name, zoe)})


def another(decision, name, zoe) -> Any:
    """Another value of a column, of its kind."""
    field = Decision._meta.get_field(name)
    match field:
        case models.ForeignKey():
            found = {"pause": Pause, "undoes": Decision, "ledger": Ledger}.get(name)
            if name in {"decided_by", "on_behalf_of"}:
                return zoe
            if name == "ledger":
                return Ledger.objects.get_or_create(name="user:9")[0]
            if name == "erasure":
                return Erasure.objects.create(
                    thread_id=decision.pk, reason="x", erased_at=TODAY, counts={}, decisions=[]
                )
            return (
                found.objects.exclude(pk=getattr(decision, field.attname))
                .exclude(pk=decision.pk)
                .first()
            )
        case models.UUIDField():
            return type(decision)().pk
        case models.BooleanField():
            return not getattr(decision, name)
        case models.DateTimeField():
            return TODAY
        case models.PositiveIntegerField() | models.PositiveBigIntegerField():
            return 77
    return {"payload": {"x": 1}, "votes": ["0" * 64]}.get(name, "changed")


def test_a_ledger_is_neither_deleted_nor_shortened(chain):
    for act in (
        lambda rows: rows.delete(),
        lambda rows: rows.update(length=3),
        lambda rows: rows.update(name="team:x"),
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            act(Ledger.objects.all())


@pytest.mark.skipif("connection.vendor == 'postgresql'")
def test_a_row_is_not_replaced_by_sqlite_s_own_words(chain):
    columns = ", ".join(f'"{field.column}"' for field in Decision._meta.concrete_fields)
    with (
        pytest.raises(IntegrityError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(
            f"INSERT OR REPLACE INTO hitl_decision ({columns}) SELECT {columns} FROM "
            "hitl_decision WHERE position = 2"
        )


@pytest.mark.skipif("connection.vendor != 'postgresql'")
def test_a_table_is_not_truncated(db):
    with (
        pytest.raises(IntegrityError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute("TRUNCATE hitl_decision CASCADE")


def test_an_erasure_takes_the_words_and_nothing_else(chain, order):
    decision = chain[0]
    given = Erasure.objects.create(
        thread_id=decision.pk, reason="x", erased_at=TODAY, counts={}, decisions=[]
    )
    with pytest.raises(IntegrityError), transaction.atomic():
        Decision.objects.filter(pk=decision.pk).update(
            **Decision.ERASED, erasure=given, decided_at=TODAY
        )
    erasure.erase(order.thread_id, by="dpo", reason="Asked for")
    assert breaches() == []
    with pytest.raises(IntegrityError), transaction.atomic():
        Decision.objects.filter(pk=decision.pk).update(erasure=given)


def test_keys_may_be_rotated_and_the_chain_holds(chain):
    """What lies there changes, what it says does not; and the door is shut again."""
    with keys(NEW):
        assert (
            sum(
                found.count
                for found in key_rotation.rotate(dry_run=False)
                if found.column == "hitl_decision.feedback"
            )
            == 1
        )
        with connection.cursor() as cursor:
            cursor.execute("SELECT feedback FROM hitl_decision WHERE feedback <> ''")
            assert cursor.fetchone()[0].startswith(encryption.MARK)
            cursor.execute("SELECT count(*) FROM checkpoints_guard")
            assert cursor.fetchone()[0] == 0
        assert breaches() == []
        with pytest.raises(IntegrityError), transaction.atomic():
            Decision.objects.filter(pk=chain[0].pk).update(feedback="x")


def test_guards_are_made_again_where_they_are_missing(chain, unguarded):
    assert set(breaches()) == {"unguarded"}
    triggers.install()
    assert breaches() == []


def test_migrations_work_without_guards_and_leave_them_behind(chain):
    """Nothing to do takes nothing off; older tables have nothing to guard."""
    triggers.take_off(plan=[])
    assert breaches() == []
    triggers.take_off(plan=["0099_more"])
    Decision.objects.filter(pk=chain[0].pk).update(via="rest")
    triggers.install(apps=Apps())
    assert {"unguarded", "rewritten"} <= set(breaches())
    triggers.install()
    assert breaches() == ["rewritten"]


def test_installing_again_is_one_query(db, django_assert_num_queries):
    with django_assert_num_queries(1):
        triggers.install()


# Found by verify_ledger


def test_an_untouched_ledger_is_whole(chain):
    anchors.drop_due(now=TODAY)
    code, out = verify()
    assert (code, out) == (
        0,
        "Checked 1 ledgers, 4 decisions, 4 evidence, 1 anchors: all as they were written.\n",
    )


def test_who_decides_while_it_is_looked_at_is_no_breach(chain, make_order, ana, monkeypatch):
    """Its end was read before its decisions: a ledger in use was told as cut or continued."""
    waits, look = drive(make_order()), verification.LedgerCheck._chain

    def decided_meanwhile(check, ledger, held):
        answer(waits, ana)
        return look(check, ledger, held)

    monkeypatch.setattr(verification.LedgerCheck, "_chain", decided_meanwhile)
    assert breaches() == []


@pytest.mark.usefixtures("unguarded")
def test_each_column_that_was_changed_is_found(chain, zoe):
    """P11: every column that says something, and words at the beginning and at the end too."""
    together: dict[str, dict[str, Any]] = {
        "undoes": {"action": "undo"},
        "factor": {"factor_at": TODAY},
        "factor_at": {"factor": "totp"},
        "external": {"decided_by": None, "via": "link"},
        "data_only": {"decided_by": None, "via": "link", "external": "x", "action": "answer"},
    }  # what the constraints let go alone with it
    for name in set(COLUMNS) - {"id", "erasure"}:
        for decision in chain if name == "feedback" else chain[1:2]:
            change = {name: another(decision, name, zoe), **together.get(name, {})}
            with transaction.atomic():
                if name == "pause":
                    Decision.objects.filter(pause=change["pause"]).delete()
                Decision.objects.filter(pk=decision.pk).update(**change)
                assert {breach.id for breach in verification.LedgerCheck().breaches()} & {
                    decision.shown_id
                }, name
                transaction.set_rollback(True)


@pytest.mark.usefixtures("unguarded")
def test_a_deleted_decision_is_found(chain):
    for at, decision in enumerate(chain):
        with transaction.atomic():
            Decision.objects.filter(pk=decision.pk).delete()
            found = set(breaches()) - {"unguarded"}
            assert (
                ({"decision_missing", "unlinked"} <= found)
                if at < 3
                else found == {"end_is_another"}
            )
            transaction.set_rollback(True)


@pytest.mark.usefixtures("unguarded")
def test_decisions_in_another_order_are_found(chain):
    one, other = chain[1], chain[2]
    Decision.objects.filter(pk=one.pk).update(position=99)
    Decision.objects.filter(pk=other.pk).update(position=one.position)
    Decision.objects.filter(pk=one.pk).update(position=other.position)
    assert {"unlinked", "rewritten"} <= set(breaches())


def cut_off(chain):
    """The newest decision is gone, and the ledger says that there was none."""
    Decision.objects.filter(pk=chain[-1].pk).delete()
    Ledger.objects.update(length=chain[-2].position, tip=chain[-2].digest)


@pytest.mark.usefixtures("unguarded")
def test_an_end_that_was_cut_off_does_not_fit_the_anchor(chain):
    anchors.drop_due(now=TODAY)
    cut_off(chain)
    assert set(breaches()) == {"unguarded", "anchor_beyond"}


@pytest.mark.usefixtures("unguarded")
def test_a_ledger_written_anew_does_not_fit_the_anchor_that_was_kept_elsewhere(chain, tmp_path):
    """An owner of the database can make everything in it fit; not what is outside."""
    [kept] = anchors.drop_due(now=TODAY)
    outside = tmp_path / "anchors"
    outside.write_text(f"{kept}\n")
    before = ""
    for decision in chain:
        decision.feedback, decision.previous = "never said", before
        decision.digest = before = decision.compute_digest()
        decision.save()
    Ledger.objects.update(tip=before)
    kept.tip = before
    kept.digest = kept.compute_digest()
    kept.save()
    triggers.install()
    assert breaches() == []
    code, out = verify("--against", str(outside))
    assert code == 1 and "anchor_of_another team:" in out and "was kept elsewhere" in out


@pytest.mark.usefixtures("unguarded")
def test_a_changed_anchor_is_found(chain):
    anchors.drop_due(now=TODAY)
    changes: tuple[dict[str, Any], ...] = (
        {"tip": "0" * 64},
        {"position": 2},
        {"previous": "0" * 64},
        {"day": dt.date(2026, 1, 1)},
    )
    for change in changes:
        with undone():
            Anchor.objects.update(**change)
            assert "anchor_rewritten" in breaches(), change


@pytest.mark.usefixtures("unguarded")
def test_an_anchor_taken_from_the_middle_is_found(chain, make_order, ana):
    anchors.drop_due(now=TODAY)
    for days in (1, 2):
        answer(drive(make_order()), ana)
        anchors.drop_due(now=TODAY + dt.timedelta(days=days))
    Anchor.objects.filter(day=TODAY.date() + dt.timedelta(days=1)).delete()
    assert set(breaches()) == {"unguarded", "anchor_unlinked"}


def test_evidence_that_is_gone_or_changed_is_found(chain):
    Blob.objects.filter(pk=chain[0].evidence).delete()
    other = Blob.objects.get(pk=chain[1].evidence)
    Blob.objects.filter(pk=chain[2].evidence).update(content=other.content)
    Blob.objects.filter(pk=chain[3].evidence).update(content=b"nonsense")
    assert sorted(breaches()) == ["evidence_missing", "evidence_rewritten", "evidence_rewritten"]


def test_what_is_wrong_is_told_as_json_too(chain):
    Blob.objects.filter(pk=chain[0].evidence).delete()
    code, out = verify("--json", "--ledger", chain[0].ledger_id)
    told = json.loads(out)
    assert (code, told["ok"], told["checked"]["decisions"]) == (1, False, 4)
    assert told["breaches"] == [
        {
            "code": "evidence_missing",
            "ledger": chain[0].ledger_id,
            "position": 1,
            "id": chain[0].shown_id,
            "words": "What the reviewer was shown is gone.",
        }
    ]


def test_what_cannot_be_checked_is_said(db, tmp_path):
    with pytest.raises(CommandError, match="no ledger"):
        verify("--ledger", "team:404")
    with pytest.raises(CommandError, match="cannot be read"):
        verify("--against", str(tmp_path / "none"))
    (tmp_path / "bad").write_text("who knows")
    with pytest.raises(CommandError, match="is no anchor"):
        verify("--against", str(tmp_path / "bad"))


@pytest.mark.usefixtures("unguarded")
def test_a_decision_of_before_evidence_still_verifies(paused, ana):
    """What a row does not have is no part of its digest."""
    row = answer(paused, ana)
    names = ("action", "feedback", "via", "revision", "content_digest", "position", "previous")
    told = {name: getattr(row, name) for name in names} | {
        "decided_by": ana.pk,
        "ledger": row.ledger_id,
        "pause": row.pause_id.hex,
    }
    digest = codec.digest(
        codec.encode({**told, "decided_at": row.decided_at.astimezone(dt.UTC).isoformat()})
    )
    Decision.objects.filter(pk=row.pk).update(evidence="", by_name="", digest=digest)
    Ledger.objects.update(tip=digest)
    triggers.install()
    assert breaches() == []


# Evidence


def test_what_was_shown_is_kept_with_the_decision(paused, ana):
    pause = pause_of(paused)
    decision = services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    Pause.objects.update(content="Something else")
    document = evidence.load(Decision.objects.get(pk=decision.pk))
    assert (document["content"], document["question"], document["revision"]) == (
        pause.content,
        pause.question,
        1,
    )
    assert document["facts"] == pause.facts and document["leads_to"]["approve"] == "Work"
    assert (
        document["content_digest"] == decision.content_digest
        and document["order"] == paused.shown_id
    )


def test_evidence_costs_an_answer_one_statement(paused, ana, django_assert_num_queries):
    pause = Pause.objects.answerable().get(pk=pause_of(paused).pk)
    evidence.keep(pause)
    with django_assert_num_queries(1):
        evidence.keep(pause)


def test_evidence_outlives_keeping_and_goes_with_an_erasure(chain, order):
    """P11, decision 40 (docs/decisions/retention.md): whoever stores a digest in a new place adds
    it to the sources of keeping.
    """
    Blob.objects.update(touched_at=TODAY - dt.timedelta(days=1))
    retention.prune(now=timezone.now())
    assert breaches() == []
    digest = chain[0].evidence
    erasure.erase(order.thread_id, by="dpo", reason="Asked for")
    assert not Blob.objects.filter(pk=digest).exists()
    assert breaches() == []


# Anchors


def test_anchors_are_dropped_once_a_day_and_only_where_something_was_decided(
    chain, make_order, ana
):
    [first] = anchors.drop_due(now=TODAY)
    assert (first.position, first.tip, first.previous) == (4, chain[-1].digest, "")
    answer(drive(make_order()), ana)
    assert anchors.drop_due(now=TODAY) == []
    [second] = anchors.drop_due(now=TODAY + dt.timedelta(days=1))
    assert (second.position, second.previous) == (5, first.digest)
    assert anchors.drop_due(now=TODAY + dt.timedelta(days=2)) == []
    assert breaches() == []


def test_anchors_are_printed_to_be_kept_elsewhere(chain):
    """Also where the worker had written them, which printed none."""
    out = StringIO()
    call_command("anchor_ledger", stdout=out)
    assert out.getvalue() == f"{Anchor.objects.get()}\n"
    again, everything = StringIO(), StringIO()
    call_command("anchor_ledger", stdout=again)
    call_command("anchor_ledger", "--all", stdout=everything)
    assert (again.getvalue(), everything.getvalue()) == (out.getvalue(), out.getvalue())


def test_a_day_without_decisions_says_that_it_has_no_anchor(chain):
    anchors.drop_due(now=timezone.now() - dt.timedelta(days=1))
    out, said = StringIO(), StringIO()
    call_command("anchor_ledger", stdout=out, stderr=said)
    assert out.getvalue() == "" and "Nothing was decided since the last anchors" in said.getvalue()


def test_guards_name_the_tables_of_the_ledger():
    assert {one.table for one in triggers.guards()} == {
        "hitl_decision",
        "hitl_vote",
        "hitl_erasure",
        "hitl_anchor",
        "hitl_ledger",
    }
    assert append_only.EMPTY != append_only.RESEAL

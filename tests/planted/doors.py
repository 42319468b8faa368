"""What is told, to whom, and by which door."""

from __future__ import annotations

from tests.planted import Fault

LINKS = "hitl/outbound/links.py"
FAULTS = [
    Fault(
        "a list tells of a question who may answer another one",
        "hitl/api/pauses/reviews.py",
        "        theirs = [(key == thread.owner_id, key in askers) for key in self._people]\n",
        "        theirs = []\n",
        ("tests/hitl/api/test_told_alike.py",),
        "F9",
    ),
    Fault(
        "a link is good for ever",
        LINKS,
        "    if link.expires_at <= now:",
        "    if False:",
        ("tests/hitl/outbound/test_links.py",),
        "links",
    ),
    Fault(
        "a link is used twice",
        LINKS,
        "    if link.pause.status != PauseStatus.OPEN or link.used_at is not None:",
        "    if link.pause.status != PauseStatus.OPEN:",
        ("tests/hitl/outbound/test_links.py", "tests/hitl/outbound/test_external_reviewers.py"),
        "links",
    ),
    Fault(
        "a link of who was switched off works",
        LINKS,
        "    if link.recipient is not None and not link.recipient.is_active:",
        "    if False:",
        ("tests/hitl/outbound/test_links.py",),
        "links",
    ),
    Fault(
        "a link answers what is not of low risk",
        LINKS,
        '        and pause.review.get("risk") == "low"\n',
        "",
        ("tests/hitl/outbound/test_links.py",),
        "links",
    ),
    Fault(
        "a webhook is not signed over its time",
        "hitl/outbound/signatures.py",
        '    signed = f"{message_id}.{timestamp}.".encode() + body\n',
        '    signed = f"{message_id}..".encode() + body\n',
        ("tests/hitl/outbound/test_webhooks.py", "tests/client/test_webhooks.py"),
        "webhooks",
    ),
    Fault(
        "the metadata of a cloud may be reached",
        "runs/security/ssrf.py",
        '"168.63.129.16/32",',
        "",
        ("tests/hitl/outbound/test_addresses.py",),
        "SSRF",
    ),
    Fault(
        "a token that expired is valid",
        "hitl/http/authentication.py",
        "        ApiToken.objects.valid(now=now)\n",
        "        ApiToken.objects.all()\n",
        ("tests/hitl/http/test_tokens.py",),
        "F4",
    ),
    Fault(
        "a key of an error is used up",
        "hitl/http/idempotency.py",
        "    return status < 500 and status not in UNTAKEN\n",
        "    return status not in UNTAKEN\n",
        ("tests/hitl/http/test_idempotency.py",),
        "idempotency",
    ),
    Fault(
        "a key says less than what is known",
        "hitl/http/replay.py",
        "    if shown.status_code == 429 or shown.status_code >= 500:\n"
        "        return _later(row, shown)\n",
        "",
        ("tests/hitl/http/test_idempotency.py", "tests/hitl/operations/test_database_away.py"),
        "idempotency",
    ),
    Fault(
        "a stranger sees a question",
        "hitl/decisions/visibility.py",
        "    pause = pauses.filter(pk=pause_id).visible_to(by).first()\n",
        "    pause = pauses.filter(pk=pause_id).first()\n",
        ("tests/hitl/decisions/test_decide.py", "tests/hitl/api/test_pauses.py"),
        "F4",
    ),
    Fault(
        "a stranger reads a question",
        "hitl/decisions/visibility.py",
        "        pause = pauses.filter(pk__in=shown).first()\n",
        "        pause = pauses.filter(pk=pause_id).first()\n",
        ("tests/matrix/test_permissions.py",),
        "F4",
    ),
    Fault(
        "a stream goes on without the right to it",
        "hitl/live/pump.py",
        "        return caller is not None and stream.may_stay(caller)\n",
        "        return True\n",
        ("tests/hitl/live/test_streams.py",),
        "F4",
    ),
    Fault(
        "who filters does not learn of the end",
        "hitl/live/subscriptions.py",
        '        if event["event"] in TERMINAL:\n            return True\n',
        "",
        ("tests/hitl/live/test_streams.py",),
        "P5",
    ),
]

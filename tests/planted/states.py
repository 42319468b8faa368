"""Checkpoints, states, the log, and what is kept of them."""

from __future__ import annotations

from tests.planted import Fault

REDUCERS = "checkpoints/state/reducers.py"
FAULTS = [
    Fault(
        "an item of a known id is appended",
        REDUCERS,
        "        if place < len(items):\n            replaced[place] = item\n",
        "        if False:\n            replaced[place] = item\n",
        ("tests/checkpoints/state/test_reducers.py",),
        "state",
    ),
    Fault(
        "true counts as one",
        REDUCERS,
        "if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):",
        "if value is not None and not isinstance(value, int | float):",
        ("tests/checkpoints/state/test_reducers.py",),
        "state",
    ),
    Fault(
        "objects are merged at their top alone",
        REDUCERS,
        "            if isinstance(merged.get(key), dict) and isinstance(value, dict)\n",
        "            if False\n",
        ("tests/checkpoints/state/test_reducers.py",),
        "state",
    ),
    Fault(
        "a state grows without a bound",
        "checkpoints/store/rows.py",
        "    if size > most and (was is None or size > codec.size(was)):",
        "    if False:",
        ("tests/runs/engine/drafts/test_state_size.py",),
        "P12",
    ),
    Fault(
        "deltas follow one another for ever",
        "checkpoints/store/rows.py",
        "    if parent is None or was is None or parent.depth >= SNAPSHOT_EVERY:",
        "    if parent is None or was is None:",
        ("tests/checkpoints/store/test_rows.py",),
        "checkpoints",
    ),
    Fault(
        "an event takes a number that is taken",
        "checkpoints/events/log.py",
        "        next_seq[thread_id] += len(facts)\n",
        "",
        ("tests/checkpoints/events/test_log.py",),
        "P5",
    ),
    Fault(
        "secrets stand in the log",
        "checkpoints/events/log.py",
        "data=redaction.redact(dict(data)),",
        "data=dict(data),",
        ("tests/checkpoints/state/test_redaction.py", "tests/checkpoints/events/test_log.py"),
        "P13",
    ),
    Fault(
        "a result under `once` keeps secrets",
        "runs/engine/context/effects.py",
        "    value = redaction.redact(value)\n",
        "",
        ("tests/checkpoints/state/test_redaction.py", "tests/runs/security/test_credentials.py"),
        "P13",
    ),
    Fault(
        "hints that do not follow one another bring their events",
        "checkpoints/events/live.py",
        '        and last["events"][0]["seq"] == first["seq"] + 1\n',
        "",
        ("tests/checkpoints/events/test_log.py",),
        "P5",
    ),
    Fault(
        "an old primary is written to",
        "checkpoints/database/timeline.py",
        "        if timeline < (newest := _newest.get(cluster, 0)):",
        "        if timeline < (newest := 0):",
        ("tests/hitl/operations/doctor/test_standbys.py",),
        "outages",
    ),
    Fault(
        "a server that only reads is an error of ours",
        "checkpoints/database/outages.py",
        "        return _state(error) in _ENDED | _ONLY_READS\n",
        "        return _state(error) in _ENDED\n",
        ("tests/hitl/operations/test_database_away.py",),
        "outages",
    ),
    Fault(
        "an erasure keeps what is said about it",
        "hitl/threads/erasure.py",
        '        decisions=list(decisions.values_list("digest", flat=True)),',
        "        decisions=[],",
        ("tests/hitl/threads/test_erasure.py",),
        "erasure",
    ),
]

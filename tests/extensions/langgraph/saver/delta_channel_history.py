"""The ninth capability: what a delta channel is rebuilt from.

In the manner of LangGraph's kit, whose release does not have it yet.

Each test is a rule of `BaseCheckpointSaver.get_delta_channel_history`'s documentation;
`test_agrees_with_the_base_class` holds the fast answer against the slow one that every saver
inherits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance.test_utils import (
    generate_checkpoint,
    generate_config,
    generate_metadata,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot

Test = Callable[[BaseCheckpointSaver[str]], Awaitable[None]]


@dataclass
class Result:
    """As the kit's own, with the word where it comes from."""

    detected: bool
    passed: bool
    tests_passed: int
    tests_failed: int
    failures: list[str] = field(default_factory=list)
    source: str = "our own tests (tests/extensions/langgraph/saver/delta_channel_history.py)"


async def chain(
    saver: BaseCheckpointSaver[str],
    steps: list[dict[str, Any]],
    *,
    thread: str | None = None,
    ns: str = "",
) -> list[Any]:
    """A line of checkpoints; each step has `values` that it holds, and `writes` stored at it
    (`written`). Gives their configs.
    """
    configs: list[Any] = []
    thread = thread or str(uuid4())
    versions: dict[str, Any] = {}
    for number, step in enumerate(steps):
        config: Any = generate_config(thread, checkpoint_ns=ns)
        if configs:
            config["configurable"]["checkpoint_id"] = configs[-1]["configurable"]["checkpoint_id"]
        values = step.get("values", {})
        new: Any = {
            channel: saver.get_next_version(versions.get(channel), None)
            for channel in {"ch", *values}
        }
        versions = {**versions, **new}
        checkpoint = generate_checkpoint(channel_values=values, channel_versions=dict(versions))
        configs.append(await saver.aput(config, checkpoint, generate_metadata(step=number), new))
        for task, path, channel, value in step.get("writes", []):
            await saver.aput_writes(configs[-1], [(channel, value)], task, path)
    return configs


def written(
    value: Any, channel: str = "ch", task: str | None = None, path: str = ""
) -> tuple[str, str, str, Any]:
    return task or str(uuid4()), path, channel, value


async def history(
    saver: BaseCheckpointSaver[str], config: Any, channel: str = "ch"
) -> tuple[list[Any], Any]:
    """The writes' values, and the seed (`...` for none)."""
    entry = (await saver.aget_delta_channel_history(config=config, channels=[channel]))[channel]
    assert all(write[1] == channel for write in entry["writes"])
    return [write[2] for write in entry["writes"]], entry.get("seed", ...)


async def test_no_channels(saver: BaseCheckpointSaver[str]) -> None:
    assert await saver.aget_delta_channel_history(config=generate_config(), channels=[]) == {}


async def test_missing_thread(saver: BaseCheckpointSaver[str]) -> None:
    assert await history(saver, generate_config()) == ([], ...)


async def test_writes_from_the_root_oldest_first(saver: BaseCheckpointSaver[str]) -> None:
    configs = await chain(saver, [*({"writes": [written(n)]} for n in range(5)), {}])
    assert await history(saver, configs[-1]) == ([0, 1, 2, 3, 4], ...)


async def test_writes_at_the_target_are_left_out(saver: BaseCheckpointSaver[str]) -> None:
    configs = await chain(saver, [{"writes": [written("a")]}, {"writes": [written("b")]}])
    assert await history(saver, configs[-1]) == (["a"], ...)


async def test_stops_at_the_nearest_snapshot(saver: BaseCheckpointSaver[str]) -> None:
    steps: list[dict[str, Any]] = [
        {"values": {"ch": _DeltaSnapshot(["old"])}, "writes": [written(1)]},
        {"writes": [written(2)]},
        {"values": {"ch": _DeltaSnapshot(["old", 1, 2])}, "writes": [written(3)]},
        {"writes": [written(4)]},
        {},
    ]
    configs = await chain(saver, steps)
    assert await history(saver, configs[-1]) == ([3, 4], _DeltaSnapshot(["old", 1, 2]))


async def test_a_plain_value_is_a_seed(saver: BaseCheckpointSaver[str]) -> None:
    """Of a thread from before its channel became a delta channel; small values too, and an empty
    one.
    """
    for value in (["x"], "text", 0, None, [], _DeltaSnapshot({"a": 1})):
        configs = await chain(saver, [{"values": {"ch": value}, "writes": [written(1)]}, {}])
        assert await history(saver, configs[-1]) == ([1], value)


async def test_order_within_a_step(saver: BaseCheckpointSaver[str]) -> None:
    """By task path, then task id, then place."""
    writes = [
        written("b", task="0", path="~2"),
        written("a", task="9", path="~1"),
        written("first", task="5"),
    ]
    configs = await chain(saver, [{"writes": writes}, {}])
    await saver.aput_writes(configs[0], [("ch", "x"), ("ch", "y")], "7", "~3")
    assert await history(saver, configs[-1]) == (["first", "a", "b", "x", "y"], ...)


async def test_channels_stop_each_at_its_own_snapshot(saver: BaseCheckpointSaver[str]) -> None:
    steps: list[dict[str, Any]] = [
        {
            "values": {"other": _DeltaSnapshot([0])},
            "writes": [written("a"), written("o1", "other")],
        },
        {"values": {"ch": _DeltaSnapshot(["s"])}, "writes": [written("b"), written("o2", "other")]},
        {},
    ]
    configs = await chain(saver, steps)
    found = await saver.aget_delta_channel_history(config=configs[-1], channels=["ch", "other"])
    assert [write[2] for write in found["ch"]["writes"]] == ["b"]
    assert [write[2] for write in found["other"]["writes"]] == ["o1", "o2"]
    assert found["other"]["seed"] == _DeltaSnapshot([0])


async def test_another_branch_is_not_walked(saver: BaseCheckpointSaver[str]) -> None:
    """Nor are other namespaces."""
    thread = str(uuid4())
    configs = await chain(
        saver, [{"writes": [written("root")]}, {"writes": [written("left")]}, {}], thread=thread
    )
    await chain(saver, [{"writes": [written("elsewhere")]}, {}], thread=thread, ns="sub:1")
    right = generate_config(thread, checkpoint_id=configs[0]["configurable"]["checkpoint_id"])
    fork = await saver.aput(
        right, generate_checkpoint(channel_versions={"ch": "3"}), generate_metadata(), {}
    )
    assert await history(saver, fork) == (["root"], ...)
    assert await history(saver, configs[-1]) == (["root", "left"], ...)


async def test_a_long_chain(saver: BaseCheckpointSaver[str]) -> None:
    configs = await chain(saver, [*({"writes": [written(n)]} for n in range(260)), {}])
    assert await history(saver, configs[-1]) == (list(range(260)), ...)


async def test_agrees_with_the_base_class(saver: BaseCheckpointSaver[str]) -> None:
    steps: list[dict[str, Any]] = [{"values": {"ch": _DeltaSnapshot([0])}}]
    steps += [{"writes": [written(n), written(-n, "other")]} for n in range(7)]
    for config in await chain(saver, steps):
        expected = await BaseCheckpointSaver.aget_delta_channel_history(
            saver, config=config, channels=["ch", "other", "none"]
        )
        assert (
            await saver.aget_delta_channel_history(config=config, channels=["ch", "other", "none"])
            == expected
        )


TESTS: list[Test] = [value for name, value in list(globals().items()) if name.startswith("test_")]


async def run_delta_channel_history_tests(saver: BaseCheckpointSaver[str]) -> Result:
    failures = []
    for test in TESTS:
        try:
            await test(saver)
        except Exception as error:  # noqa: BLE001  # reported by name, as the kit does
            failures.append(f"{test.__name__}: {type(error).__name__} {error}")
    detected = (
        type(saver).aget_delta_channel_history is not BaseCheckpointSaver.aget_delta_channel_history
    )
    count = len(TESTS) - len(failures)
    return Result(
        detected=detected,
        passed=not failures,
        tests_passed=count,
        tests_failed=len(failures),
        failures=failures,
    )

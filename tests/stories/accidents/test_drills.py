"""The drills that `make drills` names are there."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from bench import drills
from bench.chaos.faults import Fault
from bench.drills.__main__ import main

OTHERS = {"__main__", "world", "schedules", "callers", "outside", "restore", "upgrades", "embedded"}


def test_every_drill_is_named_and_each_name_is_a_drill():
    modules = {module.name for module in pkgutil.iter_modules(drills.__path__)} - OTHERS
    assert modules == set(drills.DRILLS)
    for name in drills.DRILLS:
        assert isinstance(importlib.import_module(f"bench.drills.{name}").DRILL, Fault)


def test_a_drill_that_there_is_not_is_named_with_those_that_there_are():
    with pytest.raises(SystemExit, match="No drill is called rain; there are redis_full,"):
        main(["rain"])

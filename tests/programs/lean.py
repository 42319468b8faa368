"""The product's settings where no library of vendors and forges is installed."""

import sys
from importlib.abc import MetaPathFinder

LIBRARIES = {"openai", "anthropic", "github", "gitlab", "langgraph"}


class Absent(MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in LIBRARIES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
from project.settings import *  # noqa: E402, F403  # all settings, without those libraries

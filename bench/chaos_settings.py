"""The product's settings, and one app more, which registers the steps of the chaos run in every process."""

import os

from project.settings import *  # noqa: F403
from project.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "bench.chaos_app.ChaosConfig"]
CHAOS_LEDGER = os.environ["CHAOS_LEDGER"]
"""File to which each effect adds a line: what the world outside has seen."""

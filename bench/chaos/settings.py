"""The product's settings, and one app more, which registers the steps of the chaos run in every
process.
"""

from project.settings import *  # noqa: F403  # all settings, and then some others
from project.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "bench.chaos.app.ChaosConfig"]

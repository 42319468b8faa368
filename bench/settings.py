"""The product's settings, and the workload's steps in every process."""

from project.settings import *  # noqa: F403  # all settings, and then some others
from project.settings import INSTALLED_APPS as PRODUCT

INSTALLED_APPS = [*PRODUCT, "bench.apps.BenchConfig"]

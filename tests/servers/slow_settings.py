"""The product's settings, and one app more, which registers slow steps in every process of a
stack.
"""

from project.settings import *  # noqa: F403  # all settings, and then some others
from project.settings import INSTALLED_APPS as PRODUCT

INSTALLED_APPS = [*PRODUCT, "tests.servers.slow_app.SlowConfig"]

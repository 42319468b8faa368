"""The product's settings, and middleware that kills its server where a request asks for it."""

from project.settings import *  # noqa: F403  # all settings, and then some others
from project.settings import MIDDLEWARE as PRODUCT

MIDDLEWARE = [*PRODUCT, "tests.killed.middleware.middleware"]

"""The product's settings, with a model of people of a project's own."""

from project.settings import *  # noqa: F403  # the product's, and changes
from project.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.own_people"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = "email"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a slow one is not its matter
AUTH_USER_MODEL = "own_people.Person"

"""For processes that need the tables of `checkpoints` and nothing else of the product: they start
in a fraction of the time.
"""

from checkpoints.database import addresses
from runs import env

SECRET_KEY = "a key of the tests"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "checkpoints"]
DATABASES = {"default": addresses.database(env.text("DATABASE_URL"), pool=0)}
USE_TZ = True

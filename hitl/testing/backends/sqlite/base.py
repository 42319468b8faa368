"""Where Django looks for a backend."""

from django.db.backends.sqlite3 import base

from hitl.testing.backends.counted import Counted


class DatabaseWrapper(Counted, base.DatabaseWrapper):
    """A connection to an SQLite database of the kit."""

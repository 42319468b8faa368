"""Where Django looks for a backend."""

from django.db.backends.postgresql import base

from hitl.testing.backends.counted import Counted


class DatabaseWrapper(Counted, base.DatabaseWrapper):
    """A connection to a PostgreSQL database of the kit."""

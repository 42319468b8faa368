"""Django's backend for PostgreSQL with psycopg's pool, which survives a restart of the server."""

"""Django's own backends for the databases of the kit: the kit counts their commits."""

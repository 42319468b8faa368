"""Work that begins by the clock: when (`times`), what is kept of it (`keeping`), and the sweep."""

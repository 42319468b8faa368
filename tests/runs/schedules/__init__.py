"""Work that begins by the clock."""

"""The workflows that ship with Waystation, written with the public SDK alone."""

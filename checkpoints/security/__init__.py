"""Keys and their rotation, who may read what is encrypted, and files that only Waystation reads."""

"""How moments and text of others are shown, and JSON as exact as it is stored."""

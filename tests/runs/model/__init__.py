"""The engine against a model of it: random commands, the same end."""

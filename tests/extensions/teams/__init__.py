"""Teams: words to an outgoing webhook."""

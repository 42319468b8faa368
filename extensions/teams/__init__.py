"""Teams: words to an outgoing webhook become an answer."""

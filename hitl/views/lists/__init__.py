"""Lists that can be searched: the bar above them, the history, and saved views."""

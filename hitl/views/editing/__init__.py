"""Pages on which templates and step templates are made, changed, compared and tried."""

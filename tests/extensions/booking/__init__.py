"""`smart-booking`: its rules in tables, one file for each kind of error they once allowed."""

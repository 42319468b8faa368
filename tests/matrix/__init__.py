"""Every door against every role: tables that are compared with the code."""

"""What the core does not know: each package here is a Django app, which `WAYSTATION_EXTENSIONS`
switches on.
"""

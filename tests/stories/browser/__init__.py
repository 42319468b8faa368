"""People at the pages, in headless Chromium."""

"""Pages.

Each view reads, calls one service, and answers with a page, or with the part of it that changes.
"""

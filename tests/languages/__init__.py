"""Translations: taking the marked texts out of the sources, and finding those that are not marked.

`python -m tests.languages` brings the catalogues of `hitl/locale` up to date with the sources.
"""

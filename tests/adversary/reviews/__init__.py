"""The review belongs to the template: the holes there would be, and the schemes that go through
them.
"""

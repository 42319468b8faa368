"""Texts of Django's and Unfold's admin that their own catalogues leave in English.

Nothing reads this: a mark is enough for `tests.languages` to keep a translation of each.
"""

from __future__ import annotations

from django.utils.translation import gettext_noop

TEXTS = (
    gettext_noop("Type to search"),
    gettext_noop("Select action"),
    gettext_noop("Select action to run"),
    gettext_noop("Select all rows"),
    gettext_noop("Select value"),
    gettext_noop("Enabled"),
    gettext_noop("Disabled"),
    gettext_noop(
        "Whether the user will be able to authenticate using a password or not. If disabled, they "
        "may still be able to authenticate using other backends, such as Single Sign-On or LDAP."
    ),
    gettext_noop(
        "Raw passwords are not stored, so there is no way to see this user’s password, but you "
        "can change the password using "
        '<a href="{}" class="text-primary-600 dark:text-primary-500">this form</a>.'
    ),
    gettext_noop("After you've created a user, you’ll be able to edit more user options."),
)

"""Show English dates in the style of `checkpoints.text.dates`; input is read as Django reads it."""

from checkpoints.text.dates import ENGLISH

DATE_FORMAT = SHORT_DATE_FORMAT = ENGLISH.day
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = f"{ENGLISH.day}, H:i:s"
TIME_FORMAT = "H:i:s"

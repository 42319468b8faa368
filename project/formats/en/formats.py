"""The style of `checkpoints.text.dates`; what people type is understood as before."""

from checkpoints.text.dates import ENGLISH

DATE_FORMAT = SHORT_DATE_FORMAT = ENGLISH.day
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = f"{ENGLISH.day}, H:i:s"
TIME_FORMAT = "H:i:s"

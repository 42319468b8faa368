"""The style of `checkpoints.text.dates`; what people type is understood as before."""

from checkpoints.text.dates import GERMAN

DATE_FORMAT = SHORT_DATE_FORMAT = GERMAN.day
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = f"{GERMAN.day}, H:i:s"
TIME_FORMAT = "H:i:s"

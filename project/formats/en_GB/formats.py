"""The style of `checkpoints.text.dates`; what people type is understood as before."""

from checkpoints.text import dates

DATE_FORMAT = SHORT_DATE_FORMAT = dates.DAY
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = dates.SECOND
TIME_FORMAT = dates.CLOCK

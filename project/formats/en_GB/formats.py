"""The style of `checkpoints.dates`; what people type is understood as before."""

from checkpoints import dates

DATE_FORMAT = SHORT_DATE_FORMAT = dates.DAY
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = dates.SECOND
TIME_FORMAT = dates.CLOCK

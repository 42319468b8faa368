"""For processes whose wall clock libfaketime has moved while their monotonic one is left alone: its
0.9.10 then refuses the call that
`time.sleep` makes (clock_nanosleep until a moment of the monotonic clock).
"""

from __future__ import annotations

import select
import time
from typing import SupportsIndex


def sleep(seconds: float | SupportsIndex, /) -> None:
    select.select([], [], [], float(seconds))


time.sleep = sleep

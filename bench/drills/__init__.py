"""`make drills`: trouble that lasts for minutes, as operators meet it, on the processes of
production: a web server, a worker of threads, one for control, and beat.

Each drill is a module with a `DRILL`, a fault of `bench.chaos` that is made once. Two clients order
all the while under Idempotency-Keys, two people answer, and the books of `bench.chaos` are checked
at the end.
"""

import os

DRILLS = ("redis_full", "readonly_redis", "disk_full", "data_full", "silent_beat", "outage")
SECONDS = float(os.environ.get("DRILL_SECONDS", "120"))
"""How long the trouble lasts."""

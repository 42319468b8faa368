"""Workflows as DBOS runs them, in one process: `python dbos_work.py URL WORKFLOWS STEPS`.

Run by a Python that has `dbos`. Prints `ready` when warm, waits for a line, and prints the seconds
that the workflows took.
"""

import sys
import time

from dbos import DBOS, DBOSConfig

TEXT = "word " * 205
"""1 KiB, as in `bench.workload`."""
URL, WORKFLOWS, STEPS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
config: DBOSConfig = {
    "name": "peers",
    "system_database_url": URL,
    "log_level": "ERROR",
    "run_admin_server": False,
}
DBOS(config=config)


@DBOS.step()
def noop(number: int) -> str:
    return f"{number} {TEXT}"


@DBOS.workflow()
def steps(number: int) -> str:
    last = ""
    for loop in range(number):
        last = noop(loop)
    return last


def work(many: int) -> float:
    began = time.perf_counter()
    handles = [DBOS.start_workflow(steps, STEPS) for _ in range(many)]
    for handle in handles:
        handle.get_result()
    return time.perf_counter() - began


DBOS.launch()
work(64)
print("ready", flush=True)
sys.stdin.readline()
print(work(WORKFLOWS), flush=True)
DBOS.destroy()

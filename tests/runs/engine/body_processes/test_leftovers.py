"""What a body changes is put back; what it leaves ends its process. Looked at in a process of its
own, which is as a body process is.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servers.stack import ROOT

CHANGES = {
    "os.environ['LEFT'] = 'x'": "'LEFT' in os.environ",
    "os.environ.clear()": "not os.environ",
    "os.chdir('/tmp')": "os.getcwd() == '/tmp'",
    "os.umask(0)": "mask() == 0",
    "sys.path.insert(0, '/left')": "'/left' in sys.path",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)": (
        "signal.getsignal(signal.SIGTERM) == signal.SIG_IGN"
    ),
    "locale.setlocale(locale.LC_ALL, 'C.UTF-8')": (
        "locale.setlocale(locale.LC_ALL) == 'C.UTF-8' != before"
    ),
    "sys.stdout = None": "sys.stdout is None",
    "sys.setrecursionlimit(9000)": "sys.getrecursionlimit() == 9000",
    "warnings.simplefilter('error')": "warnings.filters[0][0] == 'error'",
    "decimal.getcontext().prec = 3": "decimal.getcontext().prec == 3",
    "socket.setdefaulttimeout(1)": "socket.getdefaulttimeout() == 1",
    "logging.root.setLevel(1)": "logging.root.level == 1",
    "logging.root.handlers.clear()": "not logging.root.handlers",
    "translation.activate('de')": "translation.get_language() == 'de'",
    "timezone.activate('Asia/Tokyo')": "timezone.get_current_timezone_name() == 'Asia/Tokyo'",
    "time.sleep = print": "time.sleep is print",
    "socket.socket = None": "socket.socket is None",
    "os.environ = {}": "os.environ == {}",
    "random.seed(1)": "random.random() == random.Random(1).random()",
}
LEFT = {
    "pass": "",
    "open('/dev/null')": "",  # nobody has it any more
    "os.open('/dev/null', 0)": "the open file /dev/null",
    "keep = socket.create_server(('127.0.0.1', 0))": "the open file socket",
    "threading.Thread(target=time.sleep, args=(30,), name='odd', daemon=True).start()": (
        "the thread odd"
    ),
    "import _thread; _thread.start_new_thread(time.sleep, (30,)); time.sleep(0.2)": (
        "a thread without a name"
    ),
    # which has our pipes no longer than its process
    "subprocess.Popen(['sleep', '30'], stdout=-3, stderr=-3)": "a child process",
    "subprocess.run(['true'])": "",
    # which an engine has, and which begins when a step first says something
    "threading.Thread(target=time.sleep, args=(9,), name='chunk-writer', daemon=True).start()": "",
}
TELL = "print(known.put_back() or known.left() or 'nothing', flush=True); os._exit(0)"
BEGIN = """
import decimal, locale, logging, os, random, signal, socket, subprocess, sys, threading, time
import warnings
import django
django.setup()
from django.utils import timezone, translation
from runs.engine.body_processes.leftovers import Before, _mask as mask
stdout, before = sys.stdout, locale.setlocale(locale.LC_ALL)
logging.root.addHandler(logging.NullHandler())
known = Before()
"""


@pytest.fixture(scope="module")
def said() -> list[str]:
    """A line for each of LEFT, in a fork of its own, and then one for each of CHANGES."""
    lines = [f"if os.fork() == 0:\n known.begin()\n {body}\n {TELL}\nos.wait()" for body in LEFT]
    for change, sign in CHANGES.items():
        lines += [
            "known.begin()",
            change,
            f"changed = {sign}",
            "left = known.put_back() or known.left()",
            f"print({change!r}, changed, {sign}, left or 'nothing', sep=' | ', file=stdout)",
        ]
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + "\n".join(lines)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


def test_whatever_is_changed_is_put_back(said):
    found = [line.split(" | ")[1:] for line in said[len(LEFT) :]]
    # the locale of a machine may be that one from the start
    wanted = [["True", "False", "nothing"] for _ in CHANGES]
    place = list(CHANGES).index("locale.setlocale(locale.LC_ALL, 'C.UTF-8')")
    found[place][0] = "True"
    assert dict(zip(CHANGES, found, strict=True)) == dict(zip(CHANGES, wanted, strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells of open files")
def test_what_cannot_be_put_back_is_told(said):
    found = dict(zip(LEFT, said[: len(LEFT)], strict=True))
    for body, wanted in LEFT.items():
        assert found[body].startswith(wanted or "nothing"), (body, found)

"""The embedded default: server, worker and beat in one process below a supervisor, on SQLite, with
nothing else to install.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from celery import current_app
from celery.beat import Scheduler, Service
from celery.worker import WorkController
from celery.worker import state as worker_state
from channels.routing import get_default_application
from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser
from django.db import connection, transaction

from checkpoints import extension
from checkpoints.database import clock
from checkpoints.database.people import NAME, User, called
from checkpoints.management.shown import PlainCommand
from hitl.management import supervisor
from hitl.management.supervisor import Served
from hitl.rendering import places
from runs import env, tasks
from runs.definitions import loading, shipped, watching
from runs.engine.recovery import lost_runs
from runs.engine.workers import heartbeat, shutdown
from runs.models import WorkOrder

logger = logging.getLogger(__name__)

DEMO_USER = "reviewer"
TENDING, AT_WORK = 4, 16
"""Threads for sweeps, deadlines and messages, and runs at work at once."""
LOOK_SECONDS = 0.3
"""Between two looks at the files of workflows."""
STOP_SECONDS = 10
"""A step at work when the stop comes may go on so long; then it is left to the next start, which
does it again from its checkpoint.
"""

LAST_SECONDS = 3.0
"""That are left then for last messages and reports."""


class Command(PlainCommand):
    help = (
        "Run everything: web server, worker and timer, begun again where they fall. Ctrl-C stops "
        "it; start it again and it goes on."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument(
            "--demo",
            action="store_true",
            help="make a reviewer with a printed password, and a first work order",
        )
        parser.add_argument(
            "--reload",
            action="store_true",
            help="load your workflows again where a file of theirs has changed",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.REDIS_URL:
            raise CommandError(
                "REDIS_URL is set: run the server, workers and beat as processes of their "
                "own (docs/how-to/deploy.md)."
            )
        lock = self._lock(settings.WAYSTATION_DATA)
        listener = self._listener(options["host"], options["port"])
        import_module(settings.ROOT_URLCONF)  # pages too, so that no server need import them anew
        served = supervisor.supervise(listener, say=self._say)
        shutdown.begin_anew()
        # held for the life of these two processes, not of those that they fork
        os.register_at_fork(after_in_child=lock.close)
        base = f"http://{options['host']}:{options['port']}"
        if not os.environ.get("WAYSTATION_URL"):
            settings.WAYSTATION_URL = base  # all is in this process: what links begin with is known
        self._seen = watching.look()  # files may change again while they are loaded
        # Python's own copies know a file by its second and its size: two saves may share both
        sys.dont_write_bytecode = sys.dont_write_bytecode or options["reload"]
        if served.beside:
            self._load_beside(demo=options["demo"])
        else:
            self._begin(demo=options["demo"], again=served.again)
        self._seen = watching.look() | self._seen
        for each in extension.installed():
            each.serve_alone(demo=options["demo"])
        if served.beside:
            _import_pages()
            served.has_loaded()
        shipped.load()
        for one in watching.authors():
            self.stdout.write(
                f"{'Reloaded' if served.again else 'Loaded':<13} {one.slug}   {one.place}"
            )
        for words in loading.left_out():
            self.stdout.write(f"{'Not loaded':<13} {words}")
        if options["demo"]:
            self._demo(base, quiet=served.again)
        else:
            self.stdout.write(f"Waystation runs on {base}/")
        self._say(
            "Stop it with  Ctrl-C; the same command starts it again, and work goes on where "
            "it stopped."
        )
        self._serve(listener, served, reload=options["reload"])
        # threads of requests may wait for ever for the loop that has ended
        last = threading.Timer(LAST_SECONDS, os._exit, [0])
        last.daemon = True
        last.start()
        sys.exit(0)

    def _begin(self, *, demo: bool, again: bool) -> None:
        """Bring the database to this version, and load the workflows. Nobody else works here: the
        lock says so.
        """
        if not connection.introspection.table_names():
            self._say("Making the database and the templates: a few seconds, only this once.")
        call_command("migrate", verbosity=0)
        shipped.register()
        if demo:
            self._reviewer(quiet=again)  # rules may name them
            self._groups()
        lost_runs.take_back(now=clock.now(), everything=True)

    def _load_beside(self, *, demo: bool) -> None:
        """Load the workflows as they are now, while another server serves those of before; end
        where they cannot be loaded, and say why.
        """
        try:
            shipped.register()
            if demo:
                self._groups()
            with transaction.atomic():
                shipped.load()
                transaction.set_rollback(True)  # the other server still makes orders of its own
        except ImproperlyConfigured as error:
            self._say(f"Not reloaded, the workflows of before go on. {error}")
            os._exit(os.EX_OK)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def _lock(self, folder: Path) -> IO[str]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = open(folder / "standalone.lock", "a+")  # noqa: SIM115
        except OSError as error:
            raise CommandError(
                f"The folder {folder} cannot be written ({error.strerror}). Choose another "
                "one with DATA=."
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CommandError(
                f"Another Waystation already works in {folder}. Stop it, or choose another "
                "folder with DATA=."
            ) from error
        return lock

    def _listener(self, host: str, port: int) -> socket.socket:
        try:
            return supervisor.listen(host, port)
        except OSError as error:
            raise CommandError(
                f"Port {port} on {host} cannot be used ({error.strerror}). Choose "
                "another with PORT=."
            ) from error

    _seen: watching.Seen
    """The authors' files as they were when they were loaded."""

    def _watch(self, served: Served) -> None:
        """Have another server begun for each change of the files, which loads them and then takes
        this one's place.
        """
        while True:
            time.sleep(LOOK_SECONDS)  # files tell nobody that they change
            if (found := watching.look()) != self._seen:
                self._seen = found
                served.wants_another()

    def _reviewer(self, *, quiet: bool) -> None:
        """Make the demo's reviewer, whose password is printed once."""
        user = User.objects.filter(called(DEMO_USER)).first()
        if user is None:
            password = secrets.token_urlsafe(9)
            user = User.objects.create_superuser(
                **{NAME: DEMO_USER}, password=password, first_name="Demo", last_name="Reviewer"
            )
            self.stdout.write(
                f"Log in as     {DEMO_USER}   password   {password}   (shown only now; "
                "change it under Admin)"
            )
        elif not quiet:
            self.stdout.write(
                f"Log in as     {DEMO_USER}   with the password of the first start. A new "
                f"one: {self._new_password()}"
            )

    def _groups(self) -> None:
        """Make the groups that workflows of one's own name, with the reviewer in them: a template
        that names one which is not there is refused.
        """
        for name in sorted(watching.groups()):
            group, made = Group.objects.get_or_create(name=name)
            if made:
                User.objects.get(called(DEMO_USER)).groups.add(group)
                self.stdout.write(
                    f"Made group    {name}   which a workflow names, with {DEMO_USER}"
                )

    def _demo(self, base: str, *, quiet: bool) -> None:
        """Make the first work of each extension; later starts make none again."""
        if not WorkOrder.objects.exists():
            user = User.objects.get(called(DEMO_USER))
            loaded = set(loading.entries())
            for one in extension.installed():
                if loaded.issuperset(one.workflows):
                    one.demo(user)
        if not quiet:
            self.stdout.write(f"Open          {base}{self._where_to_look()}")

    def _new_password(self) -> str:
        """The line that sets it, as a shell takes it in the folder of this process."""
        usual = env.data_folder(places.CHECKOUT)
        data = (
            []
            if usual == settings.WAYSTATION_DATA
            else [f"WAYSTATION_DATA={settings.WAYSTATION_DATA}"]
        )
        if places.CHECKOUT is None:
            return shlex.join([*data, "waystation-server", "manage", "changepassword", DEMO_USER])
        program = Path(sys.executable)
        shown = program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else program
        manage = (
            "manage.py" if Path.cwd() == places.CHECKOUT else str(places.CHECKOUT / "manage.py")
        )
        return shlex.join([*data, str(shown), manage, "changepassword", DEMO_USER])

    def _where_to_look(self) -> str:
        order = (
            WorkOrder.objects.filter(latest_run__status__in=["pending", "running", "paused"])
            .order_by("-id")
            .first()
        )
        return f"/work-orders/{order.shown_id}/" if order else "/"

    def _serve(self, listener: socket.socket, served: Served, *, reload: bool) -> None:
        """The server has the main thread and its signals; when it returns, the worker finishes what
        it can.
        """
        # here, in the server: its event loop is made with the import. One that the supervisor had
        # made, all its servers would share, and the next one could not listen
        from daphne.server import Server
        from twisted.internet import reactor
        from twisted.internet.tcp import Port

        application: Any = current_app
        worker = WorkController(
            app=application,
            pool_cls="threads",
            concurrency=TENDING,
            hostname=f"standalone@{socket.gethostname()}",
            queues=["control", "steps", "agents", "outbound"],
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            ready_callback=partial(heartbeat.show_worker, at_once=AT_WORK),
        )
        # steps that take long hold up no sweep, deadline or mail
        tasks.use_lane(AT_WORK)
        beat = Service(application, max_interval=1, scheduler_cls=Scheduler)

        def work() -> None:
            served.is_alone()
            if served.beside:  # what the server before left at work in its time
                lost_runs.take_back(now=clock.now(), everything=True)
                connection.close()
            worker.start()

        def tick() -> None:
            served.is_alone()
            beat.start()

        threads = [
            threading.Thread(target=_vital, args=(work,), name="worker", daemon=True),
            threading.Thread(target=_vital, args=(tick,), name="beat", daemon=True),
        ]
        if reload:
            watch = threading.Thread(target=self._watch, args=(served,), name="reload", daemon=True)
            threads.append(watch)
        for thread in threads:
            thread.start()
        stopping: Any = reactor

        def leave() -> None:
            """Leave the port first: who comes now is answered by the next server."""
            for reader in stopping.getReaders():
                if isinstance(reader, Port):
                    port: Any = reader
                    port.stopListening()
            served.takes_no_more()
            stopping.stop()

        served.when_it_is_to_stop(lambda: stopping.callFromThread(leave))
        server: Any = Server
        server(
            get_default_application(),
            endpoints=[f"fd:fileno={listener.fileno()}"],
            ready_callable=served.is_ready,
            server_name="waystation",
        ).run()
        signal.set_wakeup_fd(-1)  # what it woke is gone
        self._say("Stopping: what is at work is finished or kept for the next start.")
        shutdown.stop()
        heartbeat.end()
        beat.stop()
        worker_state.should_stop = 0  # type: ignore[assignment]  # the stubs know only None
        threads[0].join(STOP_SECONDS)
        # a step that still works is ended with its process; its run is taken back at the next start
        tasks.end_bodies(STOP_SECONDS)


def _import_pages() -> None:
    """Import what a server is made of, while another one still serves."""
    from daphne.server import Server as Server  # first: it says which event loop there is

    get_default_application()


def _vital(work: Callable[[], object]) -> None:
    """What the server is nothing without: where it ends unasked, all of it is begun again."""
    try:
        work()
    except BaseException:  # whatever it is: without this thread nothing moves
        logger.exception("the %s fell", threading.current_thread().name)
    if not shutdown.stopping():
        logger.critical("the %s ended, so the server does", threading.current_thread().name)
        os._exit(os.EX_SOFTWARE)

"""A mailbox on this host that speaks as much IMAP (RFC 3501) as is asked of it."""

from __future__ import annotations

import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

PASSWORD = "p@ss word"


@dataclass
class Box:
    """What lies in it, by UID from 1; `drops` breaks the connection off at the command of that
    name, and `refuses` says NO to it.
    """

    mails: list[bytes] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    commands: list[str] = field(default_factory=list)
    port: int = 0
    drops: str = ""
    refuses: str = ""


@contextmanager
def serving(box: Box) -> Iterator[Box]:
    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: bytes) -> None:
            self.wfile.write(line + b"\r\n")

        def handle(self) -> None:
            self.say(b"* OK ready")
            while line := self.rfile.readline().decode().strip():
                tag, _, command = line.partition(" ")
                box.commands.append(command)
                if box.drops and command.startswith(box.drops):
                    return
                refused = self.answer(command)
                self.say(f"{tag} {'NO' if refused else 'OK'} done".encode())
                if command == "LOGOUT":
                    return

        def answer(self, command: str) -> bool:
            uid = int(found[1]) if (found := re.match(r"UID \w+ (\d+)", command)) else 0
            if box.refuses and command.startswith(box.refuses):
                return True
            if command == "CAPABILITY":
                self.say(b"* CAPABILITY IMAP4rev1")
            elif command.startswith("LOGIN"):
                return PASSWORD not in command
            elif command.startswith("SELECT"):
                self.say(f"* {len(box.mails)} EXISTS".encode())
            elif command == "UID SEARCH UNSEEN":
                unseen = [str(n) for n in range(1, len(box.mails) + 1) if n not in box.seen]
                self.say(f"* SEARCH {' '.join(unseen)}".encode())
            elif command.startswith("UID FETCH"):
                most = int(command.rpartition(".")[2].partition(">")[0])
                raw = box.mails[uid - 1][:most]
                self.say(b"* %d FETCH (UID %d BODY[]<0> {%d}\r\n%s)" % (uid, uid, len(raw), raw))
            elif command.startswith("UID STORE"):
                box.seen.add(uid)
            return False

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    box.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield box
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

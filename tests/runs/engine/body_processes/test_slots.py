"""What a body process and its worker see of one another."""

from __future__ import annotations

import os
import socket
import threading

from runs.engine.body_processes import wire
from runs.engine.body_processes.slot import Seen, Slot


def test_two_openings_of_a_slot_see_the_same():
    of_the_body = Slot.make()
    of_the_worker = Slot(os.dup(of_the_body.descriptor))
    assert not of_the_worker.look().is_at_work
    of_the_body.enter(7, 12.5)
    assert of_the_worker.look() == Seen(1, 7, 12.5)
    assert of_the_worker.look().is_at_work
    of_the_body.leave()
    of_the_body.enter(8, 13.5)
    assert of_the_worker.look().number == 3  # another body


def test_messages_come_whole_and_an_end_is_told_from_one():
    ours, its = socket.socketpair()
    long = ["put", "steps", 3, {"body": "ä" * 300_000}]
    with ours:
        for message in (["ready", 1], []):
            wire.send(its, message)
            assert wire.receive(ours) == message
        sending = threading.Thread(target=wire.send, args=(its, long))
        sending.start()
        assert wire.receive(ours) == long
        sending.join()
        its.send(b"\0\0")  # it dies in the middle
        its.close()
        assert wire.receive(ours) is None

"""Telling people and systems: of questions, of what became of them, by mail, chat services and
signed webhooks.

What is to be said is planned as rows, in the transaction of what causes it or from the rows of the
pauses, and sent by a task later. So nothing is lost by a crash, nothing is planned twice, and no
network is in a transaction.
"""

from hitl.decisions.notifications import plan
from hitl.outbound.endpoints import register_callback
from hitl.outbound.requests import send_request

__all__ = ["plan", "register_callback", "send_request"]

"""What is sent and what is received goes through the same queues."""

from __future__ import annotations

from hitl.host import broker
from project.celery import app


def test_connections_of_a_pool_have_the_transport_of_the_worker():
    """Before, pools made connections with kombu's own queues: in the embedded default no message
    reached the worker, and nothing ran.
    """
    with (
        app.connection_for_read() as receiving,
        app.connection_for_write() as made,
        app.producer_pool.acquire(block=True) as producer,
    ):
        assert isinstance(
            producer.connection.transport, (broker.MemoryTransport, broker.RedisTransport)
        )
        assert (
            type(receiving.transport) is type(made.transport) is type(producer.connection.transport)
        )

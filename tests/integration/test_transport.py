"""A worker continues to listen if the broker fails during an acknowledgement."""

import socket

import pytest
from kombu import Connection

from shared.broker.wakeups import celery_app


@pytest.fixture
def connection(stack):
    with celery_app(stack.settings.redis_url.get_secret_value()).connection_for_read() as connection:
        yield connection


def receive(connection: Connection, queue: str):
    """Return a channel with a prefetch limit of one, and the message that it received."""
    with connection.SimpleQueue(queue) as waiting:
        waiting.put({"a": "wake-up"})
    channel = connection.channel()
    channel.qos.prefetch_count = 1
    return channel, channel.basic_get(queue)


def test_unacknowledged_wakeup_blocks_next_one(connection):
    channel, message = receive(connection, "one")

    assert not channel.qos.can_consume()
    message.ack()
    assert channel.qos.can_consume()


def test_failed_acknowledgement_does_not_block_next_wakeup(connection):
    channel, message = receive(connection, "two")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    channel.pool.reset()
    channel.pool.connection_kwargs["port"] = port

    message.ack_log_error(None, ())

    assert channel.qos.can_consume()


def test_key_of_delivered_wakeup_is_deleted_from_broker(connection):
    channel, message = receive(connection, "three")

    assert message.payload == {"a": "wake-up"}
    assert channel.client.keys("unacked*") == []

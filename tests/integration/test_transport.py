"""A worker goes on listening where the broker fails at the moment of an acknowledgement."""

import socket

import pytest
from kombu import Connection

from shared.broker.wakeups import celery_app


@pytest.fixture
def connection(stack):
    with celery_app(stack.settings.redis_url.get_secret_value()).connection_for_read() as connection:
        yield connection


def taken(connection: Connection, queue: str):
    """A channel with one place to prefetch into, and the message that is in it."""
    with connection.SimpleQueue(queue) as waiting:
        waiting.put({"a": "wake-up"})
    channel = connection.channel()
    channel.qos.prefetch_count = 1
    return channel, channel.basic_get(queue)


def test_unacknowledged_wakeup_is_not_followed_by_another(connection):
    channel, message = taken(connection, "one")

    assert not channel.qos.can_consume()
    message.ack()
    assert channel.qos.can_consume()


def test_wakeup_is_acknowledged_during_broker_outage(connection):
    channel, message = taken(connection, "two")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    channel.pool.reset()
    channel.pool.connection_kwargs["port"] = port

    message.ack_log_error(None, ())

    assert channel.qos.can_consume()


def test_delivered_wakeup_leaves_nothing_in_broker(connection):
    channel, message = taken(connection, "three")

    assert message.payload == {"a": "wake-up"}
    assert channel.client.keys("unacked*") == []

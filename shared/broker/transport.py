"""Kombu's Redis transport for rings, which need no redelivery: what is delivered is remembered in memory alone.

Kombu writes each delivered message aside in Redis and removes it when it is acknowledged. Where that removal fails, the
message counts as unacknowledged for ever: with one place to prefetch into, the worker never takes another and, as it
asks for none, never learns that its connection is gone.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import redis, virtual


class QoS(redis.QoS):
    restore_at_shutdown = False

    def append(self, message: Any, delivery_tag: str) -> None:
        virtual.QoS.append(self, message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        virtual.QoS.ack(self, delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        virtual.QoS.reject(self, delivery_tag, requeue)

    def restore_visible(self, *_: Any, **__: Any) -> None:
        """There is nothing to restore."""


class Channel(redis.Channel):
    QoS = QoS


class Transport(redis.Transport):
    Channel = Channel

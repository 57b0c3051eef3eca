"""Kombu's Redis transport for wake-ups: delivered messages are remembered in memory only.

Kombu copies each delivered message in Redis, for redelivery, and deletes the copy when the message is acknowledged. If
that delete fails, Kombu counts the message as unacknowledged forever. With prefetch 1 the worker then stops reading,
so it never notices the dead connection. A wake-up needs no redelivery, so no copy is made.
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
        """Do nothing: there are no copies to restore."""


class Channel(redis.Channel):
    QoS = QoS


class Transport(redis.Transport):
    Channel = Channel

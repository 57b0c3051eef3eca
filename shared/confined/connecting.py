"""The kind of process that reads replies of a server through a client library, which does not limit them.

It has the limits of memory and time of a confined process, and no secrets except the ones in its requests. It is not
confined otherwise, because the library connects to the server, and reads certificates and the system's configuration.
"""

from __future__ import annotations

from shared.confined.records import prepare

CONNECTS = True

__all__ = ["CONNECTS", "prepare"]

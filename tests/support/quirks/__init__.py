"""A model server in the test's process that has the faults and peculiarities of real providers.

A text chooses a quirk for its own requests by a marker, as in `quirk(openai-401)`; `QuirkServer.everywhere` chooses a
quirk for all requests. Without either the server is a correct provider. The modules `chats` and `vectors` list the
quirks, whose replies are known from public bug reports and the providers' documentation.
"""

from tests.support.quirks.server import QuirkServer
from tests.support.quirks.wire import Call, Reply, marked

__all__ = ["Call", "QuirkServer", "Reply", "marked"]

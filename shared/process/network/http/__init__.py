"""HTTP requests to servers that an operator has configured: Qdrant, models, and the embedded engines.

A request without TLS and without a proxy uses a small client of our own, `plain`. All others, redirects and streams use
aiohttp, which takes four times the processor time for a request; a process that needs neither does not load it.
"""

from shared.process.network.http.client import Client
from shared.process.network.http.options import Options
from shared.process.network.http.replies import Reply

__all__ = ["Client", "Options", "Reply"]

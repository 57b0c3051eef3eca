"""The network of a process: trusted certificates, proxies, addresses of Redis, and the reasons of failed connections.

Every client asks here, so that all of them read the environment in the same way.
"""

from shared.process.network.certificates import ssl_context
from shared.process.network.hosts import hosts_of
from shared.process.network.problems import problem_of
from shared.process.network.proxies import proxy_of

__all__ = ["hosts_of", "problem_of", "proxy_of", "ssl_context"]

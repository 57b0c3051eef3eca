"""The address of a provider's API: its paths, its query, and the credentials that its requests carry."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from shared.domain.errors import Misconfigured
from shared.process import network

_AGENT = "foreask"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A base URL.

    Args:
        base: the URL without its query and without a slash at its end.
        query: the query, which each request repeats; Azure's addresses of deployments have `api-version` there.
        key: API key.
    """

    base: str
    query: str
    key: str

    @classmethod
    def of(cls, url: str, key: str) -> Endpoint:
        parts = urlsplit(url)
        base = parts._replace(path=parts.path.rstrip("/"), query="", fragment="").geturl()
        return cls(base, parts.query, key)

    def target(self, path: str) -> str:
        """Return the path and the query of a path below the base."""
        path = self._parts.path + path
        return f"{path}?{self.query}" if self.query else path

    def headers(self) -> dict[str, str]:
        """Return the headers of all requests; the user name and the password of a URL replace the key."""
        agent = {"User-Agent": _AGENT}
        if self._parts.username is not None:
            return agent
        if self.is_azure:
            return agent | {"api-key": self.key}
        return agent | {"Authorization": f"Bearer {self.key}"}

    @property
    def is_azure(self) -> bool:
        """Whether it is an address of Azure that takes the key in a header of its own."""
        return "/deployments/" in self.base or "api-version=" in self.query

    @property
    def is_encrypted(self) -> bool:
        return self._parts.scheme == "https"

    def proxy(self, component: str) -> str | None:
        """Return the URL of the proxy.

        Raises:
            Misconfigured: the environment names a proxy that cannot be used.
        """
        try:
            return network.proxy_of(self.base)
        except ValueError as error:
            raise Misconfigured(str(error), component=component) from error

    @property
    def _parts(self) -> SplitResult:
        return urlsplit(self.base)

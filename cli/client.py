"""The client of the commands: `foreask_client`, with errors as sentences for the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import foreask_client
import httpx
from foreask_client import ApiError, BatchLine
from foreask_client.models import Lane
from foreask_client.requests import Events, Request, Stream
from foreask_client.transport import is_transient

from shared.domain.errors import Forbidden, InvalidInput, NoCollection, NotFound, TooLarge, Unauthorized, Unavailable
from shared.process import network
from shared.process.network.certificates import trust
from shared.process.network.problems import REFUSED

T = TypeVar("T")

_SERVER_ERROR = 500
_UPLOAD_PATHS = {"/v1/documents", "/v1/documents:batch"}
_REJECTIONS: dict[int, type[Forbidden | InvalidInput | NotFound | TooLarge]] = {
    403: Forbidden,
    404: NotFound,
    413: TooLarge,
}


class CliClient(foreask_client.Client):
    """A client of the API at a URL, for the tenant of a key. It can be shared by threads.

    Every method raises `Unavailable` if the server is unreachable or fails, and `Rejected` if it rejects the request.
    Only uploads are retried, because the user of another command should see its error at once.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        user: str | None = None,
        groups: Sequence[str] = (),
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        try:
            super().__init__(url, key, user=user, groups=groups, http_transport=transport or _transport(url))
        except ValueError as error:
            raise InvalidInput(str(error), field="url") from error
        self._hint = "" if key else " Give yours with --key or FOREASK_API_KEY, or a token with FOREASK_TOKEN."

    def send(self, request: Request[T]) -> T:
        is_upload = request.method == "POST" and request.path in _UPLOAD_PATHS
        with self._sentences():
            return super().send(replace(request, repeatable=request.repeatable and is_upload))

    def events_of(self, stream: Stream) -> Events:
        """Yield all events, including `error`, which each command reports in its own words."""
        with self._sentences():
            yield from super().events_of(replace(stream, fails=False))

    def upload_batch(
        self,
        documents: Sequence[Mapping[str, Any] | bytes],
        *,
        collection: str = "default",
        lane: Lane | None = None,
        job: str | None = None,
    ) -> list[BatchLine]:
        """Upload documents and return the result of each, in order.

        Raises:
            Unavailable: some documents were not stored after all attempts.
        """
        with self._sentences():
            lines = super().upload_batch(documents, collection=collection, lane=lane, job=job)
        open_line = next((line for line in lines if is_transient(line.status)), None)
        if open_line is not None:
            raise Unavailable(problem_of(open_line), component="api")
        return lines

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Convert the client's error into the errors of the commands."""
        try:
            yield
        except ApiError as error:
            raise self._converted(error) from error

    def _unreachable(self, error: ApiError) -> str:
        problem = network.problem_of(error)
        if network.proxy_of(self.url) is not None:
            way = "over the proxy that the environment names"
            return f"{self.url} cannot be reached {way}: {problem or error.detail}."
        if problem is None or problem == REFUSED:
            return f"No server at {self.url}: start one with `foreask up`, or name another with --url."
        return f"{self.url} cannot be reached: {problem}."

    def _converted(self, error: ApiError) -> Exception:
        status, detail = error.status, error.detail
        if status is None:
            if isinstance(error.__cause__, httpx.ConnectError):
                detail = self._unreachable(error)
            return Unavailable(detail, component="api")
        if status >= _SERVER_ERROR or is_transient(status):
            pause = None if error.retry_after is None else timedelta(seconds=error.retry_after)
            return Unavailable(detail, component="api", retry_after=pause)
        if status == httpx.codes.UNAUTHORIZED:
            return Unauthorized(detail + self._hint)
        if error.type == "no-collection":
            return NoCollection(detail)
        return _REJECTIONS.get(status, InvalidInput)(detail)


def _transport(url: str) -> httpx.BaseTransport:
    """Return a transport with the certificates and the proxy that all clients of foreask use.

    Raises:
        ValueError: the environment names a proxy or a file of certificates that cannot be used.
    """
    if file := os.environ.get("FOREASK_CA_FILE"):
        trust(Path(file))
    proxy = network.proxy_of(url)
    if url.startswith("https:"):
        try:
            verify = network.ssl_context()
        except OSError as error:
            variables = "FOREASK_CA_FILE, SSL_CERT_FILE and REQUESTS_CA_BUNDLE"
            raise ValueError(f"A file of certificates cannot be read: check {variables}.") from error
        return httpx.HTTPTransport(verify=verify, trust_env=False, proxy=proxy)
    return httpx.HTTPTransport(trust_env=False, proxy=proxy)


def problem_of(line: BatchLine) -> str:
    """Return the reason why a document of a batch was rejected."""
    detail = (line.error or {}).get("detail")
    return str(detail or f"The server answered {line.status}.")

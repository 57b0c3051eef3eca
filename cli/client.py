"""A client of the API: requests over HTTP, and errors as sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from shared.domain.errors import Forbidden, InvalidInput, NotFound, TooLarge, Transient, Unauthorized, Unavailable

Json = dict[str, Any]

_TIMEOUT = httpx.Timeout(60, connect=5)
_STREAM_TIMEOUT = httpx.Timeout(300, connect=5)
_UPLOAD_ATTEMPTS = 5
_LONGEST_WAIT_SECONDS = 30.0
_LONGEST_PAUSE = timedelta(minutes=5)
_PAGE = 200
_SERVER_ERROR = 500
_COME_BACK = {httpx.codes.TOO_MANY_REQUESTS, httpx.codes.REQUEST_TIMEOUT}  # the latter: a body stood still on its way
_BACKOFF = wait_random_exponential(multiplier=0.5, max=_LONGEST_WAIT_SECONDS)
_LINE_END = re.compile(rb"\r\n|\r|\n")
_REJECTIONS: dict[int, type[Forbidden | InvalidInput | NotFound | TooLarge | Unauthorized]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    413: TooLarge,
}


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event; its data is JSON."""

    name: str
    data: Json


class Client:
    """The API at a URL, for the tenant of a key. Safe to use from many threads.

    Every method raises `Unavailable` where the server cannot be reached and `Rejected` where it refuses.
    """

    def __init__(self, url: str, key: str | None = None, *, transport: httpx.BaseTransport | None = None) -> None:
        self.url = url.rstrip("/")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        try:
            self._http = httpx.Client(
                base_url=self.url,
                headers=headers,
                timeout=_TIMEOUT,
                transport=transport,
                trust_env=not _is_local(self.url),  # a proxy cannot reach this machine
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise InvalidInput(f"{url} is not a URL: it should be like http://127.0.0.1:8350", field="url") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._http.close()

    def upload(self, file: Path, external_id: str, collection: str, lane: str | None = None) -> Json:
        """Hand in a file. While the server is unavailable this waits and tries again, a few times.

        Args:
            file: the file to send.
            external_id: the document's name.
            collection: made on first use.
            lane: `interactive` or `bulk`; None is the server's default.
        """
        fields = {"collection": collection, "external_id": external_id} | ({"lane": lane} if lane else {})

        def send() -> Json:
            with file.open("rb") as content:
                return self._json("POST", "/v1/documents", data=fields, files={"file": (file.name, content)})

        return _with_retries(send)

    def upload_batch(self, collection: str, documents: Sequence[bytes]) -> list[Json]:
        """Hand in documents, each as its JSON; return what the server says of each, in order.

        A line that says 429 or 5xx is handed in again, as the whole is where the server is unavailable: what is there
        already is not taken twice.
        """
        replies: list[Json | None] = [None] * len(documents)

        def send() -> Json:
            waiting = [place for place, reply in enumerate(replies) if reply is None]
            for place, reply in zip(waiting, self._batch(collection, [documents[p] for p in waiting]), strict=True):
                if not _is_transient(reply["status"]):
                    replies[place] = reply
                else:
                    error = reply
            if None in replies:
                raise Unavailable(problem_of(error), component="api")
            return {}

        _with_retries(send)
        return [reply for reply in replies if reply is not None]

    def _batch(self, collection: str, documents: Sequence[bytes]) -> list[Json]:
        response = self._send(
            "POST",
            "/v1/documents:batch",
            params={"collection": collection},
            content=b"\n".join(documents),
            headers={"content-type": "application/x-ndjson"},
            timeout=_STREAM_TIMEOUT,
        )
        lines = [line for line in response.content.split(b"\n") if line.strip()]
        replies: list[Json] = [json.loads(line) for line in lines]
        if len(replies) != len(documents):
            why = f": {problem_of(replies[-1])}" if replies and "error" in replies[-1] else "."
            raise Unavailable(f"{self.url} answered {len(replies)} of {len(documents)} documents{why}", component="api")
        return replies

    def estimate(self, body: Json) -> Json:
        """What a load or a rebuild costs; `body` is that of POST /v1/estimates."""
        return self._json("POST", "/v1/estimates", json=body, timeout=_STREAM_TIMEOUT)

    def documents(self, collection: str | None = None, state: str | None = None) -> Iterator[Json]:
        """Yield every document, page by page."""
        filters = {"collection": collection, "state": state}
        return self._items("/v1/documents", {name: value for name, value in filters.items() if value is not None})

    def document(self, document_id: str) -> Json:
        return self._json("GET", f"/v1/documents/{document_id}")

    def documents_of(self, document_ids: Sequence[str]) -> list[Json]:
        """Return those of up to 100 documents that exist, in any order."""
        documents: list[Json] = self._json("GET", "/v1/documents", params={"id": document_ids, "limit": _PAGE})["items"]
        return documents

    def chunks(self, document_id: str) -> Iterator[Json]:
        return self._items(f"/v1/documents/{document_id}/chunks", {})

    def _items(self, path: str, query: Json) -> Iterator[Json]:
        """Yield every item of a list, page by page."""
        query = query | {"limit": _PAGE}
        while True:
            page = self._json("GET", path, params=query)
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            query["cursor"] = page["next_cursor"]

    def delete(self, document_id: str) -> None:
        self._send("DELETE", f"/v1/documents/{document_id}")

    def retry(self, document_id: str) -> Json:
        return self._json("POST", f"/v1/documents/{document_id}/retry")

    def dead(self, filters: Json) -> Iterator[Json]:
        """Yield dead letters, newest first; `filters` may have collection, document_id and reason."""
        return self._items("/v1/dead", filters)

    def dead_reasons(self, filters: Json) -> list[Json]:
        reasons: list[Json] = self._json("GET", "/v1/dead/reasons", params=filters)["items"]
        return reasons

    def dead_letter(self, letter_id: str) -> Json:
        return self._json("GET", f"/v1/dead/{quote(letter_id, safe='')}")

    def retry_dead(self, filters: Json) -> Json:
        return self._json("POST", "/v1/dead/retry", json=filters, timeout=_STREAM_TIMEOUT)

    def discard_dead(self, filters: Json) -> Json:
        return self._json("POST", "/v1/dead/discard", json=filters, timeout=_STREAM_TIMEOUT)

    def collections(self) -> list[Json]:
        return list(self._items("/v1/collections", {}))

    def collection(self, name: str) -> Json:
        return self._json("GET", f"/v1/collections/{quote(name, safe='')}")

    def declare(self, collection: str, filterable: Json) -> Json:
        """Add filterable fields to those of a collection, with their types; its other options stay."""
        path = f"/v1/collections/{quote(collection, safe='')}"
        try:
            options = self._json("GET", path)["options"]
        except NotFound:
            options = {}
        return self._json("PUT", path, json=options | {"filterable": filterable})

    def reindex(self, collection: str) -> Json:
        return self._json("POST", f"/v1/collections/{quote(collection, safe='')}/reindex")

    def builds(self, collection: str) -> list[Json]:
        """Return the builds of a collection, the oldest first."""
        builds: list[Json] = self._json("GET", _builds(collection))["items"]
        return builds

    def build(self, collection: str, number: int) -> Json:
        return self._json("GET", f"{_builds(collection)}/{number}")

    def begin_build(self, collection: str, change: Json) -> Json:
        """Begin a build; `change` is what it has otherwise than the live one."""
        return self._json("POST", _builds(collection), json=change)

    def act_on_build(self, collection: str, number: int, action: str) -> Json:
        """Have a build do `pause` or `resume`."""
        return self._json("POST", f"{_builds(collection)}/{number}/{action}")

    def switch_build(self, collection: str, number: int, *, despite: bool = False) -> Json:
        return self._json("POST", f"{_builds(collection)}/{number}/switch", json={"despite": despite})

    def drop_build(self, collection: str, number: int) -> Json:
        return self._json("DELETE", f"{_builds(collection)}/{number}")

    def gate_events(
        self, collection: str, number: int, questions: list[Json] | None, accepted_failures: int
    ) -> Iterator[Event]:
        """Compare a build with the live one, and yield counts as they come, then the report as `done`."""
        body = {"questions": questions, "accept_failures": accepted_failures}
        return self._events(f"{_builds(collection)}/{number}/gate", body)

    def calibrate(self, collection: str, questions: list[Json] | None) -> Json:
        path = f"/v1/collections/{quote(collection, safe='')}/calibration"
        return self._json("POST", path, json={"questions": questions}, timeout=_STREAM_TIMEOUT)

    def forget_calibration(self, collection: str) -> None:
        self._send("DELETE", f"/v1/collections/{quote(collection, safe='')}/calibration")

    def accepted(self, collection: str) -> Iterator[Json]:
        """Yield users' questions that became questions of chunks, newest first."""
        return self._items(f"/v1/collections/{quote(collection, safe='')}/accepted", {})

    def remove_accepted(self, collection: str, accepted_id: str) -> None:
        self._send("DELETE", f"/v1/collections/{quote(collection, safe='')}/accepted/{quote(accepted_id, safe='')}")

    def status(self) -> Json:
        return self._json("GET", "/v1/status")

    def keys(self) -> Iterator[Json]:
        """Yield the tenant's keys, newest first."""
        return self._items("/v1/keys", {})

    def make_key(self, body: Json) -> Json:
        """Make a key; `body` is that of POST /v1/keys."""
        return self._json("POST", "/v1/keys", json=body)

    def revoke_key(self, key_id: str) -> None:
        self._send("DELETE", f"/v1/keys/{quote(key_id, safe='')}")

    def deployment_status(self) -> Json:
        """Return the state of all tenants together, for an operator's key."""
        return self._json("GET", "/v1/operator/status")

    def tenants(self) -> Iterator[Json]:
        """Yield each tenant with its state, for an operator's key."""
        return self._items("/v1/operator/tenants", {})

    def tenant_collections(self, tenant: str) -> Iterator[Json]:
        """Yield a tenant's collections, for an operator's key."""
        return self._items(f"/v1/operator/tenants/{quote(tenant, safe='')}/collections", {})

    def verify_tenant_events(self, tenant: str, collection: str, *, repair: bool) -> Iterator[Event]:
        """Compare a tenant's collection with Qdrant, for an operator's key, and yield findings and counts."""
        path = f"/v1/operator/tenants/{quote(tenant, safe='')}/collections/{quote(collection, safe='')}/verify"
        return self._events(path, {"repair": repair})

    def verify_events(self, collection: str, *, repair: bool, cursor: str | None = None) -> Iterator[Event]:
        """Compare a collection with Qdrant, and yield findings and counts as they come.

        Args:
            collection: its name.
            repair: mend what differs.
            cursor: of the last `progress` of a comparison that broke off, to go on there.
        """
        path = f"/v1/collections/{quote(collection, safe='')}/verify"
        return self._events(path, {"repair": repair, "cursor": cursor})

    def health(self) -> Json:
        """Return the health of each part. Status 503 is an answer too: a part is down."""
        response = self._request("GET", "/health/ready")
        try:
            health: Json = response.json()
        except ValueError as error:
            raise Unavailable(f"{self.url} is not a foreask server.", component="api") from error
        return health

    def retrieve(self, body: Json) -> Json:
        """Find chunks; `body` is that of POST /v1/retrieve."""
        return self._json("POST", "/v1/retrieve", json=body)

    def query(self, question: str, collection: str, **options: Any) -> Json:
        """Ask, and return the whole answer at once; `options` are further fields of POST /v1/query."""
        return self._json("POST", "/v1/query", json=_query(question, collection, options), timeout=_STREAM_TIMEOUT)

    def query_events(self, question: str, collection: str, **options: Any) -> Iterator[Event]:
        """Ask, and yield the events of the answer as they come."""
        return self._events("/v1/query", _query(question, collection, options) | {"stream": True})

    def _events(self, path: str, body: Json) -> Iterator[Event]:
        accept = {"accept": "text/event-stream"}
        with (
            self._connection_errors(),
            self._http.stream("POST", path, json=body, headers=accept, timeout=_STREAM_TIMEOUT) as response,
        ):
            if response.is_error:
                response.read()
                self._raise_for(response)
            yield from events(event_lines(response.iter_bytes()))

    def _json(self, method: str, path: str, **options: Any) -> Json:
        response = self._send(method, path, **options)
        try:
            body: Json = response.json()
        except ValueError as error:
            raise Unavailable(f"{self.url} does not answer like a foreask server.", component="api") from error
        return body

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        response = self._request(method, path, **options)
        self._raise_for(response)
        return response

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        with self._connection_errors():
            return self._http.request(method, path, **options)

    @contextmanager
    def _connection_errors(self) -> Iterator[None]:
        """Turn the errors of httpx into sentences that say what to do."""
        try:
            yield
        except httpx.ConnectError as error:
            message = f"No server at {self.url}: start one with `foreask up`, or name another with --url."
            raise Unavailable(message, component="api") from error
        except httpx.TimeoutException as error:
            raise Unavailable(f"The server at {self.url} did not answer in time.", component="api") from error
        except httpx.UnsupportedProtocol as error:
            message = f"{self.url} is not a URL: it should be like http://127.0.0.1:8350"
            raise InvalidInput(message, field="url") from error
        except httpx.HTTPError as error:
            message = f"The connection to {self.url} broke ({type(error).__name__})."
            raise Unavailable(message, component="api") from error

    def _raise_for(self, response: httpx.Response) -> None:
        if not response.is_error:
            return
        detail = _detail(response)
        if _is_transient(response.status_code):
            raise Unavailable(detail, component="api", retry_after=_retry_after(response))
        if response.status_code == httpx.codes.UNAUTHORIZED:
            hint = "" if "authorization" in self._http.headers else " Give yours with --key or FOREASK_API_KEY."
            raise Unauthorized(detail + hint)
        raise _REJECTIONS.get(response.status_code, InvalidInput)(detail)


def problem_of(reply: Json) -> str:
    """Say what is wrong with a document of a batch."""
    error = reply.get("error")
    detail = error.get("detail") if isinstance(error, dict) else error
    return str(detail or f"The server answered {reply['status']}.")


def _is_transient(status: int) -> bool:
    return status >= _SERVER_ERROR or status in _COME_BACK


def event_lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Split a stream of server-sent events into lines; only LF, CR LF and CR end one.

    `httpx.Response.iter_lines` also splits at U+0085, U+2028 and U+2029, which JSON has inside its texts.
    """
    rest = b""
    for piece in pieces:
        received = rest + piece
        end = len(received) - received.endswith(b"\r")  # perhaps half of CR LF
        *lines, begun = _LINE_END.split(received[:end])
        rest = begun + received[end:]
        for line in lines:
            yield line.decode()
    if rest:
        yield rest.removesuffix(b"\r").decode()


def events(lines: Iterator[str]) -> Iterator[Event]:
    """Read server-sent events (HTML Living Standard, 9.2.6) whose data is JSON."""
    name, data = "message", list[str]()
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield Event(name, json.loads("\n".join(data)))
            name, data = "message", []
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)


def _builds(collection: str) -> str:
    return f"/v1/collections/{quote(collection, safe='')}/builds"


def _query(question: str, collection: str, options: Json) -> Json:
    return {"question": question, "collection": collection} | options


def _with_retries(send: Callable[[], Json]) -> Json:
    retrying = Retrying(
        retry=retry_if_exception(_is_worth_waiting_for),
        stop=stop_after_attempt(_UPLOAD_ATTEMPTS),
        wait=_wait,
        reraise=True,
    )
    return retrying(send)


def _is_worth_waiting_for(error: BaseException) -> bool:
    """A limit of the day is over in hours: attempts before then would be refused too."""
    return isinstance(error, Transient) and (error.retry_after or timedelta()) <= _LONGEST_PAUSE


def _wait(state: RetryCallState) -> float:
    """Return the seconds until the next attempt: exponential, but not less than the server's Retry-After."""
    error = state.outcome.exception() if state.outcome else None
    retry_after = error.retry_after if isinstance(error, Transient) else None
    return max(_BACKOFF(state), min(_LONGEST_WAIT_SECONDS, (retry_after or timedelta()).total_seconds()))


def _detail(response: httpx.Response) -> str:
    try:
        problem = response.json()
    except ValueError:
        problem = None
    detail = problem.get("detail") if isinstance(problem, dict) else None
    return str(detail) if detail else f"The server answered {response.status_code} {response.reason_phrase}."


def _retry_after(response: httpx.Response) -> timedelta | None:
    try:
        return timedelta(seconds=float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def _is_local(url: str) -> bool:
    return httpx.URL(url).host in {"127.0.0.1", "localhost", "::1"}

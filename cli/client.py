"""The API for the commands: the Python client, whose replies are the API's JSON and whose errors are sentences."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import httpx
from foreask_client import ApiError, Event
from foreask_client import Client as PythonClient
from foreask_client.models import Json
from foreask_client.operations import Lane, Operations
from foreask_client.requests import Pages, Request, Stream
from foreask_client.transport import is_transient

from shared.domain.errors import Forbidden, InvalidInput, NotFound, TooLarge, Unauthorized, Unavailable

__all__ = ["Client", "Event", "Json", "problem_of"]

_SERVER_ERROR = 500
_REJECTIONS: dict[int, type[Forbidden | InvalidInput | NotFound | TooLarge]] = {
    403: Forbidden,
    404: NotFound,
    413: TooLarge,
}


class Client:
    """The API at a URL, for the tenant of a key. Safe to use from many threads.

    Every method raises `Unavailable` where the server cannot be reached and `Rejected` where it refuses. Uploads alone
    are sent again while the server is unavailable: who waits for another command sees at once why it does not go.
    """

    def __init__(self, url: str, key: str | None = None, *, transport: httpx.BaseTransport | None = None) -> None:
        try:
            self._api = PythonClient(url, key, attempts=1, http_transport=transport)
            self._uploads = PythonClient(url, key, http_transport=transport)
        except ValueError as error:
            raise InvalidInput(str(error), field="url") from error
        self.url = self._api.url
        self._hint = "" if key else " Give yours with --key or FOREASK_API_KEY."

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._api.close()
        self._uploads.close()

    def upload(self, file: Path, external_id: str, collection: str, lane: str | None = None) -> Json:
        """Hand in a file; `external_id` is its name; the server checks the lane, and None is its default."""
        chosen = cast("Lane | None", lane)
        request = Operations.upload.describe(
            self._uploads, file, collection=collection, external_id=external_id, lane=chosen
        )
        return self._sent(request, self._uploads)

    def upload_batch(self, collection: str, documents: Sequence[bytes]) -> list[Json]:
        """Hand in documents, each as its JSON; return what the server says of each, in order.

        Raises:
            Unavailable: some were not taken in the end.
        """
        with self._sentences():
            lines = self._uploads.upload_batch(documents, collection=collection)
        replies = [line.model_dump(mode="json") for line in lines]
        error = next((reply for reply in replies if is_transient(reply["status"])), None)
        if error is not None:
            raise Unavailable(problem_of(error), component="api")
        return replies

    def estimate(self, body: Json) -> Json:
        """What a load or a rebuild costs; `body` is that of POST /v1/estimates."""
        return self._sent(Operations.estimate.describe(self._api, body))

    def documents(self, collection: str | None = None, state: str | None = None) -> Iterator[Json]:
        return self._items(Operations.documents.describe(self._api, collection=collection, state=state))

    def document(self, document_id: str) -> Json:
        return self._sent(Operations.document.describe(self._api, document_id))

    def documents_of(self, document_ids: Sequence[str]) -> list[Json]:
        """Return those of up to 100 documents that exist, in any order."""
        return list(self._items(Operations.documents.describe(self._api, ids=document_ids)))

    def chunks(self, document_id: str) -> Iterator[Json]:
        return self._items(Operations.chunks.describe(self._api, document_id))

    def delete(self, document_id: str) -> None:
        self._sent(Operations.delete_document.describe(self._api, document_id))

    def retry(self, document_id: str) -> Json:
        return self._sent(Operations.retry_document.describe(self._api, document_id))

    def dead(self, filters: Json) -> Iterator[Json]:
        """Yield dead letters, newest first; `filters` may have collection, document_id and reason."""
        return self._items(Operations.dead_letters.describe(self._api, **filters))

    def dead_reasons(self, filters: Json) -> list[Json]:
        return self._list(Operations.dead_reasons.describe(self._api, **filters))

    def dead_letter(self, letter_id: str) -> Json:
        return self._sent(Operations.dead_letter.describe(self._api, letter_id))

    def retry_dead(self, filters: Json) -> Json:
        return self._sent(Operations.retry_dead_letters.describe(self._api, **filters))

    def discard_dead(self, filters: Json) -> Json:
        return self._sent(Operations.discard_dead_letters.describe(self._api, **filters))

    def collections(self) -> list[Json]:
        return list(self._items(Operations.collections.describe(self._api)))

    def collection(self, name: str) -> Json:
        return self._sent(Operations.collection.describe(self._api, name))

    def declare(self, collection: str, filterable: Json) -> Json:
        """Add filterable fields to those of a collection, with their types; its other options stay."""
        try:
            options = self.collection(collection)["options"]
        except NotFound:
            options = {}
        options = options | {"filterable": filterable}
        return self._sent(Operations.put_collection.describe(self._api, collection, **options))

    def reindex(self, collection: str) -> Json:
        return self._sent(Operations.reindex.describe(self._api, collection))

    def builds(self, collection: str) -> list[Json]:
        """Return the builds of a collection, the oldest first."""
        return self._list(Operations.builds.describe(self._api, collection))

    def build(self, collection: str, number: int) -> Json:
        return self._sent(Operations.build.describe(self._api, collection, number))

    def begin_build(self, collection: str, change: Json) -> Json:
        """Begin a build; `change` is what it has otherwise than the live one."""
        return self._sent(Operations.begin_build.describe(self._api, collection, **change))

    def pause_build(self, collection: str, number: int) -> Json:
        return self._sent(Operations.pause_build.describe(self._api, collection, number))

    def resume_build(self, collection: str, number: int) -> Json:
        return self._sent(Operations.resume_build.describe(self._api, collection, number))

    def switch_build(self, collection: str, number: int, *, despite: bool = False) -> Json:
        return self._sent(Operations.switch_build.describe(self._api, collection, number, despite=despite))

    def drop_build(self, collection: str, number: int) -> Json:
        return self._sent(Operations.drop_build.describe(self._api, collection, number))

    def gate_events(
        self, collection: str, number: int, questions: list[Json] | None, accepted_failures: int
    ) -> Iterator[Event]:
        """Compare a build with the live one, and yield counts as they come, then the report as `done`."""
        return self._events(
            Operations.gate.describe(
                self._api, collection, number, questions=questions, accept_failures=accepted_failures
            )
        )

    def calibrate(self, collection: str, questions: list[Json] | None) -> Json:
        return self._sent(Operations.calibrate.describe(self._api, collection, questions))

    def forget_calibration(self, collection: str) -> None:
        self._sent(Operations.forget_calibration.describe(self._api, collection))

    def evaluate(self, collection: str, **body: Any) -> Json:
        """Begin an evaluation; `body` is that of POST /v1/collections/{name}/evaluations."""
        return self._sent(Operations.evaluate.describe(self._api, collection, **body))

    def evaluation(self, collection: str, evaluation_id: str) -> Json:
        return self._sent(Operations.evaluation.describe(self._api, collection, evaluation_id))

    def delete_evaluation(self, collection: str, evaluation_id: str) -> None:
        self._sent(Operations.delete_evaluation.describe(self._api, collection, evaluation_id))

    def accepted(self, collection: str) -> Iterator[Json]:
        """Yield users' questions that became questions of chunks, newest first."""
        return self._items(Operations.accepted.describe(self._api, collection))

    def remove_accepted(self, collection: str, accepted_id: str) -> None:
        self._sent(Operations.remove_accepted.describe(self._api, collection, accepted_id))

    def status(self) -> Json:
        return self._sent(Operations.status.describe(self._api))

    def keys(self) -> Iterator[Json]:
        """Yield the tenant's keys, newest first."""
        return self._items(Operations.keys.describe(self._api))

    def make_key(self, body: Json) -> Json:
        """Make a key; `body` is that of POST /v1/keys."""
        return self._sent(Operations.make_key.describe(self._api, **body))

    def revoke_key(self, key_id: str) -> None:
        self._sent(Operations.revoke_key.describe(self._api, key_id))

    def deployment_status(self) -> Json:
        """Return the state of all tenants together, for an operator's key."""
        return self._sent(Operations.deployment_status.describe(self._api))

    def tenants(self) -> Iterator[Json]:
        """Yield each tenant with its state, for an operator's key."""
        return self._items(Operations.tenants.describe(self._api))

    def tenant_collections(self, tenant: str) -> Iterator[Json]:
        """Yield a tenant's collections, for an operator's key."""
        return self._items(Operations.tenant_collections.describe(self._api, tenant))

    def verify_tenant_events(self, tenant: str, collection: str, *, repair: bool) -> Iterator[Event]:
        """Compare a tenant's collection with Qdrant, for an operator's key, and yield findings and counts."""
        return self._events(Operations.verify_tenant.describe(self._api, tenant, collection, repair=repair))

    def verify_events(self, collection: str, *, repair: bool, cursor: str | None = None) -> Iterator[Event]:
        """Compare a collection with Qdrant, and yield findings and counts as they come.

        Args:
            collection: its name.
            repair: mend what differs.
            cursor: of the last `progress` of a comparison that broke off, to go on there.
        """
        return self._events(Operations.verify.describe(self._api, collection, repair=repair, cursor=cursor))

    def health(self) -> Json:
        """Return the health of each part. Status 503 is an answer too: a part is down."""
        return self._sent(Operations.health.describe(self._api))

    def query(self, question: str, collection: str, **options: Any) -> Json:
        """Ask, and return the whole answer at once; `options` are further fields of POST /v1/query."""
        return self._sent(Operations.query.describe(self._api, question, collection=collection, **options))

    def query_events(self, question: str, collection: str, **options: Any) -> Iterator[Event]:
        """Ask, and yield the events of the answer as they come."""
        return self._events(Operations.query_events.describe(self._api, question, collection=collection, **options))

    def _sent(self, request: Request[Any], client: PythonClient | None = None) -> Json:
        """Send a request, and return its reply as the API's JSON; empty where it has none."""
        with self._sentences():
            reply: Json = (client or self._api).send(replace(request, read=_json))
        return reply

    def _list(self, request: Request[Any]) -> list[Json]:
        items: list[Json] = self._sent(request)["items"]
        return items

    def _items(self, pages: Pages[Any]) -> Iterator[Json]:
        with self._sentences():
            yield from self._api.items(replace(pages, read=_as_it_is))

    def _events(self, stream: Stream) -> Generator[Event, None, None]:
        """Yield all events, `error` too: the commands have words for it."""
        with self._sentences():
            yield from self._api.events_of(replace(stream, fails=False))

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Turn the client's error into those of the commands."""
        try:
            yield
        except ApiError as error:
            raise self._said(error) from error

    def _said(self, error: ApiError) -> Exception:
        status, detail = error.status, error.detail
        if status is None:
            if isinstance(error.__cause__, httpx.ConnectError):
                detail = f"No server at {self.url}: start one with `foreask up`, or name another with --url."
            return Unavailable(detail, component="api")
        if status >= _SERVER_ERROR or is_transient(status):
            pause = None if error.retry_after is None else timedelta(seconds=error.retry_after)
            return Unavailable(detail, component="api", retry_after=pause)
        if status == httpx.codes.UNAUTHORIZED:
            return Unauthorized(detail + self._hint)
        return _REJECTIONS.get(status, InvalidInput)(detail)


def problem_of(reply: Json) -> str:
    """Say what is wrong with a document of a batch."""
    error = reply.get("error")
    detail = error.get("detail") if isinstance(error, dict) else error
    return str(detail or f"The server answered {reply['status']}.")


def _json(response: httpx.Response) -> Json:
    reply: Json = response.json() if response.content else {}
    return reply


_as_it_is: Callable[[Json], Json] = dict

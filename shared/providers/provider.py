"""The one border to OpenAI-compatible providers: their client, and its errors mapped to ours."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import openai
import orjson

from shared.domain.errors import ForeaskError, KeyRefused, RateLimited, Refused, TimedOut, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import SecretStr

_QUOTA_PAUSE = timedelta(minutes=5)
_AWAY_PAUSE = timedelta(seconds=5)
_KEY_PAUSE = timedelta(seconds=30)
_TRANSIENT_STATUSES = {408, 409, 425, 429}


class Provider:
    """A connection pool to one OpenAI-compatible base URL; close it with `aclose`."""

    def __init__(self, *, component: str, base_url: str, api_key: SecretStr | None, timeout: timedelta) -> None:
        self.component = component
        self._client = openai.AsyncOpenAI(
            base_url=base_url,
            api_key=api_key.get_secret_value() if api_key else "none",
            timeout=timeout.total_seconds(),
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(),
        )

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send one JSON request and return the reply's JSON object.

        Raises:
            RateLimited, Unavailable, Refused: as `post_any`; Unavailable also where the reply is no object.
        """
        reply = await self.post_any(path, body)
        if not isinstance(reply, dict):
            raise Unavailable(
                f"the {self.component} provider sent no JSON object", component=self.component, answered=True
            )
        return reply

    async def post_any(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send one JSON request and return the reply's JSON value.

        It goes below the SDK's typed resources: their models cost more CPU than the HTTP call (1.3 ms against 0.75 ms),
        and the reader of the reply validates it anyway.

        Raises:
            RateLimited: 429.
            Unavailable: a broken connection, 5xx, or of its kinds TimedOut and KeyRefused.
            Refused: any other 4xx.
        """
        with provider_errors(self.component):
            response = await self._client.post(path, cast_to=_RESPONSE, body=body)
        try:
            return orjson.loads(response.content)
        except orjson.JSONDecodeError as error:
            raise Unavailable(
                f"the {self.component} provider sent no JSON", component=self.component, answered=True
            ) from error

    async def stream_chat(self, body: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        """Send a chat completion and yield the SDK's chunks of its reply; the last one has the usage.

        Raises:
            RateLimited, Unavailable, Refused: as `post_any`.
        """
        with provider_errors(self.component):
            options = {"include_usage": True}
            events = await self._client.chat.completions.create(**body, stream=True, stream_options=options)  # type: ignore[call-overload]
            async for event in events:
                yield event

    async def aclose(self) -> None:
        await self._client.close()


def _response_type() -> type[Any]:
    import httpx2  # noqa: PLC0415  the SDK's own HTTP library: it hands out raw responses as this type

    return httpx2.Response


_RESPONSE = _response_type()


@contextmanager
def provider_errors(component: str) -> Iterator[None]:
    """Map the SDK's exceptions to ours."""
    try:
        yield
    except openai.APIStatusError as error:
        raise _from_status(error, component) from error
    except openai.APITimeoutError as error:
        raise TimedOut(
            f"the {component} provider did not answer in time", component=component, answered=True
        ) from error
    except openai.APIConnectionError as error:
        raise Unavailable(
            f"the {component} provider cannot be reached", component=component, retry_after=_AWAY_PAUSE
        ) from error
    except openai.APIError as error:
        raise Unavailable(
            f"the {component} provider failed: {error.message}", component=component, answered=True
        ) from error


def _from_status(error: openai.APIStatusError, component: str) -> ForeaskError:
    status = error.status_code
    message = f"the {component} provider answered {status}: {_first_line(error)}"
    wait = retry_after(error.response.headers)
    if status == 429:  # noqa: PLR2004
        if error.code == "insufficient_quota":
            return RateLimited(f"the {component} provider's quota is used up", retry_after=wait or _QUOTA_PAUSE)
        return RateLimited(message, retry_after=wait)
    if status in {401, 403}:
        # Every call would fail alike: the configuration is wrong, not the chunk, so the chunk waits for a person.
        return KeyRefused(f"{message} (check its API key)", component=component, retry_after=_KEY_PAUSE)
    if status in _TRANSIENT_STATUSES or status >= 500:  # noqa: PLR2004
        return Unavailable(message, component=component, retry_after=wait, answered=True)
    return Refused(message)


def _first_line(error: openai.APIStatusError) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    message = str(body.get("message") or error.message)
    return message.splitlines()[0][:300] if message else "no reason given"


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """The pause that the provider asks for: `retry-after-ms`, else `retry-after` in seconds or as a date.

    RFC 9110, 10.2.3. A date counts from the reply's own `date`, since this machine's clock may be another hour's.

    Returns:
        None without a wish that can be read; a date in a reply without `date` cannot.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return timedelta(milliseconds=milliseconds)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return timedelta(seconds=seconds)
    then, sent = _date(value), _date(headers.get("date"))
    return None if then is None or sent is None else max(then - sent, timedelta())


def _date(value: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(value or "")
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)  # the zone `-0000` is read as none


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if 0 <= number < 1e7 else None  # noqa: PLR2004  also refuses inf and nan

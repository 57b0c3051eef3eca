"""OpenAI's SDK, for files and batches, and the conversion of its errors.

Other calls bypass it (`shared.providers.provider`), and importing it takes 25 MB and up to a second: import this module
in the function that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl

import httpx2
import openai

from shared.domain.errors import ForeaskError
from shared.process import network
from shared.process.network.timeouts import CONNECT_SECONDS
from shared.providers.endpoint import Endpoint
from shared.providers.errors.answers import ErrorAnswer, interrupted, refusal
from shared.providers.errors.failures import failure


def sdk(endpoint: Endpoint, timeout: timedelta, proxy: str | None) -> openai.AsyncOpenAI:
    """Return a client that repeats nothing; close it.

    Args:
        endpoint: address and credentials.
        timeout: time between two bytes of a reply.
        proxy: URL of the proxy.
    """
    seconds = timeout.total_seconds()
    hooks: dict[str, list[Any]] = {"request": [_remove_authorization]} if endpoint.is_azure else {}
    return openai.AsyncOpenAI(
        base_url=endpoint.base,
        api_key=endpoint.key,
        timeout=httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
        max_retries=0,
        default_query=dict(parse_qsl(endpoint.query)),
        default_headers=endpoint.headers(),
        # It reads no variables: `network` has read them.
        http_client=openai.DefaultAioHttpClient(
            verify=network.ssl_context(), proxy=proxy, trust_env=False, event_hooks=hooks
        ),
    )


async def _remove_authorization(request: httpx2.Request) -> None:
    """Remove the header that the SDK always sets, and that Azure takes for another kind of login."""
    del request.headers["Authorization"]


@contextmanager
def sdk_errors(component: str, api_key: str, sent: str = "", *, timeout: timedelta | None = None) -> Iterator[None]:
    """Convert the SDK's errors, and log the provider's message.

    Args:
        component: the provider.
        api_key: removed from everything that is shown or logged.
        sent: the texts of the request, which are removed, too.
        timeout: timeout of the call, for the message.
    """
    try:
        yield
    except openai.APIStatusError as error:
        answer = ErrorAnswer.of(error.status_code, error.response.headers, error.body)
        raise refusal(answer, component, api_key, sent) from error
    except (openai.APIConnectionError, TimeoutError) as error:
        raise failure(component, error, timeout) from error
    except httpx2.TimeoutException as error:  # while a reply is streamed, the SDK converts nothing
        raise failure(component, error, timeout) from error
    except httpx2.HTTPError as error:
        raise interrupted(component) from error
    except openai.APIError as error:
        raise refusal(ErrorAnswer.of(None, {}, error.body), component, api_key, sent) from error


def status_of(error: ForeaskError) -> int:
    """Return the status of the answer that an error was converted from; 0 if there was no answer."""
    cause = error.__cause__
    return cause.status_code if isinstance(cause, openai.APIStatusError) else 0

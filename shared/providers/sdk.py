"""OpenAI's SDK, for streams, files and batches, and the conversion of its errors.

Other calls bypass it (`shared.providers.provider`), and importing it takes 25 MB and up to a second: import this module
in the function that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import httpx2
import openai

from shared.domain.errors import ForeaskError
from shared.providers.answers import ErrorAnswer, interrupted, no_answer, refusal, unreachable


def sdk(base_url: str, api_key: str, timeout: timedelta) -> openai.AsyncOpenAI:
    """Return a client that repeats nothing; close it."""
    return openai.AsyncOpenAI(
        base_url=base_url,
        api_key=api_key,
        timeout=timeout.total_seconds(),
        max_retries=0,
        http_client=openai.DefaultAioHttpClient(),
    )


@contextmanager
def sdk_errors(component: str, api_key: str, sent: str = "") -> Iterator[None]:
    """Convert the SDK's errors, and log the provider's message.

    Args:
        component: the provider.
        api_key: removed from everything that is shown or logged.
        sent: the texts of the request, which are removed, too.
    """
    try:
        yield
    except openai.APIStatusError as error:
        answer = ErrorAnswer.of(error.status_code, error.response.headers, error.body)
        raise refusal(answer, component, api_key, sent) from error
    except openai.APITimeoutError as error:
        raise no_answer(component) from error
    except openai.APIConnectionError as error:
        raise unreachable(component) from error
    except httpx2.HTTPError as error:  # while a reply is streamed, the SDK converts nothing
        raise interrupted(component) from error
    except openai.APIError as error:
        raise refusal(ErrorAnswer.of(None, {}, error.body), component, api_key, sent) from error


def status_of(error: ForeaskError) -> int:
    """Return the status of the answer that an error was converted from; 0 if there was no answer."""
    cause = error.__cause__
    return cause.status_code if isinstance(cause, openai.APIStatusError) else 0

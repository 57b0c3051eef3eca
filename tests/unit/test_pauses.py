"""The pauses that providers request, in the forms in which they send them."""

from datetime import timedelta

import pytest

from shared.domain.errors import RateLimited, Unavailable
from shared.providers.errors.answers import ErrorAnswer, refusal
from tests.support.planted import guards

SENT = "Thu, 01 Jan 2026 00:00:00 GMT"  # time of the reply by the provider's clock


def seconds(number):
    return timedelta(seconds=number)


GEMINI = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "27.5s"}
BODIES = [
    ("Gemini", [{"error": {"code": 429, "message": "Quota", "details": [{"@type": "x"}, GEMINI]}}], seconds(27.5)),
    ("a gateway", {"error": {"message": "Slow down", "retry_after": 7}}, seconds(7)),
    ("a gateway", {"error": "Slow down", "retry_after": "7"}, seconds(7)),
    ("a gateway", {"error": {"message": "Slow down", "metadata": {"retry_after_ms": 250}}}, seconds(0.25)),
    ("OpenRouter", {"error": {"message": "x", "metadata": {"retry_after_seconds": 16.4}}}, seconds(16.4)),
    ("Hugging Face", {"error": "Model is currently loading", "estimated_time": 20.0}, seconds(20)),
    ("any", {"error": {"message": "x", "retry_after": True}}, None),
    ("any", {"error": {"message": "x", "retry_after": "soon"}}, None),
    ("any", {"error": {"message": "x", "retry_after": 1e300}}, None),
    ("any", {"error": {"message": "x", "retry_after": 10**400}}, None),
    ("any", {"error": {"message": "x", "details": {"retryDelay": "9999999s"}}}, timedelta(hours=1)),
]
WORDS = [
    (
        "OpenAI",
        "Rate limit reached on requests per min. Limit: 3 / min. Please try again in 20s. Visit x.",
        seconds(20),
    ),
    ("OpenAI", "on tokens per min (TPM): Limit 30000, Used 30000. Please try again in 2m30s.", seconds(150)),
    ("OpenAI", "Limit 30000, Used 29000, Requested 1700. Please try again in 350ms.", seconds(0.35)),
    ("Groq", "on tokens per day (TPD): Limit 100000. Please try again in 7m6.72s. Need more?", seconds(426.72)),
    ("Groq", "Please try again in 1.5s.", seconds(1.5)),
    ("Azure", "current OpenAI S0 pricing tier. Please retry after 20 seconds.", seconds(20)),
    ("Azure", "Please retry after 1 second. To increase your default rate limit, visit x", seconds(1)),
    ("Gemini", "Quota exceeded for metric: x, limit: 50. Please retry in 27.581s.", seconds(27.581)),
    ("LiteLLM", "No deployments available. Try again in 60 seconds. Passed model=x.", seconds(60)),
    ("any", "Please try again in 1 hour, 2 minutes and 5 seconds.", timedelta(hours=1)),
    ("any", "Retry after 1 minute 30 seconds", seconds(90)),
    ("Azure", "created within the last 5 minutes, please wait a moment and try again.", None),
    ("any", "Please try again later.", None),
    ("any", "Please retry after 5 attempts, and try again in 3 messages.", None),
]


@guards(
    "shared/providers/errors/pauses.py",
    "min(found, MOST_REQUESTED)",
    "found",
    means="clients and chunks wait for months because a provider asks for it",
)
@pytest.mark.parametrize(("body", "expected"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_pause_in_body_is_read(body, expected):
    error = refusal(ErrorAnswer.of(429, {}, body), "llm", "a-key")

    assert error.retry_after == expected


@pytest.mark.parametrize(("words", "expected"), [row[1:] for row in WORDS], ids=[row[0] for row in WORDS])
def test_pause_in_words_is_read(words, expected):
    answer = ErrorAnswer.of(503, {}, {"error": {"message": words}})

    assert refusal(answer, "llm", "a-key").retry_after == expected


USED = {"x-ratelimit-limit-requests": "14400", "x-ratelimit-remaining-requests": "14370"}
TOKENS = {"x-ratelimit-limit-tokens": "6000", "x-ratelimit-remaining-tokens": "12"}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (
            USED | TOKENS | {"x-ratelimit-reset-requests": "2m59.56s", "x-ratelimit-reset-tokens": "7.66s"},
            seconds(7.66),
        ),
        ({"x-ratelimit-reset-requests": "6m0s"}, seconds(360)),
        ({"x-ratelimit-reset-tokens": "350ms"}, seconds(0.35)),
        ({"x-ratelimit-reset": "30"}, seconds(30)),
        ({"date": SENT, "X-RateLimit-Reset": "1767225630"}, seconds(30)),
        ({"date": SENT, "X-RateLimit-Reset": "1767225630000"}, seconds(30)),
        ({"X-RateLimit-Reset": "1767225630000"}, None),
        ({"x-ratelimit-reset": "soon"}, None),
        ({"retry-after": "2", "x-ratelimit-reset-tokens": "9s"}, seconds(2)),
    ],
)
def test_pause_until_most_used_limit_is_refilled(headers, expected):
    error = refusal(ErrorAnswer.of(429, headers, {"error": {"message": "Slow down"}}), "llm", "a-key")

    assert isinstance(error, RateLimited)
    assert error.retry_after == expected


def test_failure_ignores_time_until_limit_is_refilled():
    answer = ErrorAnswer.of(500, {"x-ratelimit-reset-tokens": "9s"}, {"error": {"message": "It failed"}})

    error = refusal(answer, "llm", "a-key")

    assert isinstance(error, Unavailable)
    assert error.retry_after is None


def test_reset_in_openrouters_metadata_is_read():
    headers = {"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225630000"}
    error = {"message": "Rate limit exceeded: free-models-per-min.", "code": 429, "metadata": {"headers": headers}}
    answer = ErrorAnswer.in_reply({"date": SENT}, {"error": error})

    assert answer is not None
    assert refusal(answer, "llm", "a-key").retry_after == seconds(30)


@guards(
    "shared/providers/errors/answers.py",
    "pause_in(answer.headers, answer.body, words, status)",
    "pause_in(answer.headers, answer.body, str(answer.message), status)",
    means="a document's text in a provider's message pauses the calls of all tenants",
)
def test_pause_quoted_from_text_is_ignored():
    text = "Please try again in 59 minutes, said the keeper of the harbour."
    answer = ErrorAnswer.of(503, {}, {"error": {"message": f"Cannot process: {text}"}})

    assert refusal(answer, "llm", "a-key", text).retry_after is None

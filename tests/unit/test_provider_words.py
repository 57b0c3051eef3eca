"""Errors of providers: each has our sentence with the remedy, and the provider's words."""

import orjson
import pytest

from shared.domain.errors import Misconfigured, NoCapacity, RateLimited, Refused, Unavailable, UnsupportedTier
from shared.providers.errors.answers import NO_KEY, ErrorAnswer, body_of, page_in_reply, refusal, text_of, words_of

KEY = "sk-proj-0123456789abcdefghijklmnop"
QUOTA = "its quota is used up: raise it"
DAY = "its limit for a day is used up: raise it, or wait"
NO_ACCESS = "it does not accept the API key"
MODEL = "it has no such model: check the model's name and the base URL"
URL = "it does not know this call: check the base URL"
LONG = "the text is too long for the model"
FILTER = "its content filter stops this text"
SLOWER = "it asks for fewer requests"
FAILED = "it failed"
REJECTS = "it rejects this request"
# server, status, body, class, our sentence, the server's words
ANSWERS = [
    (
        "OpenAI",
        401,
        {"error": {"message": "Incorrect API key provided: sk-pr***mnop.", "code": "invalid_api_key"}},
        Misconfigured,
        NO_ACCESS,
        "Incorrect API key provided: ***",
    ),
    (
        "OpenAI",
        429,
        {"error": {"message": "You exceeded your current quota, please check your plan", "code": "insufficient_quota"}},
        RateLimited,
        QUOTA,
        "You exceeded your current quota, please check your plan",
    ),
    (
        "OpenAI",
        400,
        {"error": {"message": "Your request was rejected as a result of our safety system.", "code": None}},
        Refused,
        FILTER,
        "Your request was rejected as a result of our safety system.",
    ),
    (
        "OpenAI",
        403,
        {
            "error": {
                "message": "Country, region, or territory not supported",
                "code": "unsupported_country_region_territory",
            }
        },
        Misconfigured,
        "it does not serve the region",
        "Country, region, or territory not supported",
    ),
    (
        "Azure",
        400,
        {
            "error": {
                "message": "The prompt triggered Azure OpenAI's content management policy.",
                "code": "content_filter",
            }
        },
        Refused,
        FILTER,
        "The prompt triggered Azure OpenAI's content management policy.",
    ),
    (
        "Azure",
        404,
        {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}},
        Misconfigured,
        MODEL,
        "The API deployment for this resource does not exist.",
    ),
    (
        "vLLM",
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 2048 tokens. However, you requested 3100 tokens",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        Refused,
        LONG,
        "This model's maximum context length is 2048 tokens. However, you requested 3100 tokens",
    ),
    (
        "vLLM",
        404,
        {"error": {"message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404}},
        Misconfigured,
        MODEL,
        "The model `x` does not exist.",
    ),
    (
        "llama.cpp",
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size",
                "type": "exceed_context_size_error",
            }
        },
        Refused,
        LONG,
        "the request exceeds the available context size",
    ),
    (
        "llama.cpp",
        500,
        {
            "error": {
                "code": 500,
                "message": "input (900 tokens) is too large to process. increase the physical batch size",
                "type": "server_error",
            }
        },
        Refused,
        LONG,
        "input (900 tokens) is too large to process. increase the physical batch size",
    ),
    (
        "llama.cpp",
        503,
        {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
        Unavailable,
        "it is still loading the model",
        "Loading model",
    ),
    (
        "Ollama",
        404,
        {"error": {"message": 'model "x" not found, try pulling it first', "type": "api_error", "code": None}},
        Misconfigured,
        MODEL,
        'model "x" not found, try pulling it first',
    ),
    (
        "Ollama",
        400,
        {"error": "the input length exceeds the context length"},
        Refused,
        LONG,
        "the input length exceeds the context length",
    ),
    ("Ollama", 404, "404 page not found", Misconfigured, URL, "404 page not found"),
    (
        "LM Studio",
        400,
        {"error": "No models loaded. Please load a model"},
        Misconfigured,
        MODEL,
        "No models loaded. Please load a model",
    ),
    (
        "TEI",
        413,
        {
            "error": "Input validation error: `inputs` must have less than 512 tokens. Given: 600",
            "error_type": "Validation",
        },
        Refused,
        LONG,
        "Input validation error: `inputs` must have less than 512 tokens. Given: 600",
    ),
    (
        "Gemini",
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "API key not valid. Please pass a valid API key.",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        Misconfigured,
        NO_ACCESS,
        "API key not valid. Please pass a valid API key.",
    ),
    (
        "Gemini",
        429,
        [
            {
                "error": {
                    "code": 429,
                    "message": "You exceeded your current quota, please check your plan",
                    "status": "RESOURCE_EXHAUSTED",
                }
            }
        ],
        RateLimited,
        SLOWER,
        "You exceeded your current quota, please check your plan",
    ),
    (
        "Anthropic",
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."},
        },
        RateLimited,
        QUOTA,
        "Your credit balance is too low to access the API.",
    ),
    (
        "Anthropic",
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        Unavailable,
        FAILED,
        "Overloaded",
    ),
    (
        "Mistral",
        422,
        {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "stream_options"],
                        "msg": "Extra inputs are not permitted",
                        "input": "a secret of acme",
                    }
                ]
            },
        },
        Refused,
        REJECTS,
        "body.stream_options: Extra inputs are not permitted",
    ),
    (
        "Mistral",
        400,
        {"object": "error", "message": "Invalid model: mistral-x", "type": "invalid_model", "code": "1500"},
        Misconfigured,
        MODEL,
        "Invalid model: mistral-x",
    ),
    (
        "FastAPI",
        422,
        {"detail": [{"loc": ["body", "dimensions"], "msg": "unexpected", "type": "x"}]},
        Refused,
        REJECTS,
        "body.dimensions: unexpected",
    ),
    ("FastAPI", 404, {"detail": "Not Found"}, Misconfigured, MODEL, "Not Found"),
    (
        "DeepSeek",
        402,
        {"error": {"message": "Insufficient Balance", "type": "unknown_error"}},
        RateLimited,
        QUOTA,
        "Insufficient Balance",
    ),
    (
        "DeepSeek",
        400,
        {"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}},
        Refused,
        FILTER,
        "Content Exists Risk",
    ),
    (
        "DashScope",
        400,
        {"error": {"code": "data_inspection_failed", "message": "Input data may contain inappropriate content."}},
        Refused,
        FILTER,
        "Input data may contain inappropriate content.",
    ),
    (
        "Groq",
        413,
        {
            "error": {
                "message": "Request too large for model `x` on TPM: Limit 6000",
                "type": "tokens",
                "code": "rate_limit_exceeded",
            }
        },
        Refused,
        LONG,
        "Request too large for model `x` on TPM: Limit 6000",
    ),
    (
        "OpenAI",
        429,
        {
            "error": {
                "message": "Limit 30000, Requested 37049. The input or output tokens must be reduced in order to run.",
                "type": "tokens",
                "code": "rate_limit_exceeded",
            }
        },
        Refused,
        LONG,
        "Limit 30000, Requested 37049. The input or output tokens must be reduced in order to run.",
    ),
    (
        "Groq",
        498,
        {"error": {"message": "capacity", "code": "capacity_exceeded"}},
        NoCapacity,
        "it has no capacity left",
        "capacity",
    ),
    (
        "OpenRouter",
        429,
        {"error": {"message": "Rate limit exceeded: free-models-per-day", "code": 429}},
        RateLimited,
        DAY,
        "Rate limit exceeded: free-models-per-day",
    ),
    (
        "OpenRouter",
        429,
        {
            "error": {
                "message": "Provider returned error",
                "code": 429,
                "metadata": {"raw": '{"error":{"message":"Slow down"}}', "provider_name": "X"},
            }
        },
        RateLimited,
        SLOWER,
        "Provider returned error: Slow down",
    ),
    (
        "OpenRouter",
        403,
        {"error": {"message": "Your input was flagged", "code": 403}},
        Refused,
        FILTER,
        "Your input was flagged",
    ),
    (
        "OpenRouter",
        400,
        {"error": {"message": "x/y is not a valid model ID", "code": 400}},
        Misconfigured,
        MODEL,
        "x/y is not a valid model ID",
    ),
    (
        "Cloudflare",
        403,
        "<!DOCTYPE html><title>Attention Required! | Cloudflare</title>",
        Misconfigured,
        "a firewall or proxy in front of it",
        "Attention Required! | Cloudflare",
    ),
    (
        "Cloudflare",
        400,
        {"success": False, "errors": [{"code": 7003, "message": "Could not route to /x"}]},
        Refused,
        REJECTS,
        "Could not route to /x",
    ),
    (
        "Databricks",
        400,
        {"error_code": "BAD_REQUEST", "message": "Unsupported field"},
        Refused,
        REJECTS,
        "Unsupported field",
    ),
    (
        "NVIDIA",
        402,
        {"status": 402, "title": "Payment Required", "detail": "Credits expired"},
        RateLimited,
        QUOTA,
        "Credits expired",
    ),
    ("nginx", 502, "<html><head><title>502 Bad Gateway</title></head></html>", Unavailable, FAILED, "502 Bad Gateway"),
    ("nginx", 405, "<html><title>405 Not Allowed</title></html>", Misconfigured, URL, "405 Not Allowed"),
    ("any", 500, "", Unavailable, FAILED, ""),
    ("any", 500, {"error": {"message": 7}}, Unavailable, FAILED, ""),
    (
        "any",
        400,
        {"error": {"message": "Unsupported service_tier: flex"}},
        UnsupportedTier,
        "set FOREASK_LLM_TIER=standard",
        "Unsupported service_tier: flex",
    ),
]


@pytest.mark.parametrize(
    ("status", "body", "kind", "sentence", "words"),
    [row[1:] for row in ANSWERS],
    ids=[f"{row[0]}-{row[1]}-{number}" for number, row in enumerate(ANSWERS)],
)
def test_provider_error_has_sentence_and_words(status, body, kind, sentence, words):
    content = body.encode() if isinstance(body, str) else orjson.dumps(body)

    error = refusal(ErrorAnswer.of(status, {}, body_of(content)), "llm", KEY)

    assert type(error) is kind
    assert error.message.startswith(f"the llm provider answered {status}")
    assert sentence in error.message
    assert error.words == words
    quoted = words.replace('"', "'")
    assert error.message.endswith(f'; it says "{quoted}"' if words else sentence)
    assert error.status == status


# server, reply with status 200, class, status, our sentence
ERRORS_IN_REPLIES = [
    (
        "OpenRouter",
        {"error": {"message": "Rate limit exceeded: free-models-per-day", "code": 429}, "user_id": "user_2x"},
        RateLimited,
        429,
        DAY,
    ),
    ("OpenRouter", {"error": {"message": "Insufficient credits", "code": 402}}, RateLimited, 402, QUOTA),
    ("OpenRouter", {"error": {"message": "Bad gateway", "code": 502}}, Unavailable, 502, FAILED),
    ("OpenRouter", {"error": {"message": "Slow", "code": "429"}, "choices": []}, RateLimited, 429, SLOWER),
    ("LM Studio", {"error": "Unexpected endpoint or method. (POST /chat/completions)"}, Misconfigured, 404, URL),
    ("Gemini", [{"error": {"message": "Quota", "status": "RESOURCE_EXHAUSTED"}}], RateLimited, 429, SLOWER),
    ("vLLM", {"object": "error", "message": "maximum context length", "code": 400}, Refused, 400, LONG),
    ("Cloudflare", {"success": False, "errors": [{"message": "x"}], "result": None}, Unavailable, None, FAILED),
    ("any", {"detail": "invalid api key"}, Misconfigured, 401, NO_ACCESS),
    ("any", {"error": True}, Unavailable, None, FAILED),
]


@pytest.mark.parametrize(
    ("reply", "kind", "status", "sentence"),
    [row[1:] for row in ERRORS_IN_REPLIES],
    ids=[f"{row[0]}-{number}" for number, row in enumerate(ERRORS_IN_REPLIES)],
)
def test_error_in_successful_reply_counts_as_error(reply, kind, status, sentence):
    answer = ErrorAnswer.in_reply({}, reply)

    assert answer is not None
    error = refusal(answer, "llm", KEY)
    assert (type(error), error.status) == (kind, status)
    assert sentence in error.message


@pytest.mark.parametrize(
    "reply",
    [
        {"choices": [{"message": {"content": "a"}}], "error": None},
        {"data": [{"embedding": [1.0]}], "error": {}},
        {"results": [{"index": 0}], "message": "fine"},
        {"object": "chat.completion", "choices": []},
        {"usage": {}},
        [{"index": 0, "score": 1.0}],
        [],
        "text",
        None,
    ],
)
def test_reply_without_error_is_accepted(reply):
    assert ErrorAnswer.in_reply({}, reply) is None


NO_JSON = "sent no JSON: check that the base URL belongs to an OpenAI-compatible API"
PAGE = "sent a web page: check the base URL, which mostly ends in /v1, and whether a proxy wants a login"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"<html><title>Sign in to Acme</title>", f'{PAGE}; it says "Sign in to Acme"'),
        (b"upstream connect error", f'{NO_JSON}; it says "upstream connect error"'),
        (b'{"choices": [{"message": {"content": "Acme sells', NO_JSON),
        (b'data: {"choices": [{"delta": {"content": "Acme', NO_JSON),
        (b"", NO_JSON),
    ],
)
def test_web_page_as_reply_names_remedy(content, sentence):
    assert page_in_reply(content, "llm", KEY).message == f"the llm provider {sentence}"


def test_words_never_quote_texts_of_request():
    body = {
        "model": "meta-llama/Llama-3.3-70B",
        "messages": [
            {"role": "system", "content": "Answer with the passages."},
            {"role": "user", "content": [{"type": "text", "text": "Acme will buy Beta in May."}]},
        ],
    }
    said = "Model meta-llama/Llama-3.3-70B flagged: acme will buy beta in may."

    assert words_of(ErrorAnswer(400, message=said), KEY, text_of(body)) == "Model meta-llama/Llama-3.3-70B flagged: …"
    embedded = text_of({"model": "m", "input": ["Acme will buy Beta", "and Gamma tomorrow"]})
    assert words_of(ErrorAnswer(400, message="Bad: and gamma tomorrow"), NO_KEY, embedded) == "Bad: …"


def test_meaning_is_not_taken_from_quoted_text():
    text = "Our policy: the maximum context length is a secret of the API key not valid any more"

    error = refusal(ErrorAnswer(400, message=f"Cannot read '{text}'"), "llm", KEY, text)

    assert "it rejects this request" in error.message

"""Quirks of chat completions, by name; the start of a name is the provider that has it."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import orjson

from tests.support.quirks.wire import (
    DONE,
    USAGE,
    Call,
    Reply,
    chunk,
    completion,
    completion_of,
    error,
    event,
    page,
    said,
    stream,
    words,
)

Quirk = Callable[[Call], Reply]

_DRAFT = '{"questions": ["Is this only a draft?"]}'
_THOUGHT = f"The passage [9] is about a harbour. A draft: {_DRAFT} I should improve it."
_SENT = "Thu, 01 Jan 2026 00:00:00 GMT"


def _always(reply: Reply) -> Quirk:
    return lambda _: reply


def _without(field: str, reply: Reply) -> Quirk:
    """Refuse requests with a field."""
    return lambda call: reply if field in call.body else said(call, call.answer)


# Refusals. Each is sent for one text or for every request, and the outcome differs.
_REFUSALS: dict[str, Reply] = {
    "openai-401": error(
        401,
        "Incorrect API key provided: sk-pr********mnop. You can find your API key at"
        " https://platform.openai.com/account/api-keys.",
        code="invalid_api_key",
    ),
    "openai-404": error(
        404, "The model `gpt-9` does not exist or you do not have access to it.", code="model_not_found"
    ),
    "openai-quota": error(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        type="insufficient_quota",
        code="insufficient_quota",
    ),
    "openai-context": error(
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9011 tokens. Please"
        " reduce the length of the messages.",
        param="messages",
        code="context_length_exceeded",
    ),
    "openai-500": error(
        500, "The server had an error while processing your request. Sorry about that!", type="server_error"
    ),
    "openai-429-date": error(
        429,
        "Rate limit reached for requests",
        {"date": _SENT, "retry-after": "Thu, 01 Jan 2026 00:00:40 GMT"},
        type="requests",
        code="rate_limit_exceeded",
    ),
    "openai-429-words": error(
        429,
        "Rate limit reached for gpt-4o in organization org-a on tokens per min (TPM): Limit 30000, Used 29000,"
        " Requested 1700. Please try again in 1m2s.",
        {"x-ratelimit-reset-requests": "6ms"},
        type="tokens",
        code="rate_limit_exceeded",
    ),
    "groq-429-reset": error(
        429,
        "Rate limit reached",
        {
            "x-ratelimit-limit-requests": "14400",
            "x-ratelimit-remaining-requests": "14370",
            "x-ratelimit-reset-requests": "180ms",
            "x-ratelimit-limit-tokens": "6000",
            "x-ratelimit-remaining-tokens": "12",
            "x-ratelimit-reset-tokens": "1m6s",
        },
    ),
    "azure-401": Reply(
        401,
        {
            "error": {
                "code": "401",
                "message": "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a"
                " valid key for an active subscription.",
            }
        },
    ),
    "azure-404-deployment": Reply(
        404,
        {
            "error": {
                "code": "DeploymentNotFound",
                "message": "The API deployment for this resource does not exist. If you created the deployment within"
                " the last 5 minutes, please wait a moment and try again.",
            }
        },
    ),
    "azure-404-resource": Reply(404, {"error": {"code": "404", "message": "Resource not found"}}),
    "azure-filter": error(
        400,
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        type=None,
        param="prompt",
        code="content_filter",
        innererror={"code": "ResponsibleAIPolicyViolation"},
    ),
    "azure-429": Reply(
        429,
        {
            "error": {
                "code": "429",
                "message": "Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your"
                " current OpenAI S0 pricing tier. Please retry after 20 seconds.",
            }
        },
        {"retry-after": "20"},
    ),
    "mistral-401": Reply(401, {"detail": "Unauthorized"}),
    "mistral-model": Reply(
        400,
        {"object": "error", "message": "Invalid model: mistral-giant", "type": "invalid_model", "code": "1500"},
    ),
    "gemini-key": Reply(
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
    ),
    "gemini-429": Reply(
        429,
        [
            {
                "error": {
                    "code": 429,
                    "message": "Resource has been exhausted (e.g. check quota).",
                    "status": "RESOURCE_EXHAUSTED",
                    "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "27s"}],
                }
            }
        ],
    ),
    "anthropic-401": error(401, "invalid x-api-key", type="authentication_error"),
    "anthropic-credit": error(
        400, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade."
    ),
    "anthropic-529": error(529, "Overloaded", type="overloaded_error"),
    "openrouter-402": Reply(
        402, {"error": {"message": "Insufficient credits. Add more in your settings.", "code": 402}}
    ),
    "openrouter-flagged": Reply(
        403,
        {
            "error": {
                "message": "Your chosen model requires moderation and your input was flagged for violence.",
                "code": 403,
                "metadata": {"reasons": ["violence"], "flagged_input": "The lamp", "provider_name": "OpenAI"},
            }
        },
    ),
    "openrouter-404": Reply(
        404, {"error": {"message": "No endpoints found that can handle the requested parameters.", "code": 404}}
    ),
    "groq-429": error(
        429,
        "Rate limit reached for model `llama` in organization `org_01hz` on tokens per minute (TPM): Limit 6000, Used"
        " 5990, Requested 1200. Please try again in 11.9s.",
        {"retry-after": "12"},
        type="tokens",
        code="rate_limit_exceeded",
    ),
    "groq-json": error(
        400,
        "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details.",
        code="json_validate_failed",
        failed_generation="",
    ),
    "groq-413": error(
        413,
        "Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 9100.",
        type="tokens",
    ),
    "deepseek-402": error(402, "Insufficient Balance", type="unknown_error", code="invalid_request_error"),
    "deepseek-503": error(503, "Service is too busy. We advise users to temporarily switch to alternative providers."),
    "ollama-404": error(404, 'model "qwen3:8b" not found, try pulling it first', type="api_error"),
    "vllm-401": Reply(401, {"error": "Unauthorized"}),
    "vllm-404": Reply(
        404,
        {
            "object": "error",
            "message": "The model `Qwen/Qwen9` does not exist.",
            "type": "NotFoundError",
            "param": "model",
            "code": 404,
        },
    ),
    "vllm-context": Reply(
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 2048 tokens. However, you requested 2890 tokens (890 in"
            " the messages, 2000 in the completion).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "llamacpp-loading": Reply(
        503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, {"retry-after": "30"}
    ),
    "llamacpp-context": Reply(
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
            }
        },
    ),
    "lmstudio-none": error(
        404, "No models loaded. Please load a model in the developer page.", code="model_not_found", param="model"
    ),
    "litellm-budget": error(
        400, "Budget has been exceeded! Current cost: 10.02, Max budget: 10.0", type="budget_exceeded", code="400"
    ),
    "litellm-401": error(
        401,
        "Authentication Error, Invalid proxy server token passed. Received API Key = sk-...1234.",
        type="auth_error",
        code="401",
    ),
    "waf-403": page("Attention Required! Request blocked", 403),
    "proxy-407": page("Proxy Authentication Required", 407),
    "nginx-502": page("502 Bad Gateway", 502),
    "nginx-413": page("413 Request Entity Too Large", 413),
    "cloud-405": page("405 Method Not Allowed", 405),
}

# Errors inside a reply with status 200.
_INSIDE: dict[str, Reply] = {
    "lmstudio-200": Reply(body={"error": "Unexpected endpoint or method. (POST /chat/completions)"}),
    "openrouter-200-429": Reply(
        body={"error": {"message": "Rate limit exceeded: free-models-per-day.", "code": 429}, "user_id": "user_2"}
    ),
    "gateway-200-retry-after": Reply(
        body={"error": {"message": "Too many requests", "code": 429}}, headers={"retry-after": "40"}
    ),
    "openrouter-200-402": Reply(body={"error": {"message": "This request requires more credits.", "code": 402}}),
    "openrouter-200-502": Reply(body={"error": {"message": "Provider returned error", "code": 502}}),
    "login-200": page("Sign in to the company network"),
    "empty-200": Reply(body=b"", kind=""),
    "choices-empty": Reply(body=completion_of(None) | {"choices": []}),
    "choices-null": Reply(body=completion_of(None) | {"choices": None}),
    "choice-error": Reply(
        body={"choices": [{"index": 0, "error": {"code": 502, "message": "Upstream error from Chutes"}}]}
    ),
}

# Ends of connections.
_ENDS: dict[str, Reply] = {
    "closed": Reply(ends="closed"),
    "hung": Reply(ends="hung"),
    "deepseek-drip": Reply(ends="dripping"),
}


def _context_of_2048(call: Call) -> Reply:
    tokens = sum(len(str(message["content"])) for message in call.body["messages"]) // 4
    is_too_long = tokens + call.body.get("max_completion_tokens", 0) > 2048
    return _REFUSALS["vllm-context"] if is_too_long else said(call, call.answer)


# Forms of the HTTP reply.
_FORMS: dict[str, Quirk] = {
    "half": lambda call: Reply(body=completion(call.answer), ends="half"),
    "chunked-json": lambda call: Reply(pieces=[b"\n", b"\n", orjson.dumps(completion(call.answer))]),
    "gzip": lambda call: Reply(
        body=gzip.compress(orjson.dumps(completion(call.answer))), headers={"content-encoding": "gzip"}
    ),
    "no-content-type": lambda call: Reply(body=completion(call.answer), kind=""),
    "text-content-type": lambda call: Reply(body=completion(call.answer), kind="text/plain"),
    "redirect-307": lambda call: (
        said(call, call.answer)
        if call.path.startswith("/moved")
        else Reply(307, "", {"location": f"/moved{call.path}"}, kind="")
    ),
}

# Optional fields of a request that some servers refuse.
_FIELDS: dict[str, Quirk] = {
    "vllm-2048": _context_of_2048,
    "deepseek-no-schema": _without("response_format", error(400, "This response_format type is unavailable now")),
    "lmstudio-no-schema": _without(
        "response_format", Reply(400, {"error": "'response_format.type' must be 'json_schema' or 'text'"})
    ),
    "mistral-no-max": _without(
        "max_completion_tokens",
        Reply(
            422,
            {
                "object": "error",
                "message": {
                    "detail": [
                        {
                            "type": "extra_forbidden",
                            "loc": ["body", "max_completion_tokens"],
                            "msg": "Extra inputs are not permitted",
                            "input": 2000,
                        }
                    ]
                },
                "type": "invalid_request_error",
            },
        ),
    ),
    "mistral-no-stream-options": _without(
        "stream_options",
        Reply(
            422,
            {
                "object": "error",
                "message": {
                    "detail": [
                        {
                            "type": "extra_forbidden",
                            "loc": ["body", "stream_options"],
                            "msg": "Extra inputs are not permitted",
                        }
                    ]
                },
                "type": "invalid_request_error",
            },
        ),
    ),
    "openai-no-temperature": _without(
        "temperature",
        error(
            400,
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is"
            " supported.",
            param="temperature",
            code="unsupported_value",
        ),
    ),
}


def _tool_call(call: Call) -> Reply:
    function = {"name": "reply", "arguments": call.answer}
    return Reply(
        body=completion(None, "tool_calls", tool_calls=[{"id": "call_1", "type": "function", "function": function}])
    )


def _parts(call: Call) -> Reply:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": _THOUGHT}]}
    if not call.streams:
        return Reply(body=completion([thought, {"type": "text", "text": call.answer}]))
    pieces = [chunk(content=[{"type": "text", "text": word}]) for word in words(call.answer)]
    return stream(chunk(content=[thought]), *pieces, chunk("stop"), DONE)


# Shapes of the message.
_SHAPES: dict[str, Quirk] = {
    "mistral-parts": _parts,
    "content-number": _always(Reply(body=completion(7))),
    "content-true": _always(Reply(body=completion(content=True))),
    "content-object": lambda call: Reply(body=completion(orjson.loads(call.answer) if call.answer[0] == "{" else {})),
    "message-null": _always(Reply(body=completion_of(None))),
    "message-text": lambda call: Reply(body=completion_of(call.answer)),
    "refusal": _always(Reply(body=completion(None, refusal="I can't help with that."))),
    "tool-call": _tool_call,
    "reasoning-only": lambda call: Reply(body=completion(None, reasoning_content=_THOUGHT + call.answer)),
    "reasoning-field": lambda call: said(call, call.answer, reasoning_content=_THOUGHT),
    "content-null": _always(Reply(body=completion(None))),
    "no-usage": lambda call: Reply(body=completion(call.answer) | {"usage": None}),
    "odd-usage": lambda call: Reply(body=completion(call.answer) | {"usage": {"prompt_tokens": "300", "total": -1}}),
    "no-finish": lambda call: Reply(body=completion(call.answer, None)),
    "length": lambda call: said(call, call.answer[:30], "length"),
    "length-thought": _always(Reply(body=completion("", "length", reasoning_content=_THOUGHT))),
    "filtered": lambda call: said(call, call.answer[:30], "content_filter"),
    "code-fence": lambda call: said(call, f"Here you are:\n```json\n{call.answer}\n```"),
    "trailing-comma": lambda call: said(call, call.answer.replace("]}", ",]}")),
    "twice-encoded": lambda call: said(call, orjson.dumps(call.answer).decode()),
    "json-lines": lambda call: said(call, "\n".join(f'{{"question": "{question}"}}' for question in call.questions)),
}

# Thinking in the content.
_THINKING: dict[str, Quirk] = {
    "think": lambda call: said(call, f"<think>\n{_THOUGHT}\n</think>\n\n{call.answer}"),
    "think-end-only": lambda call: said(call, f"{_THOUGHT}\n</think>\n\n{call.answer}"),
    "thinking": lambda call: said(call, f"<thinking>{_THOUGHT}</thinking>{call.answer}"),
    "think-capitals": lambda call: said(call, f"<THINK>{_THOUGHT}</THINK>{call.answer}"),
    "magistral-think": lambda call: said(call, f"[THINK]{_THOUGHT}[/THINK]{call.answer}"),
    "seed-think": lambda call: said(call, f"<seed:think>{_THOUGHT}</seed:think>{call.answer}"),
    "harmony": lambda call: said(
        call,
        f"<|channel|>analysis<|message|>{_THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{call.answer}",
    ),
}


def _cut(*end: object, ends: str = "complete") -> Quirk:
    """Return a quirk that ends a stream in the middle of the answer."""

    def quirk(call: Call) -> Reply:
        pieces = words(call.answer)
        return stream(*(chunk(content=word) for word in pieces[: len(pieces) // 2]), *end, ends=ends)  # type: ignore[arg-type]

    return quirk


def _crlf(call: Call) -> Reply:
    pieces = [chunk(content=word) for word in words(call.answer)]
    return stream(*pieces, chunk("stop"), USAGE, DONE, line_end="\r\n")


def _comments(call: Call) -> Reply:
    pieces = [chunk(content=word) for word in words(call.answer)]
    comment = b": OPENROUTER PROCESSING\n\n"
    return stream(comment, comment, *pieces, comment, chunk("stop"), USAGE, DONE)


def _azure_first(call: Call) -> Reply:
    pieces = [chunk(content=word) for word in words(call.answer)]
    filtered = {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]}
    return stream(filtered, *pieces, chunk("stop"), DONE)


def _no_delta(call: Call) -> Reply:
    pieces = [chunk(content=word) for word in words(call.answer)]
    last = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [{"index": 0, "finish_reason": "stop"}]}
    return stream(*pieces, last, DONE)


def _no_done(call: Call) -> Reply:
    return stream(*(chunk(content=word) for word in words(call.answer)), chunk("stop"))


# Streams.
_STREAMS: dict[str, Quirk] = {
    "stream-crlf": _crlf,
    "openrouter-comments": _comments,
    "azure-first-chunk": _azure_first,
    "stream-no-delta": _no_delta,
    "stream-no-done": _no_done,
    "stream-json": lambda call: Reply(body=completion(call.answer)),
    "stream-silent-end": _cut(),
    "stream-reset": _cut(ends="reset"),
    "stream-length": _cut(chunk("length"), DONE),
    "stream-filtered": _cut(chunk("content_filter"), DONE),
    "stream-error": _cut(
        {
            "error": {"code": 502, "message": "Provider disconnected unexpectedly"},
            "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
        }
    ),
    "stream-error-event": _cut(event({"error": {"message": "Overloaded", "type": "overloaded_error"}})),
    "stream-hung": _cut(ends="hung"),
}

REFUSALS: dict[str, Quirk] = {
    **{name: _always(reply) for name, reply in _REFUSALS.items()},
    **{name: _always(reply) for name, reply in _ENDS.items()},
}
CHATS: dict[str, Quirk] = {
    **REFUSALS,
    **{name: _always(reply) for name, reply in _INSIDE.items()},
    **_FORMS,
    **_FIELDS,
    **_SHAPES,
    **_THINKING,
    **_STREAMS,
}

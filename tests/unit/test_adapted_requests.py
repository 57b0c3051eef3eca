"""Optional fields that a model refuses are recognised by the words of providers."""

import pytest

from shared.providers.adapt import ModelQuirks
from tests.support.planted import guards

SCHEMA = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": {}}}
BODY = {
    "model": "m",
    "messages": [],
    "response_format": SCHEMA,
    "max_completion_tokens": 100,
    "temperature": 0.2,
    "stream": True,
    "stream_options": {"include_usage": True},
    "encoding_format": "base64",
    "dimensions": 256,
    "service_tier": "flex",
}


def error(message, param=None, **more):
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None} | more}


def extra(*path):
    """An answer of FastAPI's validation, as Mistral and vLLM send it."""
    detail = {"type": "extra_forbidden", "loc": ["body", *path], "msg": "Extra inputs are not permitted", "input": "x"}
    return {"detail": [detail]}


@pytest.mark.parametrize(
    ("status", "answer", "step"),
    [
        (400, error("This response_format type is unavailable now"), "json_schema"),
        (400, error("Invalid parameter: 'response_format' of type 'json_schema' is not supported."), "json_schema"),
        (400, {"error": "'response_format.type' must be 'json_schema' or 'text'"}, "json_schema"),
        (400, error("Invalid schema for the reply", "response_format"), "json_schema"),
        (500, {"error": {"code": 500, "message": "failed to parse grammar", "type": "server_error"}}, "json_schema"),
        (422, extra("stream_options", "include_usage"), "stream_options"),
        (422, {"object": "error", "message": extra("stream_options"), "param": None}, "stream_options"),
        (400, error('json: unknown field "stream_options"'), "stream_options"),
        (400, error("encoding_format: must be 'float'", "encoding_format"), "encoding_format"),
        (400, error("base64 is not supported"), "encoding_format"),
        (422, extra("max_completion_tokens"), "max_completion_tokens"),
        (400, error("Unrecognized request argument supplied: max_completion_tokens"), "max_completion_tokens"),
        (400, error("Unsupported value: 'temperature' does not support 0.2", "temperature"), "temperature"),
        (400, error("Model m does not support matryoshka representation", code=400), "dimensions"),
        (400, error("This model does not support specifying dimensions."), "dimensions"),
        (400, error("Unsupported service_tier: flex"), None),
        (400, error("bad request"), None),
        (400, error("the temperature is too high in this text", "messages"), None),
        (
            400,
            error("'max_tokens' or 'max_completion_tokens' is too large: 1800. The maximum context length is 2048."),
            None,
        ),
        (400, error("max_completion_tokens must be at most 64", "max_completion_tokens"), None),
        (401, error("temperature", "temperature"), None),
        (429, error("temperature", "temperature"), None),
        (400, {"detail": [{"loc": ["body", "messages", 0], "msg": "bad", "input": "What is a temperature?"}]}, None),
        (400, "the page", None),
        (400, None, None),
        (400, [error("no stream_options")], "stream_options"),
    ],
)
def test_refused_field_is_recognised(status, answer, step):
    assert ModelQuirks().next_step(status, answer, BODY) == step


def adapted(*steps):
    quirks = ModelQuirks()
    quirks.learn(dict.fromkeys(steps), model="m")
    return quirks.adapted(BODY)


def test_only_refused_field_is_changed():
    others = dict(BODY)
    assert adapted() == BODY
    assert adapted("json_schema") == others | {"response_format": {"type": "json_object"}}
    for field in ("stream_options", "encoding_format", "temperature", "dimensions"):
        assert adapted(field) == {name: value for name, value in BODY.items() if name != field}
    without = {name: value for name, value in BODY.items() if name != "response_format"}
    assert adapted("json_schema", "json_object") == without


@guards(
    "shared/providers/adapt.py",
    '_renamed("max_completion_tokens", "max_tokens")',
    '_without("max_completion_tokens")',
    means="a model that refuses the limit of tokens writes without a limit",
)
def test_limit_of_tokens_is_never_lost():
    for steps in (("max_completion_tokens",), ("max_completion_tokens", "max_tokens")):
        body = adapted(*steps)
        assert [body[name] for name in ("max_completion_tokens", "max_tokens") if name in body] == [100]
    assert adapted("max_completion_tokens")["max_tokens"] == 100


def test_unlearned_step_is_only_tried():
    quirks = ModelQuirks()
    assert "temperature" not in quirks.adapted(BODY, {"temperature": None})
    assert "temperature" in quirks.adapted(BODY)


def test_format_is_dropped_after_both_were_refused():
    quirks, answer = ModelQuirks(), error("response_format is not supported")
    assert quirks.next_step(400, answer, BODY) == "json_schema"
    plain = quirks.adapted(BODY, {"json_schema": None})
    assert quirks.next_step(400, answer, plain) == "json_object"
    assert quirks.next_step(400, answer, quirks.adapted(BODY, {"json_schema": None, "json_object": None})) is None


def test_reply_over_its_limit_changes_the_field():
    quirks = ModelQuirks()
    for tokens in (100, 110, 0):
        quirks.note_length("m", 100, tokens, fingerprint="fp_1")
        assert quirks.adapted(BODY) == BODY
    quirks.note_length("m", 100, 2_000)
    assert quirks.adapted(BODY)["max_tokens"] == 100


def test_ollama_is_limited_by_its_own_field():
    quirks = ModelQuirks()
    quirks.note_length("m", 100, 7, fingerprint="fp_ollama")
    assert "max_completion_tokens" not in quirks.adapted(BODY)


def test_model_that_starts_inside_stays_held_back():
    quirks = ModelQuirks()
    assert quirks.may_start_inside
    quirks.note_start(is_inside=False)
    assert not quirks.may_start_inside
    for inside in (True, False):
        quirks.note_start(is_inside=inside)
        assert quirks.may_start_inside

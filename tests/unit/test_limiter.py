"""The pure parts of the limiter: buckets, outcomes, settings, and the order of a process's requests."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shared.domain.errors import (
    BadReply,
    InterruptedReply,
    InvalidInput,
    Misconfigured,
    NoCapacity,
    RateLimited,
    Refused,
    Stopping,
    TimedOut,
    Unavailable,
    UnsupportedTier,
    UnusableReply,
)
from shared.domain.spending.rates import UNLIMITED, Rates
from shared.providers.limiter.limiter import outcome_of
from shared.providers.limiter.script import CallOutcome, LimiterScript, Terms, provider_id
from shared.services.limits import limits_of_a_tenant, limits_of_tenants
from shared.settings import Settings, load


@given(st.integers(1, 1_000_000))
def test_windows_never_exceed_request_limit(limit):
    rate, capacity = Rates(requests=limit).buckets()[0]

    most = int(capacity + rate * 1000 * (60 + 0.8))

    assert most <= limit
    assert rate * 60_000 >= 0.95 * limit


@given(st.integers(1_000, 100_000_000))
def test_windows_never_exceed_token_limit_despite_debt(limit):
    rate, capacity = Rates(tokens=limit).buckets()[1]
    debt = limit / 60 / 2

    assert capacity + debt + rate * 1000 * (60 + 0.8) <= limit * 1.0001
    assert rate * 60_000 >= 0.95 * limit


def test_undeclared_limits_do_not_restrict_calls():
    assert Rates().buckets() == (UNLIMITED, UNLIMITED)
    assert not Rates().declared
    assert Rates(tokens=1).declared


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RateLimited("slow"), CallOutcome.LIMITED),
        (Misconfigured("401", component="llm"), CallOutcome.REFUSED),
        (NoCapacity("full"), CallOutcome.NO_CAPACITY),
        (UnsupportedTier("400", component="llm"), CallOutcome.NO_CAPACITY),
        (TimedOut("late", component="llm", answered=True), CallOutcome.TIMEOUT),
        (Unavailable("500", component="llm", answered=True), CallOutcome.FAILED),
        (Unavailable("gone", component="llm"), CallOutcome.FAILED),
        (Refused("no"), CallOutcome.OK),
        (UnusableReply("empty", component="llm"), CallOutcome.ABANDONED),
        (UnusableReply("empty", component="embedding"), CallOutcome.FAILED),
        (InterruptedReply("broke", component="llm"), CallOutcome.FAILED),
        (BadReply("nonsense"), CallOutcome.OK),
        (Stopping(), CallOutcome.ABANDONED),
    ],
)
def test_error_class_determines_effect_on_provider(error, outcome):
    assert outcome_of(error) is outcome


def test_limiter_keys_hide_provider_name():
    name = provider_id("llm", "https://user:secret@example.org/v1", "model")

    assert name == provider_id("llm", "https://user:secret@example.org/v1", "model")
    assert name != provider_id("embedding", "https://user:secret@example.org/v1", "model")
    assert "secret" not in name
    assert len(name) == 16


class Broker:
    """A broker that replies like the script and records the requests."""

    def __init__(self, reply):
        self.reply = reply

    def register_script(self, text):
        assert text.startswith("#!lua flags=allow-oom\n")
        return self

    async def __call__(self, keys, args):
        self.keys = keys
        return self.reply


async def test_keys_of_provider_share_one_cluster_slot():
    broker = Broker([*[0] * 10, b"", 0])
    await LimiterScript(broker, Terms("abc", (UNLIMITED, UNLIMITED), 4, 30))(
        [], [], [], {"acme": (UNLIMITED, UNLIMITED)}
    )

    assert [key.count("{abc}") for key in broker.keys] == [1] * 5


def test_tenant_limits_round_trip(monkeypatch):
    monkeypatch.setenv(
        "FOREASK_TENANT_LIMITS",
        '{"*": {"documents": 5, "llm_requests_per_minute": 60},'
        ' "acme": {"llm_tokens_per_minute": 500, "documents": null}}',
    )
    first = Settings(_env_file=None)
    monkeypatch.setenv("FOREASK_TENANT_LIMITS", first.environment()["FOREASK_TENANT_LIMITS"])

    for settings in (first, Settings(_env_file=None)):
        assert limits_of_tenants(settings) == {"acme": Rates(60, 500)}
        assert limits_of_a_tenant(settings) == Rates(60, None)
        assert [settings.limits_of(tenant).documents for tenant in ("acme", "beta")] == [None, 5]


@pytest.mark.parametrize(
    "value", ["acme", "[]", '{"ACME": {}}', '{"": {}}', '{"a": {"documents": 0}}', '{"a": {"document": 1}}', '{"a": 1}']
)
def test_unusable_tenant_limits_are_rejected(monkeypatch, value):
    monkeypatch.setenv("FOREASK_TENANT_LIMITS", value)

    with pytest.raises(InvalidInput, match="FOREASK_TENANT_LIMITS"):
        load(_env_file=None)


@pytest.mark.parametrize("name", ["LLM_REQUESTS", "EMBEDDING_TOKENS"])
def test_limit_of_zero_is_rejected(monkeypatch, name):
    monkeypatch.setenv(f"FOREASK_{name}_PER_MINUTE", "0")

    with pytest.raises(ValidationError, match="greater than 0"):
        Settings(_env_file=None)


def test_work_released_at_exit_retries_immediately():
    from shared.domain.retry import Retry, RetryPolicy, decide

    decision = decide(Stopping(), 3, RetryPolicy(), lambda: 0.9)

    assert decision == Retry(timedelta(), "the process is asked to end", burns_attempt=False)

import hashlib
from datetime import timedelta

import pytest
from pydantic import ValidationError

from shared.settings import Settings

KEY = "k" * 22


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def settings():
    return Settings(_env_file=None)


def test_a_bare_number_is_seconds(monkeypatch):
    monkeypatch.setenv("FOREASK_TUNING__LEASE", "2.5")

    assert settings().tuning.lease == timedelta(seconds=2.5)


def test_openai_variables_are_honoured_where_ours_are_absent(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://theirs/v1")
    assert settings().llm_base_url == "http://theirs/v1"

    monkeypatch.setenv("FOREASK_LLM_BASE_URL", "http://ours/v1")
    assert settings().llm_base_url == "http://ours/v1"


def test_keys_are_kept_as_hashes_and_a_tenant_may_have_two(monkeypatch):
    digest = hashlib.sha256(b"x" * 22).hexdigest()
    monkeypatch.setenv("FOREASK_API_KEYS", f"acme:{KEY}, acme:sha256:{digest}")

    keys = settings().api_keys

    assert [key.tenant for key in keys] == ["acme", "acme"]
    assert keys[0].sha256 == hashlib.sha256(KEY.encode()).digest()
    assert keys[1].sha256.hex() == digest
    assert KEY not in repr(settings())


@pytest.mark.parametrize("value", ["acme", ":key", "acme:short", "ACME:" + KEY])
def test_a_key_that_cannot_be_used_is_refused_without_being_shown(monkeypatch, value):
    monkeypatch.setenv("FOREASK_API_KEYS", value)

    with pytest.raises(ValidationError) as caught:
        settings()

    assert "input_value" not in str(caught.value)
    assert KEY not in str(caught.value)

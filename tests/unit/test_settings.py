import hashlib
import re
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from shared.domain.errors import InvalidInput
from shared.settings import Settings, Tuning, load

KEY = "k" * 22
ROOT = Path(__file__).resolve().parents[2]


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


def test_a_setting_that_cannot_be_used_is_named_by_its_variable(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_TUNING__DRAIN", "soon")
    monkeypatch.setenv("FOREASK_LLM_TIMEOUT", "never")

    with pytest.raises(InvalidInput, match=r"FOREASK_LLM_TIMEOUT.*; FOREASK_TUNING__DRAIN"):
        load()


def test_another_process_has_the_same_settings_from_the_environment(monkeypatch):
    given = Settings(_env_file=None, tuning={"lease": 7, "top_k_max": 5}, llm_api_key="secret", calibrate=False)
    for name, value in given.environment().items():
        monkeypatch.setenv(name, value)

    assert settings() == given


def test_the_reference_lists_every_setting_and_no_other():
    reference = (ROOT / "docs/reference/settings.md").read_text()
    listed = re.findall(r"^\| `FOREASK_(\w+)` \|", reference, re.MULTILINE)

    user = [name.upper() for name in Settings.model_fields if name != "tuning"]
    assert sorted(listed) == sorted(user + [f"TUNING__{name.upper()}" for name in Tuning.model_fields])

import hashlib
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from shared.domain.errors import InvalidInput
from shared.ledger.postgres.database import Database
from shared.settings import OPENAI_URL, Settings, Tuning, load
from shared.settings.sources import secrets
from tests.support.planted import guards

KEY = "k" * 22
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def settings():
    return Settings(_env_file=None)


def test_bare_number_means_seconds(monkeypatch):
    monkeypatch.setenv("FOREASK_TUNING__LEASE", "2.5")

    assert settings().tuning.lease == timedelta(seconds=2.5)


def test_openai_variables_are_used_without_own_variables(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://theirs/v1")
    assert settings().llm_base_url == "http://theirs/v1"

    monkeypatch.setenv("FOREASK_LLM_BASE_URL", "http://ours/v1")
    assert settings().llm_base_url == "http://ours/v1"


def test_keys_are_hashed_and_tenant_may_have_two(monkeypatch):
    digest = hashlib.sha256(b"x" * 22).hexdigest()
    monkeypatch.setenv("FOREASK_API_KEYS", f"acme:{KEY}, acme:sha256:{digest}")

    keys = settings().api_keys

    assert [key.tenant for key in keys] == ["acme", "acme"]
    assert keys[0].sha256 == hashlib.sha256(KEY.encode()).digest()
    assert keys[1].sha256.hex() == digest
    assert KEY not in repr(settings())


@pytest.mark.parametrize(
    "value", ["acme", ":key", "acme:short", "ACME:" + KEY, "acme:sha256:" + "a" * 63, "acme:sha256:"]
)
def test_unusable_key_is_rejected_without_being_shown(monkeypatch, value):
    monkeypatch.setenv("FOREASK_API_KEYS", value)

    with pytest.raises(ValidationError) as caught:
        settings()

    assert "input_value" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_unusable_setting_is_named_by_variable(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_TUNING__DRAIN", "soon")
    monkeypatch.setenv("FOREASK_LLM_TIMEOUT", "never")

    with pytest.raises(InvalidInput, match=r"FOREASK_LLM_TIMEOUT.*; FOREASK_TUNING__DRAIN"):
        load()


def test_environment_reproduces_settings_in_other_process(monkeypatch):
    loaded = Settings(
        _env_file=None,
        tuning={"lease": 7, "top_k_max": 5},
        llm_api_key="secret",
        llm_tier_prices="flex=0.25",
        calibrate=False,
    )
    for name, value in loaded.environment().items():
        monkeypatch.setenv(name, value)

    assert settings() == loaded


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("FOREASK_LLM_REQUEST_PER_MINUTE", "FOREASK_LLM_REQUESTS_PER_MINUTE"),
        ("FOREASK_TUNING__LEASES", "FOREASK_TUNING__LEASE"),
        ("FOREASK_LLM_API_KEYFILE", "FOREASK_LLM_API_KEY_FILE"),
    ],
)
def test_misspelt_setting_suggests_correct_name(monkeypatch, tmp_path, name, meant):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, "60")

    with pytest.raises(InvalidInput, match=f"^{name} is not a setting: did you mean {meant}\\?$"):
        load()


def test_misspelt_setting_in_file_is_rejected(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("FOREASK_LLM_MODLE=gpt\nFOREASK_QQQ=1\nPOSTGRES_PASSWORD=x\n")

    with pytest.raises(InvalidInput, match=r"FOREASK_LLM_MODLE .*FOREASK_LLM_MODEL\? FOREASK_QQQ is not a setting"):
        load()


@pytest.mark.parametrize(
    "name",
    [
        "FOREASK_URL",
        "FOREASK_API_KEY",
        "FOREASK_TOKEN",
        "FOREASK_COLLECTION",
        "FOREASK_PUBLISH",
        "FOREASK_PORT",
        "FOREASK_ENV_FILE",
        "FOREASK_IMAGE",
        "FOREASK_SERVICE_HOST",
        "FOREASK_API_SERVICE_PORT_HTTP",
        "FOREASK_PORT_8350_TCP_ADDR",
    ],
)
def test_variables_of_other_programs_are_accepted(monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, "x")

    load()


KEYS = ["qdrant_api_key", "llm_api_key", "embedding_api_key", "rerank_api_key"]
SECRETS = [
    "database_url",
    "redis_url",
    "parse_database_password",
    "app_database_password",
    "scale_database_password",
    "oidc_client_secret",
    *KEYS,
]


@pytest.mark.parametrize("name", SECRETS)
def test_secret_is_read_from_named_file(monkeypatch, tmp_path, name):
    (tmp_path / "secret").write_text("redis://user:secret@host\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    monkeypatch.setenv(f"FOREASK_{name.upper()}_FILE", "secret")

    assert getattr(load(), name).get_secret_value() == "redis://user:secret@host"


def test_store_options_are_json_possibly_from_file(monkeypatch, tmp_path):
    (tmp_path / "options").write_text('{"aws_region": "eu-central-1"}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_STORE_OPTIONS_FILE", "options")
    assert load().store_config() == {"aws_region": "eu-central-1"}
    assert load(store_options=None).store_config() == {}

    monkeypatch.delenv("FOREASK_STORE_OPTIONS_FILE")
    for value in ("hidden", '["hidden"]', '{"hidden": 1}'):
        monkeypatch.setenv("FOREASK_STORE_OPTIONS", value)
        with pytest.raises(InvalidInput, match=r"FOREASK_STORE_OPTIONS: .*must be a JSON object of texts") as caught:
            load()
        assert "hidden" not in str(caught.value)


def test_store_url_of_unknown_form_is_rejected(monkeypatch):
    for url in ("file:///mnt/uploads", "s3://bucket", "s3://bucket/prefix", "gs://bucket/a/b", "az://container/prefix"):
        assert load(store_url=url).store_url == url
    for url in ("/mnt/uploads", "file://host/folder", "s3:///prefix", "s3://key:secret@bucket", "http://host/bucket"):
        with pytest.raises(InvalidInput, match=r"FOREASK_STORE_URL: .*must be file:///folder"):
            load(store_url=url)


def test_keys_are_read_from_named_file(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys").write_text(f"acme:{KEY}\n")
    (tmp_path / ".env").write_text("FOREASK_API_KEYS_FILE=keys\n")

    assert [key.tenant for key in load().api_keys] == ["acme"]


def test_every_secret_setting_supports_a_file():
    assert sorted(name for name, _ in secrets(Settings)) == sorted(
        [*SECRETS, "api_keys", "operator_keys", "embeddings", "store_options"]
    )


def test_duplicate_or_unreadable_secret_is_rejected(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_LLM_API_KEY_FILE", "nowhere")
    with pytest.raises(InvalidInput, match="FOREASK_LLM_API_KEY_FILE: nowhere cannot be read: No such file"):
        load()

    (tmp_path / "nowhere").write_text("\n")
    with pytest.raises(InvalidInput, match="is empty"):
        load()

    monkeypatch.setenv("FOREASK_LLM_API_KEY", "secret")
    with pytest.raises(InvalidInput, match="FOREASK_LLM_API_KEY and FOREASK_LLM_API_KEY_FILE are both set"):
        load()


def test_child_process_reads_inherited_secret_file(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text("secret")
    monkeypatch.setenv("FOREASK_LLM_API_KEY_FILE", "key")

    for name, value in load().environment().items():
        monkeypatch.setenv(name, value)

    assert load().llm_api_key.get_secret_value() == "secret"


def test_settings_are_described_with_origin_without_secrets(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text("secret-one")
    (tmp_path / ".env").write_text(
        "FOREASK_DATABASE_URL=postgresql://me:secret-two@db:5432/one?password=secret-three\n"
    )
    monkeypatch.setenv("FOREASK_QDRANT_API_KEY_FILE", "key")
    monkeypatch.setenv("OPENAI_API_KEY", "secret-four")
    monkeypatch.setenv("FOREASK_API_KEYS", f"acme:secret{KEY}")
    monkeypatch.setenv("FOREASK_TUNING__LEASE", "7")

    described = {setting.variable: (setting.value, setting.origin) for setting in load().described()}

    assert described["FOREASK_DATABASE_URL"] == ("postgresql://me:***@db:5432/one?***", ".env")
    assert described["FOREASK_QDRANT_API_KEY"] == ("***", "file key")
    assert described["FOREASK_LLM_API_KEY"] == ("***", "OPENAI_API_KEY in environment")
    assert described["FOREASK_API_KEYS"] == ("***", "environment")
    assert described["FOREASK_TUNING__LEASE"] == ("PT7S", "environment")
    assert described["FOREASK_LOG_LEVEL"] == ("info", "default")
    assert described["FOREASK_LLM_MODEL"] == ("", "default")
    assert "secret" not in str(described)
    assert len(described) == len(Settings.model_fields) - 1 + len(Tuning.model_fields)


def test_reference_page_lists_exactly_all_settings():
    reference = (ROOT / "docs/reference/settings.md").read_text()
    listed = re.findall(r"^\| `FOREASK_([\w*]+)` \|", reference, re.MULTILINE)

    user = [name.upper() for name in Settings.model_fields if name not in ("tuning", "source_secrets")]
    user.append("SOURCE_SECRET_*")
    assert sorted(listed) == sorted(user + [f"TUNING__{name.upper()}" for name in Tuning.model_fields])


MINIO = '{"uri": "s3://docs/", "secret_access_key": "hidden"}'


def test_roots_belong_to_a_tenant_or_to_all(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert load().roots_of("acme") == ()
    monkeypatch.setenv("FOREASK_SOURCE_ROOTS", "acme=s3://a/, acme=file:///a=b,*=https://example.org")

    loaded = load()

    assert loaded.roots_of("acme") == ("s3://a/", "file:///a=b", "https://example.org")
    assert loaded.roots_of("beta") == ("https://example.org",)
    monkeypatch.setenv("FOREASK_SOURCE_ROOTS", loaded.environment()["FOREASK_SOURCE_ROOTS"])
    assert load().source_roots == loaded.source_roots


@pytest.mark.parametrize("value", ["acme", "ACME=s3://a", "acme=", "acme=/data", "acme=s3://a/../b", "acme=s3://k:p@a"])
def test_unusable_roots_are_reported(monkeypatch, tmp_path, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_SOURCE_ROOTS", value)

    with pytest.raises(InvalidInput, match="FOREASK_SOURCE_ROOTS"):
        load()


def test_secrets_of_sources_are_named_by_their_variables(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wiki").write_text('{"uri": "https://example.org", "token": "hidden"}\n')
    (tmp_path / ".env").write_text(f"FOREASK_SOURCE_SECRET_MINIO_PROD={MINIO}\n")
    monkeypatch.setenv("FOREASK_SOURCE_SECRET_WIKI_FILE", "wiki")

    for name, value in load().environment().items():
        monkeypatch.setenv(name, value)  # as in a child process
    loaded = load()

    assert loaded.source_secret("minio-prod") == {"uri": "s3://docs/", "secret_access_key": "hidden"}
    assert loaded.source_secret("WIKI").keys() == {"uri", "token"}
    with pytest.raises(InvalidInput, match="ask the operator to set FOREASK_SOURCE_SECRET_OTHER"):
        loaded.source_secret("other")
    described = {setting.variable: setting.value for setting in loaded.described()}
    assert sorted(described["FOREASK_SOURCE_SECRET_*"].split(",")) == ["MINIO_PROD", "WIKI"]
    assert "hidden" not in str(described) + repr(loaded)


@pytest.mark.parametrize("value", ["hidden", '["hidden"]', '{"uri": 1}', '{"key": "hidden"}'])
def test_unusable_secret_of_source_is_reported_without_value(monkeypatch, tmp_path, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_SOURCE_SECRET_MINIO", value)

    with pytest.raises(InvalidInput, match="FOREASK_SOURCE_SECRET_MINIO must be a JSON object") as caught:
        load()
    assert "hidden" not in str(caught.value)


def test_secret_of_source_is_set_once(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_SOURCE_SECRET_MINIO", MINIO)
    monkeypatch.setenv("FOREASK_SOURCE_SECRET_MINIO_FILE", "minio")

    with pytest.raises(InvalidInput, match="FOREASK_SOURCE_SECRET_MINIO and FOREASK_SOURCE_SECRET_MINIO_FILE are both"):
        load()


@pytest.mark.parametrize(
    "issuer",
    [
        "https://login.example.com/realms/company",
        "https://x.example.com/",
        "http://127.0.0.1:8080",
        "http://[::1]:80/a",
    ],
)
def test_issuer_may_be_remote_with_tls_or_local(monkeypatch, tmp_path, issuer):
    monkeypatch.chdir(tmp_path)

    loaded = load(oidc_issuer=issuer, oidc_client_id="page", oidc_audience="api, mcp")

    assert loaded.oidc_issuer == issuer
    assert not loaded.is_keyless
    assert loaded.oidc_audiences == ("api", "mcp")
    assert loaded.model_copy(update={"oidc_audience": None}).oidc_audiences == ("page",)


@guards(
    "shared/settings/values.py",
    '(parts.scheme == "http" and is_loopback(host))',
    'parts.scheme == "http"',
    means="keys of tokens are fetched over the network without TLS",
)
@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"oidc_issuer": "http://login.example.com"}, r"FOREASK_OIDC_ISSUER: .*must start with https://"),
        ({"oidc_issuer": "http://127.0.0.1.example.com"}, r"FOREASK_OIDC_ISSUER: .*must start with https://"),
        ({"oidc_issuer": "login.example.com"}, r"FOREASK_OIDC_ISSUER: .*must be an address such as"),
        ({"oidc_issuer": "https://me:secret@example.com"}, r"FOREASK_OIDC_ISSUER: .*must be an address such as"),
        ({"oidc_issuer": "https://example.com", "oidc_client_id": None}, "needs FOREASK_OIDC_AUDIENCE"),
        ({"oidc_administrators": "admins"}, "need FOREASK_OIDC_ISSUER"),
        ({"oidc_person_scopes": "read,manage"}, "FOREASK_OIDC_PERSON_SCOPES"),
        ({"oidc_tenant": "A B"}, "FOREASK_OIDC_TENANT"),
        ({"oidc_clock_skew": "3600"}, "FOREASK_OIDC_CLOCK_SKEW"),
    ],
)
def test_unusable_sign_in_is_rejected(monkeypatch, tmp_path, values, problem):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidInput, match=problem) as caught:
        load(**({"oidc_client_id": "page"} if "oidc_issuer" in values else {}) | values)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["x", "postgresql://me@db:port/one"])
def test_invalid_database_url_is_reported(url):
    with pytest.raises(InvalidInput, match="FOREASK_DATABASE_URL must have the form postgresql://") as caught:
        Database(url)
    assert url == "x" or url not in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ("ssl=require", "unknown parameter ssl. It may have: channel_binding, sslcert"),
        ("channel_binding=always", "channel_binding must be disable, prefer or require"),
        ("sslmode=verify-full&sslrootcert=/missing/ca.pem", "the file of sslrootcert does not exist: /missing/ca.pem"),
    ],
)
def test_wrong_parameter_of_database_url_is_named(parameters, problem):
    with pytest.raises(InvalidInput, match=problem):
        Database(f"postgresql://me:secret@db/one?{parameters}")


def test_several_qdrant_urls_are_read_without_passwords(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_QDRANT_URL", "http://me:secret@a:6333, https://me:secret@b:6333")

    loaded = load()

    assert loaded.qdrant_addresses() == ["http://me:secret@a:6333", "https://me:secret@b:6333"]
    described = {setting.variable: setting.value for setting in loaded.described()}
    assert described["FOREASK_QDRANT_URL"] == "http://me:***@a:6333,https://me:***@b:6333"


@pytest.mark.parametrize("variable", ["LLM_BASE_URL", "EMBEDDING_BASE_URL", "RERANK_BASE_URL"])
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("127.0.0.1:8000/v1", "must be a URL such as https://api.openai.com/v1"),
        ("hidden.example/v1", "must be a URL such as"),
        ("ftp://hidden.example/v1", "must be a URL such as"),
        ("http://", "must be a URL such as"),
        ("http://hidden.example:port/v1", "must be a URL such as"),
        ("http://hidden.example/v1#part", "must be a URL such as"),
        ("http://hidden.example/ v1", "must be a URL such as"),
        ("https://hidden.example/v1/chat/completions", "must end before /chat/completions, which foreask appends"),
        ("https://hidden.example/v1/embeddings/", "must end before /embeddings"),
        ("https://a.example/openai/deployments/d/chat/completions?api-version=1", "must end before /chat/completions"),
    ],
)
def test_unusable_model_url_is_explained_at_start(monkeypatch, tmp_path, variable, value, problem):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(f"FOREASK_{variable}", value)

    with pytest.raises(InvalidInput, match=problem) as caught:
        load()

    assert variable in caught.value.message
    assert "hidden" not in caught.value.message


@pytest.mark.parametrize(
    "value", ["https://a.openai.azure.com/openai/deployments/d?api-version=2024-10-21", "http://localhost:11434"]
)
def test_usual_model_urls_are_accepted(monkeypatch, tmp_path, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_LLM_BASE_URL", value)

    assert load().llm_url == value


def test_unusable_broker_url_stops_at_start(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_REDIS_URL", "sentinel://:hidden@host:26379/0")

    with pytest.raises(InvalidInput, match=r"FOREASK_REDIS_URL: .*Sentinel is not supported") as caught:
        load()

    assert "hidden" not in caught.value.message


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_file_without_certificates_is_rejected(monkeypatch, tmp_path, content):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("FOREASK_CA_FILE", str(file))

    with pytest.raises(InvalidInput, match=r"FOREASK_CA_FILE: .*must name a file with certificates in PEM form"):
        load()


@pytest.mark.parametrize("value", ["qdrant:6333", "http://a:6333,", "http://a:6333,b:6333", "http://a/x,http://b/y"])
def test_invalid_qdrant_urls_are_reported(monkeypatch, tmp_path, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_QDRANT_URL", value)

    with pytest.raises(InvalidInput, match="FOREASK_QDRANT_URL"):
        load()


@pytest.mark.parametrize("value", ["flex", "flex=half", "standard=2", "flex=1;batch=1", "flex=-1"])
def test_unusable_tier_prices_are_reported(monkeypatch, tmp_path, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_LLM_TIER_PRICES", value)

    with pytest.raises(InvalidInput, match="FOREASK_LLM_TIER_PRICES must be tier=share pairs"):
        load()


E5 = {"model": "e5", "base_url": "http://tei:8080/v1", "query_prefix": "query: ", "passage_prefix": "passage: "}


def test_embedding_settings_of_guide_are_valid(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    guide = (ROOT / "docs/how-to/choose-the-embedding.md").read_text()
    (tmp_path / ".env").write_text("\n".join(re.findall(r"^    (FOREASK_\w+=.*)$", guide, re.MULTILINE)))

    served = load().served_embeddings()

    assert list(served) == ["text-embedding-3-small", "e5"]
    assert served["text-embedding-3-small"].base_url == OPENAI_URL
    assert (served["e5"].base_url, served["e5"].query_prefix) == ("http://tei:8080/v1", "query: ")


def test_key_is_sent_to_own_server_only(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    monkeypatch.setenv("FOREASK_EMBEDDING_MODEL", "small")
    entries = {"large": {"model": "large"}, "e5": E5, "own": E5 | {"api_key": "mine"}}
    monkeypatch.setenv("FOREASK_EMBEDDINGS", json.dumps(entries))

    served = load().served_embeddings()

    keys = {name: entry.api_key and entry.api_key.get_secret_value() for name, entry in served.items()}
    assert keys == {"small": "theirs", "large": "theirs", "e5": None, "own": "mine"}


@pytest.mark.parametrize(
    ("llm", "embedding", "key"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com:443/other", "theirs"),
        ("https://api.openai.com/v1", "http://api.openai.com/v1", None),
        ("https://api.openai.com/v1", "https://tei.example/v1", None),
        ("http://vllm:8000/v1", "http://vllm:8001/v1", None),
    ],
)
def test_llm_key_is_sent_to_own_origin_only(monkeypatch, tmp_path, llm, embedding, key):
    monkeypatch.chdir(tmp_path)
    values = {"LLM_BASE_URL": llm, "LLM_API_KEY": "theirs", "EMBEDDING_BASE_URL": embedding, "EMBEDDING_MODEL": "e"}
    for name, value in values.items():
        monkeypatch.setenv(f"FOREASK_{name}", value)

    sent = load().served_embeddings()["e"].api_key

    assert (sent and sent.get_secret_value()) == key


def test_default_embedding_may_be_configured_by_name(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_EMBEDDING_MODEL", "e5")
    monkeypatch.setenv("FOREASK_EMBEDDINGS", json.dumps({"small": {"model": "small"}, "e5": E5}))

    served = load().served_embeddings()

    assert list(served) == ["e5", "small"]
    assert served["e5"].passage_prefix == "passage: "


def test_embeddings_reach_processes_without_printing_keys(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    url = "http://me:secret-two@tei:8080/v1"
    (tmp_path / "embeddings").write_text(json.dumps({"e5": E5 | {"api_key": "secret-one", "base_url": url}}))
    monkeypatch.setenv("FOREASK_EMBEDDINGS_FILE", "embeddings")
    settings = load()

    described = {setting.variable: setting for setting in settings.described()}
    shown = json.loads(described["FOREASK_EMBEDDINGS"].value)
    assert shown["e5"] == E5 | {"api_key": "***", "base_url": "http://me:***@tei:8080/v1"}
    assert described["FOREASK_EMBEDDINGS"].origin == "file embeddings"

    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert load().embeddings == settings.embeddings
    assert load().embeddings["e5"].api_key.get_secret_value() == "secret-one"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"e5": {"model": "secret"', "FOREASK_EMBEDDINGS: .*not JSON: .* at character"),
        ('["secret"]', "names of A-Z"),
        ('{"e 5": {"model": "secret"}}', "names of A-Z"),
        ('{"e5": {"base_url": "secret"}}', r"FOREASK_EMBEDDINGS \(e5 model\): Field required"),
        ('{"e5": {"model": "m", "prefix": "secret"}}', r"FOREASK_EMBEDDINGS \(e5 prefix\): Extra inputs"),
        ('{"e5": {"model": "m", "dimensions": 0, "api_key": "secret"}}', r"FOREASK_EMBEDDINGS \(e5 dimensions\)"),
    ],
)
def test_unusable_embeddings_are_rejected_without_values(monkeypatch, tmp_path, value, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_EMBEDDINGS", value)

    with pytest.raises(InvalidInput, match=message) as caught:
        load()
    assert "secret" not in str(caught.value)


def test_page_origins_are_as_browsers_send_them(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    given = "https://Intranet.Example.com:443, http://localhost:3000,http://[::1]:8080,app://obsidian.md"
    monkeypatch.setenv("FOREASK_API_ORIGINS", f"{given},http://localhost:3000")

    loaded = load()

    assert ",".join(loaded.api_origins) == loaded.environment()["FOREASK_API_ORIGINS"]
    assert loaded.api_origins == (
        "https://intranet.example.com",
        "http://localhost:3000",
        "http://[::1]:8080",
        "app://obsidian.md",
    )


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("*", "must name each origin"),
        ("https://*.example.com", "must name each origin"),
        ("https://a.example,*", "must name each origin"),
        ("null", "must be origins such as"),
        ("a.example", "must be origins such as"),
        ("https://a.example/", "must be origins such as"),
        ("https://a.example/path", "must be origins such as"),
        ("https://a.example?", "must be origins such as"),
        ("https://me@a.example", "must be origins such as"),
        ("https://a.example:0", "must be origins such as"),
        ("https://a.example:99999", "must be origins such as"),
        ("https://b\u00fccher.example", "must be origins such as"),
        ("https://", "must be origins such as"),
        ("https://a.example https://b.example", "must be origins such as"),
    ],
)
def test_unusable_page_origins_stop_at_start(monkeypatch, tmp_path, value, problem):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_API_ORIGINS", value)

    with pytest.raises(InvalidInput, match=f"FOREASK_API_ORIGINS: .*{problem}"):
        load()

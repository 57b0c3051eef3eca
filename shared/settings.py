"""Settings: one frozen tree, read from the environment and `.env` once per process.

A user sets the fields of `Settings`; `tuning` holds the numbers that hardly anybody changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit

import orjson
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_serializer,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from shared.domain.errors import InvalidInput
from shared.domain.index_location import vector_space
from shared.domain.keys import OPERATOR, hash_of
from shared.settings_sources import PREFIX, SecretFiles, every_setting, origin, require_known, secrets, sources

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_WEIGHT = re.compile(r"\d{1,4}(\.\d+)?")
_STORE = re.compile(r"file:///.*|(s3|gs|az)://[^/@?#]+(/[^?#]*)?")
_EMBEDDING = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")
_OTHERS = "*"  # the entry of FOREASK_TENANT_LIMITS for every tenant
_NEXT_ADDRESS = re.compile(r",\s*(?=https?://)")
_SHA256 = re.compile(r"sha256:[0-9a-fA-F]{64}")
_KEY_MIN_CHARS = 22  # 128 bits in base 64

OPENAI_URL = "https://api.openai.com/v1"

# The model that `foreask up` starts. It may write questions, which are filtered. It writes no answers and rewrites no
# user's question: of "Does orjson support PyPy?" it makes "You can use it to test the moon on your computer.", in 4 to
# 40 seconds.
EMBEDDED_LLM = "smollm2-135m"

T = TypeVar("T", str, SecretStr)
PositiveInt = Annotated[int, Field(gt=0)]


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return timedelta(seconds=float(value))
    except ValueError:
        return value


Duration = Annotated[timedelta, BeforeValidator(_seconds), Field(gt=timedelta())]  # a bare number is seconds


@dataclass(frozen=True, slots=True)
class ApiKey:
    """Who a key speaks for. Only the key's SHA-256 is kept in memory."""

    tenant: str
    sha256: bytes

    @classmethod
    def parse(cls, pair: str) -> ApiKey:
        """Read `tenant:key` or `tenant:sha256:HEX`.

        Raises:
            ValueError: the pair has another form, or the key is too short to be safe.
        """
        tenant, _, key = pair.partition(":")
        if not _TENANT.fullmatch(tenant) or not key:
            raise ValueError(
                "FOREASK_API_KEYS must be tenant:key pairs separated by commas; a tenant is a-z, 0-9, - and _"
            )
        return cls(tenant, _hash_in(key, f"the key of tenant {tenant}"))

    @classmethod
    def parse_operator(cls, key: str) -> ApiKey:
        """Read an operator's `key` or `sha256:HEX`.

        Raises:
            ValueError: the key is too short to be safe, or the hash has another length.
        """
        return cls(OPERATOR, _hash_in(key, "an operator's key"))


def is_tenant(name: str) -> bool:
    return _TENANT.fullmatch(name) is not None


def _hash_in(key: str, what: str) -> bytes:
    if key.startswith("sha256:"):
        if not _SHA256.fullmatch(key):
            raise ValueError(f"{what} has sha256: and then not 64 of 0-9 and a-f: it may have been cut off")
        return bytes.fromhex(key.removeprefix("sha256:"))
    if len(key) < _KEY_MIN_CHARS:
        raise ValueError(f"{what} is too short: use at least {_KEY_MIN_CHARS} characters")
    return hash_of(key)


class TenantLimits(BaseModel):
    """What a tenant may take: an entry of FOREASK_TENANT_LIMITS. None is no limit. Days begin at midnight in UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    requests_per_second: float | None = Field(None, gt=0, description="of the API")
    burst: PositiveInt | None = Field(None, description="requests at once after a pause; default: those of 2 seconds")
    upload_bytes_per_day: PositiveInt | None = None
    documents: PositiveInt | None = None
    collections: PositiveInt | None = None
    listeners: PositiveInt | None = Field(1_000, description="to progress, at one API process")
    llm_requests_per_minute: PositiveInt | None = Field(None, description="of the language model")
    llm_tokens_per_minute: PositiveInt | None = None
    tokens_per_day: PositiveInt | None = Field(None, description="of the language model, for the ingest")
    cost_per_day: float | None = Field(None, gt=0, description="of the ingest, in the currency of the prices")

    @property
    def has_budget(self) -> bool:
        return self.tokens_per_day is not None or self.cost_per_day is not None


def _openai(name: str) -> AliasChoices:
    """`OPENAI_*` is honoured where the project's own variable is absent: most people have it set already."""
    return AliasChoices(f"FOREASK_LLM_{name}", f"OPENAI_{name}")


class Embedding(BaseModel):
    """An embedding model that collections choose by its name: an entry of FOREASK_EMBEDDINGS, or the default one.

    A prefix stands in front of each question or text that is embedded, as E5's "query: " and "passage: ".
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model: str = Field(min_length=1, description="the model as its server calls it")
    base_url: str | None = Field(None, description="default: that of FOREASK_EMBEDDING_BASE_URL, with its key")
    api_key: SecretStr | None = None
    dimensions: PositiveInt | None = Field(None, description="asked of the model where given")
    query_prefix: str = ""
    passage_prefix: str = ""
    timeout: Duration = timedelta(seconds=120)
    price: float | None = Field(None, ge=0, description="price of a million tokens")
    requests_per_minute: PositiveInt | None = None
    tokens_per_minute: PositiveInt | None = None

    @property
    def space(self) -> str:
        return vector_space(self.model, self.dimensions, self.query_prefix, self.passage_prefix)


class Tuning(BaseModel):
    """Numbers that suit every installation that was measured: tests and experiments set them, hardly anybody else.

    Each field is the environment variable `FOREASK_TUNING__` + its name in capitals.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # The flow of work
    lease: Duration = Field(timedelta(seconds=30), description="how long a claim holds unless its worker extends it")
    drain: Duration = Field(timedelta(seconds=20), description="how long one task keeps claiming before it yields")
    hang_timeout: Duration = Field(
        timedelta(seconds=60), description="a worker whose event loop stands still for so long ends itself"
    )
    max_attempts: PositiveInt = Field(8, description="attempts before a chunk or document is given up")
    retry_base: Duration = Field(
        timedelta(seconds=1), description="the most that the first random pause takes; it doubles with each attempt"
    )
    retry_ceiling: Duration = Field(timedelta(minutes=5), description="the longest pause")
    reconcile_every: Duration = Field(
        timedelta(seconds=2), description="how long a step of the scheduler rests when it finds nothing more to do"
    )
    broker_timeout: Duration = Field(
        timedelta(seconds=5), description="how long a connection to the broker may be silent before it counts as dead"
    )
    broker_pause: Duration = Field(
        timedelta(seconds=2), description="the pause after a failed wake-up, before the next one is sent"
    )
    transaction_timeout: Duration = Field(
        timedelta(seconds=20), description="how long a transaction of the ledger may take before PostgreSQL ends it"
    )

    # The API
    top_k_max: PositiveInt = Field(200, description="the most chunks that a query may ask for")
    max_tokens_max: PositiveInt = Field(100_000, description="the most tokens of texts that a query may ask for")
    accepted_per_chunk: PositiveInt = Field(
        10, description="users' questions that a chunk may have; a new one replaces the oldest"
    )
    given_per_chunk: PositiveInt = Field(20, description="ready-made questions that a chunk may have")

    # Models
    question_strategy: Literal["list", "per-question"] | None = Field(
        None, description="one call a chunk, or one call a question; default: the one that suits the model"
    )
    embedding_batch_size: int = Field(256, gt=0, le=2048, description="inputs in one embedding request")
    embedding_batch_tokens: PositiveInt = Field(100_000, description="estimated tokens in one embedding request")
    embedding_max_in_flight: PositiveInt = Field(
        4, description="batches of 32 chunks of each embedding that one index worker has in work"
    )
    similarity_floor: float | None = Field(
        None, ge=-1, le=1, description="a question less similar to its own chunk is dropped; default by model"
    )
    limit_window: Duration = Field(
        timedelta(minutes=1), description="the length of the window that declared limits per minute apply to"
    )
    limit_burst: Duration = Field(
        timedelta(seconds=1), description="the part of the window whose calls may be sent at once after a pause"
    )
    limit_jitter: Duration = Field(
        timedelta(seconds=2), description="how much later than its neighbours a call may reach the provider"
    )
    rewrite_budget: Duration = Field(
        timedelta(seconds=3), description="how long a query waits for its question to be rewritten"
    )
    rerank_budget: Duration = Field(timedelta(seconds=1), description="how long a query waits to be reranked")
    rerank_candidates: int = Field(50, gt=0, le=1000, description="chunks of a query that are reranked")

    # The sandbox of one parsed file
    parse_memory_bytes: PositiveInt = Field(1024 * 1024 * 1024, description="memory for one file")
    parse_max_text_chars: PositiveInt = Field(20_000_000, description="a document with more text is refused")
    parse_max_chunks: PositiveInt = Field(
        50_000, description="a document with more chunks is refused: each costs a call"
    )


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """A setting as a process sees it; an empty value is none."""

    variable: str
    value: str
    origin: str


class Settings(BaseSettings):
    """What a user configures. Each field is the environment variable `FOREASK_` + its name in capitals."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_file=".env",
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        env_ignore_empty=True,
        hide_input_in_errors=True,  # a value may be a secret
    )

    # Where the engines are. The embedded stack starts an engine for each URL that is not given.
    database_url: SecretStr | None = Field(None, description="PostgreSQL: postgresql://user:password@host:5432/name")
    database_pool_size: PositiveInt | None = Field(
        None, description="connections to it that one process may hold; default 4 for a worker, 10 for others"
    )
    database_pooler: Literal["none", "transaction"] = Field(
        "none", description="transaction: a pooler such as pgbouncer stands before it, in transaction mode"
    )
    redis_url: SecretStr | None = Field(None, description="Redis or Valkey: redis://host:6379/0")
    qdrant_url: str | None = Field(None, description="Qdrant: http://host:6333; several nodes separated by commas")
    qdrant_api_key: SecretStr | None = None
    qdrant_prefix: str = Field(
        "foreask", pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,60}$", description="begins the names of Qdrant's collections"
    )
    data_dir: Path = Field(Path(".foreask"), description="uploads and embedded engines keep their files here")
    store_url: str | None = Field(
        None, description="uploads: file:///folder, s3://bucket/prefix, gs://… or az://…; default: a folder of data_dir"
    )
    store_options: SecretStr | None = Field(
        None, description="JSON object of the object store's options, where its usual variables do not give them"
    )

    # What new collections of Qdrant are made with; what is not set is as Qdrant has it.
    qdrant_shards: PositiveInt | None = Field(None, description="parts of a collection, on one node each")
    qdrant_replicas: PositiveInt | None = Field(None, description="copies of each part, on different nodes")
    qdrant_write_consistency: PositiveInt | None = Field(None, description="copies that must have taken a write")
    qdrant_quantization: Literal["none", "int8"] = Field(
        "none", description="int8: searches read vectors of a byte a dimension, from memory"
    )
    qdrant_on_disk: bool = Field(default=False, description="whether whole vectors and payloads stay on disk")
    qdrant_hnsw_m: int = Field(16, ge=4, le=128, description="neighbours of a point in the graph of its group")
    qdrant_hnsw_ef_construct: int | None = Field(
        None, ge=4, le=10_000, description="candidates that they are chosen among"
    )

    # The API
    api_host: str = "127.0.0.1"
    api_port: int = Field(8350, ge=0, le=65535)
    api_keys: Annotated[tuple[ApiKey, ...], NoDecode] = Field(
        (), description="tenant:key pairs, comma-separated; a key may be given as sha256:HEX"
    )
    operator_keys: Annotated[tuple[ApiKey, ...], NoDecode] = Field(
        (), description="operators' keys, comma-separated; a key may be given as sha256:HEX"
    )
    api_drain: Duration | None = Field(
        None, description="how long a stopping API says that it is not ready before it takes no more connections"
    )
    page: bool = Field(default=True, description="whether the API serves the page for people")
    api_max_requests: PositiveInt = Field(2_000, description="requests under way at one process; others get 503")
    api_body_timeout: Duration = Field(
        timedelta(seconds=30), description="how long the body of a request may stand still; it is answered 408"
    )
    max_upload_bytes: PositiveInt = Field(100 * 1024 * 1024, description="the largest document")
    max_json_bytes: PositiveInt = Field(
        20 * 1024 * 1024, description="the largest document as JSON, or fields of a form"
    )
    chat_sources: bool = Field(
        default=False, description="whether answers of /v1/chat/completions end with a list of their sources"
    )
    query_retention_days: int = Field(
        30, ge=0, le=36_500, description="days that a question is kept for feedback; 0: not at all"
    )

    completion_retention_days: int = Field(
        7, ge=0, le=36_500, description="days that paid questions are kept behind the last chunk that has them"
    )

    # The model that writes questions and answers
    llm_base_url: str | None = Field(None, validation_alias=_openai("BASE_URL"))
    llm_api_key: SecretStr | None = Field(None, validation_alias=_openai("API_KEY"))
    llm_model: str | None = None
    llm_tokenizer: Path | None = Field(
        None, description="the model's tokenizer.json: token budgets are then exact; without it they are estimated"
    )
    llm_timeout: Duration = timedelta(seconds=120)
    llm_max_in_flight: PositiveInt = Field(64, description="calls in flight per generate worker")
    llm_input_price: float | None = Field(
        None,
        ge=0,
        description="price of a million prompt tokens; default: the list price in dollars",
    )
    llm_output_price: float | None = Field(None, ge=0, description="price of a million completion tokens")
    llm_requests_per_minute: PositiveInt | None = Field(None, description="kept by the whole pool")
    llm_tokens_per_minute: PositiveInt | None = Field(None, description="prompts and replies")
    query_share: float = Field(
        0.1, ge=0, le=0.9, description="the share of each provider's limits that ingest leaves to queries"
    )
    answering: Literal["generative", "extractive"] | None = Field(
        None, description="default: generative where a model is configured, extractive with the embedded one"
    )

    webhooks_private: bool = Field(
        default=False, description="whether webhooks may have addresses of private networks and of this machine"
    )

    # Tenants
    tenant_limits: Annotated[Mapping[str, TenantLimits], NoDecode] = Field(
        {}, description='as JSON: tenant to limits; "*" has those that an entry of a tenant leaves out'
    )
    tenant_weights: Annotated[Mapping[str, float], NoDecode] = Field(
        {}, description="tenant=weight pairs, comma-separated: a tenant's share of busy workers; default 1 each"
    )

    # The model that embeds
    embedding_base_url: str | None = None
    embedding_api_key: SecretStr | None = None
    embedding_model: str | None = Field(
        None, description="of new collections: a model, or a name in FOREASK_EMBEDDINGS"
    )
    embedding_dimensions: PositiveInt | None = Field(None, description="asked of the model where not given")
    embedding_query_prefix: str = ""
    embedding_passage_prefix: str = ""
    embedding_timeout: Duration = timedelta(seconds=120)
    embedding_price: float | None = Field(None, ge=0, description="price of a million tokens")
    embedding_requests_per_minute: PositiveInt | None = None
    embedding_tokens_per_minute: PositiveInt | None = None
    embeddings: Annotated[Mapping[str, Embedding], NoDecode] = Field(
        {}, description="more of them, as JSON: name to model, base_url, api_key, dimensions, query_prefix, ..."
    )

    # The model that reranks
    rerank_base_url: str | None = Field(None, description="of a /v1/rerank endpoint; nothing is reranked without it")
    rerank_model: str | None = None
    rerank_api_key: SecretStr | None = None

    # Documents
    questions_per_chunk: Literal["auto"] | PositiveInt = "auto"
    chunk_max_chars: int = Field(2_000, ge=200, le=100_000)
    chunk_overlap_chars: int = Field(100, ge=0, le=10_000)
    parse_workers: PositiveInt = Field(2, description="files that one parse worker reads at the same time")
    parse_timeout: Duration = Field(timedelta(seconds=30), description="how long one file may take")
    parse_isolation: Literal["require", "allow"] = Field(
        "allow",
        description="require: a parse worker ends where the kernel cannot confine the processes that read files",
    )
    parse_database_password: SecretStr | None = Field(
        None, description="`foreask schema` makes the role foreask_parse with it, for parse workers"
    )
    app_database_password: SecretStr | None = Field(
        None, description="`foreask schema` makes the role foreask_app with it, for all that serve and work"
    )
    calibrate: bool = Field(
        default=True, description="whether collections that have grown by half are calibrated by themselves"
    )

    # Processes
    grace: Duration = Field(timedelta(seconds=20), description="how long a stopping process waits for its open calls")
    metrics_port: int | None = Field(
        None, ge=0, le=65535, description="where a process serves /metrics, or the next free port; default: nowhere"
    )
    metrics_host: str = "127.0.0.1"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "json"

    tuning: Tuning = Tuning()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the files of secrets that the environment, or `.env`, names count as much as their variables."""
        del settings_cls, file_secret_settings
        sources = [init_settings]
        for variables in (env_settings, dotenv_settings):
            assert isinstance(variables, EnvSettingsSource)
            sources += [SecretFiles(variables), variables]  # before what stands in for ours, such as OPENAI_API_KEY
        return tuple(sources)

    @property
    def llm_url(self) -> str:
        return self.llm_base_url or OPENAI_URL

    @property
    def embedding_url(self) -> str:
        return self.embedding_base_url or self.llm_url

    @property
    def embedding_key(self) -> SecretStr | None:
        """The key of the embedding server: its own, else the language model's where both have one origin."""
        if self.embedding_api_key is None and _origin(self.embedding_url) == _origin(self.llm_url):
            return self.llm_api_key
        return self.embedding_api_key

    def limits_of(self, tenant: str) -> TenantLimits:
        """What a tenant may take: its own entry, and what that leaves out from the entry of every tenant."""
        own = self.tenant_limits.get(tenant)
        if own is None:
            return self.limits_of_others
        return self.limits_of_others.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})

    @property
    def tenants_with_limits(self) -> list[str]:
        """The tenants that have an entry of their own."""
        return [tenant for tenant in self.tenant_limits if tenant != _OTHERS]

    @property
    def limits_of_others(self) -> TenantLimits:
        """What each tenant may take that has no entry."""
        return self.tenant_limits.get(_OTHERS, TenantLimits())

    def named_embeddings(self) -> dict[str, Embedding]:
        """The entries of FOREASK_EMBEDDINGS, each with its server.

        An entry without a server has that of FOREASK_EMBEDDING_BASE_URL; its key goes to no other server.
        """
        of_server = {"base_url": self.embedding_url, "api_key": self.embedding_key}
        return {
            name: entry if entry.base_url else entry.model_copy(update=of_server | _key_of(entry))
            for name, entry in self.embeddings.items()
        }

    def served_embeddings(self) -> dict[str, Embedding]:
        """The embeddings that the settings describe, by their names, the default one first."""
        named, default = self.named_embeddings(), self.embedding_model
        if default is None:
            return named
        single = Embedding(
            model=default,
            base_url=self.embedding_url,
            api_key=self.embedding_key,
            dimensions=self.embedding_dimensions,
            query_prefix=self.embedding_query_prefix,
            passage_prefix=self.embedding_passage_prefix,
            timeout=self.embedding_timeout,
            price=self.embedding_price,
            requests_per_minute=self.embedding_requests_per_minute,
            tokens_per_minute=self.embedding_tokens_per_minute,
        )
        return {default: named.get(default, single)} | named

    @property
    def is_keyless(self) -> bool:
        """Whether the API serves this machine without keys. Keys in the ledger alone do not end that."""
        return not (self.api_keys or self.operator_keys)

    def qdrant_addresses(self) -> list[str]:
        """The addresses of Qdrant's nodes.

        Raises:
            InvalidInput: none is set.
        """
        return [address.strip() for address in require(self.qdrant_url, "FOREASK_QDRANT_URL").split(",")]

    def environment(self) -> dict[str, str]:
        """The variables that give another process these settings; secrets are among them."""
        dumped = self.model_dump(mode="json", exclude={"api_keys", "operator_keys", "embeddings"}, exclude_none=True)
        tuning = {f"TUNING__{name}": value for name, value in dumped.pop("tuning").items()}
        plain = {name: value.get_secret_value() for name, value in self if isinstance(value, SecretStr)}
        keys = {
            "api_keys": ",".join(f"{key.tenant}:sha256:{key.sha256.hex()}" for key in self.api_keys),
            "operator_keys": ",".join(f"sha256:{key.sha256.hex()}" for key in self.operator_keys),
        }
        files = {f"{name}_file": "" for name, _ in secrets(type(self))}  # the process may inherit some, beside these
        embeddings = {"embeddings": _embeddings_json(self.embeddings, _revealed)}
        values = dumped | tuning | plain | keys | files | embeddings
        return {PREFIX + name.upper(): str(value) for name, value in values.items()}

    def described(self) -> Iterator[EffectiveSetting]:
        """Yield every setting with its value, in which no secret is shown, and where it comes from."""
        values, given = self.environment(), sources(type(self))
        values["FOREASK_EMBEDDINGS"] = _embeddings_json(self.embeddings, _hidden)
        hidden = {PREFIX + name.upper() for name, _ in secrets(type(self))} - {"FOREASK_EMBEDDINGS"}
        for variables in every_setting(type(self)):
            value = values.get(variables[0], "")
            shown = value if variables[0] == "FOREASK_EMBEDDINGS" else _masked(value, secret=variables[0] in hidden)
            yield EffectiveSetting(variables[0], shown, origin(variables, given))

    def store_config(self) -> dict[str, str]:
        """The options of the object store."""
        options = self.store_options
        return {} if options is None else dict(orjson.loads(options.get_secret_value()))

    @field_validator("store_url")
    @classmethod
    def _require_store(cls, value: str | None) -> str | None:
        if value is not None and not _STORE.fullmatch(value):
            raise ValueError("must be file:///folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix")
        return value

    @field_validator("store_options")
    @classmethod
    def _require_options(cls, value: SecretStr | None) -> SecretStr | None:
        with suppress(orjson.JSONDecodeError):
            options = orjson.loads(value.get_secret_value()) if value is not None else {}
            if isinstance(options, dict) and all(isinstance(option, str) for option in options.values()):
                return value
        raise ValueError('must be a JSON object of texts, such as {"aws_region": "eu-central-1"}')

    @field_validator("qdrant_url")
    @classmethod
    def _require_addresses(cls, value: str | None) -> str | None:
        urls = [urlsplit(address.strip()) for address in value.split(",")] if value else []
        if any(url.scheme not in ("http", "https") or not url.hostname for url in urls):
            raise ValueError("must be http://host:6333, several separated by commas")
        if len({url.path.rstrip("/") for url in urls}) > 1:
            raise ValueError("the addresses must have the same path")
        return value

    @field_validator("api_keys", mode="before")
    @classmethod
    def _split_keys(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(ApiKey.parse(item.strip()) for item in value.split(",") if item.strip())

    @field_validator("operator_keys", mode="before")
    @classmethod
    def _split_operator_keys(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(ApiKey.parse_operator(item.strip()) for item in value.split(",") if item.strip())

    @field_validator("embeddings", mode="before")
    @classmethod
    def _read_embeddings(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        entries = _json_of(value)
        if not isinstance(entries, dict) or not all(map(_EMBEDDING.fullmatch, entries)):
            raise ValueError("it must be JSON: names of A-Z, a-z, 0-9, ., _, :, / and - with an object each")
        return entries

    @field_validator("tenant_weights", mode="before")
    @classmethod
    def _split_weights(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return dict(_weight(item.strip()) for item in value.split(",") if item.strip())

    @field_serializer("tenant_weights", when_used="json")
    def _join_weights(self, weights: Mapping[str, float]) -> str:
        return ",".join(f"{tenant}={weight:g}" for tenant, weight in weights.items())

    @field_validator("tenant_limits", mode="before")
    @classmethod
    def _read_limits(cls, value: object) -> object:
        entries = _json_of(value)
        if not isinstance(entries, dict) or not all(map(_is_tenant_or_others, entries)):
            raise ValueError('it must be JSON such as {"*": {"requests_per_second": 50}, "acme": {"documents": 10000}}')
        return entries

    @field_serializer("tenant_limits", when_used="json")
    def _write_limits(self, limits: Mapping[str, TenantLimits]) -> str:
        entries = {tenant: entry.model_dump(mode="json", exclude_unset=True) for tenant, entry in limits.items()}
        return json.dumps(entries) if entries else ""


def _json_of(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error.msg} at character {error.pos}") from None


def _is_tenant_or_others(name: str) -> bool:
    return name == _OTHERS or _TENANT.fullmatch(name) is not None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _key_of(entry: Embedding) -> dict[str, SecretStr]:
    return {} if entry.api_key is None else {"api_key": entry.api_key}


def _embeddings_json(embeddings: Mapping[str, Embedding], shown: Callable[[Embedding], dict[str, Any]]) -> str:
    entries = {name: _set_fields(entry) | shown(entry) for name, entry in embeddings.items()}
    return json.dumps(entries) if entries else ""


def _set_fields(entry: Embedding) -> dict[str, Any]:
    return entry.model_dump(mode="json", exclude_defaults=True)


def _revealed(entry: Embedding) -> dict[str, Any]:
    return {name: value.get_secret_value() for name, value in _key_of(entry).items()}


def _hidden(entry: Embedding) -> dict[str, Any]:
    url = {} if entry.base_url is None else {"base_url": _masked(entry.base_url, secret=False)}
    return url | dict.fromkeys(_key_of(entry), "***")


def _weight(pair: str) -> tuple[str, float]:
    tenant, _, weight = pair.partition("=")
    if not _TENANT.fullmatch(tenant) or not _WEIGHT.fullmatch(weight) or float(weight) <= 0:
        raise ValueError(
            "FOREASK_TENANT_WEIGHTS must be tenant=weight pairs separated by commas, such as acme=3,beta=1"
        )
    return tenant, float(weight)


def load(**values: Any) -> Settings:
    """Read the settings.

    Args:
        values: fields that are set here, whatever the environment says.

    Raises:
        InvalidInput: a setting cannot be used, or a variable FOREASK_* is none; the message names it without its
            value, which may be a secret.
    """
    require_known(Settings)
    try:
        return Settings(**values)
    except SettingsError as error:
        raise InvalidInput(str(error)) from None
    except ValidationError as error:
        problems = (f"{_variable(problem['loc'])}: {problem['msg']}" for problem in error.errors(include_input=False))
        raise InvalidInput("A setting cannot be used: " + "; ".join(problems)) from None


def _masked(value: str, *, secret: bool) -> str:
    """A value without its secrets: of a URL the password and the query, of another secret everything."""
    first, *others = _NEXT_ADDRESS.split(value)
    if others:
        return ",".join(_masked(address, secret=secret) for address in (first, *others))
    if "://" in value:
        url = urlsplit(value)
        user, _, password = url.netloc.rpartition("@")[0].partition(":")
        host = url.netloc.rpartition("@")[2]
        account = f"{user}:***@" if password else f"{user}@" if user else ""
        return urlunsplit((url.scheme, account + host, url.path, "***" if url.query else "", ""))
    return "***" if secret and value else value


def require(value: T | None, name: str) -> T:
    """Return a setting that has a value.

    Raises:
        InvalidInput: it has none; the message names its variable.
    """
    if value is None:
        raise InvalidInput(f"{name} is not set. `foreask up` starts an embedded engine for it.", field=name)
    return value


def _variable(location: tuple[int | str, ...]) -> str:
    """The variable of a field, such as FOREASK_TUNING__LEASE for `("tuning", "lease")`."""
    if not location:
        return "the environment"
    if location[0] in ("embeddings", "tenant_limits") and len(location) > 1:
        return f"FOREASK_{str(location[0]).upper()} ({' '.join(map(str, location[1:]))})"
    depth = 2 if location[0] == "tuning" else 1
    name = "__".join(str(part) for part in location[:depth]).upper()
    return name if name.startswith(("FOREASK_", "OPENAI_")) else f"FOREASK_{name}"

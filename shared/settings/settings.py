"""Settings: one frozen tree, read from the environment and `.env` once per process.

Users set the fields of `Settings`; `tuning` contains numbers that rarely change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

import orjson
from pydantic import (
    AliasChoices,
    Field,
    SecretStr,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from shared.domain.access.keys import Scope
from shared.domain.errors import InvalidInput
from shared.domain.spending.tiers import Tier
from shared.process.network.brokers import read_broker_url
from shared.process.network.certificates import authorities_in, trust
from shared.settings.api_keys import ApiKey, is_tenant
from shared.settings.embeddings import EMBEDDING_NAME, Embedding, embeddings_json, key_of
from shared.settings.masking import masked
from shared.settings.source_roots import Roots
from shared.settings.sources import (
    ALONE,
    NAMED,
    PREFIX,
    NamedSecrets,
    SecretFiles,
    every_setting,
    is_alone,
    origin,
    require_known,
    secrets,
    sources,
)
from shared.settings.temporary_bytes import TEMPORARY_BYTES
from shared.settings.tenant_limits import OTHERS, TenantLimits
from shared.settings.tuning import Tuning
from shared.settings.values import Duration, PositiveInt, issuer_url, model_url, page_origin, split_names

_WEIGHT = re.compile(r"\d{1,4}(\.\d+)?")
_STORE = re.compile(r"file:///.*|(s3|gs|az)://[^/@?#]+(/[^?#]*)?")
_HALF = 0.5  # the usual price of the tiers flex and batch
OPENAI_URL = "https://api.openai.com/v1"
# The model that `foreask up` starts. It generates questions, which are filtered. It is not used for answers or for
# rewriting: it rewrites "Does orjson support PyPy?" as "You can use it to test the moon on your computer.", in 4 to 40
# seconds.
EMBEDDED_LLM = "smollm2-135m"
EMBEDDED_EMBEDDING = "all-minilm-l6-v2-w8a8"  # W8A8: weights and activations in 8 bits
EMBEDDED_MULTILINGUAL = "multilingual-e5-small-w8a8"
T = TypeVar("T", str, SecretStr)


def _openai(name: str) -> AliasChoices:
    """Fall back to `OPENAI_*` if our own variable is unset, because most users have set it already."""
    return AliasChoices(f"FOREASK_LLM_{name}", f"OPENAI_{name}")


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """The value of a setting in a process; an empty value means unset."""

    variable: str
    value: str
    origin: str


class Settings(BaseSettings):
    """The user's configuration. Each field is the environment variable `FOREASK_` + its name in capitals."""

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

    # The engines. The embedded stack starts an engine for each missing URL.
    database_url: SecretStr | None = Field(
        None, description="PostgreSQL: postgresql://user:password@host:5432/name; TLS with ?sslmode=require at its end"
    )
    database_pool_size: PositiveInt | None = Field(
        None, description="maximum connections to PostgreSQL per process; default: 4 for a worker, 10 for others"
    )
    database_pooler: Literal["none", "transaction"] = Field(
        "none", description="transaction: connections pass through a pooler such as pgbouncer in transaction mode"
    )
    redis_url: SecretStr | None = Field(
        None, description="Redis or Valkey: redis://user:password@host:6379/0, or rediss:// for TLS"
    )
    celery_remote_control: bool = Field(
        default=False,
        description="workers answer `celery inspect` and send events for Flower, which costs the broker messages",
    )
    qdrant_url: str | None = Field(None, description="Qdrant: http://host:6333; several nodes separated by commas")
    qdrant_api_key: SecretStr | None = None
    qdrant_prefix: str = Field(
        "foreask", pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,60}$", description="prefix of the names of Qdrant's collections"
    )
    data_dir: Path = Field(Path(".foreask"), description="folder of uploads and embedded engines")
    store_url: str | None = Field(
        None, description="uploads: file:///folder, s3://bucket/prefix, gs://… or az://…; default: a folder of data_dir"
    )
    store_options: SecretStr | None = Field(
        None, description="JSON object of options of the object store that its usual variables do not set"
    )

    # Options of new Qdrant collections; an unset option has Qdrant's default.
    qdrant_shards: PositiveInt | None = Field(None, description="shards of a collection, each on one node")
    qdrant_replicas: PositiveInt | None = Field(None, description="copies of each shard, on different nodes")
    qdrant_write_consistency: PositiveInt | None = Field(None, description="copies that must have stored a write")
    qdrant_quantization: Literal["none", "int8"] = Field(
        "none", description="int8: searches read vectors with one byte per dimension from memory"
    )
    qdrant_on_disk: bool = Field(default=False, description="whether full vectors and payloads are read from disk")
    qdrant_hnsw_m: int = Field(16, ge=4, le=128, description="neighbours of a point in its group's graph")
    qdrant_hnsw_ef_construct: int | None = Field(None, ge=4, le=10_000, description="candidates for these neighbours")

    # The API
    api_host: str = "127.0.0.1"
    api_port: int = Field(8350, ge=0, le=65535)
    api_keys: Annotated[tuple[ApiKey, ...], NoDecode] = Field(
        (), description="tenant:key pairs, comma-separated; a key may be written as sha256:HEX"
    )
    operator_keys: Annotated[tuple[ApiKey, ...], NoDecode] = Field(
        (), description="operators' keys, comma-separated; a key may be written as sha256:HEX"
    )
    api_drain: Duration | None = Field(
        None, description="time for which a stopping API reports that it is not ready before it refuses connections"
    )
    web_ui: bool = Field(default=True, description="whether the API serves the web page")
    api_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="origins of other sites whose pages may call the API with a key, comma-separated, such as"
        " https://intranet.example.com; default: none",
    )
    api_max_requests: PositiveInt = Field(2_000, description="concurrent requests per process; others get 503")
    api_body_timeout: Duration = Field(
        timedelta(seconds=30), description="maximum pause within the body of a request; then the reply is 408"
    )
    max_upload_bytes: PositiveInt = Field(100 * 1024 * 1024, description="maximum size of a document")
    max_json_bytes: PositiveInt = Field(
        20 * 1024 * 1024, description="maximum size of a document as JSON, or of the fields of a form"
    )
    chat_sources: bool = Field(
        default=False, description="whether answers to OpenAI's clients end with a list of their sources"
    )
    query_retention_days: int = Field(
        30, ge=0, le=36_500, description="days for which a question is retained for feedback; 0: not stored"
    )
    readable_by_default: Literal["everyone", "nobody"] = Field(
        default="everyone", description="which persons read a document that names no readers"
    )
    query_answers: bool = Field(
        default=False, description="whether the text of an answer is retained with its question"
    )
    shared_answer_retention_days: int = Field(
        0,
        ge=0,
        le=3_650,
        description="days for which an answer can be shared by a link that other keys of the tenant open; 0: never",
    )
    conversation_retention_days: int = Field(
        0,
        ge=0,
        le=3_650,
        description="days after its last change until a stored conversation of the page is deleted; 0: only browsers"
        " store conversations",
    )
    feedback_review: bool = Field(
        default=False,
        description="whether positive feedback of keys without the scope manage waits until an editor accepts it",
    )

    completion_retention_days: int = Field(
        7, ge=0, le=36_500, description="days for which paid questions are retained after their last chunk was deleted"
    )

    job_retention_days: int = Field(90, ge=1, le=36_500, description="days for which jobs are listed after their end")
    audit_retention_days: int = Field(
        365, ge=1, le=36_500, description="days for which changes of keys, limits and other settings are listed"
    )

    # The language model, which writes questions and answers
    llm_base_url: str | None = Field(None, validation_alias=_openai("BASE_URL"))
    llm_api_key: SecretStr | None = Field(None, validation_alias=_openai("API_KEY"))
    llm_model: str | None = None
    llm_tokenizer: Path | None = Field(
        None, description="path of the model's tokenizer.json, for exact token budgets; default: they are estimated"
    )
    llm_timeout: Duration = timedelta(seconds=120)
    llm_tier: Literal["standard", "flex"] = Field(
        "standard",
        description="service tier of the ingest; flex: half the price, slower, and only while there is capacity",
    )
    llm_flex_wait: Duration | None = Field(
        None, description="time without capacity in the tier flex after which standard is used; default: never"
    )
    llm_max_in_flight: PositiveInt = Field(64, description="calls in flight per generate worker")
    llm_input_price: float | None = Field(
        None,
        ge=0,
        description="price of a million prompt tokens; default: the list price in dollars",
    )
    llm_output_price: float | None = Field(
        None, ge=0, description="price of a million completion tokens; default: the list price in dollars"
    )
    llm_tier_prices: Annotated[Mapping[Tier, Annotated[float, Field(ge=0, le=10)]], NoDecode] = Field(
        {}, description="tier=share pairs, comma-separated: price of a tier relative to standard; default: 0.5 each"
    )
    llm_batch_queue_tokens: PositiveInt | None = Field(
        None,
        description="tokens of prompts that the provider accepts in all unfinished batches; default: unknown",
    )
    llm_requests_per_minute: PositiveInt | None = Field(None, description="limit of all processes together")
    llm_tokens_per_minute: PositiveInt | None = Field(None, description="limit of prompts and replies together")
    llm_batches: bool = Field(
        default=False,
        description="whether documents may be uploaded in the lane `batch`, through the model's batch API",
    )
    query_share: float = Field(
        0.1, ge=0, le=0.9, description="share of each provider's limits that is reserved for queries"
    )
    answering: Literal["generative", "extractive"] | None = Field(
        None, description="default: extractive with the embedded model, generative with any other"
    )

    webhooks_private_networks: bool = Field(
        default=False, description="whether webhooks may have addresses in private networks and on this machine"
    )

    # Sources
    sources_private_networks: bool = Field(
        default=False,
        description="whether pages, repositories and databases may be read from private networks and from this machine",
    )
    source_temporary_bytes: PositiveInt = Field(
        TEMPORARY_BYTES,
        description="maximum size of the rows of a table, and of the copy of its file from a bucket, on the disk of"
        " temporary files during a sync",
    )
    crawl_contact: str | None = Field(
        None, description="address of a page about your crawls, for the owners of sites; part of the user agent"
    )
    source_roots: Annotated[Mapping[str, tuple[str, ...]], NoDecode] = Field(
        {},
        description="tenant=address pairs, comma-separated: a tenant's sources may be at or below its addresses;"
        " `*` means every tenant or every address; default: no source is allowed",
    )
    source_secrets: Annotated[Mapping[str, SecretStr], NoDecode] = Field(
        {},
        validation_alias=AliasChoices(f"{NAMED}*"),
        description="secret of sources with the name that replaces `*`: a JSON object of texts with `uri`, the address"
        " at or below which it is used",
    )

    # Persons, who sign in at an identity provider
    oidc_issuer: str | None = Field(
        None, description="OpenID Connect: address of the issuer, exactly as its tokens name it; default: keys only"
    )
    oidc_audience: str | None = Field(
        None, description="audiences of accepted tokens, comma-separated; default: the id of the page's client"
    )
    oidc_client_id: str | None = Field(None, description="client of the provider with which the page signs in")
    oidc_client_secret: SecretStr | None = Field(None, description="secret of this client, if the provider demands one")
    oidc_sign_in_scopes: str = Field("openid profile email", description="scopes that the page requests, with spaces")
    oidc_tenant: str = Field("default", description="tenant of persons")
    oidc_tenant_claim: str | None = Field(
        None, description="claim that names the tenant of a person, instead of FOREASK_OIDC_TENANT"
    )
    oidc_user_claim: str = Field("sub", min_length=1, description="claim with the name of the user in `readable_by`")
    oidc_groups_claim: str = Field(
        "groups", min_length=1, description="claim with the groups; dots lead into objects: realm_access.roles"
    )
    oidc_person_scopes: str = Field(
        "read,ask,feedback",
        pattern="^(read|ask|feedback)(,(read|ask|feedback))*$",
        description="scopes of persons: some of read, ask and feedback, comma-separated",
    )
    oidc_administrators: str | None = Field(
        None, description="group whose members have every scope of their tenant and read every document"
    )
    oidc_clock_skew: Duration = Field(
        timedelta(seconds=60), le=timedelta(minutes=10), description="difference of clocks that tokens may have"
    )

    # Tenants
    tenant_limits: Annotated[Mapping[str, TenantLimits], NoDecode] = Field(
        {}, description='as JSON: tenant to limits; "*" has the limits that a tenant\'s entry omits'
    )
    tenant_weights: Annotated[Mapping[str, float], NoDecode] = Field(
        {}, description="tenant=weight pairs, comma-separated: a tenant's share of busy workers; default: 1 each"
    )

    # The embedding model
    embedding_base_url: str | None = None
    embedding_api_key: SecretStr | None = None
    embedding_model: str | None = Field(
        None, description="for new collections: a model, or a name in FOREASK_EMBEDDINGS"
    )
    embedding_dimensions: PositiveInt | None = Field(None, description="number to request; default: the model's own")
    embedding_query_prefix: str = ""
    embedding_passage_prefix: str = ""
    embedding_timeout: Duration = timedelta(seconds=120)
    embedding_price: float | None = Field(
        None, ge=0, description="price of a million tokens; default: the list price in dollars"
    )
    embedding_requests_per_minute: PositiveInt | None = None
    embedding_tokens_per_minute: PositiveInt | None = None
    embeddings: Annotated[Mapping[str, Embedding], NoDecode] = Field(
        {}, description="more embeddings, as JSON: name to model, base_url, api_key, dimensions, query_prefix, ..."
    )

    # The reranker
    rerank_base_url: str | None = Field(None, description="URL of a /v1/rerank endpoint; default: no reranking")
    rerank_model: str | None = None
    rerank_api_key: SecretStr | None = None

    # Documents
    questions_per_chunk: Literal["auto"] | PositiveInt = "auto"
    chunk_max_chars: int = Field(2_000, ge=200, le=100_000)
    chunk_overlap_chars: int = Field(100, ge=0, le=10_000)
    parse_workers: PositiveInt = Field(2, description="files that one parse worker reads concurrently")
    parse_timeout: Duration = Field(timedelta(seconds=30), description="maximum time for one file")
    parse_isolation: Literal["require", "allow"] = Field(
        "allow",
        description="require: a parse worker exits if the kernel cannot confine the processes that read files",
    )
    ocr: Literal["auto", "off"] = Field(
        "auto",
        description="auto: pages without text are read by OCR if it is installed with language data",
    )
    ocr_languages: str | None = Field(
        None,
        pattern=r"^[A-Za-z_]{3,20}(\+[A-Za-z_]{3,20}){0,9}$",
        description="languages of OCR, such as eng+deu; default: the installed ones of eng, deu, fra and spa",
    )
    captions: Literal["on", "off"] = Field(
        "off",
        description="on: FOREASK_LLM_MODEL describes the pictures in PDF and Word files; it must be able to read them",
    )
    captions_per_document: PositiveInt = Field(
        20, le=1_000, description="maximum number of pictures of a document that are described, the first ones"
    )
    parse_database_password: SecretStr | None = Field(
        None, description="`foreask schema` creates the role foreask_parse with it, for parse workers"
    )
    app_database_password: SecretStr | None = Field(
        None, description="`foreask schema` creates the role foreask_app with it, for the API and the other workers"
    )
    scale_database_password: SecretStr | None = Field(
        None, description="`foreask schema` creates the role foreask_scale with it, for an autoscaler"
    )
    calibrate: bool = Field(
        default=True, description="whether collections that have grown by half are calibrated automatically"
    )

    # Processes
    shutdown_timeout: Duration = Field(
        timedelta(seconds=20), description="time for which a stopping process waits for open calls"
    )
    workers_max: PositiveInt = Field(16, description="maximum number of workers that a stage is reported to need")
    metrics_port: int | None = Field(
        None, ge=0, le=65535, description="port of /metrics, or the next free one; default: metrics are not served"
    )
    metrics_host: str = "127.0.0.1"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "json"

    # The network
    ca_file: Path | None = Field(
        None,
        description="PEM file of a company's certificate authority, which is trusted in addition to the usual ones",
    )

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
        """Read secret files with the precedence of the source that names them: the environment or `.env`."""
        del settings_cls, file_secret_settings
        sources = [init_settings]
        for variables in [env_settings] if is_alone() else [env_settings, dotenv_settings]:
            assert isinstance(variables, EnvSettingsSource)
            sources += [
                NamedSecrets(variables),
                SecretFiles(variables),
                variables,
            ]  # before fallbacks such as OPENAI_API_KEY
        return tuple(sources)

    @property
    def llm_url(self) -> str:
        return self.llm_base_url or OPENAI_URL

    @property
    def ingest_tier(self) -> Tier:
        """The service tier in which the ingest calls the language model."""
        return Tier(self.llm_tier)

    @property
    def tier_prices(self) -> Mapping[Tier, float]:
        """The price of each tier relative to the standard tier."""
        return {Tier.FLEX: _HALF, Tier.BATCH: _HALF, **self.llm_tier_prices}

    @property
    def embedding_url(self) -> str:
        return self.embedding_base_url or self.llm_url

    @property
    def embedding_key(self) -> SecretStr | None:
        """The key of the embedding server: its own, else the language model's if both servers have the same origin."""
        if self.embedding_api_key is None and _origin(self.embedding_url) == _origin(self.llm_url):
            return self.llm_api_key
        return self.embedding_api_key

    def limits_of(self, tenant: str) -> TenantLimits:
        """Return the limits of a tenant: its own entry, completed by the entry `*`."""
        own = self.tenant_limits.get(tenant)
        if own is None:
            return self.limits_of_others
        return self.limits_of_others.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})

    @property
    def tenants_with_limits(self) -> list[str]:
        """The tenants with their own entries."""
        return [tenant for tenant in self.tenant_limits if tenant != OTHERS]

    @property
    def limits_of_others(self) -> TenantLimits:
        """The limits of tenants without an entry."""
        return self.tenant_limits.get(OTHERS, TenantLimits())

    def named_embeddings(self) -> dict[str, Embedding]:
        """Return the entries of FOREASK_EMBEDDINGS, each with its server.

        An entry without a server uses FOREASK_EMBEDDING_BASE_URL. The key of that server is sent to no other server.
        """
        of_server = {"base_url": self.embedding_url, "api_key": self.embedding_key}
        return {
            name: entry if entry.base_url else entry.model_copy(update=of_server | key_of(entry))
            for name, entry in self.embeddings.items()
        }

    def served_embeddings(self) -> dict[str, Embedding]:
        """Return the configured embeddings by name, the default one first."""
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

    def roots_of(self, tenant: str) -> tuple[str, ...]:
        """Return the addresses at or below which a tenant's sources may be."""
        return (*self.source_roots.get(tenant, ()), *self.source_roots.get(OTHERS, ()))

    def source_secret(self, name: str) -> dict[str, str]:
        """Return the fields of a secret of sources; `-` and `_` in its name are the same, and so are cases.

        Raises:
            InvalidInput: there is no such secret.
        """
        secret = self.source_secrets.get(name.upper().replace("-", "_"))
        if secret is None:
            variable = NAMED + name.upper().replace("-", "_")
            raise InvalidInput(f"There is no secret {name}: ask the operator to set {variable}.", field="secret_name")
        return dict(orjson.loads(secret.get_secret_value()))

    @property
    def is_keyless(self) -> bool:
        """Whether the API serves this machine without keys; keys in the ledger do not change this."""
        return not (self.api_keys or self.operator_keys or self.oidc_issuer)

    @property
    def oidc_audiences(self) -> tuple[str, ...]:
        """The audiences of accepted tokens."""
        return split_names(self.oidc_audience or self.oidc_client_id or "")

    @property
    def scopes_of_persons(self) -> frozenset[Scope]:
        return frozenset(map(Scope, split_names(self.oidc_person_scopes)))

    def qdrant_addresses(self) -> list[str]:
        """Return the addresses of Qdrant's nodes.

        Raises:
            InvalidInput: no address is set.
        """
        return [address.strip() for address in require(self.qdrant_url, "FOREASK_QDRANT_URL").split(",")]

    def environment(self) -> dict[str, str]:
        """Return the variables that reproduce these settings in another process, including secrets, without `.env`."""
        dumped = self.model_dump(
            mode="json", exclude={"api_keys", "operator_keys", "embeddings", "source_secrets"}, exclude_none=True
        )
        tuning = {f"TUNING__{name}": value for name, value in dumped.pop("tuning").items()}
        plain = {name: value.get_secret_value() for name, value in self if isinstance(value, SecretStr)}
        keys = {
            "api_keys": ",".join(f"{key.tenant}:sha256:{key.sha256.hex()}" for key in self.api_keys),
            "operator_keys": ",".join(f"sha256:{key.sha256.hex()}" for key in self.operator_keys),
        }
        files = {f"{name}_file": "" for name, _ in secrets(type(self))}  # overrides inherited variables
        embeddings = {"embeddings": embeddings_json(self.embeddings, reveal=True)}
        values = dumped | tuning | plain | keys | files | embeddings
        named = {f"{NAMED}{name}": value.get_secret_value() for name, value in self.source_secrets.items()}
        inherited = {f"{variable}_FILE": "" for variable in named} | {ALONE: "1"}
        return {PREFIX + name.upper(): str(value) for name, value in values.items()} | named | inherited

    def described(self) -> Iterator[EffectiveSetting]:
        """Yield every setting with its masked value and its origin."""
        values, given = self.environment(), sources(type(self))
        values["FOREASK_EMBEDDINGS"] = embeddings_json(self.embeddings, reveal=False)
        values[f"{NAMED}*"] = ",".join(self.source_secrets)
        hidden = {PREFIX + name.upper() for name, _ in secrets(type(self))} - {"FOREASK_EMBEDDINGS"}
        for variables in every_setting(type(self)):
            value = values.get(variables[0], "")
            shown = value if variables[0] == "FOREASK_EMBEDDINGS" else masked(value, secret=variables[0] in hidden)
            yield EffectiveSetting(variables[0], shown, origin(variables, given))

    def store_config(self) -> dict[str, str]:
        """Return the options of the object store."""
        options = self.store_options
        return {} if options is None else dict(orjson.loads(options.get_secret_value()))

    @field_validator("store_url")
    @classmethod
    def _require_store(cls, value: str | None) -> str | None:
        if value is not None and not _STORE.fullmatch(value):
            raise ValueError("must be file:///folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix")
        return value

    @field_validator("redis_url")
    @classmethod
    def _require_broker(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            read_broker_url(value.get_secret_value())
        return value

    @field_validator("llm_base_url", "embedding_base_url", "rerank_base_url")
    @classmethod
    def _require_model_url(cls, value: str | None) -> str | None:
        return None if value is None else model_url(value)

    @field_validator("oidc_issuer")
    @classmethod
    def _require_issuer(cls, value: str | None) -> str | None:
        return None if value is None else issuer_url(value)

    @field_validator("oidc_tenant")
    @classmethod
    def _require_tenant(cls, value: str) -> str:
        if not is_tenant(value):
            raise ValueError("a tenant is a-z, 0-9, - and _")
        return value

    @model_validator(mode="after")
    def _require_complete_sign_in(self) -> Settings:
        if self.oidc_issuer is not None and not self.oidc_audiences:
            raise ValueError("FOREASK_OIDC_ISSUER needs FOREASK_OIDC_AUDIENCE or FOREASK_OIDC_CLIENT_ID")
        if self.oidc_issuer is None and (self.oidc_audience or self.oidc_client_id or self.oidc_administrators):
            raise ValueError("FOREASK_OIDC_AUDIENCE, _CLIENT_ID and _ADMINISTRATORS need FOREASK_OIDC_ISSUER")
        return self

    @field_validator("ca_file")
    @classmethod
    def _require_certificates(cls, value: Path | None) -> Path | None:
        if value is None:
            return None
        try:
            authorities_in(value.expanduser())
        except OSError:
            raise ValueError(f"it must name a file with certificates in PEM form, and {value} is not one") from None
        return value.expanduser().absolute()

    @field_validator("store_options")
    @classmethod
    def _require_options(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None or _are_texts(value.get_secret_value()):
            return value
        raise ValueError('must be a JSON object of texts, such as {"aws_region": "eu-central-1"}')

    @field_validator("source_roots", mode="before")
    @classmethod
    def _split_roots(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        roots: dict[str, tuple[str, ...]] = {}
        for tenant, address in (_root(item.strip()) for item in value.split(",") if item.strip()):
            roots[tenant] = (*roots.get(tenant, ()), address)
        return roots

    @field_serializer("source_roots", when_used="json")
    def _join_roots(self, roots: Mapping[str, tuple[str, ...]]) -> str:
        return ",".join(f"{tenant}={address}" for tenant, addresses in roots.items() for address in addresses)

    @field_validator("source_secrets")
    @classmethod
    def _require_secrets(cls, secrets: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
        for name, secret in secrets.items():
            if not _are_texts(secret.get_secret_value()) or "uri" not in orjson.loads(secret.get_secret_value()):
                raise ValueError(f'{NAMED}{name} must be a JSON object of texts, such as {{"uri": "s3://bucket/", …}}')
        return secrets

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

    @field_validator("api_origins", mode="before")
    @classmethod
    def _split_origins(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(dict.fromkeys(page_origin(each) for each in split_names(value)))

    @field_serializer("api_origins", when_used="json")
    def _join_origins(self, origins: tuple[str, ...]) -> str:
        return ",".join(origins)

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
        if not isinstance(entries, dict) or not all(map(EMBEDDING_NAME.fullmatch, entries)):
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

    @field_validator("llm_tier_prices", mode="before")
    @classmethod
    def _split_tier_prices(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return dict(_tier_price(item.strip()) for item in value.split(",") if item.strip())

    @field_serializer("llm_tier_prices", when_used="json")
    def _join_tier_prices(self, prices: Mapping[Tier, float]) -> str:
        return ",".join(f"{tier}={share:g}" for tier, share in prices.items())

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


def _are_texts(value: str) -> bool:
    """Return whether a text is a JSON object of texts."""
    try:
        fields = orjson.loads(value)
    except orjson.JSONDecodeError:
        return False
    return isinstance(fields, dict) and all(isinstance(field, str) for field in fields.values())


def _root(pair: str) -> tuple[str, str]:
    tenant, _, address = pair.partition("=")
    if not _is_tenant_or_others(tenant):
        raise ValueError(
            "FOREASK_SOURCE_ROOTS must be tenant=address pairs separated by commas, such as acme=s3://acme-docs/"
        )
    try:
        Roots([address])
    except InvalidInput as error:
        raise ValueError(f"the address of {tenant} cannot be used: {error.message}") from None
    return tenant, address


def _json_of(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at character {error.pos}") from None


def _is_tenant_or_others(name: str) -> bool:
    return name == OTHERS or is_tenant(name)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _weight(pair: str) -> tuple[str, float]:
    tenant, _, weight = pair.partition("=")
    if not is_tenant(tenant) or not _WEIGHT.fullmatch(weight) or float(weight) <= 0:
        raise ValueError(
            "FOREASK_TENANT_WEIGHTS must be tenant=weight pairs separated by commas, such as acme=3,beta=1"
        )
    return tenant, float(weight)


def _tier_price(pair: str) -> tuple[str, float]:
    tier, _, share = pair.partition("=")
    if tier not in (Tier.FLEX, Tier.BATCH) or not _WEIGHT.fullmatch(share):
        raise ValueError(
            "FOREASK_LLM_TIER_PRICES must be tier=share pairs separated by commas, such as flex=0.5,batch=0.5"
        )
    return tier, float(share)


def load(**values: Any) -> Settings:
    """Read the settings.

    Args:
        values: fields that override the environment.

    Raises:
        InvalidInput: a setting is invalid, or a variable FOREASK_* is not a setting; the message names it without its
            value, which may be a secret.
    """
    require_known(Settings)
    try:
        settings = Settings(**values)
    except SettingsError as error:
        raise InvalidInput(str(error)) from None
    except ValidationError as error:
        problems = (f"{_variable(problem['loc'])}: {problem['msg']}" for problem in error.errors(include_input=False))
        raise InvalidInput("A setting cannot be used: " + "; ".join(problems)) from None
    trust(settings.ca_file)  # of the process, as `SSL_CERT_FILE` is
    return settings


def require(value: T | None, name: str) -> T:
    """Return the value of a required setting.

    Raises:
        InvalidInput: it is unset; the message names its variable.
    """
    if value is None:
        raise InvalidInput(f"{name} is not set. `foreask up` starts an embedded engine for it.", field=name)
    return value


def _variable(location: tuple[int | str, ...]) -> str:
    """Return the variable of a field, such as FOREASK_TUNING__LEASE for `("tuning", "lease")`."""
    if not location:
        return "the environment"
    if location[0] in ("embeddings", "tenant_limits") and len(location) > 1:
        return f"FOREASK_{str(location[0]).upper()} ({' '.join(map(str, location[1:]))})"
    depth = 2 if location[0] == "tuning" else 1
    name = "__".join(str(part) for part in location[:depth]).upper()
    return name if name.startswith(("FOREASK_", "OPENAI_")) else f"FOREASK_{name}"

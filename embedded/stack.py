"""The real engines as child processes: one for each URL that is missing in the settings."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

import structlog
from pydantic import SecretStr

from embedded import embeddings, llama, postgres, requirements, valkey
from embedded.ports import stable_ports
from embedded.qdrant import process
from embedded.secret import stored_password
from embedded.supervisor import Child, Supervisor
from shared.domain.access.database_roles import APP_ROLE, PARSE_ROLE
from shared.domain.errors import InvalidInput, Unavailable
from shared.settings import OPENAI_URL, Embedding, Settings

Engine = Literal["postgres", "valkey", "qdrant", "llm", "embedding"]
ENGINES: tuple[Engine, ...] = ("postgres", "valkey", "qdrant", "llm", "embedding")  # stopped in reverse order
# Other users may traverse a private folder: elsewhere than on Linux, PostgreSQL's own user must.
_OPEN_TO_OTHERS = (stat.S_IRWXG | stat.S_IRWXO) & ~(stat.S_IXGRP | stat.S_IXOTH)

CLOSED_PORT = 1  # only root may listen on it, so texts are not sent to a program of another user

log = structlog.get_logger(__name__)


class Stack:
    """The embedded engines as child processes, started and stopped by `with`.

    Args:
        settings: an engine is started only if they contain no URL for it (and, for a model, no name of another model).
        data_dir: folder of the engines' data, logs and ports; one stack at a time.
        engines: the engines that the stack may start.
        durable: whether committed rows survive a power failure. Tests kill processes but simulate no power failures, so
            they need not wait for the disk.
        on_failure: function that receives the error of an engine that cannot be restarted; called from another thread.
    """

    def __init__(
        self,
        settings: Settings,
        data_dir: Path | None = None,
        *,
        engines: Iterable[Engine] = ENGINES,
        durable: bool = True,
        on_failure: Callable[[Unavailable], None] = lambda _: None,
    ) -> None:
        self.data_dir = (data_dir or settings.data_dir).resolve()
        self.settings = settings
        self.engines = tuple(engine for engine in ENGINES if engine in set(engines) and _absent(settings, engine))
        # Without its weights, the language model is unavailable, as a stopped provider is: nothing else waits for it.
        self.lacks_llm = "llm" in self.engines and not llama.is_installed()
        self.started = tuple(engine for engine in self.engines if not (engine == "llm" and self.lacks_llm))
        self._configured = settings
        self._durable = durable
        self._on_failure = on_failure
        self._lock: IO[str] | None = None
        self._supervisor: Supervisor | None = None

    def start(self) -> Self:
        """Start the engines and wait until all are healthy.

        Raises:
            InvalidInput: another stack uses the data directory, or an embedded engine does not support the settings.
            Unavailable: an engine did not start; the message has the missing library, or the end of the engine's log.
        """
        make_private(self.data_dir)
        self._lock = _locked(self.data_dir)
        try:
            ports = stable_ports(self.data_dir / "ports.json", self.started)
            stored_password(self._key_of_models)  # drawn once, before both models read it
            # PostgreSQL's first start creates its cluster, which takes a second: the others are prepared meanwhile.
            with ThreadPoolExecutor() as pool:
                children = list(pool.map(lambda engine: self._child(engine, ports[engine]), self.started))
            self._supervisor = Supervisor(children, self._on_failure)
            self._supervisor.start()
            self.settings = self._configured.model_copy(update=self._urls(ports))
        except Unavailable as error:
            self.stop()
            if sentence := requirements.lack(error.component):
                raise Unavailable(sentence, component=error.component) from error
            raise
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the engines, PostgreSQL last, and unlock the data directory."""
        if self._supervisor is not None:
            self._supervisor.stop()
            self._supervisor = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def environment(self) -> dict[str, str]:
        """Return the settings as FOREASK_* variables, for the API and the workers."""
        return self.settings.environment()

    def pids(self) -> dict[str, int]:
        """Return the process id of each running engine."""
        return {} if self._supervisor is None else self._supervisor.pids()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def _child(self, engine: Engine, port: int) -> Child:
        log = self.data_dir / "logs" / f"{engine}.log"
        match engine:
            case "postgres":
                return postgres.child(self.data_dir / "postgres", port, log, durable=self._durable)
            case "valkey":
                return valkey.child(self.data_dir / "valkey", port, log)
            case "qdrant":
                _require_one_node(self._configured)
                return process.child(self.data_dir / "qdrant", port, log)
            case "llm":
                return llama.child(self.data_dir / "llm", port, log, self._key_of_models)
            case "embedding":
                embeddings.require_installed(self._embedding)
                return embeddings.child(port, log, self._key_of_models, self._embedding)

    def _urls(self, ports: dict[str, int]) -> dict[str, Any]:
        filled: dict[str, Any] = {"data_dir": self.data_dir}
        for engine in self.engines:
            match engine:
                case "postgres":
                    filled["database_url"] = SecretStr(postgres.url(self.data_dir / "postgres", ports[engine]))
                    filled |= self._role_passwords()
                case "valkey":
                    filled["redis_url"] = SecretStr(valkey.url(self.data_dir / "valkey", ports[engine]))
                case "qdrant":
                    key = process.key(self.data_dir / "qdrant")
                    filled |= {"qdrant_url": process.url(ports[engine]), "qdrant_api_key": key}
                case "llm":
                    port = CLOSED_PORT if self.lacks_llm else ports[engine]
                    filled |= self._model("llm", llama.url(port), llama.MODEL) | self._providers_embedding()
                case "embedding":
                    filled |= self._model("embedding", embeddings.url(ports[engine]), self._embedding)
                    filled |= _prefixes(self._configured, self._embedding)
                    # Other named embeddings keep their own servers.
                    filled["embeddings"] = self._other_embeddings(filled) | self._configured.named_embeddings()
        return filled

    @property
    def _embedding(self) -> str:
        """The embedded model of new collections."""
        return self._configured.embedding_model or embeddings.MODEL

    def _other_embeddings(self, filled: dict[str, Any]) -> dict[str, Embedding]:
        """Return the other embedded models if the settings choose one: existing collections may have another."""
        if self._configured.embedding_model is None:
            return {}
        server = {"base_url": filled["embedding_base_url"], "api_key": filled["embedding_api_key"]}
        others = [name for name in embeddings.installed() if name != self._embedding]
        return {name: Embedding(model=name, price=0.0, **server, **_prefixes_of(name)) for name in others}

    @property
    def _key_of_models(self) -> Path:
        """The file of the key of both embedded models, without which other users could keep them busy."""
        return self.data_dir / "models-key"

    def _model(self, kind: str, url: str, name: str) -> dict[str, Any]:
        key = SecretStr(stored_password(self._key_of_models))  # not the provider's
        prices = {"embedding": ("embedding_price",), "llm": ("llm_input_price", "llm_output_price")}[kind]
        free = {price: 0.0 for price in prices if getattr(self._configured, price) is None}
        return {f"{kind}_base_url": url, f"{kind}_model": name, f"{kind}_api_key": key} | free

    def _role_passwords(self) -> dict[str, SecretStr]:
        """Return the passwords of the roles of API and workers. The URL has the database owner's password."""
        made = {
            "app_database_password": postgres.role_password(self.data_dir / "postgres", APP_ROLE),
            "parse_database_password": postgres.role_password(self.data_dir / "postgres", PARSE_ROLE),
        }
        return {name: getattr(self._configured, name) or password for name, password in made.items()}

    def _providers_embedding(self) -> dict[str, Any]:
        """Keep the embedding provider as the default next to an embedded LLM; else embeddings would follow the LLM."""
        settings = self._configured
        if "embedding" in self.engines or settings.embedding_base_url is not None:
            return {}
        return {
            "embedding_base_url": OPENAI_URL,
            "embedding_api_key": settings.embedding_api_key or settings.llm_api_key,
        }


def _prefixes_of(name: str) -> dict[str, str]:
    query, passage = embeddings.PREFIXES.get(name, ("", ""))
    return {"query_prefix": query, "passage_prefix": passage}


def _prefixes(settings: Settings, name: str) -> dict[str, str]:
    """Return the prefixes of an embedded model, as settings, unless they are set."""
    prefixes = {f"embedding_{kind}": prefix for kind, prefix in _prefixes_of(name).items()}
    return {setting: prefix for setting, prefix in prefixes.items() if setting not in settings.model_fields_set}


def _absent(settings: Settings, engine: Engine) -> bool:
    """Return whether to start the engine. A model with a name and without a URL belongs to a provider."""
    match engine:
        case "postgres":
            return settings.database_url is None
        case "valkey":
            return settings.redis_url is None
        case "qdrant":
            return settings.qdrant_url is None
        case "llm":
            return settings.llm_base_url is None and settings.llm_model in (None, llama.MODEL)
        case "embedding":
            return settings.embedding_base_url is None and settings.embedding_model in (None, *embeddings.NAMES)


def _require_one_node(settings: Settings) -> None:
    """Refuse settings of a Qdrant cluster: the engine would refuse them, and work would wait forever."""
    for name in ("shards", "replicas", "write_consistency"):
        if (getattr(settings, f"qdrant_{name}") or 1) > 1:
            variable = f"FOREASK_QDRANT_{name.upper()}"
            raise InvalidInput(f"{variable}: the embedded Qdrant is one node. Set FOREASK_QDRANT_URL.", field=variable)


def make_private(folder: Path) -> None:
    """Create the folder for this user only. An existing one is not changed, but a warning says that it is open."""
    if not folder.exists():
        folder.mkdir(parents=True, mode=stat.S_IRWXU)
    elif folder.stat().st_mode & _OPEN_TO_OTHERS:
        log.warning("other users of this machine can read the data folder: run chmod -R go= on it", folder=str(folder))


def _locked(data_dir: Path) -> IO[str]:
    """Lock the data directory until the file is closed or this process ends for any reason."""
    file = (data_dir / "stack.lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        message = f"The data directory {data_dir} is in use by process {holder}: stop it first, or choose another."
        raise InvalidInput(message, field="data_dir") from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file

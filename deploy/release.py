"""Build the files of a release into `dist`: `python -m deploy.release [--check]`, by `make dist` and `make release`.

Wheels and source distributions of all our distributions, the Helm chart, the lists of packages with hashes, and the
checksums of these files. They are built from the committed files, so that nothing else in the clone can get into them.
With `--check`, the clone must be ready for a release, and a container engine, if there is one, builds the image.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import helm_python

from deploy import lock, versions

ROOT = versions.ROOT
FOLDER = ROOT / "dist"
SUMS = "SHA256SUMS"
ENGINES = ("docker", "podman")
# The lists of packages that contain some of our own distributions.
CONTENTS = {"server": lock.OWN, "mcp": ("foreask-client", "foreask-mcp")}
NEXT = """
Version {version} is in {folder}. Next:
  1. Install it into a clean environment: docs/how-to/install.md.
  2. Sign the checksums, for example: gpg --armor --detach-sign {folder}/{sums}
  3. Tag the commit: git tag --sign v{version} && git push origin v{version}
  4. Publish the files of {folder}, the image and the chart: docs/contributing/make-a-release.md.
  5. Start the next version: make version TO=…, and '## … (unreleased)' in CHANGELOG.md."""


def problems(root: Path = ROOT) -> Iterator[str]:
    """Yield a sentence for each reason not to release the clone."""
    yield from versions.disagreements(root)
    yield from versions.unreleased(root)
    if changed := _git(root, "status", "--porcelain"):
        yield f"These files are not committed:\n{changed}"


def build(root: Path, folder: Path) -> None:
    """Build everything but the image into an empty folder."""
    with tempfile.TemporaryDirectory() as temporary:
        sources = committed(root, Path(temporary))
        for distribution in versions.DISTRIBUTIONS.values():
            _build_distribution(sources, sources / distribution, folder)
        helm_python.package(sources / "deploy/helm/foreask", destination=_made(folder / "helm"))
        write_lists(sources / "requirements", folder)
    write_sums(folder)


def committed(root: Path, folder: Path) -> Path:
    """Write the committed files of a clone into a folder."""
    archive, sources = folder / "committed.tar", _made(folder / "sources")
    _git(root, "archive", "--output", str(archive), "HEAD")
    shutil.unpack_archive(archive, sources)
    return sources


def write_lists(lists: Path, folder: Path) -> None:
    """Write the lists of packages, with the hashes of our own wheels, which are installed from their folder."""
    target = _made(folder / "requirements")
    for file in sorted(lists.glob("*.txt")):
        own = "".join(_pin(folder, name) for name in CONTENTS.get(file.stem, ()))
        (target / file.name).write_text(file.read_text() + (f"--find-links ..\n{own}" if own else ""))


def write_sums(folder: Path) -> None:
    """Write the checksums of all files in a folder, in the format of `sha256sum --check`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    (folder / SUMS).write_text("".join(f"{_sha256(path)}  {path.relative_to(folder)}\n" for path in files))


def build_image(root: Path, version: str) -> str | None:
    """Build the image, and return its name; None without a container engine."""
    engine = next(filter(_answers, ENGINES), None)
    if engine is None:
        return None
    arguments = {"VERSION": version, "REVISION": _git(root, "rev-parse", "HEAD")}
    options = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
    tag = f"foreask:{version}"
    subprocess.run([engine, "build", *options, "--tag", tag, "."], cwd=root, check=True)  # noqa: S603
    return tag


def _build_distribution(sources: Path, project: Path, folder: Path) -> None:
    """Build the source distribution, and from it the wheel, whose bytes depend only on the commit."""
    options = ["--quiet", "--no-create-gitignore", "--build-constraints", str(sources / "constraints.txt")]
    command = [sys.executable, "-m", "uv", "build", *options, "--out-dir", str(folder), str(project)]
    time = {"SOURCE_DATE_EPOCH": _git(ROOT, "log", "-1", "--format=%ct")}
    subprocess.run(command, env={**os.environ, **time}, check=True)  # noqa: S603


def _pin(folder: Path, name: str) -> str:
    (wheel,) = folder.glob(f"{name.replace('-', '_')}-*.whl")
    return f"{name}=={wheel.name.split('-')[1]} \\\n    --hash=sha256:{_sha256(wheel)}\n"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _answers(engine: str) -> bool:
    program = shutil.which(engine)
    return program is not None and subprocess.run([program, "info"], capture_output=True, check=False).returncode == 0  # noqa: S603


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603, S607
    return done.stdout.strip()


def main() -> None:
    """Build into `dist`, and print the next steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="refuse a clone that is not ready, and build the image")
    options = parser.parse_args()
    if options.check and (found := list(problems())):
        sys.exit("\n".join(found))
    shutil.rmtree(FOLDER, ignore_errors=True)
    build(ROOT, _made(FOLDER))
    version = versions.current()
    if options.check:
        image = build_image(ROOT, version)
        print(f"The image is {image}." if image else "No image was built: neither Docker nor Podman is running.")
        print(NEXT.format(version=version, folder=FOLDER.name, sums=SUMS))


if __name__ == "__main__":
    main()

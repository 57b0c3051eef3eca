"""The release: one version, files with checksums, and lists that install only our own wheels."""

import hashlib
import re
import shutil
import subprocess
from shutil import copytree

import pytest
import yaml
from packaging.requirements import Requirement

from deploy import lock, release, versions
from tests.support.deployment import ROOT
from tests.support.planted import guards

CHANGELOG = """# Changelog

## 0.2.0 (2027-01-31)

- A change.

## 0.1.0 (2026-12-01)

- The first release.
"""


@pytest.fixture
def clone(tmp_path):
    """A copy of the files that state the version."""
    root = tmp_path / "clone"
    for folder in versions.DISTRIBUTIONS.values():
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "pyproject.toml").write_bytes((ROOT / folder / "pyproject.toml").read_bytes())
    copytree((ROOT / versions.CHART).parent, (root / versions.CHART).parent)
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    return root


def test_every_distribution_is_released():
    folders = {".", *(f"clients/{file.parent.name}" for file in ROOT.glob("clients/*/pyproject.toml"))}

    assert set(versions.DISTRIBUTIONS.values()) == folders


def test_all_files_state_one_version():
    assert list(versions.disagreements()) == []


@guards(
    "deploy/versions.py",
    """        file.write_text(_REQUIRED.sub(rf'"\\g<1>{range_of(version)}"', text))""",
    "        file.write_text(text)",
    means="the new version requires the old clients",
)
def test_new_version_is_written_to_all_files(clone):
    versions.write(clone, "0.2.0")

    assert versions.current(clone) == "0.2.0"
    assert list(versions.disagreements(clone)) == []
    assert "foreask-client>=0.2,<0.3" in (clone / "pyproject.toml").read_text()


def test_word_is_not_a_version(clone):
    with pytest.raises(ValueError, match="next"):
        versions.write(clone, "next")
    assert versions.current(clone) == versions.current()


@pytest.mark.parametrize(
    ("version", "expected"), [("0.1.0", ">=0.1,<0.2"), ("0.9.3", ">=0.9,<0.10"), ("1.2.0", ">=1.2,<2")]
)
def test_range_excludes_incompatible_versions(version, expected):
    assert versions.range_of(version) == expected


@pytest.mark.parametrize("folder", ["clients/mcp", "clients/haystack"])
def test_other_version_is_reported(clone, folder):
    file = clone / folder / "pyproject.toml"
    file.write_text(file.read_text().replace('version = "', 'version = "9.'))

    (found,) = versions.disagreements(clone)
    assert found.startswith(f"{folder}/pyproject.toml: it has foreask-")


def test_requirement_of_other_release_is_reported(clone):
    file = clone / "clients/mcp/pyproject.toml"
    file.write_text(file.read_text().replace("foreask-client>=0.1,<0.2", "foreask-client<0.1"))

    (found,) = versions.disagreements(clone)
    assert found == f"clients/mcp/pyproject.toml: it requires foreask-client<0.1, which excludes {versions.current()}."


def test_chart_of_other_version_is_reported(clone):
    chart = clone / versions.CHART
    chart.write_text(chart.read_text().replace("appVersion: ", "appVersion: 9."))

    assert list(versions.disagreements(clone)) == [f"{versions.CHART}: appVersion is not {versions.current()}."]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("", "", None),
        ("2027-01-31", "unreleased", "write the date of 0.2.0 instead of 'unreleased'"),
        ("## 0.2.0", "## 0.3.0", "the first heading must be '## 0.2.0 (YYYY-MM-DD)'"),
        ("- A change.\n", "", "0.2.0 has no changes"),
    ],
)
def test_changelog_must_describe_released_version(clone, old, new, problem):
    versions.write(clone, "0.2.0")
    (clone / "CHANGELOG.md").write_text(CHANGELOG.replace(old, new))

    found = list(versions.unreleased(clone))

    assert found == ([] if problem is None else [f"CHANGELOG.md: {problem}."])


def test_uncommitted_files_stop_release(clone):
    versions.write(clone, "0.2.0")
    subprocess.run(["git", "init", "--quiet", clone], check=True)

    (found,) = release.problems(clone)
    assert found.startswith("These files are not committed:\n?? CHANGELOG.md")


def wheels(folder):
    for name in lock.OWN:
        (folder / f"{name.replace('-', '_')}-0.2.0-py3-none-any.whl").write_text(name)


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


@guards(
    "deploy/release.py",
    "--hash=sha256:{_sha256(wheel)}",
    "--hash=sha256:{hashlib.sha256().hexdigest()}",
    means="a stranger's package of our name fits as well as ours",
)
def test_lists_contain_hashes_of_own_wheels(tmp_path):
    wheels(tmp_path)

    release.write_lists(lock.FOLDER, tmp_path)

    pins = lock.pins_of((tmp_path / "requirements/server.txt").read_text())
    own = {str(Requirement(line)): pin for line, pin in pins.items() if line.startswith("foreask")}
    assert own.keys() == {f"{name}==0.2.0" for name in lock.OWN}
    assert sha256("foreask-client") in own["foreask-client==0.2.0"]
    assert "--find-links .." in (tmp_path / "requirements/mcp.txt").read_text().splitlines()
    assert (tmp_path / "requirements/ocr.txt").read_text() == (lock.FOLDER / "ocr.txt").read_text()


def test_checksums_are_verified_by_sha256sum(tmp_path):
    wheels(tmp_path)
    release.write_lists(lock.FOLDER, tmp_path)
    release.write_sums(tmp_path)
    check = ["sha256sum", "--check", "--strict", release.SUMS]

    verified = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    (tmp_path / "requirements/mcp.txt").write_text("changed")

    assert len(verified.splitlines()) == len(lock.OWN) + len(list(lock.FOLDER.iterdir()))
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1


BY_NAME = re.compile(
    r"""(?:pipx?|uv tool|pip"?) install (?!.*--no-index)[^`]*?(?<![\w./])foreask(?:-[a-z-]+)?[\['"`\s]"""
)
TEXTS = (
    "*.md",
    "docs/**/*.md",
    "clients/**/*.md",
    "deploy/**/*.md",
    "{api,cli,embedded,features,shared,workers}/**/*.py",
)


@guards(
    "docs/how-to/bulk-load.md",
    "Its reader is [the list or extra",
    "Run `pip install 'foreask[parquet]'`. [The list or extra",
    means="the index answers with a package of another author",
)
def test_no_text_installs_our_names_from_index():
    texts = {file: file.read_text() for pattern in expanded(TEXTS) for file in ROOT.glob(pattern)}
    warning = "**Never run `pip install foreask`.**"

    found = {str(file): BY_NAME.findall(text.replace(warning, "")) for file, text in texts.items()}

    assert len(texts) > 500
    assert {file: matches for file, matches in found.items() if matches} == {}


def expanded(patterns):
    for pattern in patterns:
        before, _, rest = pattern.partition("{")
        names, _, after = rest.partition("}")
        yield from (before + name + after for name in names.split(",")) if rest else [pattern]


def test_forge_runs_only_our_checks():
    (job,) = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"].values()

    checkout, run = job["steps"]
    assert checkout["uses"].startswith("actions/checkout@")
    assert run == {"run": ".ci/run"}


@pytest.mark.parametrize("folder", versions.DISTRIBUTIONS.values())
def test_distribution_has_licence_and_no_dead_links(folder):
    readme = (ROOT / folder / ("ABOUT.md" if folder == "." else "README.md")).read_text()

    assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert "](" not in readme
    assert "<img" not in readme


ENGINE = '#!/bin/sh\nprintf "%s\\n" "$@" >"{folder}/arguments"\n'


@pytest.mark.parametrize("engine", release.ENGINES)
def test_image_names_version_and_commit(tmp_path, monkeypatch, engine):
    program = tmp_path / engine
    program.write_text(ENGINE.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert release.build_image(ROOT, "0.2.0") == "foreask:0.2.0"

    arguments = (tmp_path / "arguments").read_text().splitlines()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    given = dict(each.split("=") for each in arguments if "=" in each)
    assert given == {"VERSION": "0.2.0", "REVISION": commit.strip()}
    assert all(f"\nARG {name}=" in (ROOT / "Dockerfile").read_text() for name in given)


def test_release_without_container_engine_has_no_image(tmp_path, monkeypatch):
    (tmp_path / "git").symlink_to(shutil.which("git"))
    monkeypatch.setenv("PATH", str(tmp_path))

    assert release.build_image(ROOT, "0.2.0") is None

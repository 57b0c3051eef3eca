"""The OCR of this machine, as the settings use it."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from shared.domain.errors import Permanent
from shared.domain.stages.pages import OcrData
from shared.ingest.parse import scans
from shared.settings import Settings

log = structlog.get_logger()


def off_because(settings: Settings) -> str:
    """Return why no page can be read by OCR; empty if pages can be read."""
    if settings.ocr == "off":
        return "FOREASK_OCR is off."
    return scans.lacking(_languages(settings.ocr_languages))


def ocr_of(settings: Settings) -> Callable[[str | None], OcrData] | None:
    """Return a function from a collection's option `ocr_languages` to the engine with its data; None if OCR is off.

    The function raises `Permanent` if the data of a language is missing.
    """
    if off_because(settings):
        return None

    def ocr(option: str | None) -> OcrData:
        languages = _languages(chosen_languages(settings, option))
        found = scans.available(languages)
        if found is None:
            raise Permanent(f"The pages cannot be read by OCR: {scans.lacking(languages)}")
        return found

    return ocr


def chosen_languages(settings: Settings, option: str | None) -> str | None:
    """Return the languages of a collection with this option; None: the usual languages, if they are installed."""
    return option or settings.ocr_languages


def log_if_off(settings: Settings) -> None:
    """Log once at the start why pages without text are not read, unless it is the user's wish."""
    if settings.ocr != "off" and (reason := off_because(settings)):
        log.info("ocr.off", reason=reason)


def _languages(joined: str | None) -> tuple[str, ...]:
    return tuple(joined.split("+")) if joined else ()

"""Logs: structured, one line an event; no line has document text, keys or URLs."""

from __future__ import annotations

import logging
from typing import Any

import structlog

from shared.process import traces
from shared.settings import Settings


def configure(settings: Settings, process: str) -> None:
    """Set up logging for this process.

    Args:
        settings: the level and the format.
        process: names the process in every line.
    """
    level = getattr(logging, settings.log_level.upper())
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if settings.log_format == "console":
        renderer = structlog.dev.ConsoleRenderer()
    shared: list[structlog.typing.Processor] = [
        _naming(process),
        structlog.contextvars.merge_contextvars,
        traces.add_ids,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared)
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler], force=True)


def _naming(process: str) -> structlog.typing.Processor:
    """Add the process to every line; context variables do not reach the event loop, which runs in another thread."""

    def add(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["process"] = process
        return event

    return add

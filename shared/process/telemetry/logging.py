"""Logs: structured, one line per event; no line contains document text, keys or URLs."""

from __future__ import annotations

import logging
from typing import Any, Literal

import structlog

from shared.process.telemetry import traces


def configure(process: str, *, level: str = "info", line_format: Literal["console", "json"] = "json") -> None:
    """Set up logging for this process.

    Args:
        process: name of the process in every line.
        level: lowest level that is logged.
        line_format: format of the lines.
    """
    lowest = getattr(logging, level.upper())
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if line_format == "console":
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
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared)
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=max(lowest, logging.WARNING), handlers=[handler], force=True)
    logging.captureWarnings(True)  # noqa: FBT003 - for example Celery's warning about root


def _naming(process: str) -> structlog.typing.Processor:
    """Add the process to every line; context variables do not reach the event loop, which runs in another thread."""

    def add(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["process"] = process
        return event

    return add

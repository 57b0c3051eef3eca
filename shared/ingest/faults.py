"""Faults of our own code: one costs an attempt of its work, as an error of a provider does."""

from __future__ import annotations

import structlog

from shared.domain.errors import ForeaskError, Transient

log = structlog.get_logger()


class Fault(Transient):
    """Our own code failed; another attempt may succeed."""


def failure_of(error: Exception) -> ForeaskError:
    """Return the failure of an attempt; log an error that is a fault of ours.

    Without it, the lease of the work would expire, its paid calls would not be booked, and it would be suspected of
    killing its workers.
    """
    if isinstance(error, ForeaskError):
        return error
    log.error("work.raised", exc_info=error)
    return Fault(f"foreask failed with this chunk ({type(error).__name__}); the log has the error as work.raised")

"""The whole state of the application, and the dependencies of its own routes on the parts that features do not use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from api.progress.feeds import ProgressFeeds
from api.progress.job_feeds import JobFeeds
from api.progress.listeners import Listeners
from api.progress.readiness import Readiness
from shared.http.state import HttpState, part


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiState(HttpState):
    readiness: Readiness
    listeners: Listeners
    progress_feeds: ProgressFeeds
    job_feeds: JobFeeds


ReadinessDep = Annotated[Readiness, part(lambda state: state.readiness)]
ListenersDep = Annotated[Listeners, part(lambda state: state.listeners)]
ProgressFeedsDep = Annotated[ProgressFeeds, part(lambda state: state.progress_feeds)]
JobFeedsDep = Annotated[JobFeeds, part(lambda state: state.job_feeds)]

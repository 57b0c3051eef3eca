"""Jobs: open a load, and list, follow, pause, resume or cancel jobs of any kind."""

from __future__ import annotations

from collections.abc import Iterator

from foreask_client.models import Job
from foreask_client.requests import Events, Pages, Stream, get, given, post, segment
from foreask_client.synchronous.connection import Connection


class JobsApi(Connection):
    """Methods for jobs."""

    def open_load(
        self,
        *,
        collection: str = "default",
        idempotency_key: str | None = None,
        documents: int | None = None,
        reopen: bool = False,
    ) -> Job:
        """Open a load. Upload its documents with its id as `job`, then close it with `close_job`.

        Args:
            collection: name of the collection; the first upload creates it.
            idempotency_key: name that no other open load has. If one has it, the error has status 409 and the id of
                that load as `job_id` in its `problem`.
            documents: number of documents that will be uploaded; None if unknown.
            reopen: whether the open load with the same key is returned instead. It accepts documents again.
        """
        body = {"kind": "load", "collection": collection, "reopen": reopen}
        body |= given({"idempotency_key": idempotency_key, "documents": documents})
        return self.send(post("/v1/jobs", Job, body))

    def jobs(self, *, kind: str | None = None) -> Iterator[Job]:
        """List jobs, newest first.

        Args:
            kind: only jobs of this kind: `load`, `sync`, `reindex`, `build`, `evaluation`, `gate`,
                `verification` or `erasure`; None for all.
        """
        return self.items(Pages("/v1/jobs", given({"kind": kind}), Job.model_validate))

    def job(self, job_id: str) -> Job:
        """Return a job with its progress."""
        return self.send(get(_path(job_id), Job))

    def job_events(self, job_id: str) -> Events:
        """Follow a job until it ends: events `job` with the fields of `Job`."""
        return self.events_of(Stream(f"{_path(job_id)}/events"))

    def close_job(self, job_id: str) -> Job:
        """Close a load: it accepts no more documents, and ends when its documents are finished."""
        return self.send(post(f"{_path(job_id)}/close", Job, repeatable=True))

    def pause_job(self, job_id: str) -> Job:
        """Pause a load, a sync or a reindex: its documents are not parsed, and no questions are generated."""
        return self.send(post(f"{_path(job_id)}/pause", Job, repeatable=True))

    def resume_job(self, job_id: str) -> Job:
        return self.send(post(f"{_path(job_id)}/resume", Job, repeatable=True))

    def cancel_job(self, job_id: str) -> Job:
        """Cancel a load, a sync or a reindex: its queued documents are discarded, and others are finished."""
        return self.send(post(f"{_path(job_id)}/cancel", Job, repeatable=True))


def _path(job_id: str) -> str:
    return f"/v1/jobs/{segment(job_id)}"

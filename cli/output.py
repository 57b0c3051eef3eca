"""Output of the commands: answers, tables and results of an ingest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from foreask_client import (
    Answer,
    Batch,
    Budget,
    Build,
    Chunk,
    Citation,
    Collection,
    DeadLetter,
    Document,
    Event,
    FoundChunk,
    Job,
    Source,
    Sync,
    Withheld,
)
from foreask_client import Key as ClientKey
from foreask_client.models import AcceptedQuestion, AccessReview, AuditEntry, DeadReason, Gap, Json, Model
from rich.console import Console, Group, RenderableType
from rich.markup import escape

from cli import losses
from cli.corpus_ingestion import CorpusLoad
from cli.explanation import print_explanation
from cli.ingestion import DocumentProgress, UploadBatch
from cli.tables import Table
from shared.domain.access.keys import Key as LedgerKey
from shared.domain.durations import duration
from shared.domain.errors import Unavailable

_STATES = ("queued", "parsing", "reading", "indexing", "searchable", "ready", "degraded", "failed")
_COLOURS = {"ready": "green", "degraded": "yellow", "failed": "red", "up": "green", "down": "red"}
_VERIFICATION_COUNTS = ("documents", "points", "missing", "stale", "orphaned", "repaired")
_ONE_LINE = ("id", "state", "done", "health", "source", "next sync", "started")  # columns that are never folded
_SYNC_COUNTS = {
    name: name.replace("_", " ")
    for name in (
        "seen",
        "created",
        "changed",
        "unchanged",
        "readers_changed",
        "missing",
        "deleted",
        "withheld",
        "refused",
    )
}
_SNIPPET_CHARS = 300
_TO_SECONDS = "%Y-%m-%dT%H:%M:%S"


def say(console: Console, text: str) -> None:
    """Print a line without markup and wrapping, so that programs can also read it."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as JSON. Models of the client are printed like the server's reply."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=_fields))


def _fields(reply: Model) -> Json:
    return reply.model_dump(mode="json", exclude_unset=True)


def print_answer(console: Console, events: Iterable[Event], *, show_chunks: bool) -> Answer:
    """Print an answer while it is streamed, then its sources, and return the complete answer.

    Raises:
        Unavailable: the stream ended before the answer was complete.
    """
    for event in events:
        if event.name == "token":
            console.print(event.data["text"], end="", markup=False, highlight=False, soft_wrap=True)
        elif event.name == "error":
            say(console, "")
            raise Unavailable(str(event.data.get("detail", "The answer is incomplete.")), component="api")
        elif event.name == "done":
            say(console, "")
            answer = Answer.model_validate(event.data)
            print_sources(console, answer, show_chunks=show_chunks)
            return answer
    raise Unavailable("The answer is incomplete: the server closed the connection.", component="api")


def print_sources(console: Console, answer: Answer, *, show_chunks: bool) -> None:
    chunks = {chunk.chunk_id: chunk for chunk in answer.chunks}
    if answer.why_incomplete:
        console.print(f"[yellow]{escape(answer.why_incomplete)}[/yellow]")
    for citation in answer.citations:
        say(console, f"\n[{citation.number}] {source(citation)}")
        chunk = chunks.get(citation.chunk_id)
        if chunk is not None:
            console.print(f"    {_match(chunk)}", highlight=False, soft_wrap=True)
    if show_chunks:
        for number, chunk in enumerate(answer.chunks, 1):
            say(console, f"\n{number}. {source(chunk)}")
            console.print(f"   {_match(chunk)}", highlight=False, soft_wrap=True)
            say(console, f"   {_snippet(chunk.text)}")
    if answer.form == "extractive" and answer.found:
        console.print("\n[dim]extractive: quoted from the documents, not written by a model[/dim]")
    if answer.metadata.notice:
        console.print(f"\n[yellow]{escape(answer.metadata.notice)}[/yellow]", soft_wrap=True)
    for stage, reason in answer.metadata.skipped.items():
        say(console, f"\ndone without {stage}: {reason}")
    if answer.metadata.explain:
        print_explanation(console, answer.chunks, answer.metadata.explain)


def source(passage: Citation | FoundChunk) -> str:
    """Return the location of a passage: its document, headings and page."""
    title, external_id = passage.title, passage.external_id
    document = f"{title} ({external_id})" if title and title != external_id else external_id
    headings = [heading for heading in passage.heading_path if heading != title]
    page = [f"page {passage.page}"] if passage.page else []
    return " > ".join([document, *headings, *page])


def collections_table(collections: Iterable[Collection]) -> Table:
    table = _table("collection", "documents", "points", "embedding model")
    for collection in collections:
        points = "?" if collection.points is None else f"{collection.points:,}"
        table.add_row(collection.name, _counts(collection.documents), points, collection.embedding_model)
        if collection.notice:
            table.caption = f"{collection.name}: {collection.notice}"
    return table


def print_documents(console: Console, documents: Iterable[Document]) -> None:
    """Print a line for each document. Lines are not wrapped, so that ids can be copied."""
    for document in documents:
        chunks = document.chunks
        dead = f", {chunks.dead} dead" if chunks.dead else ""
        error = f"  {document.error}" if document.error else ""
        found = f", {chunks.searchable} searchable" if chunks.searchable > chunks.indexed else ""
        counts = (
            f"{chunks.indexed}/{chunks.total} chunks{found}{dead}, {document.questions} questions{_pages(document)}"
        )
        name = f"{document.collection}/{document.external_id}"
        say(console, f"{document.id}  {document.state:<10}  {name}  {counts}{error}")


def _pages(document: Document) -> str:
    """Return the progress of pages that are read by OCR; nothing if every page has text."""
    if not document.pages:
        return ""
    unread = f", {document.pages_unread} unread" if document.pages_unread else ""
    return f", {document.pages_read}/{document.pages} pages read{unread}"


def print_document(console: Console, document: Document, chunks: Iterator[Chunk]) -> None:
    """Print a document, then each chunk with its questions and the reasons of dropped ones."""
    for name, value in _fields(document).items():
        if name not in ("losses", "unread"):
            text = value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)
            say(console, f"{name:<16} {text}")
    for sentence in losses.sentences(document):
        say(console, f"{'missing':<16} {sentence}")
    for chunk in chunks:
        say(console, "  ".join([f"\n#{chunk.ordinal} {chunk.state}", *_origin(chunk)]))
        if chunk.error:
            say(console, f"   {chunk.error}")
        say(console, f"   {_snippet(chunk.text)}")
        for question in chunk.questions:
            mark = "-" if question.passed is False or question.disabled else "+"
            why = "disabled" if question.disabled else question.reason
            reason = f"  ({why})" if why else ""
            say(console, f"   {mark} {question.text}{reason}")


def _origin(chunk: Chunk) -> list[str]:
    """Return the headings of a chunk, its page, and the confidence of its words if it was read by OCR."""
    heading = [" > ".join(chunk.heading_path)] if chunk.heading_path else []
    page = [f"page {chunk.page}"] if chunk.page else []
    return [*heading, *page, *([] if chunk.confidence is None else [f"confidence {chunk.confidence} %"])]


def status(health: Json, work: Json | None, collections: list[Collection]) -> RenderableType:
    """Return tables of health, open work, its rate, limits, usage and collections."""
    parts = _table("part", "health", "")
    for name, state in health.get("components", {}).items():
        parts.add_row(name, _state(state), escape(health.get("reasons", {}).get(name, "")))
    sections: list[RenderableType] = [f"server: {_state(health.get('status', '?'))}", parts]
    if work is not None:
        sections += [
            _stages(work),
            *_unserved(work),
            *_outdated(work),
            *_damaged(work),
            *_budgets(work),
            _rate(work),
            *_pace(work),
            _limits(work["limits"]),
            *_failures(work),
        ]
        sections += [*_usage(work), *_estimates(work)]
    return Group(*sections, collections_table(collections))


def _stages(work: Json) -> Table:
    table = _table("stage", "due", "in flight", "delayed", "oldest")
    for name, stage in work["stages"].items():
        oldest = "" if stage["oldest_seconds"] is None else duration(stage["oldest_seconds"])
        table.add_row(name, f"{stage['due']:,}", f"{stage['in_flight']:,}", f"{stage['delayed']:,}", oldest)
    return table


def _unserved(work: Json) -> list[str]:
    return [
        f"[yellow]{unserved['chunks']:,} chunks need an index worker with {unserved['embedding_model']}[/yellow]"
        for unserved in work["unserved"]
    ]


def _outdated(work: Json) -> list[str]:
    documents = sum(work["outdated"].values())
    return [f"[yellow]{documents:,} documents were read by an older reader (foreask reread)[/yellow]"] * bool(documents)


def _damaged(work: Json) -> list[str]:
    follow = "(foreask verify --repair follows it)"
    return [
        f"[yellow]{escape(each['collection'])}: {escape(each['message'])} {follow}[/yellow]" for each in work["damaged"]
    ]


def _budgets(work: Json) -> list[str]:
    return [f"[yellow]{budget['notice']}[/yellow]" for budget in work["budgets"] if budget["notice"]]


def _rate(work: Json) -> str:
    dead = f", [red]{work['dead']:,} dead[/red] (foreask dead-letters list)" if work["dead"] else ""
    eta = "" if work["eta_seconds"] is None else f", about {duration(work['eta_seconds'])} left"
    return f"{work['chunks_per_minute']:,.0f} chunks a minute{eta}{dead}"


def _pace(work: Json) -> list[str]:
    """Return the sentence about the bottleneck, in colour if a person should act on it."""
    pace = work["pace"]
    if pace["cause"] in {"idle", "working"}:  # the line with the pace says the same
        return []
    colour = "yellow" if pace["cause"] in {"breaker", "cooldown", "component_down"} else "dim"
    return [f"[{colour}]{escape(pace['message'])}[/{colour}]"]


def _failures(work: Json) -> list[str]:
    """Return the reasons of providers that fail or pause, without the reason that the pace shows."""
    shown = "".join(_pace(work)).lower()
    reasons = dict.fromkeys(escape(reason) for limit in work["limits"] or () if (reason := limit["reason"]))
    return [f"[yellow]{reason}[/yellow]" for reason in reasons if reason.lower() not in shown]


def _limits(limits: list[Json] | None) -> RenderableType:
    if limits is None:
        return "limits: [red]unknown[/red], because the broker is unavailable"
    table = _table("limit", "used", "in flight", "state")
    for limit in limits:
        used = f"{limit['used']:,}" + ("" if limit["per_minute"] is None else f" of {limit['per_minute']:,} a minute")
        ceiling = "" if limit["in_flight_limit"] is None else f" of {limit['in_flight_limit']:,}"
        table.add_row(limit["name"], used, f"{limit['in_flight']:,}{ceiling}", _hold(limit))
    return table


def _usage(work: Json) -> list[Table]:
    table = _table("usage", "model", "tier", "calls", "prompt tokens", "cached", "completion tokens", "cost")
    for group in work["usage"]:
        name = f"{group['collection'] or '(deleted)'}: {group['kind']}"
        prompt, calls = f"{group['prompt_tokens']:,}", f"{group['calls']:,}"
        rest = (calls, prompt, _cached(group), f"{group['completion_tokens']:,}", _cost(group["cost"]))
        model = group["model"] + (" (estimated)" if group["is_estimated"] else "")
        table.add_row(escape(name), escape(model), group["tier"], *rest)
    return [table] if work["usage"] else []


def _cached(group: Json) -> str:
    """Return the share of the prompt tokens that came from the provider's cache."""
    cached = group["cached_tokens"]
    return f"{cached / group['prompt_tokens']:.0%}" if cached else ""


def _cost(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:,.4f}"


def _estimates(work: Json) -> list[Table]:
    """Return the estimates of the last loads next to the actual numbers."""
    if not work["estimates"]:
        return []
    table = _table("load", "", "calls", "prompt tokens", "completion tokens", "embedding tokens")
    for kept in work["estimates"]:
        load = f"{kept['collection']}, {kept['at'][:16].replace('T', ' ')}"
        table.add_row(escape(load), "estimated", *_numbers(kept["estimate"]))
        table.add_row("", "actual", *_numbers(kept["since"]))
    return [table]


def _numbers(usage: Json) -> list[str]:
    return [f"{usage[name]:,}" for name in ("calls", "prompt_tokens", "completion_tokens", "embedding_tokens")]


def _hold(limit: Json) -> str:
    """Return whether calls are delayed by something else than the limit; the pace has the reason."""
    if limit["breaker"] != "closed":
        return f"[red]breaker {limit['breaker']}: the provider fails[/red]"
    if limit["cooldown_seconds"]:
        return f"[yellow]pauses for {duration(limit['cooldown_seconds'])}[/yellow]"
    if limit["flex_pause_seconds"]:
        return f"[yellow]no capacity in the tier flex, next call in {duration(limit['flex_pause_seconds'])}[/yellow]"
    if limit["reason"]:
        return f"[yellow]fails for {duration(limit['failing_seconds'])}[/yellow]"
    return ""


def print_batch(console: Console, batch: UploadBatch, job: Job | None = None) -> None:
    """Print the result of an ingest: rejected files, failed documents, and counts with the costs of its job."""
    failed = [document for document in batch.documents.values() if document.state in ("failed", "degraded")]
    if batch.rejected or failed:
        table = _table("document", "state", "reason")
        for name, reason in sorted(batch.rejected.items()):
            table.add_row(escape(name), "[red]not uploaded[/red]", escape(reason))
        for document in failed:
            table.add_row(escape(document.external_id), _state(document.state), escape(_reason(document)))
        console.print(table)
    rejected = f", {len(batch.rejected)} not uploaded" if batch.rejected else ""
    counts = ", ".join(f"{count} {state}" for state, count in batch.states().items())
    replaced = f"; {batch.replaced} replaced the content of a document with the same name" if batch.replaced else ""
    say(console, f"{batch.total} files: {counts or 'none uploaded'}{rejected}{replaced}{_costs_of(job)}")


def _reason(document: DocumentProgress) -> str:
    """Return why a document is failed or degraded."""
    if document.error:
        return document.error
    pages, chunks = document.pages_unread, document.chunks["dead"]
    failed = f"{letter_counts(0, pages, chunks)} failed" if pages or chunks else None
    return "; ".join(filter(None, [failed, document.first_loss]))


def estimate_line(estimate: Json) -> str:
    """Return the cost of a load as one line."""
    tokens = f"{estimate['prompt_tokens']:,} tokens of prompts, {estimate['completion_tokens']:,} of replies"
    parts = [
        f"{estimate['documents']:,} documents, {estimate['chunks']:,} chunks",
        f"{estimate['calls']:,} calls of the language model ({tokens})",
        f"{estimate['embeddings']:,} embeddings ({estimate['embedding_tokens']:,} tokens)",
    ]
    costs = [estimate[name] for name in ("llm_cost", "embedding_cost") if estimate[name] is not None]
    unknown = [
        name for name, cost in (("calls", "llm_cost"), ("embeddings", "embedding_cost")) if estimate[cost] is None
    ]
    if costs:
        parts.append(f"costs {sum(costs):,.2f}" + (f" without {unknown[0]}, whose price is unknown" if unknown else ""))
    else:
        parts.append("the cost is unknown, because no price is set")
    if estimate["seconds"] is not None:
        parts.append(f"{duration(estimate['seconds'])} at {estimate['bottleneck']}")
    if estimate["paid_chunks"]:
        parts.append(f"{estimate['paid_chunks']:,} chunks are paid for already")
    if estimate["pages"]:
        parts.append(f"{estimate['pages']:,} scanned pages are read")
    if estimate["margin"] is not None:
        parts.append(f"±{estimate['margin']:.0%} (90 % interval of the sample)")
    return f"{'estimate' if estimate['exact'] else 'about'}: " + "; ".join(parts)


def tiers_table(estimate: Json) -> Table:
    """Return the costs of an estimate by model and tier, with the durations of the server's own model."""
    table = _table("model", "tier", "calls cost", "duration", "limited by")
    for offer in estimate["tiers"]:
        cost = "unknown" if offer["llm_cost"] is None else f"{offer['llm_cost']:,.2f}"
        table.add_row(escape(offer["model"]), offer["tier"], cost, _duration_of(offer), offer["bottleneck"] or "")
    return table


def _duration_of(offer: Json) -> str:
    if offer["seconds"] is None:
        return ""
    bound = {"flex": "at least ", "batch": "at most "}.get(offer["tier"], "")
    fills = f" ({offer['fills']:,} fills)" if (offer["fills"] or 0) > 1 else ""
    return f"{bound}{duration(offer['seconds'])}{fills}"


def _costs_of(job: Job | None) -> str:
    """Return the end of a sentence about a job."""
    return "" if job is None or job.cost is None else f"; the calls cost {_cost(job.cost)}"


def print_load(console: Console, load: CorpusLoad, job: Job | None = None) -> None:
    """Print the result of a corpus: rejected rows, and counts with the documents and the costs of its job."""
    for number, reason in load.reasons.items():
        say(console, f"row {number:,} was rejected: {reason}")
    if load.rejected > len(load.reasons):
        say(console, f"and {load.rejected - len(load.reasons):,} more")
    rejected = f", {load.rejected:,} rejected" if load.rejected else ""
    states = "" if job is None else "".join(f"; {count:,} {state}" for state, count in job.documents.items())
    counts = f"{load.accepted:,} new, {load.unchanged:,} unchanged{rejected}"
    say(console, f"{load.total:,} rows: {counts}{states}{_costs_of(job)}")


def print_dead(console: Console, letters: Iterable[DeadLetter], reasons: list[DeadReason]) -> None:
    """Print a line for each dead letter, then counts by reason. Lines are not wrapped, so that ids can be copied."""
    for letter in letters:
        attempts = f"{letter.attempts} attempt{'s' if letter.attempts != 1 else ''}"
        kind = _kind(letter)
        name = f"{letter.collection}/{letter.external_id}"
        say(console, f"{letter.id}  {kind:<9}  {name}  {letter.at:{_TO_SECONDS}}  {attempts}  {letter.reason}")
    for reason in reasons:
        say(console, f"{letter_counts(reason.documents, reason.pages, reason.chunks)}: {reason.reason}")
    if not reasons:
        say(console, "There are no dead letters.")


def _kind(letter: DeadLetter) -> str:
    """Return the kind of a dead letter, with the number of its page or the position of its chunk."""
    if letter.ordinal is None:
        return letter.kind
    return f"page {letter.ordinal}" if letter.kind == "page" else f"chunk #{letter.ordinal}"


def print_dead_letter(console: Console, letter: DeadLetter) -> None:
    for name, value in _fields(letter).items():
        if name != "history" and value is not None:
            say(console, f"{name:<12} {value}")
    for attempt in letter.history:
        say(console, f"  {attempt['at'][:19]}  attempt {attempt['attempt']}: {attempt['error']}")


def print_accepted(console: Console, questions: Iterable[AcceptedQuestion]) -> None:
    """Print a line for each accepted question. Lines are not wrapped, so that ids can be copied."""
    for question in questions:
        say(
            console,
            f"{question.id}  {question.state:<8}  {question.external_id}  {question.created_at:{_TO_SECONDS}}"
            f"  {question.question}",
        )


def print_gaps(console: Console, gaps: Iterable[Gap]) -> None:
    """Print a line for each gap. Lines are not wrapped, so that ids can be copied."""
    for gap in gaps:
        to = f"  {gap.assigned_to}" if gap.assigned_to else ""
        by = f"  by {gap.resolved_by.external_id}" if gap.resolved_by else ""
        say(console, f"{gap.id}  {gap.state:<8}  {gap.times:>5,} times{to}{by}  {gap.question}")


def print_audit(console: Console, entries: Iterable[AuditEntry]) -> None:
    """Print a line for each recorded change, with its fields."""
    for entry in entries:
        by = entry.actor["name"] or entry.actor["kind"]
        tenant = f"  {entry.tenant}" if entry.tenant else ""
        what = f"{entry.action} {entry.object} {entry.object_name}"
        fields = "".join(f"  {name}: {_changed(values)}" for name, values in entry.changes.items())
        say(console, f"{entry.created_at:%Y-%m-%dT%H:%M:%S}{tenant}  {by}  {what}{fields}")


def _changed(values: Json) -> str:
    before, after = (json.dumps(values[moment], ensure_ascii=False) for moment in ("before", "after"))
    return after if values["before"] is None else f"{before} -> {after}"


def print_readers(console: Console, review: AccessReview) -> None:
    """Print the number of documents of each reader."""
    for each in review.items:
        reads = {"unset": f" ({review.readable_by_default} reads them)", "nobody": " reads"}.get(each.reader, "")
        unknown = each.reader.startswith("group:") and each.seen_at is None
        noun = "document" if each.documents == 1 else "documents"
        mark = "  no person has had this group for 90 days" if unknown else ""
        say(console, f"{each.documents:>9,} {noun}  {each.reader}{reads}{mark}")


def print_keys(console: Console, keys: Iterable[ClientKey | LedgerKey]) -> None:
    """Print a line for each key. Lines are not wrapped, so that ids can be copied."""
    for key in keys:
        ends = f"expires {key.expires_at:%Y-%m-%d}" if key.expires_at else "valid"
        state = f"revoked {key.revoked_at:%Y-%m-%d}" if key.revoked_at else ends
        used = f"used {key.last_used_at:%Y-%m-%dT%H:%M}" if key.last_used_at else "not used"
        limit = f"  only {json.dumps(key.filter)}" if key.filter else ""
        limits = key.limits if isinstance(key.limits, dict) else asdict(key.limits)
        limit += "".join(f"  {name}={value:g}" for name, value in limits.items() if value is not None)
        say(console, f"{key.id}  {key.name}  {','.join(sorted(key.scopes))}  {state}  {used}{limit}")


def print_budgets(console: Console, budgets: Iterable[Budget]) -> None:
    """Print a line for each budget. Lines are not wrapped, so that ids can be copied."""
    for budget in budgets:
        scope = f"collection {budget.collection}" if budget.collection else "all"
        scope = f"job {budget.job_id}" if budget.job_id else scope
        amounts = [f"{value:,.6g}" for value in (budget.spent, budget.reserved, budget.limit)]
        if budget.unit == "tokens":
            amounts = [f"{value:,.0f}" for value in (budget.spent, budget.reserved, budget.limit)]
        spent, reserved, limit = amounts
        period = "in total" if budget.period == "total" else f"a {budget.period}"
        used = f"{spent} spent and {reserved} reserved of {limit} {budget.unit} {period}"
        state = "  exhausted" if budget.exhausted else ""
        say(console, f"{budget.id}  {scope}  {used}  (set by {budget.set_by}){state}")


def deployment_tables(deployment: Json, tenants: Iterable[Json]) -> RenderableType:
    """Return tables of the open work of all tenants together and of each tenant."""
    stages = _table("stage", "open")
    for name, count in deployment["open"].items():
        stages.add_row(name, f"{count:,}")
    table = _table("tenant", "documents", "chunks", *deployment["open"], "dead")
    for tenant in tenants:
        pending = [f"{stage['due'] + stage['in_flight'] + stage['delayed']:,}" for stage in tenant["stages"].values()]
        chunks = f"{sum(tenant['chunks'].values()):,}"
        table.add_row(tenant["tenant"], _counts(tenant["documents"]), chunks, *pending, f"{tenant['dead']:,}")
    return Group(f"{deployment['tenants']:,} tenants, {deployment['dead']:,} dead", stages, table)


def verification_table(verified: dict[str, Json]) -> Table:
    """Return the counts of each collection's comparison."""
    table = _table("collection", *_VERIFICATION_COUNTS)
    for name, counts in verified.items():
        table.add_row(name, *(f"{counts[column]:,}" for column in _VERIFICATION_COUNTS))
    return table


def calibration_table(evidence: Json) -> Table:
    """Return nDCG@10 and its interval for each single channel, for equal weights and for the chosen weights."""
    table = _table("channels", "nDCG@10", "95 % interval")
    chosen = ", ".join(f"{channel} {weight:g}" for channel, weight in evidence["weights"].items())
    rows = evidence["channels"] | {"all, equal": evidence["equal"], f"chosen: {chosen}": evidence["chosen"]}
    for name, value in rows.items() if evidence["questions"] else ():
        table.add_row(name, f"{value['mean']:.3f}", f"{value['low']:.3f} to {value['high']:.3f}")
    questions = f"{evidence['questions']} {evidence['source']} questions, " if evidence["questions"] else ""
    table.caption = (
        f"{questions}{evidence['chunks']} chunks;"
        f" baseline of the embedding model {evidence['baseline_similarity']:.2f} ± {evidence['baseline_spread']:.2f}"
    )
    return table


def builds_table(builds: Iterable[Build]) -> Table:
    table = _table("build", "state", "documents", "embedding model", "gate")
    for build in builds:
        opened = "" if build.gate is None else "open" if build.gate["open"] else "closed"
        copied = f"{build.copied:,} of {build.source_documents:,}: {_counts(build.documents)}"
        table.add_row(str(build.build), build.state, copied, build.embedding_model, opened)
    return table


def jobs_table(jobs: Iterable[Job]) -> Table:
    """Return a line for each job. Ids are never folded, and the words of other columns only as a whole."""
    table = _table("id", "job", "state", "done")
    table.columns[2].no_wrap = False
    table.show_edge, table.pad_edge, table.collapse_padding = False, False, True  # the usual line has 80 columns
    for job in jobs:
        scope = f" of {escape(job.collection)}" if job.collection else ""
        table.add_row(
            job.id, f"{job.kind}{scope}", _state_of_job(job), f"{job.done / job.total:.0%}" if job.total else ""
        )
    return table


def _state_of_job(job: Job) -> str:
    """Return the state of a job, with the reason why it waits and the time that is left."""
    reason = f" ({job.pause_reason})" if job.pause_reason else ""
    left = "" if job.eta_seconds is None else f", {duration(job.eta_seconds)} left"
    return f"{job.state.replace('_', ' ')}{reason}{left}"


def _chunks_of(job: Job) -> str:
    """Return the progress of a job in chunks, as far as it is known."""
    if job.chunks_done is None:
        return ""
    return f", {job.chunks_done:,} {'chunks' if job.chunks_total is None else f'of {job.chunks_total:,} chunks'}"


def print_job(console: Console, job: Job) -> None:
    """Print a job with the numbers of its documents, and the reason if it waits or failed."""
    console.print(jobs_table([job]))
    say(console, f"{job.done:,} of {job.total:,} done{_chunks_of(job)}")
    if job.documents:
        console.print(f"documents: {_counts(job.documents)}")
    if job.cost is not None:
        say(console, f"costs {_cost(job.cost)}")
    for sentence in (job.message, job.error):
        if sentence:
            say(console, sentence)


def sources_table(sources: Iterable[Source]) -> Table:
    table = _table("source", "collection", "address", "next sync", "newest sync")
    for source in sources:
        next_sync = "" if source.next_sync_at is None else f"{source.next_sync_at:{_TO_SECONDS}}"
        newest = "removing" if source.removing else "" if source.newest_sync is None else _result(source.newest_sync)
        table.add_row(source.name, source.collection, escape(source.uri), next_sync, escape(newest))
    return table


def print_source(
    console: Console, source: Source, syncs: Iterable[Sync] = (), withheld: Withheld | None = None
) -> None:
    """Print a source, its syncs, and its deletions that need approval."""
    for name in ("name", "collection", "kind", "uri", "options", "secret_name", "schedule", "time_zone"):
        value = getattr(source, name)
        if value not in (None, {}):
            say(console, f"{name.replace('_', ' '):<12} {value}")
    at = "sent by a program" if source.kind == "push" else source.next_sync_at or "on request"
    say(console, f"{'next sync':<12} {at}")
    if source.schedule_error is not None:
        say(console, f"{'problem':<12} {source.schedule_error}")
    if source.removing:
        say(console, "The source is being removed.")
    if source.newest_lookup is not None and (trouble := source.newest_lookup.error or source.newest_lookup.waiting):
        say(console, f"{'hints':<12} {trouble}")
    syncs = list(syncs)
    if syncs:
        table = _table("started", "result")
        for each in syncs:
            table.add_row(f"{each.created_at:{_TO_SECONDS}}", escape(_result(each)))
        console.print(table)
    if withheld is not None and withheld.deletions:
        print_withheld(console, source.name, withheld)


def print_sync(console: Console, sync: Sync) -> None:
    """Print the numbers of a sync, and the entries that it could not read."""
    say(console, _result(sync))
    for entry in sync.refused_entries:
        say(console, f"refused {entry.key}: {entry.reason}")


def print_withheld(console: Console, source: str, withheld: Withheld) -> None:
    """Print the deletions of a source that need approval, and the command that approves them."""
    say(console, f"{withheld.deletions:,} of {withheld.items:,} documents would be deleted:")
    for key in withheld.keys:
        say(console, f"  {key}")
    if withheld.deletions > len(withheld.keys):
        say(console, f"  and {withheld.deletions - len(withheld.keys):,} more")
    say(console, f"To delete them: foreask sources approve {source} --deletions {withheld.deletions}")


def _result(sync: Sync) -> str:
    """Return the state of a sync in words, with its numbers except zeros."""
    if sync.error:
        return f"failed: {sync.error}"
    counts = [f"{getattr(sync, name):,} {words}" for name, words in _SYNC_COUNTS.items() if getattr(sync, name)]
    numbers = ", ".join(counts) or "no entries"
    return f"{sync.state}: {numbers}" + (f"; {sync.waiting}" if sync.waiting else "")


_NEXT_OF_BATCH = {
    "planning": "Chunks are added until no further one arrives for a while, or the batch is full.",
    "planned": "Its file is uploaded next.",
    "creating": "The provider has its file, and is asked to start it.",
    "running": "The provider works on it, for up to 24 hours.",
    "collecting": "Its results are being stored.",
}
_CANCELLED = "It is being cancelled: results that the provider has by then are stored."


def batches_table(batches: Iterable[Batch]) -> Table:
    table = _table("id", "state", "requests", "at the provider", "settled", "size", "age", "cost")
    for batch in batches:
        cost = "" if batch.cost is None else _cost(batch.cost)
        counts = (f"{number:,}" for number in (batch.lines, batch.done, batch.settled))
        size = f"{batch.bytes / 1e6:,.1f} MB"
        table.add_row(batch.id, _state_of_batch(batch), *counts, size, duration(batch.age_seconds), cost)
    return table


def _state_of_batch(batch: Batch) -> str:
    return "being cancelled" if batch.cancelled_at and not batch.ended_at else batch.state


def print_provider_batch(console: Console, batch: Batch) -> None:
    """Print a batch with its provider's id, jobs and costs, and with its next step or the reason of its failure."""
    console.print(batches_table([batch]))
    lines = {
        "model": batch.model,
        "provider's batch": batch.provider_id or "",
        "part of": batch.part_of or "",
        "jobs": ", ".join(batch.jobs),
        "tokens": f"{batch.prompt_tokens:,} + {batch.completion_tokens:,}" if batch.prompt_tokens else "",
    }
    for name, value in lines.items():
        if value:
            say(console, f"{name}: {value}")
    for sentence in (batch.error, next_of_batch(batch)):
        if sentence:
            say(console, sentence)


def next_of_batch(batch: Batch) -> str | None:
    """Return the next step of a batch; None if it has ended."""
    if batch.cancelled_at and batch.state in ("planning", "planned", "creating", "running"):
        return _CANCELLED
    return _NEXT_OF_BATCH.get(batch.state)


def print_gate(console: Console, report: Json) -> None:
    """Print the report of a gate: quality and latency of both builds, and the reasons against the new one."""
    documents, points = report["documents"]["documents"], report["points"]["points"]
    console.print(f"compared: {documents:,} documents, {points:,} points")
    if quality := report["quality"]:
        table = _table("nDCG@10", "mean", "95 % interval")
        for name in ("live", "build", "difference"):
            value = quality[name]
            table.add_row(name, f"{value['mean']:.3f}", f"{value['low']:+.3f} to {value['high']:+.3f}")
        table.caption = f"{quality['questions']} {quality['source']} questions"
        console.print(table)
    if latency := report["latency"]:
        before, now = latency["live_milliseconds"], latency["build_milliseconds"]
        console.print(f"95 % of {latency['questions']} queries within {before:.0f} ms before and {now:.0f} ms now")
    for note in report["notes"]:
        say(console, f"note: {note}")
    for reason in report["reasons"]:
        console.print(f"[red]closed:[/red] {escape(reason)}")
    if report["open"]:
        console.print("[green]open:[/green] no reason against the build")


def letter_counts(documents: int, pages: int, chunks: int) -> str:
    """Return the numbers of documents, pages and chunks in words, without zeros."""
    counts = {"document": documents, "page": pages, "chunk": chunks}
    parts = [f"{count} {name}{'s' if count != 1 else ''}" for name, count in counts.items() if count]
    *first, last = parts or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last


def _table(*columns: str) -> Table:
    return Table(*columns, whole=_ONE_LINE)


def _counts(documents: dict[str, int]) -> str:
    counts = [f"{documents[state]} {_state(state)}" for state in _STATES if documents.get(state)]
    return ", ".join(counts) or "none"


def _state(state: str) -> str:
    colour = _COLOURS.get(state)
    return f"[{colour}]{state}[/{colour}]" if colour else state


def _match(chunk: FoundChunk) -> str:
    question = chunk.matched_question
    matched = f"matched “{escape(question)}”" if question else "matched the text itself"
    return f"[cyan]{matched}[/cyan], score {chunk.score:.2f}"


def _snippet(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SNIPPET_CHARS else flat[:_SNIPPET_CHARS].rstrip() + " …"

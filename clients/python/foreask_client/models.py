"""Replies of the API, generated from its description: do not edit.

Fields that a newer server adds are kept as attributes without a type. A newer server may also return other words than
those listed here.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from foreask_client.values import Completeness, Event, Json, KeyScope, Lane, Model, Version

__all__ = [
    "AcceptedQuestion",
    "AccessCheck",
    "AccessReview",
    "Answer",
    "AskedQuestion",
    "AuditEntry",
    "Batch",
    "BatchLine",
    "Budget",
    "Build",
    "Chunk",
    "ChunkContext",
    "ChunkCounts",
    "ChunkInContext",
    "Citation",
    "Collection",
    "CollectionOptions",
    "DeadLetter",
    "DeadLettersResolved",
    "DeadReason",
    "Delivery",
    "Document",
    "EntryResult",
    "ErasedParts",
    "Erasure",
    "ErasurePreview",
    "Evaluation",
    "Event",
    "Feedback",
    "FoundChunk",
    "FoundDocument",
    "FoundRecords",
    "Gap",
    "GapQuestion",
    "Job",
    "Json",
    "Key",
    "KeyScope",
    "LabelledSet",
    "LabelledSetSize",
    "Lane",
    "LoggedPassage",
    "LoggedQuery",
    "Lookup",
    "Loss",
    "Me",
    "Model",
    "NearestPassage",
    "NewKey",
    "NewWebhook",
    "NumberedState",
    "OptionsInForce",
    "PassageSource",
    "Person",
    "QueryMetadata",
    "Question",
    "Reader",
    "RefusedEntry",
    "Resolution",
    "Retrieval",
    "Source",
    "Sync",
    "TenantLimit",
    "UploadOffer",
    "Usage",
    "Version",
    "VersionAccess",
    "Webhook",
    "Withheld",
]


class ChunkCounts(Model):
    """Numbers of chunks of a document.

    Attributes:
        searchable: chunks that queries can find, at least by their text.
        generated: chunks with generated or ready-made questions, including indexed chunks.
        discarded: dead chunks that the owner discarded.
    """

    total: int
    searchable: int
    generated: int
    indexed: int
    dead: int
    discarded: int


class Usage(Model):
    """Tokens and cost of model calls.

    Attributes:
        cost: cost by FOREASK_LLM_INPUT_PRICE and FOREASK_LLM_OUTPUT_PRICE, or by the list price in dollars, in the
            service tiers of the calls and with the discounts of prompt caches; None if the price of the model is
            unknown.
    """

    prompt_tokens: int
    completion_tokens: int
    calls: int = 0
    cost: float | None = None


class Loss(Model):
    """A part of a file whose words did not all arrive in the chunks.

    Attributes:
        location: the part, such as `page 3` or `sheet "Prices"`; empty for the whole file.
        missing: number of missing words.
        sample: some of these words, in lower case; empty if the entry stands for many parts.
    """

    location: str
    missing: int
    sample: list[str] = []


class Document(Model):
    """A document.

    Counts and usage refer to its newest version.

    Attributes:
        metadata: None if it was not requested: in lists with `metadata=false` and in replies to a batch.
        readable_by: readers of the document: `everyone`, `user:NAME` and `group:NAME`. An empty list: no person. Keys
            read every one. None: it names none, and FOREASK_READABLE_BY_DEFAULT decides.
        state: `queued`, `parsing`, `reading`, `indexing`, `searchable`, `ready`, `degraded`, `failed` or `deleting`.
        version: increases with every change of the content.
        live_version: version that queries see; None if there is none yet.
        error: reason of the failure; of a document in progress, why it waits.
        pages: number of pages without text, which are read by OCR; 0 if every page has text.
        pages_read: pages that have been read.
        pages_unread: pages that could not be read; dead letters have the reasons.
        text_coverage: share of the words of the file that are in its chunks, from 0 to 1: a second, independent reading
            counts them. None if the words of its format are not counted, or if it has not been parsed.
        losses: parts of the file that miss more than 1 % of their words, at most 20: the last entry sums up all others.
            A document with losses is `degraded`.
        unread: parts of the file that were not read, such as an encrypted attachment: a sentence for each, with the
            reason, at most 20. A document with one is `degraded`.
        outdated: whether an older reader has read the file, so that another attempt may read more of it; false while
            the document is in progress.
        questions: number of questions that passed the filter.
    """

    id: str
    external_id: str
    collection: str
    title: str | None = None
    filename: str | None = None
    media_type: str | None = None
    metadata: Json | None = None
    readable_by: list[str] | None = None
    size_bytes: int
    state: str
    version: int
    live_version: int | None = None
    error: str | None = None
    created_at: datetime
    updated_at: datetime
    chunks: ChunkCounts
    pages: int = 0
    pages_read: int = 0
    pages_unread: int = 0
    text_coverage: float | None = None
    losses: list[Loss] = []
    unread: list[str] = []
    outdated: bool = False
    questions: int
    usage: Usage


class BatchLine(Model):
    """The result of one line of a batch: the document, or the problem that a separate request would have returned.

    Attributes:
        line: line number in the request, from 1; empty lines count.
        status: 202: accepted; 200: the same content exists already; other: rejected.
        external_id: absent if the line cannot be read.
        error: reason why the line was rejected.
    """

    line: int
    status: int
    external_id: str | None = None
    document: Document | None = None
    error: Json | None = None


class UploadOffer(Model):
    """An address for the bytes of one document.

    Attributes:
        upload: token to pass to POST /v1/documents.
        url: signed address. Any client can write to it until it expires.
        headers: headers to send with the request to the address.
    """

    upload: str
    url: str = Field(repr=False)
    method: str
    headers: dict[str, str] = {}
    expires_in_seconds: int


class Question(Model):
    """A question of a chunk.

    Attributes:
        passed: result of the question filter; None if it is pending, or if a user's question is not indexed yet.
        reason: reason why the filter dropped the question.
        source: author: the model, the owner of the document, or a user. Values: `generated`, `given`, `user`.
        similarity: cosine similarity to the text of the chunk; None if it was not measured.
        accepted: acceptance; None unless a user asked the question.
        disabled: whether searches exclude the question, although it passed.
        disabled_by: name of the key that disabled it; None without keys, or if it is not disabled.
    """

    text: str
    passed: bool | None = None
    reason: str | None = None
    source: str
    similarity: float | None = None
    accepted: Json | None = None
    disabled: bool
    disabled_by: str | None = None
    disabled_at: datetime | None = None


class ChunkContext(Model):
    """Context that the model wrote for a chunk, next to its questions.

    Attributes:
        line: line about the setting of the text; empty if the model wrote none.
        terms: search terms that the text lacks.
    """

    line: str
    terms: list[str] = []


class Chunk(Model):
    """A chunk of a document.

    Attributes:
        version: version of the document.
        ordinal: position in the document, from 0.
        title: title of the document when the chunk was created.
        span: start and end in the extracted text, in characters.
        section: start and end of the section; None if the collection has no sections.
        confidence: mean confidence of the words of scanned pages, from 0 to 100; None if no page was read by OCR. Below
            60 no questions are generated.
        language: language of the text (ISO 639-1); None if unknown.
        state: `parsed`, `generating`, `generated`, `indexed`, `dead` or `discarded`.
        attempts: the last failed attempts, at most 20, oldest first.
        usage: cost of generating the questions.
        questions: questions of the chunk; users' questions come last.
        disabled_questions: number of its disabled questions.
        context: context of the chunk, with which its text is embedded and indexed; None without the collection's option
            `context`, and until the questions exist.
    """

    id: str
    document_id: str
    version: int
    ordinal: int
    text: str
    title: str | None = None
    heading_path: list[str] = []
    span: tuple[int, int]
    section: tuple[int, int] | None = None
    page: int | None = None
    confidence: int | None = None
    language: str | None = None
    state: str
    error: str | None = None
    attempts: list[Json] = []
    usage: Usage
    questions: list[Question] = []
    disabled_questions: int
    context: ChunkContext | None = None


class ChunkInContext(Model):
    """A chunk with its document and its neighbours, in document order."""

    document: Document
    before: list[Chunk] = []
    chunk: Chunk
    after: list[Chunk] = []


class FoundChunk(Model):
    """A chunk in the result of a query.

    Attributes:
        score: combined score of the channels; by default from 0 to below 1, higher for outstanding chunks.
        matched_question: nearest question; None if the text was nearer, if an edit has just replaced the question, or
            if it is a user's question and the key lacks the scope `read`.
        matched_question_source: `given`: supplied with the document; `user`: accepted from feedback. Values:
            `generated`, `given`, `user`.
        language: language of the text (ISO 639-1); None if unknown.
        span: start and end of the text in the extracted text, in characters.
        chunk_span: start and end of the matched chunk.
        version: version of the document.
        also_in: external ids of other documents with the same text.
        tokens: tokens of the text, counted by FOREASK_LLM_TOKENIZER or estimated.
        rerank_score: score of the reranker, on its own scale; None if the chunk was not reranked.
        channels: with `explain`: rank and score in each channel.
        evidence: with `explain`: parts of the score; None unless `fusion` is `scores`.
    """

    chunk_id: str
    score: float
    matched_question: str | None = None
    matched_question_source: str | None = None
    text: str
    document_id: str
    external_id: str
    title: str | None = None
    filename: str | None = None
    heading_path: list[str] = []
    page: int | None = None
    language: str | None = None
    span: tuple[int, int]
    chunk_span: tuple[int, int]
    version: int
    metadata: Json = {}
    also_in: list[str] = []
    tokens: int
    rerank_score: float | None = None
    channels: dict[str, Json] | None = None
    evidence: Json | None = None


class QueryMetadata(Model):
    """Facts about a query.

    Attributes:
        query_id: id for POST /v1/feedback; None if the query was not recorded, or the ledger was unavailable.
        question: the searched question; with `history`, as it is understood alone.
        milliseconds: duration by stage, and `total`.
        skipped: skipped stages (`rewrite`, `rerank`) with their reasons.
        notice: why nothing was found although the documents may have the answer, or why results may be wrong or
            incomplete: no document has a field of the filter or passes it, the collection has no documents yet, or its
            index is being repaired.
        notice_codes: reasons of the notice, for clients that write their own sentences; empty without a notice. Values:
            `index_damaged`, `no_documents`, `nothing_searchable`, `unknown_fields`, `nothing_chosen`.
        unknown_fields: fields of `filter` that no document of the collection has, nor the collection declares.
        explain: with `explain`: explanation of the ranking.
    """

    query_id: str | None = None
    question: str = ""
    matched_questions: int
    unique_chunks: int
    usage: Usage
    milliseconds: dict[str, float] = {}
    skipped: dict[str, str] = {}
    notice: str | None = None
    notice_codes: list[str] = []
    unknown_fields: list[str] = []
    explain: Json | None = None


class Retrieval(Model):
    """The chunks that answer a question, best first.

    The list is empty if no chunk does.
    """

    chunks: list[FoundChunk] = []
    metadata: QueryMetadata


class Citation(Model):
    """A passage that the answer cites.

    Attributes:
        number: number in the answer, such as [1].
        sentences: start and end of each sentence in `text` that supports the answer; empty if none was identified.
    """

    number: int
    document_id: str
    external_id: str
    title: str | None = None
    heading_path: list[str] = []
    page: int | None = None
    span: tuple[int, int]
    text: str
    chunk_id: str
    sentences: list[tuple[int, int]] = []


class Answer(Completeness):
    """An answer that uses only the documents.

    Attributes:
        found: `False` if the documents do not answer the question; the answer then says so.
        form: `extractive`: quoted from the documents, not written by a model. Values: `generative`, `extractive`.
        certain: `False` if the passages that the answer quotes or cites were found by weak evidence, whatever the form
            of the answer; an extractive answer then says so. `False` if a generative answer is incomplete or cites no
            passage.
        incomplete_reason: why the answer is incomplete: `length` (the model's token limit), `content_filter`, or
            `interrupted` (the provider's stream ended without a sign of its end); None if it is complete.
        citations: in order of appearance.
        removed_citations: numbers that the model cited although no passage has them.
    """

    answer: str
    found: bool
    form: str
    certain: bool = True
    incomplete_reason: str | None = None
    citations: list[Citation] = []
    removed_citations: list[int] = []
    chunks: list[FoundChunk] = []
    metadata: QueryMetadata


class Feedback(Model):
    """The result of the feedback.

    Attributes:
        outcome: `already_asked`: the chunk has this question already; `chunk_full`: the chunk has the maximum number of
            accepted questions, none of them accepted by this key; `pending_review`: a key with the scope `manage` has
            to accept it; `not_accepted`: there was nothing that this key may retract. Values: `accepted`,
            `already_accepted`, `already_asked`, `chunk_full`, `pending_review`, `retracted`, `not_accepted`.
        accepted_id: id of the accepted question; None if it was never accepted.
    """

    outcome: str
    chunk_id: str
    question: str
    accepted_id: str | None = None


class AuditEntry(Model):
    """A recorded change.

    Only the operator's list has the `tenant`.

    Attributes:
        action: `create`, `change`, `delete`; `revoke` (key), `enable` (webhook), `remove` and `approve` (source),
            `start`, `pause`, `resume`, `switch` and `cancel` (build), `erase` (collection, document, person, tenant),
            `view as` (person).
        object: `key`, `budget`, `webhook`, `collection`, `build`, `source`, `document`, `person`, `tenant` or `gap`.
        object_name: name of the object; the erasure's id for erased documents, people and tenants.
        changes: changed fields, without secrets and contents.
        tenant: tenant of the object; None for operators' keys and erasures of tenants.
    """

    id: str
    created_at: datetime
    actor: Json = {}
    action: str
    object: str
    object_name: str
    changes: dict[str, Json] = {}
    tenant: str | None = None


class AcceptedQuestion(Model):
    """A user's question that was accepted for a chunk.

    Attributes:
        accepted_by: id of the key whose feedback accepted it; None for an editor.
        state: `waiting`: the question is indexed when its document is not being processed and its chunk is not dead.
            `refused`: the embedding model rejects it. Values: `waiting`, `indexed`, `refused`, `removing`.
    """

    id: str
    document_id: str
    external_id: str
    chunk_id: str
    question: str
    query_id: str | None = None
    accepted_by: str | None = None
    state: str
    created_at: datetime


class AskedQuestion(Model):
    """A question, merged over its askers; case, spacing and final punctuation are ignored.

    Attributes:
        query_id: id of the latest query with this question, for feedback.
        question: the latest wording.
        times: number of queries with this question.
        found: whether the latest query found an answer, or, without an answer, any chunk.
        state: result of the latest query. `certain`: the answer cites a passage that surely is about the question;
            `uncertain`: it may not; `none`: the documents do not answer the question; `passages`: passages were
            returned, and no answer was written.
        best_score: score of the first chunk that the latest query returned; None if it returned none.
        helpful: the newest feedback; None if there is none.
        helpful_chunk_id: the chunk of the newest feedback, if that is positive.
        chunk_ids: chunks that the latest query returned.
        key_id: the key that sent the latest query; None for a key of the settings, or without keys.
    """

    query_id: str
    question: str
    times: int
    found: bool
    state: str
    best_score: float | None = None
    helpful: bool | None = None
    helpful_chunk_id: str | None = None
    chunk_ids: list[str] = []
    key_id: str | None = None
    key_name: str | None = None
    first_at: datetime
    last_at: datetime


class GapQuestion(Model):
    """A question of a gap, merged over its askers; case, spacing and final punctuation are ignored.

    Attributes:
        query_id: id of the latest query with this question.
        times: number of queries with this question.
    """

    query_id: str
    question: str
    times: int
    last_at: datetime


class LoggedQuery(Model):
    """A query with its result, as it was logged.

    Attributes:
        state: result of the query. `certain`: the answer cites a passage that surely is about the question;
            `uncertain`: it may not; `none`: the documents do not answer the question; `passages`: passages were
            returned, and no answer was written.
        answer: text of the answer, with numbers of passages; None if it is not stored (FOREASK_QUERY_ANSWERS), none was
            written, a passage that it cites was changed or deleted since, or the key lacks the scope `read`.
        answers_stored: whether answers are stored now (FOREASK_QUERY_ANSWERS).
        form: None without an answer. Values: `generative`, `extractive`.
        incomplete_reason: `length`, `content_filter` or `interrupted`.
        helpful: the last feedback on this query; None if there is none.
        helpful_chunk_id: the chunk of this feedback, if it is positive.
        gap_id: the gap that the question belongs to; None if it is in none.
        key_id: the key that asked; None for a key of the settings, or without keys.
        milliseconds: duration of each stage and, with an answer, `total`.
        usage: tokens of the language model.
        cost: cost of the language model's calls, in the currency of the prices; None if their price is unknown.
    """

    query_id: str
    collection: str
    question: str
    state: str
    answer: str | None = None
    answers_stored: bool
    form: str | None = None
    incomplete_reason: str | None = None
    passages: list[LoggedPassage] = []
    helpful: bool | None = None
    helpful_chunk_id: str | None = None
    gap_id: str | None = None
    key_id: str | None = None
    key_name: str | None = None
    milliseconds: dict[str, float] = {}
    usage: Usage
    cost: float | None = None
    created_at: datetime


class LoggedPassage(Model):
    """A passage that a query returned.

    Attributes:
        number: number in the answer, such as [1].
        score: None if it is unknown.
        cited: whether the answer cites it.
        source: its document and its text; None if it was changed or deleted since.
    """

    number: int
    chunk_id: str
    score: float | None = None
    cited: bool
    source: PassageSource | None = None


class PassageSource(Model):
    """The document of a passage, as it is now.

    Attributes:
        text: empty if the key lacks the scope `read`.
    """

    document_id: str
    external_id: str
    filename: str | None = None
    title: str | None = None
    heading_path: list[str] = []
    page: int | None = None
    text: str


class NearestPassage(Model):
    """The passage with the highest score for a question of the gap."""

    chunk_id: str
    document_id: str
    external_id: str
    score: float


class Resolution(Model):
    """The document that answers the questions of the gap."""

    document_id: str
    external_id: str
    at: datetime


class Gap(Model):
    """Questions that mean the same and were not answered.

    Attributes:
        question: the question that was asked most often.
        questions: its questions, most often asked first, at most 20.
        distinct_questions: number of different questions.
        times: number of queries with these questions.
        per_day: queries on each of the last `days` days in UTC; the last item is today.
        last_week: queries in the last 7 days.
        week_before: queries in the 7 days before.
        nearest: None if no query returned a passage that still exists.
        state: `open`; `assigned`; `resolved` if each of its questions was answered when asked last, or was not asked
            again since a document resolved the gap.
        resolved_by: the resolving document, also if the gap is open again; None if there is none, or it was deleted.
    """

    id: str
    question: str
    questions: list[GapQuestion] = []
    distinct_questions: int
    times: int
    per_day: list[int] = []
    last_week: int
    week_before: int
    first_at: datetime
    last_at: datetime
    nearest: NearestPassage | None = None
    state: str
    assigned_to: str | None = None
    resolved_by: Resolution | None = None


class CollectionOptions(Model):
    """Options of a collection; None means that the server's setting applies.

    Attributes:
        filterable: declared metadata fields and their types.
    """

    questions_per_chunk: int | str | None = None
    prompt: str | None = None
    chunk_max_chars: int | None = None
    chunk_overlap_chars: int | None = None
    prepend_questions: bool | None = None
    section_max_chars: int | None = None
    ocr_languages: str | None = None
    captions: bool | None = None
    context: bool | None = None
    filterable: dict[str, str] = {}


class OptionsInForce(Model):
    """The value of each option, whether a collection or the server's settings have set it.

    Attributes:
        prompt: template of the prompt, with its placeholders.
        instructions: instructions that the model gets in front of every prompt.
        prompt_version: version of the instructions, with which all questions are generated again if it changes.
        section_max_chars: None: documents are not divided into sections.
        ocr_languages: None: the installed ones of English, German, French and Spanish.
    """

    questions_per_chunk: int | str
    prompt: str
    instructions: str
    prompt_version: str
    chunk_max_chars: int
    chunk_overlap_chars: int
    prepend_questions: bool
    section_max_chars: int | None = None
    ocr_languages: str | None = None
    captions: bool
    context: bool


class NumberedState(Model):
    """The number of a build and its state.

    Attributes:
        state: `live`, `filling`, `paused`, `following` or `dropping`.
    """

    build: int
    state: str


class Collection(Model):
    """A collection with the state of its documents.

    Attributes:
        description: purpose of the collection, for people.
        embedding_model: name of the embedding.
        options: a None option uses the server's setting.
        languages: languages of the texts so far (ISO 639-1).
        metadata_fields: fields of the documents' metadata so far, with dots for nested ones; at most 200.
        notice: warning if the embedding does not suit the texts, or a cache of prompts the prompt.
        documents: number of documents in each state; states without documents are absent.
        points: number of points in Qdrant, counted again when a document finishes; None while Qdrant is unavailable.
        points_age_seconds: time since the start of that count; a large collection is counted less often.
        chunks: number of chunks among the points, counted in the same way; the others are questions.
        calibration: calibration of the channels; None if their weights are equal.
        builds: builds of the collection, in order of number.
        effective: the options in force; None in lists.
        defaults: values of options that a collection does not set, from the server's settings; None in lists.
    """

    name: str
    description: str | None = None
    embedding_model: str
    options: CollectionOptions
    created_at: datetime
    languages: list[str] = []
    metadata_fields: list[str] = []
    notice: str | None = None
    documents: dict[str, int] = {}
    points: int | None = None
    points_age_seconds: float | None = None
    chunks: int | None = None
    calibration: Json | None = None
    builds: list[NumberedState] = []
    effective: OptionsInForce | None = None
    defaults: OptionsInForce | None = None


class Build(Model):
    """A build of a collection: its points for one embedding and one set of options.

    Attributes:
        build: number of the build within the collection.
        state: `live`: the build answers queries. `following`: it has all documents and receives all changes. Values:
            `live`, `filling`, `paused`, `following`, `dropping`.
        options: a None option uses the server's setting.
        effective: the options in force.
        live_until: time at which another build became live; None if this build was never replaced.
        source_documents: number of documents in the live build.
        copied: number of documents copied to the build.
        documents: number of documents in each state.
        eta_seconds: time until the build has every document, or else until its documents are finished, at the pace of
            `GET /v1/status`; None without evidence.
        cost: costs of all calls for the build with a known price; None if there are none.
        gate: latest report of the gate.
    """

    build: int
    state: str
    embedding_model: str
    options: CollectionOptions
    effective: OptionsInForce | None = None
    created_at: datetime
    live_until: datetime | None = None
    source_documents: int
    copied: int
    documents: dict[str, int] = {}
    eta_seconds: int | None = None
    cost: float | None = None
    gate: Json | None = None


class DeadLetter(Model):
    """A document that cannot be parsed, a page that cannot be read, or a dead chunk.

    Attributes:
        id: id of the document, the page or the chunk.
        kind: `document`, `page` or `chunk`.
        ordinal: position of the chunk in its document, from 0, or number of the page, from 1; None for a document.
        at: time of the last attempt.
        history: the last failed attempts, at most 20, oldest first.
    """

    id: str
    kind: str
    document_id: str
    external_id: str
    collection: str
    ordinal: int | None = None
    reason: str
    attempts: int
    at: datetime
    history: list[Json] = []


class DeadReason(Model):
    """Number of dead letters with a reason.

    Attributes:
        collections: names of the collections with these dead letters.
    """

    reason: str
    documents: int
    pages: int = 0
    chunks: int
    collections: list[str] = []


class DeadLettersResolved(Model):
    """Number of dead letters that were retried or discarded.

    Attributes:
        in_progress: number of chunks that were skipped because their documents are being processed.
    """

    documents: int
    pages: int = 0
    chunks: int
    in_progress: int


class Erasure(Model):
    """The progress of an erasure.

    Attributes:
        scope: `tenant`, `collection`, or `documents`, with records in which texts occurred if these were given.
        collection: collection to erase; None for other scopes.
        document_id: the document to erase, if it is only one.
        document_ids: the documents to erase.
        state: `running` or `finished`.
        documents_left: number of document rows left, in all builds.
        deleted: number of deleted rows, by kind.
    """

    id: str
    scope: str = ""
    collection: str | None = None
    document_id: str | None = None
    document_ids: list[str] = []
    state: str
    documents_left: int
    deleted: dict[str, int] = {}
    started_at: datetime
    finished_at: datetime | None = None


class ErasedParts(Model):
    """Numbers of rows that the erasure of a document deletes, in all builds.

    Attributes:
        questions: number of generated questions that passed the filter.
        accepted_questions: number of users' questions that its chunks accepted.
        resolutions: number of gaps that it resolves, which are open again.
        shared_answers: number of shared answers that cite it.
        conversations: number of stored conversations that cite it.
    """

    versions: int
    chunks: int
    questions: int
    accepted_questions: int
    resolutions: int
    shared_answers: int
    conversations: int


class FoundDocument(Model):
    """A document in which one of the texts occurs.

    Attributes:
        matches: an excerpt of each part that has one of the texts: `external_id`, `title`, `filename`, `metadata`,
            `text`, `questions`; empty for a document that was named by its id.
    """

    id: str
    collection: str
    external_id: str
    title: str | None = None
    filename: str | None = None
    state: str
    matches: dict[str, str] = {}
    deletes: ErasedParts


class FoundRecords(Model):
    """Numbers of records in which one of the texts occurs.

    Attributes:
        queries: number of logged queries, by their question or their answer.
        queries_in_gaps: number of these queries that are in gaps, which are deleted with them.
        feedback: number of these queries that have feedback.
        accepted_questions: number of users' questions that chunks accepted.
        conversations: number of conversations that the server stores.
    """

    queries: int
    queries_in_gaps: int
    feedback: int
    accepted_questions: int
    shared_answers: int
    conversations: int


class ErasurePreview(Model):
    """A part of a search, which takes some seconds.

    Add up the numbers of all pages.

    Attributes:
        examined: number of documents whose texts were read for this page.
        next_cursor: cursor of the next page; None when everything was searched.
    """

    documents: list[FoundDocument] = []
    examined: int
    records: FoundRecords
    next_cursor: str | None = None


class Job(Model):
    """A job of any kind.

    Attributes:
        id: id of the job; for other kinds than loads and reindexes the id of its own.
        kind: `load`, `sync`, `reindex`, `build`, `evaluation`, `gate`, `verification` or `erasure`.
        state: `done_with_errors`: some of its documents are degraded or failed. Values: `running`, `paused`,
            `cancelling`, `cancelled`, `done`, `done_with_errors`, `failed`.
        collection: None for the erasure of a tenant or a document.
        pause_reason: reason of a pause; None without one. With `budget` or `provider` the state is `running`: texts are
            indexed, but no questions are generated. Values: `user`, `budget`, `provider`, `disk`, `approval`.
        budget_id: id of the exhausted budget, if this is the reason.
        closed: whether the client of a load has said that no more documents follow.
        done: number of finished parts out of `total`: documents, or queries of an evaluation. A gate or a verification
            compares all points first.
        documents: its documents by state. A document counts for the job that changed it last.
        points: number of compared points of a gate or a verification; None for other kinds.
        chunks_done: number of finished chunks of an open load, sync or reindex; None for others and before the first.
        chunks_total: number of its chunks, with the expected ones of documents that are not parsed; None if unknown.
        eta_seconds: time for its chunks and for the work before it, at the pace of the last minutes: never longer than
            `eta_seconds` of `GET /v1/status`; None without evidence, or while something stops it.
        cost: costs of the calls of a load, a sync or a reindex with a known price; None if there are none.
        message: reason, if the job waits for a person or a client.
        ended_at: None while it is open, and for builds.
    """

    id: str
    kind: str
    state: str
    collection: str | None = None
    pause_reason: str | None = None
    budget_id: str | None = None
    closed: bool
    done: int
    total: int
    documents: dict[str, int] = {}
    points: int | None = None
    chunks_done: int | None = None
    chunks_total: int | None = None
    eta_seconds: int | None = None
    cost: float | None = None
    message: str | None = None
    error: str | None = None
    created_at: datetime
    ended_at: datetime | None = None


class Batch(Model):
    """A batch: requests for the questions of chunks, which the provider's batch API answers within a day.

    Attributes:
        part_of: id of the batch that the provider rejected, and whose requests were divided; None otherwise.
        state: `collecting`: its results are being stored; `failed`: no result was stored, see `error`. Values:
            `planning`, `planned`, `creating`, `running`, `collecting`, `done`, `failed`.
        jobs: ids of the jobs of its documents when it was planned.
        lines: number of its requests, each for the questions of a chunk.
        settled: number of requests whose result is stored, or that another batch or call repeats.
        done: number of requests with a result at the provider.
        bytes: size of its file.
        provider_id: the provider's id of the batch; None until the provider has it.
        prompt_tokens: tokens of the prompts of stored results; in all results when it has ended.
        cost: cost of these tokens; None if there are none, or the price is unknown.
        age_seconds: time since its creation, until its end.
        error: reason why it has failed.
        submitted_at: when the provider got it; None until then.
        progressed_at: when `state` or `done` last changed.
        cancelled_at: when it was cancelled; the provider ends it later.
        ended_at: when all of its requests were settled; None while it is open.
    """

    id: str
    part_of: str | None = None
    state: str
    model: str
    jobs: list[str] = []
    lines: int
    settled: int
    done: int
    bytes: int
    provider_id: str | None = None
    prompt_tokens: int
    completion_tokens: int
    cost: float | None = None
    age_seconds: int
    error: str | None = None
    created_at: datetime
    submitted_at: datetime | None = None
    progressed_at: datetime
    cancelled_at: datetime | None = None
    ended_at: datetime | None = None


class Key(Model):
    """A key, without the key itself.

    Attributes:
        prefix: first characters of the key; None for keys of older releases.
        last_used_at: last use, to the minute; None if the key has not been used.
    """

    id: str
    name: str
    prefix: str | None = None
    scopes: list[str] = []
    filter: Json | None = None
    limits: Json = {}
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class NewKey(Key):
    """A new key.

    Attributes:
        key: the key. It is shown only once, because the server stores only its hash.
    """

    key: str = Field(repr=False)


class Budget(Model):
    """A budget and its use in the current period.

    Attributes:
        collection: name of its collection; None if it is not limited to one.
        job_id: id of its job; None if it is not limited to one.
        period: `day`, `month` or `total`.
        unit: `tokens` or `money`.
        set_by: its source: FOREASK_TENANT_LIMITS, an operator, or a key of the tenant. All of them apply. Values:
            `settings`, `operator`, `tenant`.
        limit: tokens, or money in the currency of the prices, like the next two.
        spent: amount billed in the current period.
        reserved: highest possible amount of the calls in flight.
        exhausted: whether no further call fits.
        ends_at: end of the current period; None if it never ends.
        notice: effect of an exhausted budget; None while the budget is not exhausted.
    """

    id: str
    collection: str | None = None
    job_id: str | None = None
    period: str
    unit: str
    set_by: str
    limit: float
    spent: float
    reserved: float
    exhausted: bool
    ends_at: datetime | None = None
    notice: str | None = None


class TenantLimit(Model):
    """A limit of a tenant and its use.

    A day starts at midnight UTC.

    Attributes:
        name: name of the limit in FOREASK_TENANT_LIMITS. Values: `requests_per_second`, `upload_bytes_per_day`,
            `documents`, `collections`, `tokens_per_day`, `cost_per_day`, `query_tokens_per_day`, `query_cost_per_day`.
        limit: maximum; None means unlimited.
        used: existing documents or collections, or the use of today; None if it is not counted: of requests, of daily
            amounts without a limit, of the ingest before its first generation, and while the broker is unavailable.
    """

    name: str
    limit: int | float | None = None
    used: int | float | None = None


class RefusedEntry(Model):
    """An entry that a sync could not read.

    Attributes:
        key: unprintable bytes are escaped.
    """

    key: str
    reason: str


class Sync(Model):
    """A sync of a source.

    Attributes:
        id: id of its job, which ends when the documents of the sync are finished.
        state: state of the listing; the job of the sync has its own. Values: `queued`, `running`, `done`, `failed`,
            `cancelled`.
        seen: entries in the listing so far.
        created: entries whose documents are new.
        changed: entries whose documents got other content.
        unchanged: entries whose documents have their content already.
        readers_changed: entries whose documents got other readers and no other content.
        missing: entries with documents that the listing lacks.
        deleted: deleted documents.
        withheld: deletions that need approval.
        refused: entries that cannot be read; their documents are neither changed nor deleted.
        refused_entries: the first 100 refused entries.
        waiting: why it reads no more entries now; it continues by itself.
        approved: approved number of deletions; None for a sync without approval.
        error: reason of its failure.
        listed_at: time at which the listing was complete.
        ended_at: end of the listing and its deletions.
        checkpoint: position that its program has saved; None unless a program pushes it.
        expires_at: time at which it fails unless its program sends something; None unless it waits for a program.
    """

    id: str
    source: str
    collection: str
    state: str
    seen: int
    created: int
    changed: int
    unchanged: int
    readers_changed: int
    missing: int
    deleted: int
    withheld: int
    refused: int
    refused_entries: list[RefusedEntry] = []
    waiting: str | None = None
    approved: int | None = None
    error: str | None = None
    created_at: datetime
    listed_at: datetime | None = None
    ended_at: datetime | None = None
    checkpoint: str | None = None
    expires_at: datetime | None = None


class Lookup(Model):
    """The newest lookup of a source's hints.

    Attributes:
        state: after `failed`, the hints are looked up again some minutes later. Values: `queued`, `running`, `done`,
            `failed`, `cancelled`.
        waiting: why it reads no more entries now; it continues by itself.
        error: reason of its last failure, until the hints have been looked up.
        ended_at: None while it is open.
    """

    state: str
    waiting: str | None = None
    error: str | None = None
    ended_at: datetime | None = None


class Source(Model):
    """A source with its newest sync.

    Its documents have the external ids `NAME/KEY`.

    Attributes:
        secret_name: name of the operator's setting that contains the secret of the source.
        schedule: times of syncs as a cron expression with five fields; None: only on request.
        max_delete_share: part of the items that one sync may delete without approval; ten always may be.
        next_sync_at: time of the next scheduled sync; None without a schedule.
        schedule_error: why the last scheduled sync was not started, or why the next time is not known.
        newest_sync: None before the first sync.
        newest_lookup: None before the first hint.
        removing: whether the source is being removed.
    """

    name: str
    collection: str
    kind: str
    uri: str
    options: Json = {}
    secret_name: str | None = None
    schedule: str | None = None
    time_zone: str
    max_delete_share: float
    created_at: datetime
    next_sync_at: datetime | None = None
    schedule_error: str | None = None
    newest_sync: Sync | None = None
    newest_lookup: Lookup | None = None
    removing: bool


class Withheld(Model):
    """Deletions of a source that need approval.

    Attributes:
        job_id: job that waits for approval; None if none does.
        deletions: number of withheld deletions.
        items: number of documents of the source, including these.
        keys: the first 100 keys, in order.
    """

    job_id: str | None = None
    deletions: int
    items: int
    keys: list[str] = []


class EntryResult(Model):
    """The result of an entry.

    Attributes:
        result: `body_needed`: send the entry again, with its body. `described`: its readers, title or metadata changed,
            and not its content. `refused`: `reason` says why; its document stays as it is. Values: `created`,
            `changed`, `described`, `unchanged`, `deleted`, `body_needed`, `refused`.
        reason: why it is refused; None otherwise.
    """

    key: str
    result: str
    reason: str | None = None


class Webhook(Model):
    """A webhook, without its secret.

    Attributes:
        events: `document.ready`, `document.degraded`, `document.failed`, `document.deleted`, `build.filled`,
            `erasure.finished`, `job.paused`, `job.ended` or `sync.deletions_withheld`.
        failing_since: start of the current failures; None if the last attempt succeeded or there was none.
        disabled_at: time at which the webhook was disabled; None if it is enabled.
    """

    id: str
    url: str
    events: list[str] = []
    created_at: datetime
    failing_since: datetime | None = None
    disabled_at: datetime | None = None


class Delivery(Model):
    """A message to a webhook, with the result of its last attempt.

    Attributes:
        message_id: value of the `webhook-id` header of each attempt.
        type: `document.ready`, `document.degraded`, `document.failed`, `document.deleted`, `build.filled`,
            `erasure.finished`, `job.paused`, `job.ended` or `sync.deletions_withheld`.
        state: `waiting`, `delivered` or `failed`.
        next_attempt_at: None if the message was delivered or abandoned.
        status: HTTP status of the last reply; None if there was none.
        response: start of the last reply, at most 1 KiB.
        error: reason why the last attempt failed.
    """

    id: str
    message_id: str
    type: str
    data: Json = {}
    state: str
    created_at: datetime
    next_attempt_at: datetime | None = None
    attempts: int
    status: int | None = None
    response: str | None = None
    error: str | None = None
    delivered_at: datetime | None = None


class NewWebhook(Webhook):
    """A new webhook with its secret, which no other reply contains."""

    secret: str = Field(repr=False)


class Me(Model):
    """The tenant and permissions of the key, and properties of the server.

    Attributes:
        tenant: tenant of the key; None for the operator.
        key: name of the key; None if the server requires no keys.
        scopes: scopes of the key. Values: `read`, `ask`, `feedback`, `write`, `manage`, `delegate`, `operator`.
        filter: metadata filter that is added to every query of the key.
        person: person on whose behalf the request is sent, with access only to readable documents; None: the key
            itself.
        version: version of the server.
        chat: language model that generates questions.
        embedding: name of the default embedding of new collections.
        prices: prices of the language model; None if they are unknown.
        key_limits: limits of the key, in addition to the tenant's limits.
        query_retention_days: days for which queries are retained for feedback; 0 if they are not.
        shared_answer_retention_days: days for which the key can share an answer; 0 if it cannot.
        conversation_retention_days: days after the last change for which the server stores a conversation of the key; 0
            if it does not.
        estimates: whether the key may request estimates.
        readable_by_default: which persons read documents that name no readers: FOREASK_READABLE_BY_DEFAULT. Values:
            `everyone`, `nobody`.
    """

    tenant: str | None = None
    key: str | None = None
    scopes: list[str] = []
    filter: Json | None = None
    person: Person | None = None
    version: str
    answer: Json = {}
    chat: str | None = None
    embedding: str | None = None
    embeddings: list[Json] = []
    prices: Json | None = None
    limits: Json = {}
    key_limits: Json = {}
    query_retention_days: int
    shared_answer_retention_days: int = 0
    conversation_retention_days: int = 0
    estimates: bool
    readable_by_default: str


class LabelledSetSize(Model):
    """The size of a labelled set."""

    set: str
    questions: int
    changed_at: datetime


class LabelledSet(Model):
    """Questions with the documents or the chunks that answer them."""

    set: str
    questions: list[Json] = []
    changed_at: datetime


class Evaluation(Model):
    """An evaluation.

    It continues if the client disconnects or the server is restarted.

    Attributes:
        labelled_set: name of the labelled set; None if the request contained the questions.
        build: number of the searched build; None if it was deleted.
        state: `queued`: it waits for a free slot of an index worker. Values: `queued`, `running`, `done`, `failed`,
            `cancelled`.
        strategy: current strategy.
        done: number of finished queries out of `total`.
        results: content of `results.json` of `foreask eval`; lists contain only its `rows`. None until it is done.
    """

    id: str
    labelled_set: str | None = None
    build: int | None = None
    questions: int
    state: str
    strategy: str | None = None
    done: int
    total: int
    error: str | None = None
    created_at: datetime
    ended_at: datetime | None = None
    results: Json | None = None


class AccessCheck(Model):
    """Why a person reads a document, or does not.

    Attributes:
        readable: whether the person's queries find the document; false if none finds it yet.
        reason: the reason, as a sentence.
        versions: the live and the newest version, the newest first.
    """

    readable: bool
    reason: str
    versions: list[VersionAccess] = []


class VersionAccess(Model):
    """Whether a person reads a version of a document.

    Attributes:
        live: whether queries see this version.
        matches: readers of the version that the person matches.
        readable_by: readers of the version; None: it names none.
    """

    version: int
    live: bool
    readable: bool
    matches: list[str] = []
    readable_by: list[str] | None = None


class AccessReview(Model):
    """Readers of documents, for a review.

    Attributes:
        readable_by_default: which persons read documents that name no readers: FOREASK_READABLE_BY_DEFAULT. Values:
            `everyone`, `nobody`.
        items: `everyone`, `unset` and `nobody`, then up to 1,000 readers with the most documents.
    """

    readable_by_default: str
    items: list[Reader] = []


class Reader(Model):
    """A reader that documents name.

    Attributes:
        reader: `everyone`, `user:NAME` or `group:NAME`; `unset`: documents that name none; `nobody`: documents that no
            person reads.
        documents: number of documents whose newest versions name it.
        seen_at: for a group: when a person last had it, at most an hour old; None if no person has had it for 90 days.
    """

    reader: str
    documents: int
    seen_at: datetime | None = None


class Person(Model):
    """A person on whose behalf a request is sent."""

    user: str
    groups: list[str] = []

-- The schema of the ledger, which the first migration creates. Until 0.1.0 is released, changes edit this file; later ones
-- are migrations.
--
-- A tenant submits documents to a collection. Workers cut each document into chunks, generate the questions of each
-- chunk, and write points of both to Qdrant, which compares users' questions with them. The tables by subject:
--
--   deployment      schema_compat, deployment, servers, workers
--   documents       collections, documents, document_versions, chunks, chunk_contents, chunk_questions
--   scanned pages   pages, page_texts, page_pictures, pages_by_day
--   paid questions  completions, paid_replies, abandoned_calls, batches, batch_lines
--   costs           spent, spent_changes, spent_by_day, estimates, budgets, budget_holds
--   removal         sweeps, outdated_objects, erasures
--   long work       jobs, job_claims, labelled_sets
--   sources         sources, source_items, source_hints, source_notes, source_checks, syncs, pushed_keys
--   users           queries, gaps, accepted_questions, disabled_questions, shared_answers, conversations
--   numbers         tallies, tally_changes, ended_by_minute
--   webhooks        webhooks, webhook_deliveries
--   keys            api_keys, audit_log
--
-- A row of work is done, leased or due: `due_at` is the time from which it may be claimed. A claim moves `due_at` to the
-- end of its lease and draws a fencing token. A settlement names that token and is refused if a later claim has drawn a
-- newer one. A row whose worker died therefore becomes due without any action, and "neither done nor leased" is one
-- comparison with one index.
--
-- Columns without a comment mean the same in every table:
--
--   id               identifier of the row
--   tenant           the tenant that owns the row
--   created_at       when the row was inserted
--   collection_id    the build of a collection (collections.id)
--   document_id      the document in its build (documents.id)
--   version          version of the document
--   chunk_id         the chunk (chunks.id)
--   source_id        the source (sources.id)
--   content_key      hash of a content and of all that determines its questions: equal contents are paid once
--   due_at           time from which the row may be claimed; a claim moves it to the end of its lease
--   attempts         number of failed attempts
--   lease_token      fencing token of the newest claim
--   leased_by        the process that has the lease; null if there is none
--   error            reason of the last failure
--
-- The first migration stores all comments of tables and columns in PostgreSQL, where `\d+` shows them.
--
-- `shared/ledger/model/states.py` draws the states and their transitions. `docs/explanation/the-ledger.md` explains the
-- design.

-- ---- Deployment ----

-- The fencing tokens, which order the claims of all tables.
CREATE SEQUENCE fencing;

-- Raise the fencing tokens above the clock, so that tokens of lost commits are never drawn again. A sequence is read
-- without its lock, so only one session raises it at a time. Tokens of the last ten milliseconds are left alone: a
-- claim may draw some between the comparison and the change, and the sequence must never go back.
CREATE FUNCTION raise_tokens() RETURNS void LANGUAGE plpgsql AS $$
DECLARE clock bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction', MESSAGE = 'this server is a standby';
    END IF;
    IF NOT has_sequence_privilege('fencing', 'UPDATE') THEN
        RETURN;  -- a parse worker, which must not be able to lower them
    END IF;
    IF (SELECT last_value FROM fencing) < clock - 10000 THEN
        PERFORM pg_advisory_xact_lock(7065015);
        clock := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
        IF (SELECT last_value FROM fencing) < clock - 10000 THEN
            PERFORM setval('fencing', clock);
        END IF;
    END IF;
END $$;

-- The revision of the oldest code that may run on this schema, in one row. `env.py` writes it after each migration.
CREATE TABLE schema_compat (
    min_revision text NOT NULL  -- oldest revision of the code that may run
);

-- Alembic creates its table before the first migration.
COMMENT ON TABLE alembic_version IS 'The revision of this schema, in one row.';
COMMENT ON COLUMN alembic_version.version_num IS 'the newest migration that was applied';

-- The identity of this deployment and its elected scheduler, in one row. The store of uploads has the same id.
CREATE TABLE deployment (
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    scheduler text,  -- the elected process
    scheduler_until timestamptz,  -- the end of its lease
    wanted jsonb,  -- number of workers that each stage can use; the scheduler writes it for autoscalers
    CONSTRAINT pk_deployment PRIMARY KEY (id)
);

INSERT INTO deployment DEFAULT VALUES;

-- Servers of PostgreSQL on which the ledger ran. The newest row is the server on which the scheduler has verified the
-- collections: after a failover or a restore, Qdrant may differ from the ledger.
CREATE TABLE servers (
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    system text,  -- its identifier; null if the role may not read it
    timeline text,  -- changes when a standby is promoted and when a backup is restored; null likewise
    first_seen_at timestamptz NOT NULL DEFAULT now(),  -- when a process first connected to it
    CONSTRAINT pk_servers PRIMARY KEY (id)
);

-- Running workers and schedulers, as of their last heartbeat.
CREATE TABLE workers (
    id uuid NOT NULL,  -- drawn by the process at its start
    role text NOT NULL,  -- stage of a worker, or `scheduler`
    host text NOT NULL,  -- host name of its machine or container
    pid integer NOT NULL,  -- process id there
    in_progress integer NOT NULL,  -- items that it works on
    started_at timestamptz NOT NULL DEFAULT now(),  -- start of the process
    seen_at timestamptz NOT NULL DEFAULT now(),  -- last heartbeat; silent after 30 s, deleted after an hour
    CONSTRAINT pk_workers PRIMARY KEY (id)
);

-- ---- Collections, documents and chunks ----

-- The builds of collections: each has options, an embedding model and documents of its own. Queries see the live one.
CREATE TABLE collections (
    id uuid NOT NULL,
    tenant text NOT NULL,
    name text NOT NULL,  -- its name; builds of a collection share it
    build integer NOT NULL DEFAULT 1,  -- its number within the name
    build_state text NOT NULL DEFAULT 'live',  -- live, filling, paused, following, dropping
    followed boolean NOT NULL DEFAULT false,  -- whether other builds follow this live one
    filled_until text,  -- external id that the fill has reached; null if complete
    live_until timestamptz,  -- end of its time as the live build; null: still live, or never was
    gate jsonb,  -- last gate report; null if the gate never ran
    emptied_at timestamptz,  -- when the last document of a dropped build was deleted
    description text,  -- purpose of the collection, for people; the live build has it
    options jsonb NOT NULL,  -- options of ingest and retrieval
    embedding_model text NOT NULL,  -- name of the configured embedding
    index_name text NOT NULL,  -- Qdrant collection, shared with other builds
    calibration jsonb,  -- channel weights and their measurements; null while all weights are equal
    calibration_due_at timestamptz NOT NULL DEFAULT now(),  -- when its weights are measured again
    calibrating_until timestamptz,  -- end of a worker's claim; null if unclaimed
    reindexed_until text,  -- external id that a reindex has reached; null if none runs
    reindexes_outdated boolean NOT NULL DEFAULT false,  -- whether the reindex leaves out documents of current readers
    languages text[] NOT NULL DEFAULT '{}',  -- languages detected in its texts so far
    metadata_fields text[] NOT NULL DEFAULT '{}',  -- fields of its documents' metadata so far, at most 200
    damage text,  -- failover, lost_points; null if no damage of its points is known
    damaged_at timestamptz,  -- when the damage was found
    repair_due_at timestamptz,  -- when its next repair may start; null: none is due
    -- The damage ends with a repair that starts later: late writers of lost claims have stopped by then.
    repair_after timestamptz,
    repair_id uuid,  -- the verification that repairs it
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_collections PRIMARY KEY (id)
);

CREATE UNIQUE INDEX uq_collections_build ON collections (tenant, name, build);

CREATE UNIQUE INDEX uq_collections_live ON collections (tenant, name) WHERE build_state = 'live';

-- Documents of builds. A document has one row per build of its collection; all rows share its public id.
CREATE TABLE documents (
    id uuid NOT NULL,
    public_id uuid NOT NULL,  -- the document's id in the API: the id of its first row
    tenant text NOT NULL,
    collection_id uuid NOT NULL,
    external_id text NOT NULL,  -- the caller's id, such as a path
    version integer NOT NULL DEFAULT 1,  -- number of its newest version
    live_version integer,  -- version that queries see; null if there is none yet
    discarded_version integer,  -- newest discarded version; its number is never used again
    lane smallint NOT NULL DEFAULT 0,  -- its priority and the number of its job: see `shared/ledger/model/lanes.py`
    job_id uuid,  -- its job; null without one
    state text NOT NULL,  -- queued, parsing, reading, indexing, searchable, ready, degraded, failed, deleting
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    lost_leases integer NOT NULL DEFAULT 0,  -- leases that expired without a settlement
    lease_token bigint,
    leased_by text,
    error text,
    history jsonb NOT NULL DEFAULT '[]'::jsonb,  -- failed attempts, oldest first
    reader text,  -- name and version of the reader that parsed it; null before the first parse
    description_changes integer NOT NULL DEFAULT 0,  -- number of changes of its title or metadata
    -- When the last change may be written to its points, or the end of the claim that writes it; null if written.
    description_due_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),  -- last change of its state or content
    CONSTRAINT pk_documents PRIMARY KEY (id),
    CONSTRAINT fk_documents_collection_id FOREIGN KEY (collection_id) REFERENCES collections (id) ON DELETE CASCADE
);

-- Only statements that name lanes use the indexes of queues: see `QUEUES` in `shared/ledger/model/states.py`.
CREATE INDEX ix_documents_due ON documents (tenant, lane, due_at) WHERE state IN ('queued', 'parsing') AND lane >= 0;

CREATE INDEX ix_documents_leased ON documents (tenant) WHERE leased_by IS NOT NULL;

CREATE INDEX ix_documents_suspects ON documents (state, due_at)
    WHERE lost_leases > 0 AND state IN ('queued', 'parsing');

-- For open documents, `due_at` is when the scheduler next checks whether a dead worker left them unfinished.
CREATE INDEX ix_documents_open ON documents (due_at) WHERE state IN ('indexing', 'searchable') AND lane >= 0;

CREATE INDEX ix_documents_deleting ON documents (due_at) WHERE state = 'deleting';

CREATE INDEX ix_documents_description_due ON documents (description_due_at) WHERE description_due_at IS NOT NULL;

CREATE INDEX ix_documents_failed ON documents (tenant, updated_at, public_id) WHERE state = 'failed';

CREATE INDEX ix_documents_changed ON documents (tenant, updated_at);

CREATE INDEX ix_documents_list ON documents (collection_id, state, created_at, public_id);

CREATE INDEX ix_documents_job ON documents (job_id, state, created_at, public_id) WHERE job_id IS NOT NULL;

CREATE UNIQUE INDEX uq_documents_external_id ON documents (collection_id, external_id) WHERE state <> 'deleting';

CREATE UNIQUE INDEX uq_documents_public_id ON documents (public_id, collection_id) WHERE state <> 'deleting';

-- Submitted content: one row per version that is live, newest or not yet deleted. Workers ignore an obsolete version.
-- Its chunks are deleted in slices, then its row and its bytes.
CREATE TABLE document_versions (
    document_id uuid NOT NULL,
    version integer NOT NULL,  -- its number within the document, from 1
    obsolete boolean NOT NULL DEFAULT false,  -- neither live nor newest
    filename text,  -- name of the uploaded file
    title text,  -- title, if the caller or the file gives one
    media_type text,  -- type of the content, such as application/pdf
    metadata jsonb NOT NULL DEFAULT '{}'::jsonb,  -- the caller's fields, for filters and citations
    readable_by text[] NOT NULL DEFAULT '{unset}',  -- its readers: see `shared/domain/access/persons.py`
    ready_questions jsonb,  -- ready-made questions, which replace generation
    upload text NOT NULL,  -- name of the stored object, or PACK#OFFSET,LENGTH
    size_bytes bigint NOT NULL,  -- size of the uploaded content
    content_hash bytea NOT NULL,  -- SHA-256 of the content
    text_coverage real,  -- share of the words of the file that are in the chunks; null if they were not counted
    -- {"losses": [{"location", "missing", "sample"}], "unread": [sentence]}; null if nothing is known to be missing.
    missing jsonb,
    traceparent text,  -- span of the submitting request; null if tracing was off
    -- Search terms of external id, title and filename, prefixed with "/" and the tenant. Written by a trigger.
    words tsvector,
    CONSTRAINT pk_document_versions PRIMARY KEY (document_id, version),
    CONSTRAINT fk_document_versions_document_id FOREIGN KEY (document_id) REFERENCES documents (id) ON DELETE CASCADE
);

CREATE INDEX ix_document_versions_obsolete ON document_versions (document_id) WHERE obsolete;

CREATE INDEX ix_document_versions_stored_in ON document_versions (split_part(upload, '#', 1));

CREATE INDEX ix_document_versions_words ON document_versions USING gin (words);

-- Split a text into the words that `document_versions.words` contains: lower case, without punctuation, each ideograph or
-- kana a word of its own, and long runs cut every 100 characters.
CREATE FUNCTION words_of(said text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_remove(string_to_array(
        regexp_replace(regexp_replace(regexp_replace(lower(left(said, 2000)),
            '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20]+',
            ' ', 'g'),
            '([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])', ' \1 ', 'g'),
            '([^ ]{100})', '\1 ', 'g'),
        ' '), '')
$$;

-- Set the words of a version.
CREATE FUNCTION note_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_to_tsvector(
        ('/' || d.tenant) || words_of(concat_ws(' ', d.external_id, NEW.title, NEW.filename)))
    INTO NEW.words FROM documents d WHERE d.id = NEW.document_id;
    RETURN NEW;
END $$;

CREATE TRIGGER note_words BEFORE INSERT OR UPDATE OF title, filename ON document_versions
    FOR EACH ROW EXECUTE FUNCTION note_words();

-- Chunks of versions: rows of work, which are generated and indexed. Each claim and settlement rewrites the row, so it
-- contains no long values. Columns that change are adjacent: if the new row fits in the same page, PostgreSQL logs only
-- the bytes between the first and the last change.
--
-- Open chunks have their own partition, so that the pages and indexes that claims read contain nothing else, whatever the
-- size of the corpus. Half of each of its pages is free for changes. A chunk that ends moves to the other partition, whose
-- pages are full. A transaction that waits for such a chunk collides (`again_after_collision`).
--
-- Statements that read one partition name it: autovacuum keeps statistics of partitions only. Statements that insert or
-- delete chunks, or change their states, name `chunks`, whose triggers count. Each partition has a primary key of its
-- own, because a common one must contain the state. There is no foreign key: it would look up the document again when a
-- chunk ends. A version is deleted after its chunks, and a document after its versions.
CREATE TABLE chunks (
    id uuid NOT NULL,
    version integer NOT NULL,
    document_id uuid NOT NULL,
    tenant text NOT NULL,
    ordinal integer NOT NULL,  -- position within the document, from 0
    content_key bytea NOT NULL,
    embedding_model text NOT NULL,  -- its collection's model: a worker claims chunks of the models that it serves
    ready_made boolean NOT NULL DEFAULT false,  -- whether its questions were submitted with its document
    lane smallint NOT NULL DEFAULT 0,  -- its priority and the number of its job: see `shared/ledger/model/lanes.py`
    state text NOT NULL,  -- parsed, generating, generated, indexed, dead, discarded
    -- Whether points of its questions may exist: true from its first claim for indexing them.
    may_have_points boolean NOT NULL DEFAULT false,
    points_token bigint,  -- fencing token of the claim whose points Qdrant has confirmed
    questions_passed integer NOT NULL DEFAULT 0,  -- number of questions that passed the filter
    prompt_tokens integer NOT NULL DEFAULT 0,  -- tokens of the prompts of its calls
    completion_tokens integer NOT NULL DEFAULT 0,  -- tokens of the replies of its calls
    calls integer NOT NULL DEFAULT 0,  -- number of billed calls
    -- Tokens by tier and kind; null if all calls were of the standard tier and used no prompt cache: see
    -- `shared/ledger/model/tier_tokens.py`.
    tier_tokens integer[],
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    lost_leases integer NOT NULL DEFAULT 0,  -- leases that expired without a settlement
    lease_token bigint,
    leased_by text,
    error text,
    history jsonb NOT NULL DEFAULT '[]'::jsonb,  -- failed attempts, oldest first
    settled_at timestamptz  -- when it became indexed or dead
) PARTITION BY LIST (state);

-- Chunks that are not finished: see `chunks`.
CREATE TABLE chunks_open PARTITION OF chunks (CONSTRAINT pk_chunks_open PRIMARY KEY (id, version))
    FOR VALUES IN ('parsed', 'generating', 'generated')
    WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- Chunks that are indexed, dead or discarded: see `chunks`.
CREATE TABLE chunks_ended PARTITION OF chunks (CONSTRAINT pk_chunks_ended PRIMARY KEY (id, version))
    FOR VALUES IN ('indexed', 'dead', 'discarded')
    WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX ix_chunks_to_index_text ON chunks_open (tenant, lane, embedding_model, due_at)
    WHERE state = 'parsed' AND lane >= 0;

CREATE INDEX ix_chunks_to_generate ON chunks_open (tenant, lane, due_at) WHERE state = 'generating' AND lane >= 0;

CREATE INDEX ix_chunks_to_index_questions ON chunks_open (tenant, lane, embedding_model, due_at)
    WHERE state = 'generated' AND lane >= 0;

CREATE INDEX ix_chunks_in_indexing ON chunks_open (tenant) WHERE state IN ('parsed', 'generated') AND leased_by IS NOT NULL;

CREATE INDEX ix_chunks_suspects ON chunks_open (state, due_at)
    WHERE lost_leases > 0 AND state IN ('parsed', 'generating', 'generated');

CREATE INDEX ix_chunks_dead ON chunks_ended (tenant, settled_at, id, version) WHERE state = 'dead';

CREATE INDEX ix_chunks_document ON chunks (document_id, version, ordinal);

CREATE INDEX ix_chunks_generating_key ON chunks_open (content_key) WHERE state = 'generating' AND version > 0;

-- Two workers never pay for the same content concurrently.
CREATE UNIQUE INDEX uq_chunks_leased_key ON chunks_open (content_key)
    WHERE state = 'generating' AND leased_by IS NOT NULL AND version > 0;

-- Contents of chunks: inserted with the chunk, and deleted by the statement that deletes the chunk. There is no foreign
-- key, because it would look up the chunk of each row separately.
CREATE TABLE chunk_contents (
    chunk_id uuid NOT NULL,
    version integer NOT NULL,
    content jsonb NOT NULL,  -- a ChunkContent, read as a whole, except for its language in samples
    picture bytea,  -- a JPEG file that a model is to describe; null after its description, and in chunks of text
    ready_questions text[],  -- questions that were submitted with the document
    content_key bytea NOT NULL,  -- the chunk's content key: completions with it are in use
    CONSTRAINT pk_chunk_contents PRIMARY KEY (chunk_id, version)
);

CREATE INDEX ix_chunk_contents_content_key ON chunk_contents (content_key);

-- Results of the question filter, inserted when a chunk is indexed. Reason i explains why question i was dropped; it is
-- null if the question passed. Questions that equal a completion's are not stored twice.
CREATE TABLE chunk_questions (
    chunk_id uuid NOT NULL,
    version integer NOT NULL,
    content_key bytea,  -- key of the completion that contains the questions
    questions text[],  -- the questions, if they differ from every completion
    reasons text[] NOT NULL,  -- reason of each dropped question; null if it passed
    similarities real[],  -- similarity of each question to the text; null if not computed
    CONSTRAINT pk_chunk_questions PRIMARY KEY (chunk_id, version)
);

-- ---- Scanned pages ----

-- Pages without a text layer, which workers read by OCR: rows of work. A row is deleted with its version, and refers to
-- the text under its key until then.
CREATE TABLE pages (
    id uuid NOT NULL,
    document_id uuid NOT NULL,
    version integer NOT NULL,
    number integer NOT NULL,  -- its number in the file, from 1
    tenant text NOT NULL,
    lane smallint NOT NULL,  -- its document's lane
    key bytea NOT NULL,  -- key of its text
    languages text NOT NULL,  -- languages of the reader, joined by +
    state text NOT NULL,  -- waiting, read, dead, discarded
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    lost_leases integer NOT NULL DEFAULT 0,  -- leases that expired without a settlement
    lease_token bigint,
    leased_by text,
    error text,
    history jsonb NOT NULL DEFAULT '[]'::jsonb,  -- failed attempts, oldest first
    settled_at timestamptz,  -- when it was read or became dead
    CONSTRAINT pk_pages PRIMARY KEY (id),
    CONSTRAINT uq_pages_number UNIQUE (document_id, version, number),
    CONSTRAINT fk_pages_version FOREIGN KEY (document_id, version)
        REFERENCES document_versions (document_id, version) ON DELETE CASCADE
);

CREATE INDEX ix_pages_to_read ON pages (tenant, lane, due_at) WHERE state = 'waiting' AND lane >= 0;

CREATE INDEX ix_pages_leased ON pages (tenant) WHERE state = 'waiting' AND leased_by IS NOT NULL;

CREATE INDEX ix_pages_suspects ON pages (due_at) WHERE state = 'waiting' AND lost_leases > 0;

CREATE INDEX ix_pages_dead ON pages (tenant, settled_at, id) WHERE state = 'dead';

CREATE INDEX ix_pages_key ON pages (key);

-- Two workers never read the same page concurrently.
CREATE UNIQUE INDEX uq_pages_leased_key ON pages (key) WHERE state = 'waiting' AND leased_by IS NOT NULL;

-- The texts of pages under their keys, which pages of other versions, builds and documents with the same file share.
CREATE TABLE page_texts (
    key bytea NOT NULL,  -- hash of all that determines the text, such as file, number and languages
    tenant text NOT NULL,
    text text NOT NULL,  -- text of the page
    words integer NOT NULL,  -- number of words
    confidence double precision NOT NULL,  -- certainty of its words, 0 to 100
    unused_since timestamptz,  -- when the key was first found without a page; null if in use
    written_at timestamptz NOT NULL DEFAULT now(),  -- when the page was read
    CONSTRAINT pk_page_texts PRIMARY KEY (key)
);

CREATE INDEX ix_page_texts_tenant ON page_texts (tenant, key);

-- Pictures of pages, so that people can compare them with the texts. It is a table of its own, because statements on
-- texts need no pictures.
CREATE TABLE page_pictures (
    key bytea NOT NULL,  -- key of the text in `page_texts`
    picture bytea STORAGE EXTERNAL NOT NULL,  -- WebP, which cannot be compressed further
    CONSTRAINT pk_page_pictures PRIMARY KEY (key),
    CONSTRAINT fk_page_pictures_text FOREIGN KEY (key) REFERENCES page_texts (key) ON DELETE CASCADE
);

-- Numbers of pages that were read for a tenant on a UTC day. Its daily limit is compared with them.
CREATE TABLE pages_by_day (
    tenant text NOT NULL,
    day date NOT NULL,  -- UTC day
    pages integer NOT NULL,  -- number of pages
    CONSTRAINT pk_pages_by_day PRIMARY KEY (tenant, day)
);

-- ---- Paid questions ----

-- Paid questions and contexts of a content, and paid descriptions of a picture, under the content key.
CREATE TABLE completions (
    content_key bytea NOT NULL,
    tenant text NOT NULL,
    model text NOT NULL,  -- model that wrote the questions
    questions text[] NOT NULL,  -- generated questions, before the filter
    text text,  -- the description of a picture; null for a text
    context jsonb,  -- a ChunkContext; null if none was requested, or the model wrote none
    unused_since timestamptz,  -- when the key was first found without a chunk; null if in use
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_completions PRIMARY KEY (content_key)
);

CREATE INDEX ix_completions_tenant ON completions (tenant, content_key);

-- Paid replies of contents whose questions are incomplete: the next worker that needs the content continues with them.
CREATE TABLE paid_replies (
    content_key bytea NOT NULL,
    tenant text NOT NULL,
    replies jsonb NOT NULL,  -- in call order
    written_at timestamptz NOT NULL DEFAULT now(),  -- when the last reply was added
    CONSTRAINT pk_paid_replies PRIMARY KEY (content_key)
);

-- Calls in flight when their chunk's version was discarded: workers that need the same content wait for their replies.
CREATE TABLE abandoned_calls (
    lease_token bigint NOT NULL,
    tenant text NOT NULL,
    content_key bytea NOT NULL,
    due_at timestamptz NOT NULL,  -- end of the lease
    CONSTRAINT pk_abandoned_calls PRIMARY KEY (lease_token)
);

CREATE INDEX ix_abandoned_calls_content_key ON abandoned_calls (content_key);

-- Batches of chunks that a provider processes within a day: rows of work, retained for a while after their end.
CREATE TABLE batches (
    id uuid NOT NULL,
    root_id uuid,  -- first batch of lines that were divided, because the provider rejected it; null if it was planned
    tenant text,  -- the tenant; null for a probe
    job_ids uuid[] NOT NULL DEFAULT '{}',  -- jobs of its chunks
    provider text NOT NULL,  -- address of the provider
    model text NOT NULL,  -- name of the model
    state text NOT NULL,  -- planning, planned, creating, running, collecting, done, failed
    lines integer NOT NULL DEFAULT 0,  -- number of planned lines
    settled integer NOT NULL DEFAULT 0,  -- lines with an outcome
    bytes bigint NOT NULL DEFAULT 0,  -- size of the planned file
    file_id text,  -- the provider's id of the uploaded file
    provider_id text,  -- the provider's id of the batch
    output_file_id text,  -- the provider's id of the file with results
    error_file_id text,  -- the provider's id of the file with errors
    output_bytes bigint NOT NULL DEFAULT 0,  -- collected part of the file with results
    error_bytes bigint NOT NULL DEFAULT 0,  -- collected part of the file with errors
    done integer NOT NULL DEFAULT 0,  -- requests with a result at the last poll
    unanswered text NOT NULL DEFAULT 'again',  -- next step of unanswered lines
    error text,
    token_limit bigint,  -- the provider's limit of enqueued tokens, if it has named it
    -- Billed tokens of the settled lines.
    billed_prompt_tokens bigint NOT NULL DEFAULT 0,  -- tokens of prompts
    billed_completion_tokens bigint NOT NULL DEFAULT 0,  -- tokens of replies
    billed_cached_tokens bigint NOT NULL DEFAULT 0,  -- tokens of prompts that were read from the provider's cache
    billed_cache_write_tokens bigint NOT NULL DEFAULT 0,  -- tokens of prompts that were written to it
    created_at timestamptz NOT NULL DEFAULT now(),
    added_at timestamptz NOT NULL DEFAULT now(),  -- when the last line was planned
    tried_at timestamptz,  -- last create whose result is unknown
    submitted_at timestamptz,  -- when the provider accepted it
    progressed_at timestamptz NOT NULL DEFAULT now(),  -- when a poll last found progress
    cancelled_at timestamptz,  -- when its cancellation was requested
    ended_at timestamptz,  -- when its last line was settled; null while it is open
    due_at timestamptz NOT NULL DEFAULT now(),
    lease_token bigint,
    leased_by text,
    CONSTRAINT pk_batches PRIMARY KEY (id)
);

CREATE INDEX ix_batches_open ON batches (due_at)
    WHERE state IN ('planning', 'planned', 'creating', 'running', 'collecting');

CREATE INDEX ix_batches_tenant ON batches (tenant, created_at);

CREATE UNIQUE INDEX uq_batches_planning ON batches (tenant) WHERE state = 'planning';

CREATE UNIQUE INDEX uq_batches_probe ON batches (provider, model)
    WHERE tenant IS NULL AND state IN ('planning', 'planned', 'creating', 'running', 'collecting');

-- Lines of batches that have no outcome yet. Each line is the call for one chunk.
CREATE TABLE batch_lines (
    token bigint NOT NULL,  -- fencing token of the line's lease and its `custom_id`
    batch_id uuid NOT NULL,  -- the batch (batches.id)
    chunk_id uuid NOT NULL,
    version integer NOT NULL,
    document_id uuid NOT NULL,
    collection_id uuid NOT NULL,
    job_id uuid,  -- its job; null without one
    content_key bytea NOT NULL,
    questions smallint NOT NULL,  -- number of requested questions
    context boolean NOT NULL DEFAULT false,  -- whether a context is requested, too
    CONSTRAINT pk_batch_lines PRIMARY KEY (token),
    CONSTRAINT fk_batch_lines_batch_id FOREIGN KEY (batch_id) REFERENCES batches (id) ON DELETE CASCADE
);

CREATE INDEX ix_batch_lines_batch ON batch_lines (batch_id, token);

-- ---- Costs and budgets ----

-- Costs of attempts: one row per billed attempt, whatever its outcome. No foreign keys: costs outlive documents and
-- collections. A row is deleted when no settlement can write it again.
CREATE TABLE spent (
    token bigint NOT NULL,  -- fencing token of the attempt's lease
    tenant text NOT NULL,
    collection_id uuid NOT NULL,
    document_id uuid,
    job_id uuid,  -- its job; null without one
    kind text NOT NULL,  -- purpose of the calls: generate, embed
    model text NOT NULL,  -- name of the model
    tier text NOT NULL DEFAULT 'standard',  -- the provider's price tier: standard, flex, batch
    prompt_tokens integer NOT NULL,  -- tokens of the prompts
    completion_tokens integer NOT NULL,  -- tokens of the replies
    cached_tokens integer NOT NULL DEFAULT 0,  -- tokens of the prompt that were read from the provider's cache
    cache_write_tokens integer NOT NULL DEFAULT 0,  -- tokens of the prompt that were written to it
    calls integer NOT NULL,  -- number of calls
    at timestamptz NOT NULL DEFAULT now(),  -- last time that the row was written
    CONSTRAINT pk_spent PRIMARY KEY (token)
);

-- Changes of `spent` that the scheduler has not yet added to `spent_by_day`. Triggers write them.
CREATE TABLE spent_changes (
    tenant text NOT NULL,
    collection_id uuid NOT NULL,
    kind text NOT NULL,  -- purpose of the calls: generate, embed
    model text NOT NULL,  -- name of the model
    day date NOT NULL DEFAULT (now() AT TIME ZONE 'UTC')::date,  -- UTC day of the calls
    tier text NOT NULL DEFAULT 'standard',  -- the provider's price tier: standard, flex, batch
    job_id uuid,  -- its job; null without one
    prompt_tokens bigint NOT NULL,  -- tokens of the prompts
    completion_tokens bigint NOT NULL,  -- tokens of the replies
    cached_tokens bigint NOT NULL DEFAULT 0,  -- tokens of the prompts that were read from the provider's cache
    cache_write_tokens bigint NOT NULL DEFAULT 0,  -- tokens of the prompts that were written to it
    calls bigint NOT NULL  -- number of calls
);

-- Sums of costs per UTC day.
CREATE TABLE spent_by_day (
    tenant text NOT NULL,
    collection_id uuid NOT NULL,
    kind text NOT NULL,  -- purpose of the calls: generate, embed
    model text NOT NULL,  -- name of the model
    day date NOT NULL,  -- UTC day of the calls
    tier text NOT NULL DEFAULT 'standard',  -- the provider's price tier: standard, flex, batch
    job_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',  -- zero without a job: a key has no nulls
    prompt_tokens bigint NOT NULL,  -- tokens of the prompts
    completion_tokens bigint NOT NULL,  -- tokens of the replies
    cached_tokens bigint NOT NULL DEFAULT 0,  -- tokens of the prompts that were read from the provider's cache
    cache_write_tokens bigint NOT NULL DEFAULT 0,  -- tokens of the prompts that were written to it
    calls bigint NOT NULL,  -- number of calls
    CONSTRAINT pk_spent_by_day PRIMARY KEY (tenant, collection_id, kind, model, day, tier, job_id)
);

CREATE INDEX ix_spent_by_day_day ON spent_by_day (day);

-- Triggers that record how a statement changes the sums of `spent`. A trigger runs once per statement, so the
-- settlement of many rows inserts few changes.
CREATE FUNCTION count_spent_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO spent_changes (tenant, collection_id, kind, model, tier, job_id, prompt_tokens, completion_tokens,
                               cached_tokens, cache_write_tokens, calls)
    SELECT tenant, collection_id, kind, model, tier, job_id, sum(sign * prompt_tokens), sum(sign * completion_tokens),
           sum(sign * cached_tokens), sum(sign * cache_write_tokens), sum(sign * calls)
    FROM (SELECT *, 1 AS sign FROM new_rows) r
    GROUP BY tenant, collection_id, kind, model, tier, job_id
    HAVING (sum(sign * prompt_tokens), sum(sign * completion_tokens), sum(sign * cached_tokens),
            sum(sign * cache_write_tokens), sum(sign * calls)) <> (0, 0, 0, 0, 0);
    RETURN NULL;
END $$;

CREATE TRIGGER count_insert AFTER INSERT ON spent REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_spent_insert();

CREATE FUNCTION count_spent_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO spent_changes (tenant, collection_id, kind, model, tier, job_id, prompt_tokens, completion_tokens,
                               cached_tokens, cache_write_tokens, calls)
    SELECT tenant, collection_id, kind, model, tier, job_id, sum(sign * prompt_tokens), sum(sign * completion_tokens),
           sum(sign * cached_tokens), sum(sign * cache_write_tokens), sum(sign * calls)
    FROM (SELECT *, 1 AS sign FROM new_rows UNION ALL SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, collection_id, kind, model, tier, job_id
    HAVING (sum(sign * prompt_tokens), sum(sign * completion_tokens), sum(sign * cached_tokens),
            sum(sign * cache_write_tokens), sum(sign * calls)) <> (0, 0, 0, 0, 0);
    RETURN NULL;
END $$;

CREATE TRIGGER count_update AFTER UPDATE ON spent REFERENCING NEW TABLE AS new_rows OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_spent_update();

-- The estimate at the start of a collection's last load, and the costs billed for the collection until then.
CREATE TABLE estimates (
    collection_id uuid NOT NULL,
    estimate jsonb NOT NULL,  -- estimated documents, tokens and costs
    spent jsonb NOT NULL,  -- costs of the collection before the load
    at timestamptz NOT NULL DEFAULT now(),  -- start of the load
    CONSTRAINT pk_estimates PRIMARY KEY (collection_id),
    CONSTRAINT fk_estimates_collection_id FOREIGN KEY (collection_id) REFERENCES collections (id) ON DELETE CASCADE
);

-- Limits on the tokens or the money of a tenant, a collection or a job in a period. Each claim, settlement and release
-- updates a row: half of each page is kept free, so that the new row fits in the same page.
CREATE TABLE budgets (
    id uuid NOT NULL,
    tenant text NOT NULL,
    collection text,  -- name of the collection, so that all builds share it; null: not limited to one
    job_id uuid,  -- null: not limited to a job
    period text NOT NULL,  -- day, month, total
    unit text NOT NULL,  -- tokens; money: billionths of the currency of the prices
    set_by text NOT NULL,  -- settings, operator, tenant
    most bigint NOT NULL,  -- the limit
    spent bigint NOT NULL,  -- in the period that starts at `period_start`
    held bigint NOT NULL DEFAULT 0,  -- sum of its rows in `budget_holds`
    -- The amount that the next call needs, as far as known: with less room, no chunk is claimed.
    needs bigint NOT NULL DEFAULT 1,
    period_start date NOT NULL,  -- first UTC day of the current period
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_budgets PRIMARY KEY (id)
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX uq_budgets ON budgets (
    tenant, coalesce(collection, ''), coalesce(job_id, '00000000-0000-0000-0000-000000000000'), period, unit, set_by
);

CREATE INDEX ix_budgets_parts ON budgets (tenant) WHERE collection IS NOT NULL OR job_id IS NOT NULL;

-- The amounts that calls in flight have reserved of budgets.
CREATE TABLE budget_holds (
    token bigint NOT NULL,  -- fencing token of the call's lease
    budget_id uuid NOT NULL,  -- the budget (budgets.id)
    chunk_id uuid NOT NULL,
    version integer NOT NULL,
    held bigint NOT NULL,  -- part of `budgets.held`
    spent bigint NOT NULL DEFAULT 0,  -- part of `budgets.spent`
    lost_at timestamptz,  -- when it was booked without a bill
    CONSTRAINT pk_budget_holds PRIMARY KEY (token, budget_id),
    CONSTRAINT fk_budget_holds_budget_id FOREIGN KEY (budget_id) REFERENCES budgets (id) ON DELETE CASCADE
);

-- ---- Removal ----

-- Documents whose points must be brought in line with the ledger: a version became obsolete, or a late writer may have
-- left points.
CREATE TABLE sweeps (
    id bigserial NOT NULL,
    collection_id uuid NOT NULL,  -- with tenant and index_name: its location, even after the build's row is deleted
    tenant text NOT NULL,
    index_name text NOT NULL,  -- Qdrant collection
    document_id uuid NOT NULL,
    obsolete_version integer NOT NULL,  -- version whose points are deleted
    obsolete_since timestamptz NOT NULL DEFAULT now(),  -- since when queries do not see it
    below_version integer NOT NULL,  -- of a chunk: its version; otherwise the version after the obsolete one
    chunk_id uuid,  -- null for the whole document
    repeats boolean NOT NULL DEFAULT false,  -- whether to repeat the sweep after all leases have expired
    due_at timestamptz NOT NULL,
    CONSTRAINT pk_sweeps PRIMARY KEY (id)
);

CREATE INDEX ix_sweeps_document_id ON sweeps (document_id);

CREATE INDEX ix_sweeps_due_at ON sweeps (due_at);

-- Stored objects that no version uses, which are to be deleted, and packs with bytes of deleted documents, which are to
-- be rewritten.
CREATE TABLE outdated_objects (
    name text NOT NULL,  -- name of the object in the store of uploads
    tenant text NOT NULL,
    due_at timestamptz NOT NULL DEFAULT now(),
    token bigint DEFAULT nextval('fencing'),  -- its age: an erasure waits for objects with a token below its fence
    CONSTRAINT pk_outdated_objects PRIMARY KEY (name)
);

-- Erasures of a tenant, a collection, or documents and the texts that name a person. Finished rows are retained as the
-- record.
CREATE TABLE erasures (
    id uuid NOT NULL,
    tenant text NOT NULL,
    scope text NOT NULL,  -- tenant, collection, documents
    collection text,  -- name of the collection; null for other scopes
    public_ids uuid[] NOT NULL DEFAULT '{}',  -- public ids of the documents
    -- Texts that name a person: questions, answers and conversations that contain one are deleted. Empty afterwards.
    texts text[] NOT NULL DEFAULT '{}',
    collection_ids uuid[] NOT NULL DEFAULT '{}',  -- ids of all builds
    document_ids uuid[] NOT NULL DEFAULT '{}',  -- ids of the documents' rows in all builds
    -- Ids of erased documents' chunks, which are removed from the logged queries of these builds; empty afterwards.
    chunk_ids uuid[] NOT NULL DEFAULT '{}',
    build_ids uuid[] NOT NULL DEFAULT '{}',  -- builds whose logged queries are searched
    deleted jsonb NOT NULL DEFAULT '{}'::jsonb,  -- number of deleted rows per table
    last_token bigint,  -- settlements with smaller fencing tokens must not restore erased data
    -- Drawn when the documents were deleted: calls and objects with smaller tokens may contain erased data.
    fence bigint,
    fenced_at timestamptz,  -- when the fence was drawn
    search jsonb,  -- {"in": table, "after": position}; null before the first search and after the end
    started_at timestamptz NOT NULL DEFAULT now(),  -- when it was requested
    finished_at timestamptz,  -- null while it runs
    -- When its points are deleted again, because a writer may have been very late; null if no writer is expected.
    recheck_at timestamptz,
    CONSTRAINT pk_erasures PRIMARY KEY (id)
);

CREATE INDEX ix_erasures_open ON erasures (tenant) WHERE finished_at IS NULL;

-- ---- Jobs ----

-- Long work of every kind, except builds and erasures. Loads, syncs and reindexes have documents, which are processed,
-- paused and counted together. Syncs, and all other kinds, have a worker: `job_claims` has its claim.
CREATE TABLE jobs (
    id uuid NOT NULL,  -- of a lookup: the id of its source, so that a source has one at most
    tenant text NOT NULL,
    -- Number within the tenant that no other open job has: part of the lane of its documents and chunks. Null for kinds
    -- without documents.
    number smallint,
    collection text NOT NULL,  -- name of the collection
    collection_id uuid NOT NULL,  -- build of a gate; for other kinds the build that was live when the job started
    kind text NOT NULL,  -- load, sync, reindex, evaluation, gate, verification, lookup, source_check
    state text NOT NULL,  -- running, paused, cancelling, cancelled, done, done_with_errors, failed
    pause_reason text,  -- null unless paused
    idempotency_key text,  -- two open jobs of a kind never have the same
    expected integer,  -- number of documents that its start announced; null if unknown
    closed_at timestamptz,  -- since when it gets no more documents
    documents jsonb,  -- numbers by state at its end; null while it is open
    -- Values of the worker: see the subclasses of `JobsOfKind`. PostgreSQL stores long values outside of the row, so
    -- that an update of the progress does not copy them. `json` keeps the order of strategies and questions.
    request json,  -- work that is left; null when the job has ended
    progress json,  -- values that the worker reports while it runs
    result json,  -- outcome of a finished job
    error text,  -- reason of its failure
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,  -- null while it is open
    CONSTRAINT pk_jobs PRIMARY KEY (id)
);

CREATE INDEX ix_jobs_list ON jobs (tenant, created_at, id);

CREATE INDEX ix_jobs_kind ON jobs (tenant, kind, collection, created_at);

CREATE UNIQUE INDEX uq_jobs_number ON jobs (tenant, number) WHERE ended_at IS NULL;

CREATE UNIQUE INDEX uq_jobs_key ON jobs (tenant, kind, idempotency_key) WHERE ended_at IS NULL;

-- Claims on open jobs with a worker: narrow rows. Claims and leases read and change no other rows.
CREATE TABLE job_claims (
    id uuid NOT NULL,
    kind text NOT NULL,  -- kind of the job
    tenant text NOT NULL,
    collection text NOT NULL,  -- name of the collection
    embeddings text[] NOT NULL,  -- embeddings that its worker must serve
    token bigint,  -- fencing token of the newest claim; null while it is queued
    leased_by text,
    leased_until timestamptz,  -- end of the lease; of a job without a token, the time before which no worker claims it
    lost_leases integer NOT NULL DEFAULT 0,  -- leases that expired without a settlement
    paused boolean NOT NULL DEFAULT false,  -- whether its job is paused
    waiting text,  -- why a queued sync or lookup waits, as a sentence
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_job_claims PRIMARY KEY (id),
    CONSTRAINT fk_job_claims_id FOREIGN KEY (id) REFERENCES jobs (id) ON DELETE CASCADE
);

-- Questions with their relevant chunks, for evaluations. They belong to the collection's name, so all its builds are
-- measured with the same questions.
CREATE TABLE labelled_sets (
    tenant text NOT NULL,
    collection text NOT NULL,  -- name of the collection
    name text NOT NULL,  -- name of the set
    questions jsonb NOT NULL,  -- questions with their relevant chunks
    changed_at timestamptz NOT NULL DEFAULT now(),  -- last change
    CONSTRAINT pk_labelled_sets PRIMARY KEY (tenant, collection, name)
);

-- ---- Sources ----

-- Folders, buckets, tables, repositories and sites with which collections are kept in sync.
CREATE TABLE sources (
    id uuid NOT NULL,
    tenant text NOT NULL,
    collection text NOT NULL,  -- name of the collection
    name text NOT NULL,  -- its name within the tenant
    kind text NOT NULL,  -- kind of the source, such as folder, git or crawl
    uri text NOT NULL,  -- address
    options jsonb NOT NULL DEFAULT '{}',  -- options of its kind
    secret_name text,  -- name of the operator's secret for its login
    schedule text,  -- schedule of its syncs; null: on request only
    time_zone text NOT NULL,  -- time zone of the schedule
    schedule_error text,  -- why the last scheduled sync was not started, or the next time is not known
    max_delete_share double precision NOT NULL,  -- share of its documents that a sync may delete without approval
    created_at timestamptz NOT NULL DEFAULT now(),
    next_at timestamptz,  -- time of the next scheduled sync; null if there is none
    removed_at timestamptz,  -- since when it is being removed
    removed_with_documents boolean NOT NULL DEFAULT false,  -- whether its documents are deleted when it is removed
    CONSTRAINT pk_sources PRIMARY KEY (id),
    CONSTRAINT uq_sources_name UNIQUE (tenant, name)
);

-- Entries of sources that have a document: one narrow row for each, because a corpus may have millions. Keys are
-- compared by their bytes, as the listings of sources are sorted.
CREATE TABLE source_items (
    source_id uuid NOT NULL,
    key text COLLATE "C" NOT NULL,  -- key of the entry within the source
    version text NOT NULL,  -- the entry's version whose content the document has
    created_at timestamptz NOT NULL DEFAULT now(),
    missing_in integer,  -- newest sync that lacked it, even if its listing failed later
    missing_from timestamptz,  -- end of the first complete listing that lacked it, if none had it since
    CONSTRAINT pk_source_items PRIMARY KEY (source_id, key)
);

CREATE INDEX ix_source_items_missing ON source_items (source_id, missing_in) WHERE missing_in IS NOT NULL;

-- Keys of entries that may have changed since the last sync.
CREATE TABLE source_hints (
    source_id uuid NOT NULL,
    hinted_key text COLLATE "C" NOT NULL,  -- key of the entry
    hinted_at timestamptz NOT NULL DEFAULT clock_timestamp(),  -- when the hint arrived
    looked_up_at timestamptz,  -- set during a listing, which may save older content: it is looked up again afterwards
    CONSTRAINT pk_source_hints PRIMARY KEY (source_id, hinted_key),
    CONSTRAINT fk_source_hints_source_id FOREIGN KEY (source_id) REFERENCES sources (id) ON DELETE CASCADE
);

-- Validators and hashes from the last visit of each address of a site.
CREATE TABLE source_notes (
    source_id uuid NOT NULL,
    address text COLLATE "C" NOT NULL,  -- address of the page
    note bytea NOT NULL,  -- at most 1,024 bytes
    CONSTRAINT pk_source_notes PRIMARY KEY (source_id, address),
    CONSTRAINT fk_source_notes_source_id FOREIGN KEY (source_id) REFERENCES sources (id) ON DELETE CASCADE
);

-- The first entries of sources that are not added yet. A check is a job, and is deleted with it.
CREATE TABLE source_checks (
    id uuid NOT NULL,  -- id of its job
    kind text NOT NULL,  -- kind of the source
    uri text NOT NULL,  -- address
    options jsonb NOT NULL,  -- options of its kind
    secret_name text,  -- name of the operator's secret for its login
    seen integer NOT NULL DEFAULT 0,  -- number of entries found
    refused integer NOT NULL DEFAULT 0,  -- number of entries that cannot be read
    complete boolean NOT NULL DEFAULT false,  -- whether there are no further entries
    keys text[] NOT NULL DEFAULT '{}',  -- keys of the first entries that can be read
    refusal text,  -- why the first of the others cannot be read
    CONSTRAINT pk_source_checks PRIMARY KEY (id),
    CONSTRAINT fk_source_checks_id FOREIGN KEY (id) REFERENCES jobs (id) ON DELETE CASCADE
);

-- The listings of sources. A sync is a job whose worker lists a source. The listing has a state and an end of its own: the
-- job ends later, when its documents are processed, and it is deleted earlier than the last listings of a source.
CREATE TABLE syncs (
    id uuid NOT NULL,  -- id of its job
    source_id uuid NOT NULL,
    tenant text NOT NULL,
    collection text NOT NULL,  -- name of the collection
    number integer NOT NULL,  -- number of its listing within its source
    state text NOT NULL,  -- state of the listing
    error text,  -- reason of its failure
    approved integer,  -- upper bound of its deletions; null without approval
    deletes boolean NOT NULL DEFAULT false,  -- whether its deletions may be carried out
    after text NOT NULL DEFAULT '',  -- key up to which it is saved
    -- Numbers of entries.
    seen bigint NOT NULL DEFAULT 0,  -- entries that were listed
    created bigint NOT NULL DEFAULT 0,  -- entries that became new documents
    changed bigint NOT NULL DEFAULT 0,  -- entries whose content had changed
    unchanged bigint NOT NULL DEFAULT 0,  -- entries without a change
    readers_changed bigint NOT NULL DEFAULT 0,  -- entries of which only the readers had changed
    missing bigint NOT NULL DEFAULT 0,  -- entries that the listing lacked
    deleted bigint NOT NULL DEFAULT 0,  -- entries whose document was deleted
    withheld bigint NOT NULL DEFAULT 0,  -- deletions that need approval
    refused bigint NOT NULL DEFAULT 0,  -- entries that cannot be read
    refused_entries jsonb NOT NULL DEFAULT '[]',  -- the first refused entries
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Of a listing that a program pushes; a claim of its job with a later time is the end of its wait for the program.
    push_key text,  -- idempotency key of its program; null: a worker lists the source
    checkpoint text,  -- position in the program's own terms
    closed_at timestamptz,  -- when the program ended it
    started_at timestamptz,  -- start of its listing
    listed_at timestamptz,  -- end of its listing
    ended_at timestamptz,  -- end of the listing and its deletions; null while it runs
    CONSTRAINT pk_syncs PRIMARY KEY (id),
    CONSTRAINT uq_syncs_number UNIQUE (source_id, number)
);

-- Keys that a program has pushed since the start of its listing, in any order. They are deleted when it has ended.
CREATE TABLE pushed_keys (
    sync_id uuid NOT NULL,  -- the listing (syncs.id)
    key text COLLATE "C" NOT NULL,  -- key of the entry in its source
    problem text,  -- why the document of the entry is not up to date; null if it is
    CONSTRAINT pk_pushed_keys PRIMARY KEY (sync_id, key),
    CONSTRAINT fk_pushed_keys_sync_id FOREIGN KEY (sync_id) REFERENCES syncs (id) ON DELETE CASCADE
);

-- ---- Users' questions ----

-- Users' questions and the returned chunks, retained while feedback is possible. No foreign key: a query must not wait
-- for its collection's row, and rows are deleted by age only.
CREATE TABLE queries (
    id uuid NOT NULL,
    tenant text NOT NULL,
    collection_id uuid NOT NULL,
    question text NOT NULL,  -- the user's question
    chunk_ids uuid[] NOT NULL,  -- ids of the returned chunks, best first
    scores real[] NOT NULL DEFAULT '{}',  -- scores of these chunks
    best_score real,  -- null if no chunk was returned
    found boolean NOT NULL DEFAULT true,  -- whether the chunks or the answer were relevant
    certain boolean,  -- whether its answer was certain; null without an answer
    answer text,  -- null if answers are not stored, there was none, or a document was erased since
    outcome jsonb NOT NULL DEFAULT '{}',  -- form and costs of its answer, cited passages, milliseconds of the stages
    helpful boolean,  -- its last feedback; null if none
    helpful_chunk_id uuid,  -- the chunk of positive feedback
    key_id uuid,  -- the ledger's key that asked; null for a key of the settings, or without keys
    -- Hash of the chunks' ids and the answer; null if it cannot be shared, or a document was erased since.
    answer_sha256 bytea,
    gap_id uuid,  -- the gap of an unanswered question
    question_vector bytea,  -- vector of an unanswered question, 16-bit floats
    question_embedding text,  -- name of the vector's embedding
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_queries PRIMARY KEY (id)
);

CREATE INDEX ix_queries_created_at ON queries (created_at);

CREATE INDEX ix_queries_collection_id ON queries (collection_id, created_at);

CREATE INDEX ix_queries_key_id ON queries (key_id, created_at) WHERE key_id IS NOT NULL;

CREATE INDEX ix_queries_gap_id ON queries (tenant, gap_id) WHERE gap_id IS NOT NULL;

-- Gaps that were assigned or resolved: groups of unanswered questions that mean the same. The queries of a gap contain
-- its questions, so that both are deleted together.
CREATE TABLE gaps (
    id uuid NOT NULL,
    tenant text NOT NULL,
    collection text NOT NULL,  -- name of the collection
    assigned_to text,  -- name of the person who works on it
    resolved_by uuid,  -- public id of the document
    resolved_at timestamptz,  -- when it was resolved; null while it is open
    CONSTRAINT pk_gaps PRIMARY KEY (id)
);

CREATE INDEX ix_gaps_tenant ON gaps (tenant, collection);

-- Users' questions that chunks accepted. No foreign key to chunks: a question lives until the last version with its
-- chunk is deleted.
CREATE TABLE accepted_questions (
    id uuid NOT NULL,
    tenant text NOT NULL,
    collection_id uuid NOT NULL,
    document_id uuid NOT NULL,
    chunk_id uuid NOT NULL,
    question text NOT NULL,  -- the user's question
    query_id uuid,  -- the logged query with the feedback
    accepted_by uuid,  -- the key whose feedback accepted it; null for an editor
    state text NOT NULL,  -- waiting, indexed, refused, removing
    -- When its points may be deleted, or the end of the claim that deletes them.
    due_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_accepted_questions PRIMARY KEY (id),
    CONSTRAINT fk_accepted_questions_document_id FOREIGN KEY (document_id) REFERENCES documents (id) ON DELETE CASCADE
);

CREATE INDEX ix_accepted_questions_chunk_id ON accepted_questions (chunk_id);

CREATE INDEX ix_accepted_questions_document_id ON accepted_questions (document_id);

CREATE INDEX ix_accepted_questions_list ON accepted_questions (collection_id, created_at, id);

CREATE INDEX ix_accepted_questions_removing ON accepted_questions (due_at) WHERE state = 'removing';

-- Questions of chunks that an editor has disabled: queries do not match them. A row applies to every version and build of
-- the document that has the text; it is deleted with the last one.
CREATE TABLE disabled_questions (
    document_id uuid NOT NULL,  -- public id of the document
    text_hash bytea NOT NULL,  -- SHA-256 of the chunk's text
    question text NOT NULL,  -- the question in plain form
    tenant text NOT NULL,
    collection text NOT NULL,  -- name of the collection
    -- The span of the chunk in this file: another build may divide the file differently.
    upload text NOT NULL,
    span_start integer NOT NULL,  -- first character of the span
    span_end integer NOT NULL,  -- end of the span
    disabled_by text,  -- name of the key; null without keys
    disabled_at timestamptz NOT NULL DEFAULT now(),  -- when it was disabled
    token bigint NOT NULL DEFAULT nextval('fencing'),  -- claims with smaller tokens do not know the row
    CONSTRAINT pk_disabled_questions PRIMARY KEY (document_id, text_hash, question)
);

CREATE INDEX ix_disabled_questions_tenant ON disabled_questions (tenant, collection);

-- Answers that users share by a link.
CREATE TABLE shared_answers (
    id uuid NOT NULL,  -- random: it is the secret part of the link
    tenant text NOT NULL,
    collection text NOT NULL,  -- name of the collection
    question text NOT NULL,  -- the user's question
    answer text NOT NULL,  -- text of the answer
    form text NOT NULL,  -- form of the server's answers, such as `extractive`
    numbers integer[] NOT NULL,  -- numbers of the cited passages
    chunk_ids uuid[] NOT NULL,  -- the chunk of each number
    document_ids uuid[] NOT NULL,  -- public ids of the documents of all passages
    shared_by uuid,  -- the ledger's key; null for a key of the settings, or without keys
    shared_by_name text,  -- name of the key; null without keys
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,  -- when the link ends
    -- When the cleanup last compared it with the documents: it is deleted with a passage that it cites.
    checked_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_shared_answers PRIMARY KEY (id)
);

CREATE INDEX ix_shared_answers_tenant ON shared_answers (tenant);

CREATE INDEX ix_shared_answers_checked_at ON shared_answers (checked_at);

-- Conversations of the page, stored for each key if the operator allows it.
CREATE TABLE conversations (
    tenant text NOT NULL,
    owner text NOT NULL,  -- names the key; no key can be computed from it
    id text NOT NULL,  -- chosen by the page
    key_id uuid,  -- the ledger's key; null for a key of the settings, or without keys
    name text NOT NULL,  -- its title in the page
    turns text NOT NULL,  -- JSON, which is returned as it was stored
    collections text[] NOT NULL,  -- names of the cited collections
    document_ids uuid[] NOT NULL,  -- public ids of the cited documents
    changed_at timestamptz NOT NULL,  -- last change, by the browser's clock, never later
    stored_at timestamptz NOT NULL DEFAULT now(),  -- when it was last stored
    checked_at timestamptz NOT NULL DEFAULT now(),  -- as for a shared answer
    CONSTRAINT pk_conversations PRIMARY KEY (tenant, owner, id)
);

CREATE INDEX ix_conversations_checked_at ON conversations (checked_at);

-- ---- Numbers ----

-- Numbers of documents, chunks and pages per state, so that lists and the status count no rows. The changes in
-- `tally_changes` are not included.
CREATE TABLE tallies (
    tenant text NOT NULL,
    -- documents, jobs (their documents), readers (their documents), chunks, lanes (their chunks), pages
    counted text NOT NULL,
    -- Documents and readers: collection id; jobs: job id; chunks: embedding model; lanes: lane; pages: empty.
    part text NOT NULL,
    state text NOT NULL,  -- readers: the reader
    rows bigint NOT NULL,  -- number of rows
    CONSTRAINT pk_tallies PRIMARY KEY (tenant, counted, part, state)
);

-- Changes that the scheduler has not yet added to `tallies`. Triggers write them.
CREATE TABLE tally_changes (
    tenant text NOT NULL,
    counted text NOT NULL,  -- as in `tallies`
    part text NOT NULL,  -- as in `tallies`
    state text NOT NULL,  -- as in `tallies`
    change integer NOT NULL,  -- number that is added
    at timestamptz NOT NULL DEFAULT now()  -- time of the change
);

CREATE INDEX ix_tally_changes_at ON tally_changes (at);

-- Documents and chunks that finished in each minute of the last day, written while changes are added up.
CREATE TABLE ended_by_minute (
    tenant text NOT NULL,
    minute timestamptz NOT NULL,  -- start of the minute
    chunks integer NOT NULL,  -- number of indexed chunks
    dead_chunks integer NOT NULL,  -- number of dead chunks
    documents integer NOT NULL,  -- number of finished documents
    failed_documents integer NOT NULL,  -- number of failed documents
    CONSTRAINT pk_ended_by_minute PRIMARY KEY (tenant, minute)
);

-- Triggers that record how a statement changes the numbers of documents by state, by job, and by reader if finished.
CREATE FUNCTION count_documents_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, 'documents', collection_id::text, state, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows) r
    GROUP BY tenant, collection_id, state HAVING sum(sign) <> 0
    UNION ALL
    SELECT tenant, 'readers', collection_id::text, reader, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows) r
    WHERE reader IS NOT NULL AND state IN ('ready', 'degraded', 'failed')
    GROUP BY tenant, collection_id, reader HAVING sum(sign) <> 0;
    IF EXISTS (SELECT 1 FROM new_rows WHERE job_id IS NOT NULL) THEN
        INSERT INTO tally_changes (tenant, counted, part, state, change)
        SELECT tenant, 'jobs', job_id::text, state, sum(sign)
        FROM (SELECT *, 1 AS sign FROM new_rows) r
        WHERE job_id IS NOT NULL
        GROUP BY tenant, job_id, state HAVING sum(sign) <> 0;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER count_insert AFTER INSERT ON documents REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_documents_insert();

CREATE FUNCTION count_documents_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, 'documents', collection_id::text, state, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows UNION ALL SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, collection_id, state HAVING sum(sign) <> 0
    UNION ALL
    SELECT tenant, 'readers', collection_id::text, reader, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows UNION ALL SELECT *, -1 AS sign FROM old_rows) r
    WHERE reader IS NOT NULL AND state IN ('ready', 'degraded', 'failed')
    GROUP BY tenant, collection_id, reader HAVING sum(sign) <> 0;
    IF EXISTS (SELECT 1 FROM new_rows WHERE job_id IS NOT NULL)
       OR EXISTS (SELECT 1 FROM old_rows WHERE job_id IS NOT NULL) THEN
        INSERT INTO tally_changes (tenant, counted, part, state, change)
        SELECT tenant, 'jobs', job_id::text, state, sum(sign)
        FROM (SELECT *, 1 AS sign FROM new_rows UNION ALL SELECT *, -1 AS sign FROM old_rows) r
        WHERE job_id IS NOT NULL
        GROUP BY tenant, job_id, state HAVING sum(sign) <> 0;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER count_update AFTER UPDATE ON documents REFERENCING NEW TABLE AS new_rows OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_documents_update();

CREATE FUNCTION count_documents_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, 'documents', collection_id::text, state, sum(sign)
    FROM (SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, collection_id, state HAVING sum(sign) <> 0
    UNION ALL
    SELECT tenant, 'readers', collection_id::text, reader, sum(sign)
    FROM (SELECT *, -1 AS sign FROM old_rows) r
    WHERE reader IS NOT NULL AND state IN ('ready', 'degraded', 'failed')
    GROUP BY tenant, collection_id, reader HAVING sum(sign) <> 0;
    IF EXISTS (SELECT 1 FROM old_rows WHERE job_id IS NOT NULL) THEN
        INSERT INTO tally_changes (tenant, counted, part, state, change)
        SELECT tenant, 'jobs', job_id::text, state, sum(sign)
        FROM (SELECT *, -1 AS sign FROM old_rows) r
        WHERE job_id IS NOT NULL
        GROUP BY tenant, job_id, state HAVING sum(sign) <> 0;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER count_delete AFTER DELETE ON documents REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_documents_delete();

-- The same for chunks, by embedding model and by lane, which has the number of their job.
CREATE FUNCTION count_chunks_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, embedding_model::text, state, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows) r
    GROUP BY tenant, embedding_model, state HAVING sum(sign) <> 0
    UNION ALL
    SELECT tenant, 'lanes', lane::text, state, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows) r
    GROUP BY tenant, lane, state HAVING sum(sign) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER count_insert AFTER INSERT ON chunks REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_chunks_insert();

CREATE FUNCTION count_chunks_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, embedding_model::text, state, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows UNION ALL SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, embedding_model, state HAVING sum(sign) <> 0
    UNION ALL
    SELECT tenant, 'lanes', lane::text, state, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows UNION ALL SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, lane, state HAVING sum(sign) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER count_update AFTER UPDATE ON chunks REFERENCING NEW TABLE AS new_rows OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_chunks_update();

CREATE FUNCTION count_chunks_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, embedding_model::text, state, sum(sign)
    FROM (SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, embedding_model, state HAVING sum(sign) <> 0
    UNION ALL
    SELECT tenant, 'lanes', lane::text, state, sum(sign)
    FROM (SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, lane, state HAVING sum(sign) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER count_delete AFTER DELETE ON chunks REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_chunks_delete();

-- The same for pages.
CREATE FUNCTION count_pages_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, '', state, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows) r
    GROUP BY tenant, state HAVING sum(sign) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER count_insert AFTER INSERT ON pages REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_pages_insert();

CREATE FUNCTION count_pages_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, '', state, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows UNION ALL SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, state HAVING sum(sign) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER count_update AFTER UPDATE ON pages REFERENCING NEW TABLE AS new_rows OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_pages_update();

CREATE FUNCTION count_pages_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, '', state, sum(sign)
    FROM (SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, state HAVING sum(sign) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER count_delete AFTER DELETE ON pages REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_pages_delete();

-- ---- Webhooks ----

-- Tenants' webhooks. The secret is stored in clear, because each message is signed with it.
CREATE TABLE webhooks (
    id uuid NOT NULL,
    tenant text NOT NULL,
    url text NOT NULL,  -- address to which messages are sent
    secret text NOT NULL,  -- key with which messages are signed
    events text[] NOT NULL,  -- empty: all events
    failing_since timestamptz,  -- null if the last attempt succeeded
    disabled_at timestamptz,  -- when sending stopped; null while enabled
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_webhooks PRIMARY KEY (id)
);

CREATE INDEX ix_webhooks_tenant ON webhooks (tenant);

-- Messages to webhooks, inserted by triggers in the transaction of their event. No foreign key: a document's settlement
-- must not fail because a webhook is deleted concurrently.
CREATE TABLE webhook_deliveries (
    id uuid NOT NULL,
    webhook_id uuid NOT NULL,  -- the webhook (webhooks.id)
    tenant text NOT NULL,
    type text NOT NULL,  -- type of the event, such as document.ready
    collection_id uuid,  -- id of the build, for erasures
    document_id uuid,  -- its public id
    data jsonb NOT NULL,  -- fields of the message
    due_at timestamptz DEFAULT now(),  -- null if delivered or abandoned
    attempts integer NOT NULL DEFAULT 0,  -- number of attempts
    status integer,  -- HTTP status of the last reply; null without a reply
    response text,  -- start of the last reply
    error text,  -- why the last attempt failed without a reply
    delivered_at timestamptz,  -- when the receiver accepted it
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_webhook_deliveries PRIMARY KEY (id)
);

CREATE INDEX ix_webhook_deliveries_due ON webhook_deliveries (webhook_id, due_at) WHERE due_at IS NOT NULL;

CREATE INDEX ix_webhook_deliveries_list ON webhook_deliveries (webhook_id, created_at, id);

-- Triggers that insert a delivery per event and subscribed webhook.
CREATE FUNCTION notify_of_documents() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM webhooks) THEN
        INSERT INTO webhook_deliveries (id, webhook_id, tenant, type, collection_id, document_id, data)
        SELECT gen_random_uuid(), w.id, e.tenant, e.type, e.collection_id, e.document_id, e.data
        FROM (
            SELECT n.tenant, 'document.' || CASE n.state WHEN 'deleting' THEN 'deleted' ELSE n.state END AS type,
                   n.collection_id, n.public_id AS document_id,
                   jsonb_build_object('document_id', n.public_id, 'external_id', n.external_id, 'collection', l.name,
                                      'version', n.version, 'error', CASE n.state WHEN 'failed' THEN n.error END) AS data
            FROM new_rows n JOIN old_rows o ON o.id = n.id JOIN collections l ON l.id = n.collection_id
            WHERE n.state <> o.state AND n.state IN ('ready', 'degraded', 'failed', 'deleting')
              AND l.build_state = 'live'
        ) e JOIN webhooks w ON w.tenant = e.tenant
        WHERE w.disabled_at IS NULL AND (w.events = '{}' OR e.type = ANY(w.events));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER notify AFTER UPDATE ON documents REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION notify_of_documents();

CREATE FUNCTION notify_of_collections() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM webhooks) THEN
        INSERT INTO webhook_deliveries (id, webhook_id, tenant, type, collection_id, document_id, data)
        SELECT gen_random_uuid(), w.id, e.tenant, e.type, e.collection_id, e.document_id, e.data
        FROM (
            SELECT n.tenant, 'build.filled' AS type, n.id AS collection_id, CAST(NULL AS uuid) AS document_id,
                   jsonb_build_object('collection', n.name, 'build', n.build) AS data
            FROM new_rows n JOIN old_rows o ON o.id = n.id
            WHERE o.build_state = 'filling' AND n.build_state = 'following'
        ) e JOIN webhooks w ON w.tenant = e.tenant
        WHERE w.disabled_at IS NULL AND (w.events = '{}' OR e.type = ANY(w.events));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER notify AFTER UPDATE ON collections REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION notify_of_collections();

-- The message contains no name: the erasure's row does.
CREATE FUNCTION notify_of_erasures() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM webhooks) THEN
        INSERT INTO webhook_deliveries (id, webhook_id, tenant, type, collection_id, document_id, data)
        SELECT gen_random_uuid(), w.id, e.tenant, e.type, e.collection_id, e.document_id, e.data
        FROM (
            SELECT n.tenant, 'erasure.finished' AS type, CAST(NULL AS uuid) AS collection_id,
                   CAST(NULL AS uuid) AS document_id, jsonb_build_object('erasure_id', n.id) AS data
            FROM new_rows n JOIN old_rows o ON o.id = n.id
            WHERE o.finished_at IS NULL AND n.finished_at IS NOT NULL
        ) e JOIN webhooks w ON w.tenant = e.tenant
        WHERE w.disabled_at IS NULL AND (w.events = '{}' OR e.type = ANY(w.events));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER notify AFTER UPDATE ON erasures REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION notify_of_erasures();

CREATE FUNCTION notify_of_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM webhooks) THEN
        INSERT INTO webhook_deliveries (id, webhook_id, tenant, type, collection_id, data)
        SELECT gen_random_uuid(), w.id, e.tenant, e.type, e.collection_id, e.data
        FROM (
            SELECT n.tenant, CASE n.state WHEN 'paused' THEN 'job.paused' ELSE 'job.ended' END AS type,
                   n.collection_id,
                   jsonb_build_object('job_id', n.id, 'kind', n.kind, 'collection', n.collection,
                                      'state', n.state, 'pause_reason', n.pause_reason,
                                      'documents', n.documents) AS data
            FROM new_rows n JOIN old_rows o ON o.id = n.id
            WHERE n.state <> o.state AND (n.state = 'paused' OR n.ended_at IS NOT NULL) AND n.number IS NOT NULL
            UNION ALL
            SELECT n.tenant, 'sync.deletions_withheld', n.collection_id,
                   jsonb_build_object('job_id', n.id, 'source', s.name, 'collection', n.collection,
                                      'deletions', y.withheld,
                                      'items', (SELECT count(*) FROM source_items i WHERE i.source_id = s.id))
            FROM new_rows n JOIN old_rows o ON o.id = n.id
            JOIN syncs y ON y.id = n.id JOIN sources s ON s.id = y.source_id
            WHERE n.state <> o.state AND n.state = 'paused' AND n.pause_reason = 'approval'
        ) e JOIN webhooks w ON w.tenant = e.tenant
        WHERE w.disabled_at IS NULL AND (w.events = '{}' OR e.type = ANY(w.events));
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER notify AFTER UPDATE ON jobs REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION notify_of_jobs();

-- ---- Keys and the audit log ----

-- API keys in addition to the configured ones. A revoked key is retained for a while, because logs contain its name.
CREATE TABLE api_keys (
    id uuid NOT NULL,
    tenant text NOT NULL,  -- the tenant; empty for operators
    name text NOT NULL,  -- its name within the tenant
    sha256 bytea NOT NULL,  -- hash of the key, which is not stored
    key_prefix text,  -- first characters of the key, by which people recognise it
    scopes text[] NOT NULL,  -- rights of the key
    filter jsonb,  -- filter added to its queries; null if none
    limits jsonb NOT NULL DEFAULT '{}',  -- limits of the key; a missing limit is unlimited
    expires_at timestamptz,  -- when it stops working; null: never
    revoked_at timestamptz,  -- when it was revoked; null while it works
    last_used_at timestamptz,  -- last use, to within minutes
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_api_keys PRIMARY KEY (id)
);

CREATE UNIQUE INDEX uq_api_keys_sha256 ON api_keys (sha256);

CREATE UNIQUE INDEX uq_api_keys_name ON api_keys (tenant, name) WHERE revoked_at IS NULL;

CREATE INDEX ix_api_keys_list ON api_keys (tenant, created_at, id);

-- Groups that persons had lately: a reader of documents that no person has is probably a mistake.
CREATE TABLE groups_seen (
    tenant text NOT NULL,
    name text NOT NULL,  -- name of the group
    seen_at timestamptz NOT NULL DEFAULT now(),  -- when a person last had it
    CONSTRAINT pk_groups_seen PRIMARY KEY (tenant, name)
);

-- Changes that people make to keys, budgets, webhooks, collections, builds, sources and gaps, and their
-- erasures. Triggers write it in the transaction of the change, if that names an author: see
-- `shared/ledger/postgres/actors.py`.
CREATE TABLE audit_log (
    id uuid NOT NULL,
    tenant text NOT NULL,  -- the tenant; empty for operators' keys and erasures of tenants
    created_at timestamptz NOT NULL,
    actor text NOT NULL,  -- key, person, operator, command line, local
    actor_name text,  -- name of the key
    actor_key_id uuid,  -- null for a key of the settings
    action text NOT NULL,  -- create, change, delete, revoke and others
    object text NOT NULL,  -- kind of the changed object, such as key or budget
    object_name text NOT NULL,  -- name of the changed object
    changes jsonb NOT NULL,  -- values before and after, by field
    CONSTRAINT pk_audit_log PRIMARY KEY (id)
);

CREATE INDEX ix_audit_log_list ON audit_log (tenant, created_at, id);

CREATE INDEX ix_audit_log_created_at ON audit_log (created_at);

-- The log is append-only: rows are deleted by their age, or with their tenant, and never changed.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME;
END $$;

CREATE TRIGGER refuse_change BEFORE UPDATE ON audit_log FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Return a value for the log: an address without user, password and query, which may be secrets; a prompt or another
-- long text, which the log must not contain, as its length and digest.
CREATE FUNCTION audited_value(field text, value jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN value IS NULL OR jsonb_typeof(value) = 'null' THEN NULL
        WHEN field = 'url' THEN to_jsonb(regexp_replace(
            value #>> '{}', '^([A-Za-z0-9+.-]+[:]//)?([^/?#]*@)?([^/?#]*).*$', '\1\3'))
        WHEN field = 'uri' THEN to_jsonb(regexp_replace(
            value #>> '{}', '^([A-Za-z0-9+.-]+[:]//)?([^/?#]*@)?([^?#]*).*$', '\1\3'))
        WHEN field LIKE '%prompt%' OR length(CAST(value AS text)) > 200 THEN to_jsonb(
            length(value #>> '{}') || ' characters, SHA-256 '
            || left(encode(sha256(convert_to(value #>> '{}', 'UTF8')), 'hex'), 8))
        ELSE value END
$$;

-- Return the limit of a budget in its unit: money is stored in billionths.
CREATE FUNCTION budget_limit(budget jsonb) RETURNS numeric LANGUAGE sql IMMUTABLE AS $$
    SELECT trim_scale(CAST(budget ->> 'most' AS numeric)
                      / CASE budget ->> 'unit' WHEN 'money' THEN 1000000000 ELSE 1 END)
$$;

-- Return some columns of a row, and the members of columns that are objects.
CREATE FUNCTION audited_fields(audited jsonb, columns text[]) RETURNS TABLE (field text, value jsonb)
LANGUAGE sql IMMUTABLE AS $$
    SELECT c.name, audited -> c.name FROM unnest(columns) AS c(name)
    WHERE jsonb_typeof(audited -> c.name) IS DISTINCT FROM 'object'
    UNION ALL
    SELECT c.name || '.' || m.key, m.value
    FROM unnest(columns) AS c(name) CROSS JOIN LATERAL jsonb_each(
        CASE WHEN jsonb_typeof(audited -> c.name) = 'object' THEN audited -> c.name ELSE CAST('{}' AS jsonb) END) m
$$;

-- Decide which changes are recorded, and record them. An argument of a trigger is a column whose values are recorded.
CREATE FUNCTION record_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    author CONSTANT jsonb := CAST(current_setting('foreask.actor') AS jsonb);
    old_row jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    new_row jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
    subject jsonb := coalesce(new_row, old_row);
    owner text := subject ->> 'tenant';
    kind text;
    called text := subject ->> 'name';
    done text := CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'change' ELSE 'delete' END;
    changed jsonb;
BEGIN
    CASE TG_TABLE_NAME
    WHEN 'api_keys' THEN
        kind := 'key';
        IF old_row ->> 'revoked_at' IS NULL AND new_row ->> 'revoked_at' IS NOT NULL THEN done := 'revoke'; END IF;
    WHEN 'webhooks' THEN
        kind := 'webhook';
        called := audited_value('url', subject -> 'url') #>> '{}';
        IF TG_OP = 'UPDATE' THEN done := 'enable'; END IF;
    WHEN 'budgets' THEN
        kind := 'budget';
        called := concat_ws(', ', coalesce('collection ' || (subject ->> 'collection'),
            'job ' || (subject ->> 'job_id'), 'everything'), subject ->> 'period', subject ->> 'unit');
        old_row := old_row || jsonb_build_object('limit', budget_limit(old_row));
        new_row := new_row || jsonb_build_object('limit', budget_limit(new_row));
    WHEN 'sources' THEN
        kind := 'source';
        IF new_row ->> 'removed_at' IS NOT NULL THEN done := 'remove'; END IF;
    WHEN 'syncs' THEN
        kind := 'source';
        done := 'approve';
        SELECT s.name INTO called FROM sources s WHERE s.id = CAST(subject ->> 'source_id' AS uuid);
    WHEN 'collections' THEN
        kind := CASE WHEN subject ->> 'build_state' = 'live' THEN 'collection' ELSE 'build' END;
        IF old_row ->> 'build_state' IS DISTINCT FROM new_row ->> 'build_state' THEN
            done := CASE
                WHEN TG_OP = 'INSERT' THEN CASE kind WHEN 'build' THEN 'start' ELSE done END
                WHEN new_row ->> 'build_state' = 'live' THEN 'switch'
                WHEN old_row ->> 'build_state' = 'live' THEN NULL  -- the other half of a switch, or an erasure
                WHEN new_row ->> 'build_state' = 'paused' THEN 'pause'
                WHEN new_row ->> 'build_state' = 'filling' THEN 'resume'
                WHEN new_row ->> 'build_state' = 'dropping' THEN 'cancel' END;
            IF done IS NULL THEN RETURN NULL; END IF;
            IF TG_OP = 'UPDATE' THEN kind := 'build'; END IF;
        END IF;
        IF kind = 'build' THEN called := called || ', build ' || (subject ->> 'build'); END IF;
    WHEN 'erasures' THEN
        -- Ids of erased documents, and names of erased tenants and people, must not remain here.
        done := 'erase';
        kind := CASE WHEN subject ->> 'scope' <> 'documents' THEN subject ->> 'scope'
                     WHEN subject -> 'texts' <> '[]' THEN 'person' ELSE 'document' END;
        called := coalesce(subject ->> 'collection', subject ->> 'id');
        IF kind = 'tenant' THEN owner := ''; END IF;
    END CASE;
    SELECT coalesce(jsonb_object_agg(field, jsonb_build_array(
               audited_value(field, o.value), audited_value(field, n.value))), CAST('{}' AS jsonb))
    INTO changed
    FROM audited_fields(old_row, CAST(TG_ARGV AS text[])) o
         FULL JOIN audited_fields(new_row, CAST(TG_ARGV AS text[])) n USING (field)
    WHERE nullif(o.value, CAST('null' AS jsonb)) IS DISTINCT FROM nullif(n.value, CAST('null' AS jsonb));
    IF TG_OP = 'UPDATE' AND changed = CAST('{}' AS jsonb) THEN RETURN NULL; END IF;
    INSERT INTO audit_log (id, tenant, created_at, actor, actor_name, actor_key_id, action, object, object_name,
                           changes)
    VALUES (gen_random_uuid(), owner, clock_timestamp(), author ->> 'kind', author ->> 'name',
            CAST(author ->> 'key_id' AS uuid), done, kind, called, changed);
    RETURN NULL;
END $$;

-- The recorded changes and columns of each table. Secrets and their hashes are not recorded.
CREATE TRIGGER record_change AFTER INSERT OR UPDATE OF limits, expires_at, revoked_at ON api_keys
    FOR EACH ROW WHEN (coalesce(current_setting('foreask.actor', true), '') <> '')
    EXECUTE FUNCTION record_change('scopes', 'filter', 'limits', 'expires_at', 'revoked_at');

CREATE TRIGGER record_change AFTER INSERT OR DELETE OR UPDATE OF disabled_at ON webhooks
    FOR EACH ROW WHEN (coalesce(current_setting('foreask.actor', true), '') <> '')
    EXECUTE FUNCTION record_change('url', 'events', 'disabled_at');

CREATE TRIGGER record_change AFTER INSERT OR DELETE OR UPDATE OF most ON budgets
    FOR EACH ROW WHEN (coalesce(current_setting('foreask.actor', true), '') <> '')
    EXECUTE FUNCTION record_change('limit', 'set_by');

CREATE TRIGGER record_change AFTER INSERT OR UPDATE OF description, options, embedding_model, build_state ON collections
    FOR EACH ROW WHEN (coalesce(current_setting('foreask.actor', true), '') <> '')
    EXECUTE FUNCTION record_change('description', 'options', 'embedding_model', 'build_state');

CREATE TRIGGER record_change AFTER INSERT ON erasures
    FOR EACH ROW WHEN (coalesce(current_setting('foreask.actor', true), '') <> '')
    EXECUTE FUNCTION record_change();

CREATE TRIGGER record_change
    AFTER INSERT OR UPDATE OF uri, options, secret_name, schedule, time_zone, max_delete_share, removed_at
    ON sources
    FOR EACH ROW WHEN (coalesce(current_setting('foreask.actor', true), '') <> '')
    EXECUTE FUNCTION record_change(
        'collection', 'uri', 'options', 'secret_name', 'schedule', 'time_zone', 'max_delete_share', 'removed_at',
        'removed_with_documents'
    );

CREATE TRIGGER record_change AFTER UPDATE OF approved ON syncs
    FOR EACH ROW WHEN (coalesce(current_setting('foreask.actor', true), '') <> '')
    EXECUTE FUNCTION record_change('approved');

-- Record a change of a gap. Its question is not recorded, because it belongs to users and must not outlive the query log,
-- nor is the id of the document, which an erasure would have to delete.
CREATE FUNCTION record_gap_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    author CONSTANT jsonb := CAST(current_setting('foreask.actor') AS jsonb);
    old_row jsonb := CASE WHEN TG_OP = 'UPDATE' THEN to_jsonb(OLD) ELSE CAST('{}' AS jsonb) END;
    changed jsonb;
BEGIN
    SELECT coalesce(jsonb_object_agg(field, jsonb_build_array(
               audited_value(field, o.value), audited_value(field, n.value))), CAST('{}' AS jsonb))
    INTO changed
    FROM audited_fields(old_row, CAST(TG_ARGV AS text[])) o
         FULL JOIN audited_fields(to_jsonb(NEW), CAST(TG_ARGV AS text[])) n USING (field)
    WHERE nullif(o.value, CAST('null' AS jsonb)) IS DISTINCT FROM nullif(n.value, CAST('null' AS jsonb));
    IF changed = CAST('{}' AS jsonb) THEN RETURN NULL; END IF;
    INSERT INTO audit_log (id, tenant, created_at, actor, actor_name, actor_key_id, action, object, object_name,
                           changes)
    VALUES (gen_random_uuid(), NEW.tenant, clock_timestamp(), author ->> 'kind', author ->> 'name',
            CAST(author ->> 'key_id' AS uuid), 'change', 'gap',
            NEW.collection || ', gap ' || left(CAST(NEW.id AS text), 8), changed);
    RETURN NULL;
END $$;

CREATE TRIGGER record_change AFTER INSERT OR UPDATE ON gaps
    FOR EACH ROW WHEN (coalesce(current_setting('foreask.actor', true), '') <> '')
    EXECUTE FUNCTION record_gap_change('assigned_to', 'resolved_at');

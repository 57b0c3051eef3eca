-- The schema of the ledger. The first migration executes this file; later migrations change the result.
--
-- A row of work is done, leased or due: `due_at` is the time from which it may be claimed. A claim moves `due_at` to the
-- end of its lease and draws a fencing token. A settlement names that token and is refused if a later claim has drawn a
-- newer one. A row whose worker died therefore becomes due without any action, and "neither done nor leased" is one
-- comparison with one index.
--
-- Statements are separated by an empty line; none contains one.

CREATE SEQUENCE fencing;

-- The identity of this deployment, in one row. The store of uploads has the same id.
CREATE TABLE deployment (
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    scheduler text,  -- the elected process
    scheduler_until timestamptz,  -- the end of its lease
    CONSTRAINT pk_deployment PRIMARY KEY (id)
);

INSERT INTO deployment DEFAULT VALUES;

-- Running workers and schedulers, as of their last heartbeat.
CREATE TABLE workers (
    id uuid NOT NULL,
    role text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    in_work integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_workers PRIMARY KEY (id)
);

-- The builds of collections: each has options, an embedding model and documents of its own. Queries see the live one.
CREATE TABLE collections (
    id uuid NOT NULL,
    tenant text NOT NULL,
    name text NOT NULL,
    build integer NOT NULL DEFAULT 1,  -- its number within the name
    build_state text NOT NULL DEFAULT 'live',
    followed boolean NOT NULL DEFAULT false,  -- whether other builds follow this live one
    filled_until text,  -- external id that the fill has reached; null if complete
    live_until timestamptz,  -- end of its time as the live build; null: still live, or never was
    gate jsonb,  -- last gate report; null if the gate never ran
    emptied_at timestamptz,  -- when the last document of a dropped build was deleted
    options jsonb NOT NULL,
    embedding_model text NOT NULL,  -- name of the configured embedding
    index_name text NOT NULL,  -- Qdrant collection, shared with other builds
    calibration jsonb,  -- channel weights and their measurements; null while all weights are equal
    calibration_due_at timestamptz NOT NULL DEFAULT now(),
    calibrating_until timestamptz,  -- end of a worker's claim; null if unclaimed
    reindexed_until text,  -- external id that a reindex has reached; null if none runs
    languages text[] NOT NULL DEFAULT '{}',  -- languages detected in its texts so far
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
    external_id text NOT NULL,
    version integer NOT NULL DEFAULT 1,
    live_version integer,  -- version that queries see; null if there is none yet
    discarded_version integer,  -- newest discarded version; its number is never used again
    lane smallint NOT NULL DEFAULT 0,  -- 0 interactive, 1 bulk
    state text NOT NULL,
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    lost_leases integer NOT NULL DEFAULT 0,  -- leases that expired without a settlement
    lease_token bigint,
    leased_by text,
    error text,
    history jsonb NOT NULL DEFAULT '[]'::jsonb,  -- failed attempts, oldest first
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    description_changes integer NOT NULL DEFAULT 0,  -- number of changes of its title or metadata
    -- When the last change may be written to its points, or the end of the claim that writes it; null if written.
    description_due_at timestamptz,
    CONSTRAINT pk_documents PRIMARY KEY (id),
    CONSTRAINT fk_documents_collection_id FOREIGN KEY (collection_id) REFERENCES collections (id) ON DELETE CASCADE
);

CREATE INDEX ix_documents_description_due ON documents (description_due_at) WHERE description_due_at IS NOT NULL;

CREATE INDEX ix_documents_deleting ON documents (due_at) WHERE state = 'deleting';

CREATE INDEX ix_documents_due ON documents (tenant, lane, due_at) WHERE state IN ('queued', 'parsing');

CREATE INDEX ix_documents_failed ON documents (tenant, updated_at, public_id) WHERE state = 'failed';

CREATE INDEX ix_documents_leased ON documents (tenant) WHERE leased_by IS NOT NULL;

CREATE INDEX ix_documents_changed ON documents (tenant, updated_at);

CREATE INDEX ix_documents_list ON documents (collection_id, state, created_at, public_id);

-- For open documents, `due_at` is when the scheduler next checks whether a dead worker left them unfinished.
CREATE INDEX ix_documents_open ON documents (due_at) WHERE state IN ('indexing', 'searchable');

CREATE INDEX ix_documents_suspects ON documents (state, due_at)
    WHERE lost_leases > 0 AND state IN ('queued', 'parsing');

CREATE UNIQUE INDEX uq_documents_external_id ON documents (collection_id, external_id) WHERE state <> 'deleting';

CREATE UNIQUE INDEX uq_documents_public_id ON documents (public_id, collection_id) WHERE state <> 'deleting';

-- Submitted content: one row per version that is live, newest or not yet deleted. Workers ignore an obsolete version.
-- Its chunks are deleted in slices, then its row and its bytes.
CREATE TABLE document_versions (
    document_id uuid NOT NULL,
    version integer NOT NULL,
    obsolete boolean NOT NULL DEFAULT false,  -- neither live nor newest
    filename text,
    title text,
    media_type text,
    metadata jsonb NOT NULL DEFAULT '{}'::jsonb,
    ready_questions jsonb,  -- ready-made questions, which replace generation
    upload text NOT NULL,  -- name of the stored object, or PACK#OFFSET,LENGTH
    size_bytes bigint NOT NULL,
    content_hash bytea NOT NULL,
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

CREATE FUNCTION note_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_to_tsvector(
        ('/' || d.tenant) || words_of(concat_ws(' ', d.external_id, NEW.title, NEW.filename)))
    INTO NEW.words FROM documents d WHERE d.id = NEW.document_id;
    RETURN NEW;
END $$;

CREATE TRIGGER note_words BEFORE INSERT OR UPDATE OF title, filename ON document_versions
    FOR EACH ROW EXECUTE FUNCTION note_words();

-- The work on chunks. Each claim and settlement rewrites the row, so it contains no long values. Columns that change are
-- adjacent: if the new row fits in the same page, PostgreSQL logs only the bytes between the first and the last change.
-- Half of each page is kept free for that. Measured by `python -m bench wal`: a chunk writes 7.4 KB of log and leaves
-- 0.8 KB here; with full pages, 8.7 and 1.3 KB; with the text in this row, 18.9 and 14.4 KB. Vacuum starts long before a
-- fifth of the rows are dead: of ten million rows that would be two million.
CREATE TABLE chunks (
    id uuid NOT NULL,
    version integer NOT NULL,
    document_id uuid NOT NULL,
    tenant text NOT NULL,
    ordinal integer NOT NULL,
    content_key bytea NOT NULL,
    embedding_model text NOT NULL,  -- its collection's model: a worker claims chunks of the models that it serves
    ready_made boolean NOT NULL DEFAULT false,  -- whether its questions were submitted with its document
    lane smallint NOT NULL DEFAULT 0,  -- 0 interactive, 1 bulk
    state text NOT NULL,
    -- Whether points of its questions may exist: true from its first claim for indexing them.
    may_have_points boolean NOT NULL DEFAULT false,
    points_token bigint,  -- fencing token of the claim whose points Qdrant has confirmed
    questions_passed integer NOT NULL DEFAULT 0,
    prompt_tokens integer NOT NULL DEFAULT 0,
    completion_tokens integer NOT NULL DEFAULT 0,
    calls integer NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    lost_leases integer NOT NULL DEFAULT 0,  -- leases that expired without a settlement
    lease_token bigint,
    leased_by text,
    error text,
    history jsonb NOT NULL DEFAULT '[]'::jsonb,  -- failed attempts, oldest first
    settled_at timestamptz,  -- when it became indexed or dead
    CONSTRAINT pk_chunks PRIMARY KEY (id, version),
    CONSTRAINT fk_chunks_document_id FOREIGN KEY (document_id) REFERENCES documents (id) ON DELETE CASCADE
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX ix_chunks_dead ON chunks (tenant, settled_at, id, version) WHERE state = 'dead';

CREATE INDEX ix_chunks_document ON chunks (document_id, version, ordinal);

CREATE INDEX ix_chunks_generating_key ON chunks (content_key) WHERE state = 'generating';

CREATE INDEX ix_chunks_in_indexing ON chunks (tenant) WHERE state IN ('parsed', 'generated') AND leased_by IS NOT NULL;

CREATE INDEX ix_chunks_suspects ON chunks (state, due_at)
    WHERE lost_leases > 0 AND state IN ('parsed', 'generating', 'generated');

CREATE INDEX ix_chunks_to_generate ON chunks (tenant, lane, due_at) WHERE state = 'generating';

CREATE INDEX ix_chunks_to_index_questions ON chunks (tenant, lane, embedding_model, due_at) WHERE state = 'generated';

CREATE INDEX ix_chunks_to_index_text ON chunks (tenant, lane, embedding_model, due_at) WHERE state = 'parsed';

-- Two workers never pay for the same content concurrently.
CREATE UNIQUE INDEX uq_chunks_leased_key ON chunks (content_key) WHERE state = 'generating' AND leased_by IS NOT NULL;

-- Contents of chunks: inserted with the chunk, and deleted by the statement that deletes the chunk. There is no foreign
-- key, because it would look up the chunk of each row separately.
CREATE TABLE chunk_contents (
    chunk_id uuid NOT NULL,
    version integer NOT NULL,
    content jsonb NOT NULL,  -- a ChunkContent; no statement reads parts of it
    ready_questions text[],
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
    reasons text[] NOT NULL,
    similarities real[],  -- similarity of each question to the text; null if not computed
    CONSTRAINT pk_chunk_questions PRIMARY KEY (chunk_id, version)
);

-- Paid questions under their content key.
CREATE TABLE completions (
    content_key bytea NOT NULL,
    tenant text NOT NULL,
    model text NOT NULL,
    questions text[] NOT NULL,
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
    written_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_paid_replies PRIMARY KEY (content_key)
);

-- Costs of attempts: one row per billed attempt, whatever its outcome. No foreign keys: costs outlive documents and
-- collections. A row is deleted when no settlement can write it again.
CREATE TABLE spent (
    token bigint NOT NULL,  -- fencing token of the attempt's lease
    tenant text NOT NULL,
    collection_id uuid NOT NULL,
    document_id uuid,
    kind text NOT NULL,
    model text NOT NULL,
    prompt_tokens integer NOT NULL,
    completion_tokens integer NOT NULL,
    calls integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_spent PRIMARY KEY (token)
);

-- Changes of `spent` that the scheduler has not yet added to `spent_by_day`. Triggers write them.
CREATE TABLE spent_changes (
    tenant text NOT NULL,
    collection_id uuid NOT NULL,
    kind text NOT NULL,
    model text NOT NULL,
    day date NOT NULL DEFAULT (now() AT TIME ZONE 'UTC')::date,
    prompt_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    calls bigint NOT NULL
);

-- Sums of costs per UTC day.
CREATE TABLE spent_by_day (
    tenant text NOT NULL,
    collection_id uuid NOT NULL,
    kind text NOT NULL,
    model text NOT NULL,
    day date NOT NULL,
    prompt_tokens bigint NOT NULL,
    completion_tokens bigint NOT NULL,
    calls bigint NOT NULL,
    CONSTRAINT pk_spent_by_day PRIMARY KEY (tenant, collection_id, kind, model, day)
);

CREATE INDEX ix_spent_by_day_day ON spent_by_day (day);

-- Triggers that record how a statement changes the sums of a table. A trigger runs once per statement, so the settlement
-- of many rows inserts few changes.
CREATE FUNCTION count_spent_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO spent_changes (tenant, collection_id, kind, model, prompt_tokens, completion_tokens, calls)
    SELECT tenant, collection_id, kind, model, sum(sign * prompt_tokens), sum(sign * completion_tokens),
           sum(sign * calls)
    FROM (SELECT *, 1 AS sign FROM new_rows) r
    GROUP BY tenant, collection_id, kind, model
    HAVING (sum(sign * prompt_tokens), sum(sign * completion_tokens), sum(sign * calls)) <> (0, 0, 0);
    RETURN NULL;
END $$;

CREATE TRIGGER count_insert AFTER INSERT ON spent REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_spent_insert();

CREATE FUNCTION count_spent_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO spent_changes (tenant, collection_id, kind, model, prompt_tokens, completion_tokens, calls)
    SELECT tenant, collection_id, kind, model, sum(sign * prompt_tokens), sum(sign * completion_tokens),
           sum(sign * calls)
    FROM (SELECT *, 1 AS sign FROM new_rows UNION ALL SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, collection_id, kind, model
    HAVING (sum(sign * prompt_tokens), sum(sign * completion_tokens), sum(sign * calls)) <> (0, 0, 0);
    RETURN NULL;
END $$;

CREATE TRIGGER count_update AFTER UPDATE ON spent REFERENCING NEW TABLE AS new_rows OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_spent_update();

-- The estimate at the start of a collection's last load, and the costs billed for the collection until then.
CREATE TABLE estimates (
    collection_id uuid NOT NULL,
    estimate jsonb NOT NULL,
    spent jsonb NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_estimates PRIMARY KEY (collection_id),
    CONSTRAINT fk_estimates_collection_id FOREIGN KEY (collection_id) REFERENCES collections (id) ON DELETE CASCADE
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

-- API keys in addition to the configured ones. A revoked key is retained for a while, because logs contain its name.
CREATE TABLE api_keys (
    id uuid NOT NULL,
    tenant text NOT NULL,  -- empty for operators
    name text NOT NULL,
    sha256 bytea NOT NULL,
    scopes text[] NOT NULL,
    filter jsonb,  -- filter added to its queries; null if none
    limits jsonb NOT NULL DEFAULT '{}',  -- limits of the key; a missing limit is unlimited
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_api_keys PRIMARY KEY (id)
);

CREATE UNIQUE INDEX uq_api_keys_sha256 ON api_keys (sha256);

CREATE UNIQUE INDEX uq_api_keys_name ON api_keys (tenant, name) WHERE revoked_at IS NULL;

CREATE INDEX ix_api_keys_list ON api_keys (tenant, created_at, id);

-- Users' questions and the returned chunks, retained while feedback is possible. No foreign key: a query must not wait
-- for its collection's row, and rows are deleted by age only.
CREATE TABLE queries (
    id uuid NOT NULL,
    tenant text NOT NULL,
    collection_id uuid NOT NULL,
    question text NOT NULL,
    chunk_ids uuid[] NOT NULL,
    best_score real,  -- null if no chunk was returned
    found boolean NOT NULL DEFAULT true,  -- whether the chunks or the answer were relevant
    helpful boolean,  -- its last feedback; null if none
    helpful_chunk_id uuid,  -- the chunk of positive feedback
    key_id uuid,  -- the ledger's key that asked; null for a key of the settings, or without keys
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_queries PRIMARY KEY (id)
);

CREATE INDEX ix_queries_created_at ON queries (created_at);

CREATE INDEX ix_queries_collection_id ON queries (collection_id, created_at);

-- Users' questions that chunks accepted. No foreign key to chunks: a question lives until the last version with its
-- chunk is deleted.
CREATE TABLE accepted_questions (
    id uuid NOT NULL,
    tenant text NOT NULL,
    collection_id uuid NOT NULL,
    document_id uuid NOT NULL,
    chunk_id uuid NOT NULL,
    question text NOT NULL,
    query_id uuid,
    accepted_by uuid,  -- the key whose feedback accepted it; null for an editor
    state text NOT NULL,
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

-- Documents whose points must be brought in line with the ledger: a version becomes live, or a late writer may have left
-- points.
CREATE TABLE sweeps (
    id bigserial NOT NULL,
    collection_id uuid NOT NULL,  -- with tenant and index_name: its location, even after the build's row is deleted
    tenant text NOT NULL,
    index_name text NOT NULL,
    document_id uuid NOT NULL,
    below_version integer NOT NULL,
    chunk_id uuid,  -- null for the whole document
    again boolean NOT NULL DEFAULT false,  -- whether to repeat the sweep after all leases have expired
    due_at timestamptz NOT NULL,
    CONSTRAINT pk_sweeps PRIMARY KEY (id)
);

CREATE INDEX ix_sweeps_document_id ON sweeps (document_id);

CREATE INDEX ix_sweeps_due_at ON sweeps (due_at);

-- Stored objects that no version uses, which are to be deleted, and packs with bytes of deleted documents, which are to
-- be rewritten.
CREATE TABLE outdated_objects (
    name text NOT NULL,
    tenant text NOT NULL,
    due_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_outdated_objects PRIMARY KEY (name)
);

-- Erasures of a tenant, a collection or a document. Finished rows are retained as the record.
CREATE TABLE erasures (
    id uuid NOT NULL,
    tenant text NOT NULL,
    collection text,  -- its name; null for a tenant or a document
    document_id uuid,  -- its public id
    collection_ids uuid[] NOT NULL DEFAULT '{}',  -- ids of all builds
    document_ids uuid[] NOT NULL DEFAULT '{}',  -- ids of its rows in all builds
    deleted jsonb NOT NULL DEFAULT '{}'::jsonb,  -- number of deleted rows per table
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,  -- null while it runs
    last_token bigint,  -- settlements with smaller fencing tokens must not restore erased data
    CONSTRAINT pk_erasures PRIMARY KEY (id)
);

CREATE INDEX ix_erasures_open ON erasures (tenant) WHERE finished_at IS NULL;

-- Numbers of documents and chunks per state, without the changes in `tally_changes`.
CREATE TABLE tallies (
    tenant text NOT NULL,
    counted text NOT NULL,  -- documents, chunks
    part text NOT NULL,  -- documents: collection id; chunks: embedding model
    state text NOT NULL,
    rows bigint NOT NULL,
    CONSTRAINT pk_tallies PRIMARY KEY (tenant, counted, part, state)
);

-- Changes that the scheduler has not yet added to `tallies`. Triggers write them.
CREATE TABLE tally_changes (
    tenant text NOT NULL,
    counted text NOT NULL,
    part text NOT NULL,
    state text NOT NULL,
    change integer NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX ix_tally_changes_at ON tally_changes (at);

-- Documents and chunks that finished in each minute of the last day, written while changes are added up.
CREATE TABLE ended_by_minute (
    tenant text NOT NULL,
    minute timestamptz NOT NULL,
    chunks integer NOT NULL,
    dead_chunks integer NOT NULL,
    documents integer NOT NULL,
    failed_documents integer NOT NULL,
    CONSTRAINT pk_ended_by_minute PRIMARY KEY (tenant, minute)
);

CREATE FUNCTION count_documents_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, collection_id::text, state, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows) r
    GROUP BY tenant, collection_id, state HAVING sum(sign) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER count_insert AFTER INSERT ON documents REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_documents_insert();

CREATE FUNCTION count_documents_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, collection_id::text, state, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows UNION ALL SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, collection_id, state HAVING sum(sign) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER count_update AFTER UPDATE ON documents REFERENCING NEW TABLE AS new_rows OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_documents_update();

CREATE FUNCTION count_documents_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, collection_id::text, state, sum(sign)
    FROM (SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, collection_id, state HAVING sum(sign) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER count_delete AFTER DELETE ON documents REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_documents_delete();

CREATE FUNCTION count_chunks_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, embedding_model::text, state, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows) r
    GROUP BY tenant, embedding_model, state HAVING sum(sign) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER count_insert AFTER INSERT ON chunks REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_chunks_insert();

CREATE FUNCTION count_chunks_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, embedding_model::text, state, sum(sign)
    FROM (SELECT *, 1 AS sign FROM new_rows UNION ALL SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, embedding_model, state HAVING sum(sign) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER count_update AFTER UPDATE ON chunks REFERENCING NEW TABLE AS new_rows OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_chunks_update();

CREATE FUNCTION count_chunks_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, embedding_model::text, state, sum(sign)
    FROM (SELECT *, -1 AS sign FROM old_rows) r
    GROUP BY tenant, embedding_model, state HAVING sum(sign) <> 0;
    RETURN NULL;
END $$;

CREATE TRIGGER count_delete AFTER DELETE ON chunks REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION count_chunks_delete();

-- Questions with their relevant chunks, for evaluations. They belong to the collection's name, so all its builds are
-- measured with the same questions.
CREATE TABLE labelled_sets (
    tenant text NOT NULL,
    collection text NOT NULL,
    name text NOT NULL,
    questions jsonb NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_labelled_sets PRIMARY KEY (tenant, collection, name)
);

-- Runs of evaluations. A run without a recent heartbeat died with its process.
CREATE TABLE evaluations (
    id uuid NOT NULL,
    tenant text NOT NULL,
    collection text NOT NULL,
    labelled_set text,  -- null if the questions were part of the request
    questions integer NOT NULL,
    phase text NOT NULL DEFAULT 'running',
    strategy text,  -- currently measured strategy
    done integer NOT NULL DEFAULT 0,
    total integer NOT NULL DEFAULT 0,
    error text,
    results json,  -- json, not jsonb: keeps the order of strategies and questions
    rows json,  -- summary rows of the results, for lists
    seen_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_evaluations PRIMARY KEY (id)
);

CREATE INDEX ix_evaluations_collection ON evaluations (tenant, collection, created_at);

-- Tenants' webhooks. The secret is stored in clear, because each message is signed with it.
CREATE TABLE webhooks (
    id uuid NOT NULL,
    tenant text NOT NULL,
    url text NOT NULL,
    secret text NOT NULL,
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
    webhook_id uuid NOT NULL,
    tenant text NOT NULL,
    type text NOT NULL,
    collection_id uuid,  -- id of the build, for erasures
    document_id uuid,  -- its public id
    data jsonb NOT NULL,
    due_at timestamptz DEFAULT now(),  -- null if delivered or abandoned
    attempts integer NOT NULL DEFAULT 0,
    status integer,
    response text,
    error text,
    delivered_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_webhook_deliveries PRIMARY KEY (id)
);

CREATE INDEX ix_webhook_deliveries_due ON webhook_deliveries (webhook_id, due_at) WHERE due_at IS NOT NULL;

CREATE INDEX ix_webhook_deliveries_list ON webhook_deliveries (webhook_id, created_at, id);

-- Triggers that insert a delivery per event and subscribed webhook.
CREATE FUNCTION tell_of_documents() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE TRIGGER tell AFTER UPDATE ON documents REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_documents();

CREATE FUNCTION tell_of_collections() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE TRIGGER tell AFTER UPDATE ON collections REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_collections();

-- The message contains no name: the erasure's row does.
CREATE FUNCTION tell_of_erasures() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE TRIGGER tell AFTER UPDATE ON erasures REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_erasures();

-- The settlements of generate workers. `parsing.sql` explains their form.

-- part: generated
-- The columns of a chunk with questions.
{SETTLE_GENERATED.sets}, leased_by = NULL, due_at = now(), attempts = 0, lost_leases = 0, error = NULL

-- name: set_keys
-- Set the keys of claimed chunks to the keys of the requests about to be sent, because the prompt or the model may have
-- changed since they were parsed. If a call for the new key is in progress, even for a version that was discarded
-- meanwhile, the lease ends, so that no content is paid twice.
-- plan: generic
WITH contents AS (
    UPDATE chunk_contents t SET content_key = r.content_key
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(id uuid, version int, token bigint, content_key bytea)
    JOIN chunks_open c ON c.id = r.id AND c.version = r.version AND c.lease_token = r.token
    WHERE t.chunk_id = ANY(CAST(:ids AS uuid[])) AND t.chunk_id = r.id AND t.version = r.version AND {is_given:c}
)
UPDATE chunks_open c
SET content_key = v.content_key, due_at = CASE WHEN v.taken THEN now() ELSE c.due_at END,
    leased_by = CASE WHEN v.taken THEN NULL ELSE c.leased_by END
FROM (
    SELECT r.id, r.version, r.token, r.content_key, r.again OR EXISTS (
               SELECT 1 FROM chunks_open o
               WHERE o.content_key = r.content_key AND {IN_GENERATION:o}
                 AND o.leased_by IS NOT NULL) OR {is_called:w r.content_key} AS taken
    FROM jsonb_to_recordset(CAST(:rows AS jsonb))
         AS r(id uuid, version int, token bigint, content_key bytea, again boolean)
    JOIN chunks_open w ON w.id = r.id AND w.version = r.version AND w.lease_token = r.token
    WHERE {is_given:w}
) v
WHERE {is_given:c} AND c.id = v.id AND c.version = v.version AND c.lease_token = v.token
RETURNING v.token, v.taken,
          (SELECT p.replies FROM paid_replies p WHERE p.content_key = c.content_key) AS replies

-- part: is_not_erased
-- A chunk needs the paid content, or nothing of its tenant was erased since the claim: a late settlement must not
-- restore erased data. OFFSET 0 keeps the planner from reading whole tables.
(EXISTS (SELECT 1 FROM chunk_contents t WHERE t.content_key = v.content_key OFFSET 0)
 OR NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant = v.tenant AND e.last_token > v.token OFFSET 0))

-- part: is_needed
-- The next chunk that needs the content, the same chunk or one of the next version, needs the replies. Complete
-- questions replace them.
jsonb_array_length(v.replies) > 0 AND {is_not_erased}
  AND NOT EXISTS (SELECT 1 FROM completions c WHERE c.content_key = v.content_key)

-- part: replace_fewer_replies
-- Late writers bring fewer or the same replies.
ORDER BY v.content_key, jsonb_array_length(v.replies) DESC
ON CONFLICT (content_key) DO UPDATE SET replies = excluded.replies, written_at = now()
WHERE jsonb_array_length(excluded.replies) >= jsonb_array_length(p.replies)

-- part: spent
-- The costs of a chunk `t`. `v` has the sum, so that a settlement can be applied twice.
prompt_tokens = greatest(t.prompt_tokens, v.prompt_tokens),
completion_tokens = greatest(t.completion_tokens, v.completion_tokens),
calls = greatest(t.calls, v.calls),
tier_tokens = CASE WHEN v.calls > t.calls THEN v.tier_tokens ELSE t.tier_tokens END

-- name: keep_replies
-- Store the replies of a chunk that needs more calls, and add their costs.
-- plan: generic
WITH kept AS (
    INSERT INTO paid_replies AS p (content_key, tenant, replies)
    SELECT DISTINCT ON (v.content_key) v.content_key, v.tenant, v.replies
    FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS v(id uuid, version int, token bigint, content_key bytea, tenant text, replies jsonb,
             prompt_tokens int, completion_tokens int, calls int, tier_tokens int[])
    WHERE {is_needed} {replace_fewer_replies}
)
UPDATE chunks_open t SET {spent}
FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS v(id uuid, version int, token bigint, content_key bytea, tenant text, replies jsonb,
         prompt_tokens int, completion_tokens int, calls int, tier_tokens int[])
WHERE {is_given:t} AND t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL
  AND {SETTLE_GENERATED.applies:t}
RETURNING t.id

-- part: paid_chunks
-- Chunks of these keys that a completion has paid for.
SELECT c.id, c.version FROM chunks_open c JOIN completions p ON p.content_key = c.content_key
WHERE c.content_key = ANY(CAST(:keys AS bytea[])) AND {IN_GENERATION:c}

-- name: settle_paid_before
-- Advance claimed chunks with paid questions, and a limited number of unclaimed chunks with the same content.
-- plan: generic
UPDATE chunks SET {generated}
WHERE (id, version) IN (
    {paid_chunks} AND c.leased_by = :worker
    UNION ALL
    SELECT t.id, t.version FROM ({paid_chunks} AND c.leased_by IS NULL LIMIT :limit FOR UPDATE OF c SKIP LOCKED) t)
RETURNING content_key

-- part: completion_rows
-- Complete questions by their content keys.
jsonb_to_recordset(CAST(:rows AS jsonb))
    AS v(token bigint, content_key bytea, tenant text, model text, questions text[], text text, context jsonb)

-- name: insert_completions
-- Store paid questions, and delete their single replies.
-- plan: generic
WITH complete AS (
    DELETE FROM paid_replies p USING {completion_rows} WHERE p.content_key = v.content_key
)
INSERT INTO completions (content_key, tenant, model, questions, text, context)
SELECT v.content_key, v.tenant, v.model, v.questions, v.text, v.context FROM {completion_rows}
WHERE {is_not_erased}
ON CONFLICT DO NOTHING

-- name: settle_paid
-- Advance chunks whose questions were paid now, and add their costs.
-- plan: generic
UPDATE chunks t
SET {generated},
    {spent}
FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS v(id uuid, version int, token bigint, prompt_tokens int, completion_tokens int, calls int, tier_tokens int[])
WHERE {is_given:t} AND t.id = v.id AND t.version = v.version AND t.lease_token = v.token
  AND {SETTLE_GENERATED.applies:t}

-- name: settle_same_content
-- Advance a limited number of other chunks with the same content, claimed or not; the others advance when they are
-- claimed. Chunks locked by another transaction are skipped.
-- plan: generic
UPDATE chunks SET {generated}
WHERE (id, version) IN (
    SELECT id, version FROM chunks_open
    WHERE content_key = ANY(CAST(:keys AS bytea[])) AND {IN_GENERATION}
    LIMIT :limit FOR UPDATE SKIP LOCKED)

-- part: failed_replies
-- The replies of failed attempts.
jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(token bigint, content_key bytea, tenant text, dead boolean, replies jsonb)

-- name: fail_generating
-- Record failed attempts to generate. A chunk without questions is still indexed by its text and ends dead there, with
-- the reason that is recorded here. Its replies are deleted, so that a retry makes new calls. The replies of other
-- attempts are kept, even if the claim has expired.
-- plan: generic
WITH kept AS (
    INSERT INTO paid_replies AS p (content_key, tenant, replies)
    SELECT DISTINCT ON (v.content_key) v.content_key, v.tenant, v.replies
    FROM (SELECT * FROM {failed_replies} WHERE NOT v.dead) v
    WHERE {is_needed} {replace_fewer_replies}
), useless AS (
    DELETE FROM paid_replies p USING {failed_replies} WHERE v.dead AND p.content_key = v.content_key
)
UPDATE chunks t
SET {FAIL_GENERATING.sets:v.dead}, error = v.error,
    attempts = CASE WHEN v.dead THEN 0 ELSE t.attempts + v.burned END, history = {history:t},
    due_at = {next_attempt}, leased_by = NULL, lost_leases = {lost_leases:t}, {spent}
{valid_failures} AND {FAIL_GENERATING.applies:t}

-- name: delete_old_replies
-- Delete replies whose content was not needed since.
DELETE FROM paid_replies WHERE content_key = ANY(ARRAY(
    SELECT content_key FROM paid_replies WHERE written_at <= now() - CAST(:age AS interval) LIMIT :limit))
RETURNING 1

-- name: extend_calls
-- Extend the calls of discarded chunks: other workers wait for their replies. Locked rows are skipped, because the
-- leases that are extended in the same transaction must not wait: a settlement that deletes the row may take seconds.
-- plan: generic
UPDATE abandoned_calls SET due_at = now() + :lease
WHERE lease_token = ANY(ARRAY(SELECT a.lease_token FROM abandoned_calls a
                              WHERE a.lease_token = ANY(CAST(:tokens AS bigint[])) FOR UPDATE SKIP LOCKED))

-- name: end_calls
-- Delete calls of discarded chunks: the reply arrived, or none will. Return the tokens that have reserved something.
-- plan: generic
WITH ended AS (
    DELETE FROM abandoned_calls WHERE lease_token = ANY(CAST(:tokens AS bigint[]))
)
SELECT DISTINCT token FROM budget_holds WHERE token = ANY(CAST(:tokens AS bigint[]))

-- part: is_unlabelled
-- The collection was never calibrated with labelled questions.
calibration ->> 'source' IS DISTINCT FROM 'labelled'

-- part: is_loading
-- A document of a collection is being processed.
EXISTS (SELECT 1 FROM documents d WHERE d.collection_id = collections.id AND {UNFINISHED_DOCUMENTS:d})

-- part: claimable
-- Collections that may be claimed; none while another one is claimed. A completely filled build is calibrated before it
-- is live.
FROM collections
WHERE calibration_due_at <= now() AND {is_unlabelled}
  -- No document of the collection is being processed, or some have been for a while. A collection that is still being
  -- loaded would be calibrated again soon, and its calibration would compete with the load. The first calibration does
  -- not wait, so that scores have the same meaning from then on.
  AND (calibration IS NULL OR calibration_due_at <= now() - CAST('{timeout}' AS interval) OR NOT {is_loading})
  AND build_state IN ({BuildState.LIVE}, {BuildState.FOLLOWING})
  AND NOT EXISTS (SELECT 1 FROM collections o WHERE o.calibrating_until > now())

-- name: due
-- Return whether a collection may be claimed.
-- plan: generic
SELECT EXISTS (SELECT 1 {claimable})

-- name: claim
-- Claim the collection that has waited longest, among the collections with embeddings that the process serves. A
-- collection without a calibration is due again when it is twice as old: a new one is measured soon, and an empty one
-- costs little.
UPDATE collections SET calibrating_until = now() + :lease,
  calibration_due_at = now() + CASE WHEN calibration IS NOT NULL THEN CAST(:every AS interval)
    ELSE least(CAST(:every AS interval), greatest(now() - created_at, CAST('{shortest_pause}' AS interval))) END
WHERE id = (SELECT id {claimable} AND embedding_model = ANY(CAST(:embeddings AS text[]))
            ORDER BY calibration_due_at LIMIT 1)
RETURNING {collection_columns}, {is_loading} AS is_loading

-- name: release
-- End a claim unless it has expired: `calibrating_until` is the claim's token.
UPDATE collections SET calibrating_until = NULL WHERE id = :id AND calibrating_until = :until

-- name: sample_chunks
-- Sample chunks with searchable texts, including chunks of documents in progress. Chunk ids are hashes, so their order
-- is random.
SELECT c.id FROM documents d
JOIN chunks c ON c.document_id = d.id AND c.version = coalesce(d.live_version, d.version)
WHERE d.collection_id = :id AND {exists:d} AND c.state <> {ChunkState.PARSED} ORDER BY c.id LIMIT :limit

-- name: sample
-- Sample chunks that have questions.
SELECT c.id, c.version, {questions} AS questions, q.reasons
FROM (SELECT c.id, c.version FROM documents d JOIN chunks c ON c.document_id = d.id AND c.version = d.live_version
      WHERE d.collection_id = :id AND {exists:d} AND c.state = {ChunkState.INDEXED} AND c.questions_passed > 0
      ORDER BY c.id LIMIT :limit) c
JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
ORDER BY c.id

-- name: newest_accepted
-- List a collection's newest accepted questions with their chunks, the oldest first.
SELECT question, chunk_id FROM (
    SELECT id, question, chunk_id, created_at FROM accepted_questions
    WHERE collection_id = :collection AND {RETRACT.applies}
    ORDER BY created_at DESC, id DESC LIMIT :limit) newest
ORDER BY created_at, id

-- name: save
-- Write a calibration; a calibration by labelled questions stays unless it may be replaced.
UPDATE collections SET calibration = CAST(:calibration AS jsonb)
WHERE id = :id AND tenant = :tenant AND (CAST(:replace_labelled AS boolean) OR {is_unlabelled})
RETURNING {collection_columns}

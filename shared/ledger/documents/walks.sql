-- name: by_state
-- Walk the documents of some states of live builds by creation: each state is one index lookup, however many other
-- documents there are.
SELECT d.id FROM collections l CROSS JOIN {positions} CROSS JOIN LATERAL (
    SELECT d.id, d.state, d.created_at, d.public_id FROM documents d
    WHERE d.collection_id = l.id AND d.state = s.state AND {exists:d} AND {is_named} AND {follows_by_creation}
    ORDER BY d.created_at DESC, d.public_id DESC LIMIT :most) d
WHERE {of_tenant}

-- name: by_change
-- Walk the documents of live builds by their last change.
SELECT d.id FROM documents d
WHERE d.tenant = :tenant AND {exists:d} AND {is_named} AND d.state = ANY(CAST(:states AS text[]))
  AND d.collection_id = ANY(ARRAY(SELECT l.id FROM collections l WHERE {of_tenant})) AND {follows_by_change}

-- name: by_name
-- Walk the documents of live builds by their external ids.
SELECT d.id FROM collections l CROSS JOIN LATERAL (
    SELECT d.id, d.external_id, d.public_id FROM documents d
    WHERE d.collection_id = l.id AND {exists:d} AND {is_named}
      AND d.state = ANY(CAST(:states AS text[])) AND {follows_by_name}
    ORDER BY d.external_id, d.public_id LIMIT :most) d
WHERE {of_tenant}

-- name: hold
-- Lock the completions of these keys until the transaction ends, because chunks that need them are being inserted.
-- plan: generic
SELECT 1 FROM completions WHERE content_key = ANY(CAST(:keys AS bytea[])) ORDER BY content_key FOR KEY SHARE

-- The rows without an id, and then the rows whose ids follow $1, in the order of the bytes of their ids. The order of a
-- collation depends on the database, and the order of "C" on its encoding. An id that is too long for a key is cut, and
-- has the hash of all of it.
SELECT
    left(id, {most_key_bytes}) AS id,
    octet_length(id) AS id_bytes,
    CASE WHEN octet_length(id) > {most_key_bytes} THEN encode(sha256(convert_to(id, 'UTF8')), 'hex') END AS id_hash,
    version,
    size_bytes,
    CASE WHEN octet_length(readers) > {most_readers_bytes} THEN {too_long} ELSE readers END AS readers
FROM (
    SELECT
        {id}::text AS id,
        {version} AS version,
        coalesce(octet_length({text}::text), 0) AS size_bytes,
        {readers} AS readers
    FROM {rows} AS source
) AS entry
WHERE id IS NULL OR id = '' OR convert_to(id, 'UTF8') > convert_to($1, 'UTF8')
ORDER BY convert_to(id, 'UTF8') NULLS FIRST

-- The row with the id $1, and another one if there are two. The first condition can use an index of the column. The second
-- one is exact: several texts may be the same value, such as 1 and 01. A text of more than $2 bytes is not sent, and the
-- other columns are cut where a document would be.
SELECT
    version,
    size_bytes,
    content,
    title,
    CASE WHEN octet_length(metadata) <= {most_metadata_bytes} THEN metadata END AS metadata,
    CASE WHEN octet_length(readers) > {most_readers_bytes} THEN {too_long} ELSE readers END AS readers
FROM (
    SELECT
        {version} AS version,
        coalesce(octet_length({text}::text), 0) AS size_bytes,
        CASE WHEN octet_length({text}::text) <= $2::bigint THEN {text}::text END AS content,
        left({title}, {most_title_chars}) AS title,
        jsonb_build_object({metadata})::text AS metadata,
        {readers} AS readers
    FROM {rows} AS source
    WHERE {is_same} AND {id}::text COLLATE "C" = $1
    LIMIT 2
) AS entry

-- The state of one run. Addresses are compared by their bytes, as the order of entries demands.

CREATE TABLE pages (
    address TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    pattern TEXT NOT NULL,
    rank INTEGER NOT NULL,                    -- pages with a smaller rank are visited first
    hops INTEGER NOT NULL,                    -- redirects that led here
    parents TEXT NOT NULL DEFAULT '',         -- digests of pages that link here, 16 characters each
    has_more_parents INTEGER NOT NULL DEFAULT 0,
    outcome TEXT,                             -- NULL until it is visited
    reason TEXT,
    text_hash TEXT,
    canonical TEXT,
    note BLOB,                                -- to be stored in the memory
    size_bytes INTEGER,
    media_type TEXT,
    title TEXT,
    is_stored INTEGER NOT NULL DEFAULT 0      -- whether the memory has the page as it is
);
CREATE INDEX pages_to_store ON pages (address) WHERE NOT is_stored;
CREATE INDEX next_pages ON pages (rank, address) WHERE outcome IS NULL;
CREATE INDEX pages_by_digest ON pages (digest);
CREATE INDEX pages_by_text ON pages (text_hash, address) WHERE text_hash IS NOT NULL;

-- Keys of pages of other runs in the memory, which are deleted at the end.
CREATE TABLE outdated (key TEXT PRIMARY KEY) WITHOUT ROWID;

-- The notes of the previous run.
CREATE TABLE known (
    address TEXT PRIMARY KEY,
    outcome TEXT NOT NULL,
    text_hash TEXT,
    has_more_parents INTEGER NOT NULL,
    note BLOB NOT NULL
);
CREATE INDEX known_by_text ON known (text_hash, address) WHERE text_hash IS NOT NULL;
CREATE TABLE known_links (
    parent TEXT NOT NULL,
    address TEXT NOT NULL,
    PRIMARY KEY (parent, address)
) WITHOUT ROWID;

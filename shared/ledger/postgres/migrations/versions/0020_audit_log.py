"""The audit log, the triggers that write it, and the first characters of keys.

A trigger records a change only if its transaction names an author: see `shared.ledger.postgres.actors`. The previous
release names none, so that its changes are not recorded.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0020"
down_revision = "0019"
min_revision = "0003"

_SHORT = 200  # characters of a recorded value: longer ones are texts, which the log must not contain

# A value for the log: addresses without user, password and query, which may be secrets; a prompt or another long text
# as its length and digest.
_VALUE = rf"""
    CREATE OR REPLACE FUNCTION audited_value(field text, value jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE
            WHEN value IS NULL OR jsonb_typeof(value) = 'null' THEN NULL
            WHEN field = 'url' THEN to_jsonb(regexp_replace(
                value #>> '{{}}', '^([A-Za-z0-9+.-]+[:]//)?([^/?#]*@)?([^/?#]*).*$', '\1\3'))
            WHEN field = 'uri' THEN to_jsonb(regexp_replace(
                value #>> '{{}}', '^([A-Za-z0-9+.-]+[:]//)?([^/?#]*@)?([^?#]*).*$', '\1\3'))
            WHEN field LIKE '%prompt%' OR length(CAST(value AS text)) > {_SHORT} THEN to_jsonb(
                length(value #>> '{{}}') || ' characters, SHA-256 '
                || left(encode(sha256(convert_to(value #>> '{{}}', 'UTF8')), 'hex'), 8))
            ELSE value END
    $$
"""

# The limit of a budget in its unit: money is stored in billionths.
_LIMIT = """
    CREATE OR REPLACE FUNCTION budget_limit(budget jsonb) RETURNS numeric LANGUAGE sql IMMUTABLE AS $$
        SELECT trim_scale(CAST(budget ->> 'most' AS numeric)
                          / CASE budget ->> 'unit' WHEN 'money' THEN 1000000000 ELSE 1 END)
    $$
"""

# Some columns of a row, and the members of columns that are objects.
_FIELDS = """
    CREATE OR REPLACE FUNCTION audited_fields(audited jsonb, columns text[]) RETURNS TABLE (field text, value jsonb)
    LANGUAGE sql IMMUTABLE AS $$
        SELECT c.name, audited -> c.name FROM unnest(columns) AS c(name)
        WHERE jsonb_typeof(audited -> c.name) IS DISTINCT FROM 'object'
        UNION ALL
        SELECT c.name || '.' || m.key, m.value
        FROM unnest(columns) AS c(name) CROSS JOIN LATERAL jsonb_each(
            CASE WHEN jsonb_typeof(audited -> c.name) = 'object' THEN audited -> c.name ELSE CAST('{}' AS jsonb) END) m
    $$
"""

# The decision which actions are recorded. An argument of a trigger is a column whose values are recorded.
_RECORD = """
    CREATE OR REPLACE FUNCTION record_change() RETURNS trigger LANGUAGE plpgsql AS $$
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
            -- Ids of erased documents and names of erased tenants must not remain here: `erasures` has them.
            done := 'erase';
            kind := CASE WHEN subject ->> 'collection' IS NOT NULL THEN 'collection'
                         WHEN subject ->> 'document_id' IS NOT NULL THEN 'document' ELSE 'tenant' END;
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
        INSERT INTO audit_log (id, tenant, made_at, actor, actor_name, actor_key_id, action, object, object_name,
                               changes)
        VALUES (gen_random_uuid(), owner, clock_timestamp(), author ->> 'kind', author ->> 'name',
                CAST(author ->> 'key_id' AS uuid), done, kind, called, changed);
        RETURN NULL;
    END $$
"""

# The log is append-only: rows are deleted by their age, or with their tenant, and never changed.
_REFUSE = """
    CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME;
    END $$
"""

# The recorded events of each table, and the columns whose values are recorded. Secrets and their hashes are not.
_RECORDED: dict[str, tuple[str, tuple[str, ...]]] = {
    "api_keys": (
        "INSERT OR UPDATE OF limits, expires_at, revoked_at",
        ("scopes", "filter", "limits", "expires_at", "revoked_at"),
    ),
    "webhooks": ("INSERT OR DELETE OR UPDATE OF disabled_at", ("url", "events", "disabled_at")),
    "budgets": ("INSERT OR DELETE OR UPDATE OF most", ("limit", "set_by")),
    "collections": (
        "INSERT OR UPDATE OF options, embedding_model, build_state",
        ("options", "embedding_model", "build_state"),
    ),
    "erasures": ("INSERT", ()),
    "sources": (
        "INSERT OR UPDATE OF uri, options, secret_name, schedule, time_zone, max_delete_share, removed_at",
        (
            *("collection", "uri", "options", "secret_name", "schedule", "time_zone", "max_delete_share"),
            *("removed_at", "removed_with_documents"),
        ),
    ),
    "syncs": ("UPDATE OF approved", ("approved",)),
}


def upgrade() -> None:
    # May be applied again: creating the triggers ends the transaction.
    op.execute("ALTER TABLE api_keys ADD COLUMN IF NOT EXISTS key_prefix text")  # null for keys of older releases
    op.create_table(
        "audit_log",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),  # empty for operators' keys and erasures of tenants
        sa.Column("made_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),  # key, operator, command line, local
        sa.Column("actor_name", sa.Text()),  # name of the key
        sa.Column("actor_key_id", sa.Uuid()),  # null for a key of the settings
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("object", sa.Text(), nullable=False),
        sa.Column("object_name", sa.Text(), nullable=False),
        sa.Column("changes", postgresql.JSONB(), nullable=False),  # values before and after, by field
        sa.PrimaryKeyConstraint("id", name="pk_audit_log"),
        if_not_exists=True,
    )
    op.create_index("ix_audit_log_list", "audit_log", ["tenant", "made_at", "id"], if_not_exists=True)
    op.create_index("ix_audit_log_made_at", "audit_log", ["made_at"], if_not_exists=True)
    for function in (_VALUE, _LIMIT, _FIELDS, _RECORD, _REFUSE):
        op.execute(function)
    op.execute(
        "CREATE OR REPLACE TRIGGER refuse_change BEFORE UPDATE ON audit_log FOR EACH ROW"
        " EXECUTE FUNCTION refuse_change()"
    )
    # Each trigger has its own transaction, because a lock on two tables can deadlock with workers.
    # Writers that wait for the lock, too, wait for four seconds at most; then the migration fails, and may be repeated.
    with op.get_context().autocommit_block():
        for table, (events, columns) in _RECORDED.items():
            arguments = ", ".join(f"'{column}'" for column in columns)
            op.execute(
                "DO $do$ BEGIN PERFORM set_config('lock_timeout', '4s', true);"
                f" CREATE OR REPLACE TRIGGER record_change AFTER {events} ON {table} FOR EACH ROW"
                " WHEN (coalesce(current_setting('foreask.actor', true), '') <> '')"
                f" EXECUTE FUNCTION record_change({arguments}); END $do$"
            )

"""A trigger that rejects every transition that the ledger's table of transitions does not contain."""

from __future__ import annotations

from collections.abc import Mapping

from shared.ledger.model import states
from shared.ledger.model.states import Transition
from shared.ledger.postgres.database import Database

TRANSITIONS: Mapping[str, Transition] = {
    name: value for name, value in vars(states).items() if isinstance(value, Transition)
}
_NEW = "new"

_PAIRS = ", ".join(
    sorted(
        f"('{transition.table}', '{source or _NEW}', '{target}')"
        for transition in TRANSITIONS.values()
        for source in transition.sources
        for target in transition.targets
    )
)

# A claim of a claimed row and a failed attempt do not change the state, so they are not transitions.
_CHECK = f"""
    CREATE OR REPLACE FUNCTION refuse_unknown_transition() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        source text := CASE TG_OP WHEN 'INSERT' THEN '{_NEW}' ELSE to_jsonb(OLD) ->> TG_ARGV[0] END;
        target text := to_jsonb(NEW) ->> TG_ARGV[0];
    BEGIN
        IF source <> target AND (TG_TABLE_NAME::text, source, target) NOT IN ({_PAIRS}) THEN
            RAISE EXCEPTION 'no transition of % leads from % to %', TG_TABLE_NAME, source, target;
        END IF;
        RETURN NULL;
    END $$
"""

_INSTALL = """
    CREATE OR REPLACE TRIGGER refuse_unknown_transition AFTER INSERT OR UPDATE OF {column} ON {table}
    FOR EACH ROW EXECUTE FUNCTION refuse_unknown_transition('{column}')
"""

# To a trigger of rows, a row that moves to another partition is deleted and inserted; to a trigger of statements, it is
# updated.
_PARTITIONED = "chunks"
_CHECK_PARTITIONED = f"""
    CREATE OR REPLACE FUNCTION refuse_unknown_transition_of_chunks() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        refused record;
    BEGIN
        IF TG_OP = 'INSERT' THEN
            SELECT '{_NEW}' AS source, n.state AS target INTO refused FROM new_rows n
            WHERE ('{_PARTITIONED}', '{_NEW}', n.state) NOT IN ({_PAIRS}) LIMIT 1;
        ELSE
            SELECT o.state AS source, n.state AS target INTO refused FROM old_rows o JOIN new_rows n USING (id, version)
            WHERE o.state <> n.state AND ('{_PARTITIONED}', o.state, n.state) NOT IN ({_PAIRS}) LIMIT 1;
        END IF;
        IF FOUND THEN
            RAISE EXCEPTION 'no transition of % leads from % to %', TG_TABLE_NAME, refused.source, refused.target;
        END IF;
        RETURN NULL;
    END $$
"""
_INSTALL_PARTITIONED = [
    f"""
    CREATE OR REPLACE TRIGGER refuse_unknown_transition_{operation.lower()} AFTER {operation} ON {_PARTITIONED}
    REFERENCING {rows} FOR EACH STATEMENT EXECUTE FUNCTION refuse_unknown_transition_of_chunks()
    """
    for operation, rows in {
        "INSERT": "NEW TABLE AS new_rows",
        "UPDATE": "NEW TABLE AS new_rows OLD TABLE AS old_rows",
    }.items()
]


async def refuse_unknown_transitions(database: Database) -> None:
    """Install the trigger; installing it again changes nothing."""
    async with database.begin() as connection:
        for statement in (_CHECK, _CHECK_PARTITIONED, *_INSTALL_PARTITIONED):
            await connection.execute_sql(statement)
        for table, column in sorted({(transition.table, transition.column) for transition in TRANSITIONS.values()}):
            if table != _PARTITIONED:
                await connection.execute_sql(_INSTALL.format(table=table, column=column))

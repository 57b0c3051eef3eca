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


async def refuse_unknown_transitions(database: Database) -> None:
    """Install the trigger; installing it again changes nothing."""
    async with database.begin() as connection:
        await connection.execute_sql(_CHECK)
        for table, column in sorted({(transition.table, transition.column) for transition in TRANSITIONS.values()}):
            await connection.execute_sql(_INSTALL.format(table=table, column=column))

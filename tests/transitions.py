"""A trigger that refuses every transition which the ledger's table does not have."""

from __future__ import annotations

from collections.abc import Mapping

from shared.ledger import states
from shared.ledger.database import Database
from shared.ledger.states import Transition

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

# A claim of a claimed row and a failed attempt leave a state as it is: that is no transition.
_CHECK = f"""
    CREATE OR REPLACE FUNCTION refuse_unknown_transition() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        source text := CASE TG_OP WHEN 'INSERT' THEN '{_NEW}' ELSE OLD.state END;
    BEGIN
        IF source <> NEW.state AND (TG_TABLE_NAME::text, source, NEW.state) NOT IN ({_PAIRS}) THEN
            RAISE EXCEPTION 'no transition of % leads from % to %', TG_TABLE_NAME, source, NEW.state;
        END IF;
        RETURN NULL;
    END $$
"""

_INSTALL = """
    CREATE OR REPLACE TRIGGER refuse_unknown_transition AFTER INSERT OR UPDATE OF state ON {table}
    FOR EACH ROW EXECUTE FUNCTION refuse_unknown_transition()
"""


async def refuse_unknown_transitions(database: Database) -> None:
    """Install the trigger; once more changes nothing."""
    async with database.begin() as connection:
        await connection.exec_driver_sql(_CHECK)
        for table in sorted({transition.table for transition in TRANSITIONS.values()}):
            await connection.exec_driver_sql(_INSTALL.format(table=table))

"""One statement finds the steps of the scheduler that may have work, so that an idle deployment costs little."""

from __future__ import annotations

from collections.abc import Mapping

from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement

SQL = statements.load(__file__, states.FRAGMENTS)


class Poll:
    """The conditions of several steps as one statement.

    Args:
        conditions: statements without parameters, whose only value is true whenever the step has work, by step.
    """

    def __init__(self, conditions: Mapping[str, Statement]) -> None:
        columns = (f'({condition}) AS "{step}"' for step, condition in conditions.items())
        self.conditions = conditions
        self.statement = Statement(f"SELECT {', '.join(columns)}", generic=True)

    async def due(self, database: Database) -> set[str]:
        """Return the steps that may have work now.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        (row,) = await database.rows(self.statement)
        return {step for step, is_due in row.items() if is_due}

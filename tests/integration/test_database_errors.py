"""Errors of PostgreSQL, which end in a log."""

import pytest
from sqlalchemy import exc, text


async def test_an_unexpected_error_shows_no_parameter(services):
    with pytest.raises(exc.ProgrammingError, match="no_such_table") as caught:
        async with services.database.begin() as connection:
            await connection.execute(text("INSERT INTO no_such_table VALUES (:text)"), {"text": "a contract's text"})

    assert "contract" not in str(caught.value)

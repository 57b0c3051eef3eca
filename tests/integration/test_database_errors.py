"""Errors of PostgreSQL, which end in a log."""

import pytest
from sqlalchemy import exc, text
from structlog.testing import capture_logs

from shared.domain.errors import Unavailable


async def test_an_unexpected_error_shows_no_parameter(services):
    with pytest.raises(exc.ProgrammingError, match="no_such_table") as caught:
        async with services.database.begin() as connection:
            await connection.execute(text("INSERT INTO no_such_table VALUES (:text)"), {"text": "a contract's text"})

    assert "contract" not in str(caught.value)


async def sort_much(services):
    async with services.database.begin() as connection:
        for name, value in (("temp_file_limit", "0"), ("work_mem", "64kB")):
            await connection.execute(text(f"SET LOCAL {name} = '{value}'"))
        await connection.execute(text("SELECT count(*) FROM (SELECT generate_series(1, 200000) n ORDER BY 1 DESC) s"))


async def test_what_postgresql_is_short_of_is_for_the_log_alone(services):
    with capture_logs() as logs, pytest.raises(Unavailable) as caught:
        await sort_much(services)

    assert "temp" not in caught.value.message
    (answered,) = [entry for entry in logs if entry["event"] == "ledger.answered"]
    assert "temp_file_limit" in answered["words"]

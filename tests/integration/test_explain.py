"""`python -m shared.ledger explain` prints each statement as PostgreSQL receives it, and the plan that it has there."""

import asyncio

import pytest

from shared.ledger.__main__ import run
from shared.ledger.explain import all_statements, plan_of
from tests.support.planted import guards


@pytest.fixture
def explain(services, monkeypatch, capsys):
    """Return a function that runs the command and returns its output."""
    monkeypatch.setenv("FOREASK_DATABASE_URL", services.settings.database_url.get_secret_value())

    async def explain(*names):
        await asyncio.to_thread(run, ["explain", *names])
        return capsys.readouterr().out

    return explain


async def test_every_statement_of_budgets_and_locks_has_plan(services):
    chosen = {name: each for name, each in all_statements().items() if name.startswith(("budgets.", "postgres."))}

    plans = {name: await plan_of(services.database, each) for name, each in chosen.items()}

    assert len(plans) > 20
    assert {name: plan for name, plan in plans.items() if "cost=" not in plan and "has no plan" not in plan} == {}
    assert any("has no plan" in plan for plan in plans.values())  # a setting


@guards(
    "shared/ledger/explain.py",
    "generic=statement.generic or False",
    "generic=False",
    means="a statement is explained with another plan than it has in a worker",
)
async def test_statement_is_printed_filled_with_its_plan(explain):
    printed = await explain("parsing.claim_documents")

    assert printed.startswith("-- work.parsing.claim_documents\n-- $1 = :holders, $2 = :held,")
    assert "CAST($1 AS text[])" in printed
    assert "Index Scan using" in printed
    assert "Seq Scan on documents" not in printed  # although the table is empty


async def test_all_statements_are_listed_without_a_name(explain):
    listed = (await explain()).splitlines()

    of_features = {"features.webhooks.ledger.claim", "features.feedback.ledger.suggestions.span"}
    assert {"work.parsing.claim_documents"} | of_features <= set(listed)


async def test_unknown_statement_is_answered_with_similar_ones(explain):
    with pytest.raises(SystemExit, match=r"no statement 'claim_document'; similar ones: .*parsing\.claim_documents"):
        await explain("claim_document")

"""Commands for budgets of the ingest."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer

from cli.connection import LOCAL, Key, Url, client_of, console_of

budgets_app = typer.Typer(
    help="Set, list or delete limits on the tokens or the cost of the ingest. With --tenant: as an operator.",
    no_args_is_help=True,
)

OfTenant = Annotated[str | None, typer.Option("--tenant", help="Another tenant; needs an operator's key.")]


class PeriodChoice(StrEnum):
    DAY = "day"
    MONTH = "month"
    TOTAL = "total"


def register(app: typer.Typer) -> None:
    app.add_typer(budgets_app, name="budgets")
    budgets_app.command("set")(set_)
    budgets_app.command("list")(list_)
    budgets_app.command()(delete)


def set_(
    limit: Annotated[
        float, typer.Argument(help="Money in the currency of the prices, or tokens with --tokens.", min=0)
    ],
    *,
    period: Annotated[PeriodChoice, typer.Option(help="Time after which it starts again, in UTC.")],
    tokens: Annotated[bool, typer.Option("--tokens", help="Limit tokens of the language model, not money.")] = False,
    collection: Annotated[str | None, typer.Option("--collection", "-c", help="Limit this collection only.")] = None,
    job: Annotated[UUID | None, typer.Option(help="Limit this job only.")] = None,
    tenant: OfTenant = None,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Set a budget, or change its limit. Work that waited for it continues within seconds."""
    from cli import output

    with client_of(url, key) as client:
        budget = client.set_budget(
            limit,
            unit="tokens" if tokens else "money",
            period=period.value,
            collection=collection,
            job_id=None if job is None else str(job),
            tenant=tenant,
        )
    output.print_budgets(console_of(), [budget])


def list_(tenant: OfTenant = None, url: Url = LOCAL, key: Key = None) -> None:
    """List budgets: id, scope, spent and reserved amount, limit, and whether it is exhausted."""
    from cli import output

    with client_of(url, key) as client:
        output.print_budgets(console_of(), client.budgets(tenant=tenant))


def delete(
    budget: Annotated[UUID, typer.Argument(help="The budget's id.")],
    *,
    tenant: OfTenant = None,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Delete a budget."""
    with client_of(url, key) as client:
        client.delete_budget(str(budget), tenant=tenant)
    print("deleted")

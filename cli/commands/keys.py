"""Commands for keys: through the API for the tenant of the current key, or in the ledger for any tenant."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cli.commands.ask import condition
from cli.connection import LOCAL, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from foreask_client import Key as ClientKey
    from foreask_client.models import Json, KeyScope

    from shared.domain.access.keys import Key as LedgerKey
    from shared.domain.access.keys import KeySpecification

keys_app = typer.Typer(
    help="Create, list, change or revoke API keys. With --tenant or --operator: in the ledger, without a server.",
    no_args_is_help=True,
)

_DAY_SECONDS = 86_400
_LIMITS: Mapping[str, Callable[[str], float]] = {
    "requests_per_second": float,
    "tokens_per_day": int,
    "cost_per_day": float,
    "max_tokens": int,
}


class ScopeChoice(StrEnum):
    READ = "read"
    ASK = "ask"
    FEEDBACK = "feedback"
    WRITE = "write"
    MANAGE = "manage"
    DELEGATE = "delegate"


Tenant = Annotated[str | None, typer.Option(help="In the ledger: tenant of the key.", rich_help_panel="Ledger")]
OfOperator = Annotated[
    bool, typer.Option("--operator", help="In the ledger: an operator's key.", rich_help_panel="Ledger")
]


def register(app: typer.Typer) -> None:
    app.add_typer(keys_app, name="keys")
    keys_app.command("list")(list_)
    for command in (create, change, revoke, setting):
        keys_app.command()(command)


def create(
    name: Annotated[str, typer.Argument(help="Name of the key in the log.")],
    *,
    scope: Annotated[
        list[ScopeChoice] | None, typer.Option(help="Permission, repeatable; default: read, ask, feedback and write.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(help="Lifetime in days; default: until it is revoked.", min=1, max=3650)
    ] = None,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", help="Filter of each query with the key, e.g. audience=public.")
    ] = None,
    limits: Annotated[
        list[str] | None, typer.Option("--limit", help=f"Limit, repeatable: NUMBER for {', '.join(_LIMITS)}.")
    ] = None,
    tenant: Tenant = None,
    operator: OfOperator = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Create a key, which is printed only once."""
    scopes = [each.value for each in scope or ([ScopeChoice.ASK] if filters else _usual())]
    filter_ = dict(map(condition, filters)) if filters else None
    limits_ = dict(map(_limit, limits)) if limits else None
    owner = _owner(tenant, operator=operator)
    if owner is None:
        lifetime = None if days is None else days * _DAY_SECONDS
        allowed = cast("list[KeyScope]", scopes)
        with client_of(url, key) as client:
            made = client.create_key(name, allowed, expires_in_seconds=lifetime, filter=filter_, limits=limits_).key
    else:
        made = _make_in_ledger(_new_key(owner, name, scopes, filter_, limits_, days))
    print(f"# It is shown only once:\nFOREASK_API_KEY={made}")


def list_(tenant: Tenant = None, operator: OfOperator = False, url: Url = LOCAL, key: Key = None) -> None:
    """List keys, newest first: name, scopes, state and last use."""
    from cli import output

    owner = _owner(tenant, operator=operator)
    if owner is not None:
        output.print_keys(console_of(), _in_ledger(owner))
        return
    with client_of(url, key) as client:
        output.print_keys(console_of(), client.keys())


def change(
    name: Annotated[str, typer.Argument(help="The key's name, or its id.")],
    *,
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", help=f"New limit, repeatable: NUMBER for {', '.join(_LIMITS)}. They replace all old ones."
        ),
    ] = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="Remove the key's limits.")] = False,
    days: Annotated[int | None, typer.Option(help="New lifetime in days from now.", min=1, max=3650)] = None,
    forever: Annotated[bool, typer.Option("--forever", help="Valid until it is revoked.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Change the limits or the lifetime of a key. Within five seconds all processes of the API use them."""
    from cli import output

    if (limits and unlimited) or (days and forever):
        raise typer.BadParameter("--limit and --unlimited exclude each other, and so do --days and --forever.")
    changes: Json = {}
    if limits or unlimited:
        changes["limits"] = dict(map(_limit, limits)) if limits else None
    if days or forever:
        changes["expires_in_seconds"] = days * _DAY_SECONDS if days else None
    if not changes:
        raise typer.BadParameter("Nothing to change: give --limit, --unlimited, --days or --forever.")
    with client_of(url, key) as client:
        changed = client.change_key(_id_of(name, list(client.keys())), **changes)
    output.print_keys(console_of(), [changed])


def revoke(
    name: Annotated[str, typer.Argument(help="The key's name, or its id.")],
    *,
    tenant: Tenant = None,
    operator: OfOperator = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Revoke a key. Within five seconds all processes of the API reject it."""
    owner = _owner(tenant, operator=operator)
    if owner is not None:
        _revoke_in_ledger(owner, _id_of(name, _in_ledger(owner)))
    else:
        with client_of(url, key) as client:
            client.revoke_key(_id_of(name, list(client.keys())))
    print("revoked")


def setting(
    tenant: Annotated[str, typer.Argument(help="Tenant of the key.")] = "default",
    operator: Annotated[bool, typer.Option("--operator", help="Create an operator's key.")] = False,
) -> None:
    """Create a key for the server's settings, and print the key for its holder and the line for the server."""
    from cli import keys

    made = keys.make_operators() if operator else keys.make(tenant)
    print(f"# For the holder; it is shown only once:\nFOREASK_API_KEY={made.key}")
    print(f"# For the server; several are separated by commas:\n{made.variable}={made.setting}")


def _usual() -> list[ScopeChoice]:
    return [ScopeChoice.READ, ScopeChoice.ASK, ScopeChoice.FEEDBACK, ScopeChoice.WRITE]


def _owner(tenant: str | None, *, operator: bool) -> str | None:
    """Return the owner of the keys in the ledger, or None for the tenant of the current key on the server."""
    from cli import keys
    from shared.domain.access.key_texts import OPERATOR

    if operator and tenant is not None:
        raise typer.BadParameter("--tenant and --operator exclude each other, because an operator's key has no tenant.")
    if tenant is not None:
        keys.require_tenant(tenant)
    return OPERATOR if operator else tenant


def _limit(text: str) -> tuple[str, float]:
    """Parse `name=number`."""
    name, _, value = text.partition("=")
    try:
        number = _LIMITS[name](value)
    except (KeyError, ValueError):
        number = 0
    if not 0 < number < float("inf"):
        raise typer.BadParameter(
            f"{text} is not NAME=NUMBER, such as tokens_per_day=1000000. The limits are {', '.join(_LIMITS)}.",
            param_hint="--limit",
        )
    return name, number


def _new_key(  # noqa: PLR0917 - the options of a key
    owner: str, name: str, scopes: Sequence[str], filter_: Json | None, limits: Json | None, days: int | None
) -> KeySpecification:
    from shared.domain.access.key_texts import OPERATOR
    from shared.domain.access.keys import KeyLimits, KeySpecification, Scope
    from shared.vectors.schema.filters import caller_conditions

    caller_conditions(filter_, None)  # rejects a filter that is not valid in queries
    chosen = {Scope.OPERATOR} if owner == OPERATOR else set(map(Scope, scopes))
    lifetime = None if days is None else timedelta(days=days)
    return KeySpecification(owner, name, chosen, filter_, lifetime, KeyLimits(**(limits or {})))


def _make_in_ledger(new: KeySpecification) -> str:
    from cli import keys
    from shared.domain.access.key_texts import draw, hash_of, prefix_of

    key = draw()
    keys.in_ledger(lambda ledger: ledger.make(new, hash_of(key), prefix_of(key)))
    return key


def _in_ledger(owner: str) -> Sequence[LedgerKey]:
    from cli import keys

    return keys.in_ledger(lambda ledger: ledger.page(owner, limit=1_000))


def _revoke_in_ledger(owner: str, key_id: str) -> None:
    from uuid import UUID

    from cli import keys

    keys.in_ledger(lambda ledger: ledger.revoke(owner, UUID(key_id)))


def _id_of(name: str, listed: Sequence[LedgerKey | ClientKey]) -> str:
    """Return the id of the key with this id, or with this name if it is not revoked."""
    from shared.domain.errors import NotFound

    for each in listed:
        if name == str(each.id) or (name == each.name and each.revoked_at is None):
            return str(each.id)
    raise NotFound(f"There is no key '{name}' that is not revoked. `foreask keys list` shows all keys.")

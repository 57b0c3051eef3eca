"""Commands of keys: through the API for the tenant of one's own key, or in the ledger for any tenant."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cli.commands.ask import condition
from cli.server import LOCAL, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreask_client import Key as ClientKey
    from foreask_client.models import Json, KeyScope

    from shared.domain.keys import Key as LedgerKey
    from shared.domain.keys import NewKey

keys_app = typer.Typer(
    help="Keys to the API; make, list or revoke them. With --tenant or --operator in the ledger, without a server.",
    no_args_is_help=True,
)

_DAY_SECONDS = 86_400


class ScopeChoice(StrEnum):
    READ = "read"
    ASK = "ask"
    WRITE = "write"
    MANAGE = "manage"


Tenant = Annotated[str | None, typer.Option(help="In the ledger: whom the key speaks for.", rich_help_panel="Ledger")]
OfOperator = Annotated[
    bool, typer.Option("--operator", help="In the ledger: operators' keys.", rich_help_panel="Ledger")
]


def register(app: typer.Typer) -> None:
    app.add_typer(keys_app, name="keys")
    keys_app.command("list")(list_)
    for command in (make, revoke, setting):
        keys_app.command()(command)


def make(
    name: Annotated[str, typer.Argument(help="Under which the log names it.")],
    *,
    scope: Annotated[
        list[ScopeChoice] | None, typer.Option(help="What it may do, again for more; read, ask and write if not said.")
    ] = None,
    days: Annotated[int | None, typer.Option(help="For how long; else until it is revoked.", min=1, max=3650)] = None,
    filters: Annotated[
        list[str] | None, typer.Option("--filter", help="What each of its queries carries, e.g. audience=public.")
    ] = None,
    tenant: Tenant = None,
    operator: OfOperator = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Make a key, which is printed this once."""
    scopes = [each.value for each in scope or ([ScopeChoice.ASK] if filters else _usual())]
    filter_ = dict(map(condition, filters)) if filters else None
    whose = _whose(tenant, operator=operator)
    if whose is None:
        lifetime = None if days is None else days * _DAY_SECONDS
        allowed = cast("list[KeyScope]", scopes)
        with client_of(url, key) as client:
            made = client.make_key(name, allowed, expires_in_seconds=lifetime, filter=filter_).key
    else:
        made = _make_in_ledger(_new_key(whose, name, scopes, filter_, days))
    print(f"# It is shown this once:\nFOREASK_API_KEY={made}")


def list_(tenant: Tenant = None, operator: OfOperator = False, url: Url = LOCAL, key: Key = None) -> None:
    """List keys, newest first: name, scopes, state and last use."""
    from cli import output

    whose = _whose(tenant, operator=operator)
    if whose is not None:
        output.print_keys(console_of(), _in_ledger(whose))
        return
    with client_of(url, key) as client:
        output.print_keys(console_of(), client.keys())


def revoke(
    name: Annotated[str, typer.Argument(help="The key's name, or its id.")],
    *,
    tenant: Tenant = None,
    operator: OfOperator = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Revoke a key: within five seconds no process of the API takes it any more."""
    whose = _whose(tenant, operator=operator)
    if whose is not None:
        _revoke_in_ledger(whose, _id_of(name, _in_ledger(whose)))
    else:
        with client_of(url, key) as client:
            client.revoke_key(_id_of(name, list(client.keys())))
    print("revoked")


def setting(
    tenant: Annotated[str, typer.Argument(help="Whom the key speaks for.")] = "default",
    operator: Annotated[bool, typer.Option("--operator", help="Make an operator's key.")] = False,
) -> None:
    """Make a key for the server's settings: the key for its holder, and the line for the server."""
    from cli import keys

    made = keys.make_operators() if operator else keys.make(tenant)
    print(f"# For the holder; it is shown this once:\nFOREASK_API_KEY={made.key}")
    print(f"# For the server; several are separated by commas:\n{made.variable}={made.setting}")


def _usual() -> list[ScopeChoice]:
    return [ScopeChoice.READ, ScopeChoice.ASK, ScopeChoice.WRITE]


def _whose(tenant: str | None, *, operator: bool) -> str | None:
    """Whose keys in the ledger are meant; None: the server is asked, for the tenant of one's own key."""
    from cli import keys
    from shared.domain.keys import OPERATOR

    if operator and tenant is not None:
        raise typer.BadParameter("Say --tenant or --operator: an operator's key has no tenant.")
    if tenant is not None:
        keys.require_tenant(tenant)
    return OPERATOR if operator else tenant


def _new_key(whose: str, name: str, scopes: Sequence[str], filter_: Json | None, days: int | None) -> NewKey:
    from shared.domain.keys import OPERATOR, NewKey, Scope
    from shared.vectors.filters import caller_conditions

    caller_conditions(filter_, None)  # a filter that no query can carry is refused here
    chosen = {Scope.OPERATOR} if whose == OPERATOR else set(map(Scope, scopes))
    return NewKey(whose, name, chosen, filter_, None if days is None else timedelta(days=days))


def _make_in_ledger(new: NewKey) -> str:
    from cli import keys
    from shared.domain.keys import draw, hash_of

    key = draw()
    keys.in_ledger(lambda ledger: ledger.make(new, hash_of(key)))
    return key


def _in_ledger(whose: str) -> Sequence[LedgerKey]:
    from cli import keys

    return keys.in_ledger(lambda ledger: ledger.page(whose, limit=1_000))


def _revoke_in_ledger(whose: str, key_id: str) -> None:
    from uuid import UUID

    from cli import keys

    keys.in_ledger(lambda ledger: ledger.revoke(whose, UUID(key_id)))


def _id_of(name: str, listed: Sequence[LedgerKey | ClientKey]) -> str:
    """The id of the key of this name that is not revoked, or of this id."""
    from shared.domain.errors import NotFound

    for each in listed:
        if name == str(each.id) or (name == each.name and each.revoked_at is None):
            return str(each.id)
    raise NotFound(f"There is no key '{name}' that is not revoked. `foreask keys list` shows those that exist.")

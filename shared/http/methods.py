"""The methods of each address: a request with another method is answered 405."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastapi.routing import RouteContext, iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send


class _WrongMethods(Route):
    """The methods that an address lacks."""

    def __init__(self, path: str, methods: Iterable[str]) -> None:
        super().__init__(path, _refuse, methods=sorted(methods), include_in_schema=False)


class _Head:
    """Serves a request as if its method was GET."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope["app"].router({**scope, "method": "GET"}, receive, send)


def refusals(routes: Sequence[BaseRoute]) -> list[BaseRoute]:
    """Return routes that must precede the given ones, and refuse the other methods of fixed addresses.

    `/v1/dead-letters/retry` has only POST. Without its refusal, GET would return the dead letter with the id `retry`.
    """
    served = list(_served(routes))
    found: list[BaseRoute] = []
    for path in sorted({each.path for each in served if each.path and _is_fixed(each)}):
        own = _methods(each for each in served if each.path == path)
        if others := _methods(each for each in served if each.path_regex.match(path)) - own:
            found.append(_WrongMethods(path, others))
    return found


def heads(paths: Iterable[str]) -> list[BaseRoute]:
    """Return routes that reply to HEAD as to GET; the server leaves out the body. FastAPI's routes have no HEAD."""
    return [Route(path, _Head(), methods=["HEAD"], include_in_schema=False) for path in paths]


def allowed(routes: Sequence[BaseRoute], scope: Scope) -> str:
    """Return the methods of a request's address for the header `Allow`."""
    matching = [each for each in _served(routes) if each.matches(scope)[0] is not Match.NONE]
    fixed = [each for each in matching if _is_fixed(each)]
    return ", ".join(sorted(_methods(fixed or matching)))


async def _refuse(_: Request) -> Response:
    raise HTTPException(405)


def _served(routes: Sequence[BaseRoute]) -> Iterable[RouteContext]:
    return (each for each in iter_route_contexts(routes) if each.methods and not isinstance(each.route, _WrongMethods))


def _is_fixed(route: RouteContext) -> bool:
    return "{" not in (route.path or "")


def _methods(routes: Iterable[RouteContext]) -> set[str]:
    return set[str]().union(*(each.methods or () for each in routes))

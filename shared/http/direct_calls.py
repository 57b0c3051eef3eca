"""Calls of endpoints without FastAPI's solver, which takes 0.2 ms of a request.

An endpoint is called directly if it returns a reply, and if its parameters are the request, the body, and dependencies
with such parameters. FastAPI calls all others. It describes all.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, get_type_hints

from fastapi import Request
from fastapi.dependencies.models import Dependant
from starlette.responses import Response

Endpoint = Callable[[Request, object], Coroutine[Any, Any, Response]]

# Parameters that a direct call cannot supply.
_OTHERS = (
    "path_params",
    "query_params",
    "header_params",
    "cookie_params",
    "websocket_param_name",
    "http_connection_param_name",
    "response_param_name",
    "background_tasks_param_name",
    "security_scopes_param_name",
)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a dependency or of the endpoint.

    Args:
        function: the function.
        request: name of the parameter that takes the request; None if there is none.
        results: parameters that take results of earlier calls, by the numbers of these calls.
    """

    function: Callable[..., Coroutine[Any, Any, Any]]
    request: str | None
    results: Sequence[tuple[str, int]]


def direct_call(dependant: Dependant) -> Endpoint | None:
    """Return the call of an endpoint with a request and its validated body; None if only FastAPI can call it."""
    calls: list[_Call] = []
    if not _returns_reply(dependant.call) or len(dependant.body_params) > 1 or not _plan(dependant, calls):
        return None
    *dependencies, endpoint = calls
    body_name = dependant.body_params[0].name if dependant.body_params else None

    async def call(request: Request, body: object) -> Response:
        results: list[Any] = []
        for each in dependencies:
            results.append(await each.function(**_arguments(each, request, results)))
        arguments = _arguments(endpoint, request, results)
        if body_name is not None:
            arguments[body_name] = body
        response: Response = await endpoint.function(**arguments)
        return response

    return call


def _plan(dependant: Dependant, calls: list[_Call]) -> bool:
    """Append the calls of a dependency tree in FastAPI's order, each once; return whether all are possible."""
    if any(getattr(dependant, name) for name in _OTHERS) or not _is_coroutine(dependant.call):
        return False
    results: list[tuple[str, int]] = []
    for each in dependant.dependencies:
        number = _number(each, calls)
        if number is None:
            if each.body_params or not _plan(each, calls):
                return False
            number = len(calls) - 1
        if each.name is not None:
            results.append((each.name, number))
    assert dependant.call is not None
    calls.append(_Call(dependant.call, dependant.request_param_name, results))
    return True


def _number(dependant: Dependant, calls: Sequence[_Call]) -> int | None:
    return next((n for n, call in enumerate(calls) if call.function == dependant.call), None)


def _arguments(call: _Call, request: Request, results: Sequence[Any]) -> dict[str, Any]:
    arguments = {name: results[number] for name, number in call.results}
    if call.request is not None:
        arguments[call.request] = request
    return arguments


def _is_coroutine(function: Callable[..., Any] | None) -> bool:
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def _returns_reply(function: Callable[..., Any] | None) -> bool:
    returned = get_type_hints(function).get("return") if function is not None else None
    return isinstance(returned, type) and issubclass(returned, Response)

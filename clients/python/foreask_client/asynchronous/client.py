"""The client: the methods of all parts of the API in one class."""

from __future__ import annotations

from foreask_client.asynchronous.batches import BatchesApi
from foreask_client.asynchronous.budgets import BudgetsApi
from foreask_client.asynchronous.builds import BuildsApi
from foreask_client.asynchronous.collections import CollectionsApi
from foreask_client.asynchronous.dead_letters import DeadLettersApi
from foreask_client.asynchronous.documents import DocumentsApi
from foreask_client.asynchronous.evaluations import EvaluationsApi
from foreask_client.asynchronous.jobs import JobsApi
from foreask_client.asynchronous.operator import OperatorApi
from foreask_client.asynchronous.pushes import PushesApi
from foreask_client.asynchronous.queries import QueriesApi
from foreask_client.asynchronous.sources import SourcesApi
from foreask_client.asynchronous.tenant import TenantApi


class AsyncClient(
    DocumentsApi,
    QueriesApi,
    CollectionsApi,
    BuildsApi,
    JobsApi,
    BatchesApi,
    SourcesApi,
    PushesApi,
    EvaluationsApi,
    DeadLettersApi,
    TenantApi,
    BudgetsApi,
    OperatorApi,
):
    """A client of the API at a URL, for the tenant of a key.

    The asyncio client belongs to one event loop. The synchronous client can be shared by threads.

    Every method raises `ApiError` if the server rejects the request, fails or is unreachable. Ids are strings; times in
    replies have a time zone.

    Args:
        url: the server's URL, such as http://127.0.0.1:8350.
        key: API key, or the signed token of a person; None if the server requires none.
        user: name of the person for whom the key acts, which needs the scope `delegate`; None: the key itself.
        groups: groups of this person.
        timeout_seconds: longest wait for a part of a reply.
        attempts: number of times that a repeatable request is sent before its error is raised.
        headers: headers of every request to the server, for example for a proxy.
        http_transport: an httpx transport that replaces the network.
    """

"""The names of Qdrant's client that this package uses.

The client builds the validators of its 340 models when it is imported, which takes 0.8 s of processor time and 16 MB in
each process. Here a model's validator is built when the model is first used, as pydantic does it for models that ask
for this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel, ConfigDict

from shared.process.start import without


@contextmanager
def _built_when_used() -> Iterator[None]:
    """Make pydantic build the validators of models that are defined meanwhile later; the client would rebuild each."""
    config, rebuild = BaseModel.model_config, BaseModel.__dict__["model_rebuild"]
    BaseModel.model_config = ConfigDict(defer_build=True)
    BaseModel.model_rebuild = classmethod(lambda _, **__: None)  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        BaseModel.model_config = config
        BaseModel.model_rebuild = rebuild  # type: ignore[method-assign]


with _built_when_used(), without("rich"):  # httpx would load it for its command line
    from qdrant_client import AsyncQdrantClient, models
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

__all__ = [
    "ApiException",
    "AsyncQdrantClient",
    "ResourceExhaustedResponse",
    "ResponseHandlingException",
    "UnexpectedResponse",
    "models",
]

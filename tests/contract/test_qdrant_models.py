"""Qdrant's client in a new process: its models are built when they are used, and other models at once."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from pydantic import BaseModel
from shared.vectors.qdrant import models
from qdrant_client.http.models import models as defined

kinds = [kind for kind in vars(defined).values() if isinstance(kind, type) and issubclass(kind, BaseModel)]
print("built before use", sum(kind.__pydantic_complete__ for kind in kinds))
match = models.FieldCondition(key="tenant", match=models.MatchValue(value="a"))
print(models.QueryRequest(query=[0.5], filter=models.Filter(must=[match])).model_dump_json(exclude_none=True))
print(models.CollectionInfo.model_rebuild.__func__ is BaseModel.model_rebuild.__func__)


class Other(BaseModel):
    value: int


print(Other.__pydantic_complete__)
"""


def test_models_are_built_when_used():
    printed = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout

    filtered = '{"must":[{"key":"tenant","match":{"value":"a"}}]}'
    assert printed.splitlines() == ["built before use 0", f'{{"query":[0.5],"filter":{filtered}}}', "True", "True"]

"""The reference names every field of chunks and of query results."""

import re

import pytest

from api.schemas.chunks import ChunkView
from shared.http.schemas.queries import RetrievedChunkView
from tests.support.deployment import ROOT

SECTIONS = (ROOT / "docs/reference/http-api.md").read_text().split("\n## ")


@pytest.mark.parametrize(
    ("view", "title"),
    [(ChunkView, "Which fields does a chunk have?"), (RetrievedChunkView, "What does a query return?")],
)
def test_reference_lists_fields_of_chunks_and_results(view, title):
    [section] = [text for text in SECTIONS if text.startswith(title)]

    assert view.model_fields.keys() - set(re.findall(r"`(\w+)`", section)) == set()

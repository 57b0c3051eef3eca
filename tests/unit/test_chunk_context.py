"""The context of a chunk, around the text that is embedded and indexed."""

import pytest

from shared.domain.corpus.chunks import ChunkContext


@pytest.mark.parametrize(
    ("context", "around"),
    [
        (ChunkContext("A port.", ("quay", "pier")), "A port.\n\nText.\n\nquay, pier"),
        (ChunkContext("A port."), "A port.\n\nText."),
        (ChunkContext("", ("quay",)), "Text.\n\nquay"),
        (ChunkContext(), "Text."),
    ],
)
def test_line_precedes_text_and_terms_follow(context, around):
    assert context.around("Text.") == around


def test_stored_context_is_read_from_other_releases():
    context = ChunkContext("A port.", ("quay",))
    assert ChunkContext.from_json(context.as_json() | {"language": "en"}) == context
    assert ChunkContext.from_json({}) == ChunkContext()

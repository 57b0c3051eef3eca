"""A reply that our code fails to read is an error of the reply, with the tokens that it reports."""

import pytest

from shared.domain.errors import Refused, UnusableReply
from shared.domain.spending.usage import Usage
from shared.providers.replies.reading import reading

BILLED = Usage(90, 10)


@pytest.mark.parametrize(
    ("raised", "usage", "reported"),
    [
        (AttributeError("'list' object has no attribute 'replace'"), BILLED, BILLED),
        (RecursionError(), Usage(), None),
        (UnusableReply("no choices", component="llm"), BILLED, BILLED),
        (UnusableReply("no choices", component="llm"), Usage(), None),
        (UnusableReply("no choices", component="llm", usage=Usage(1)), BILLED, Usage(1)),
    ],
)
def test_failure_to_read_reply_has_reported_tokens(raised, usage, reported):
    with pytest.raises(UnusableReply) as caught, reading("llm", lambda: usage):
        raise raised

    assert caught.value.usage == reported
    assert caught.value.burns_attempt


def test_refusal_in_reply_stays_refusal():
    with pytest.raises(Refused), reading("llm"):
        raise Refused("the model refuses to write about this text", usage=BILLED)

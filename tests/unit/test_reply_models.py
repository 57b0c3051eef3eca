"""Replies of the API are read from the attributes of domain objects."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from pydantic import AliasPath, Field, ValidationError

from shared.http.schemas.common import ReplyModel, Seconds


@dataclass(frozen=True, slots=True)
class Tokens:
    prompt: int


@dataclass(frozen=True, slots=True)
class Call:
    model: str
    tokens: Tokens
    lasted: timedelta | None


class TokensView(ReplyModel):
    prompt: int


class CallView(ReplyModel):
    model: str
    tokens: TokensView
    prompt_tokens: int = Field(validation_alias=AliasPath("tokens", "prompt"))
    seconds: Seconds | None = Field(validation_alias="lasted")


class PricedCallView(CallView):
    cost: float


CALL = Call("small", Tokens(7), timedelta(seconds=1.26))


def test_reply_has_nested_and_renamed_attributes():
    reply = CallView.of(CALL)

    assert reply.model_dump() == {"model": "small", "tokens": {"prompt": 7}, "prompt_tokens": 7, "seconds": 1.3}


def test_given_fields_are_added_and_replace_attributes():
    reply = PricedCallView.of(CALL, cost=0.5, model="large")

    assert (reply.cost, reply.model, reply.prompt_tokens) == (0.5, "large", 7)


def test_field_without_attribute_is_rejected():
    with pytest.raises(ValidationError, match="cost"):
        PricedCallView.of(CALL)


def test_reply_is_also_made_by_field_names():
    assert CallView(model="small", tokens=TokensView(prompt=7), prompt_tokens=7, seconds=1.3) == CallView.of(CALL)

"""Hints: the messages of each object store are read as names, and anything else is refused."""

import json

import pytest

from features.sources.hints.messages import MOST_KEYS, Hint, HintedName, read_hint
from shared.domain.errors import InvalidInput, TooLarge

RECORD = {
    "eventName": "ObjectCreated:Put",
    "s3": {"bucket": {"name": "corpus"}, "object": {"key": "hand+book/caf%C3%A9%2B1.md", "size": 3}},
}
S3 = {"Records": [RECORD]}
DECODED = HintedName("hand book/café+1.md", "corpus")


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"keys": ["a.md", "b/c.md", "a.md"]}, [HintedName("a.md"), HintedName("b/c.md")]),
        ({"keys": []}, []),
        (S3, [DECODED]),
        ({"EventName": "s3:ObjectRemoved:Delete", "Key": "corpus/hand book/café+1.md", **S3}, [DECODED]),
        ({"Type": "Notification", "MessageId": "1", "Message": json.dumps(S3)}, [DECODED]),
        (
            {
                "detail-type": "Object Deleted",
                "source": "aws.s3",
                "detail": {"bucket": {"name": "corpus"}, "object": {"key": "a+b %41.md"}},
            },
            [HintedName("a+b %41.md", "corpus")],
        ),
        (
            {
                "message": {"attributes": {"bucketId": "corpus", "objectId": "a+b.md", "eventType": "OBJECT_DELETE"}},
                "subscription": "projects/p/subscriptions/s",
            },
            [HintedName("a+b.md", "corpus")],
        ),
        (
            {"key": "/buckets/corpus/x/a.md", "event_type": "create", "message": {"new_entry": {"name": "a.md"}}},
            [HintedName("x/a.md", "corpus")],
        ),
        (
            {
                "key": "/buckets/corpus/x/a.md",
                "event_type": "rename",
                "message": {"new_parent_path": "/buckets/corpus/y", "new_entry": {"name": "b.md"}},
            },
            [HintedName("x/a.md", "corpus"), HintedName("y/b.md", "corpus")],
        ),
        ({"key": "/etc/iam/users.json", "event_type": "update", "message": {}}, []),
        ({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "corpus"}, []),
    ],
)
def test_message_of_each_store_names_its_objects(body, names):
    assert read_hint(body) == Hint(tuple(names))


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("SubscriptionConfirmation", "https://sns.example.org/?Token=1"),
        ("UnsubscribeConfirmation", None),  # its address would subscribe again
    ],
)
def test_only_start_of_subscription_is_confirmed(kind, url):
    hint = read_hint({"Type": kind, "SubscribeURL": "https://sns.example.org/?Token=1", "Message": "You have chosen"})

    assert hint == Hint((), url)


@pytest.mark.parametrize(
    "body",
    [
        [],
        "a.md",
        {},
        {"key": "a.md"},
        {"keys": "a.md"},
        {"keys": [1]},
        {"keys": [""]},
        {"keys": ["a.md"], "delete": True},
        {"Records": [{"s3": {"object": {"key": "a.md"}}}]},
        {"Records": ["a.md"]},
        {"detail": {"object": {"key": "a.md"}}},
        {"message": {"data": "e30="}},
        {"Type": "Notification", "Message": "not JSON"},
        {"Type": "Notification", "Message": "[]"},
        {"Type": "Notification", "Message": "[" * 100_000},
        {"Type": "Notification", "Message": '{"keys":' * 100_000},
        {"Type": "Notification"},
        {"Type": "SubscriptionConfirmation"},
    ],
)
def test_unknown_form_is_refused_with_sentence(body):
    with pytest.raises(InvalidInput) as refused:
        read_hint(body)
    assert refused.value.message.endswith(".")


def test_more_than_thousand_keys_are_too_many():
    keys = [f"{n}.md" for n in range(MOST_KEYS + 1)]

    assert len(read_hint({"keys": [*keys[:-1], keys[0]]}).names) == MOST_KEYS
    with pytest.raises(TooLarge, match="1,001"):
        read_hint({"keys": keys})

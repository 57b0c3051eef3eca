"""The words of other servers are shown without secrets, and without texts of other callers."""

import pytest

from shared.process.words import words_for_people
from tests.support.planted import guards

KEY = "sk-proj-0123456789abcdefghijklmnop"
SENT = 'The harbour opens at seven\nin the morning, "for all ships". Ärger am Hafen über alles.'


@guards(
    "shared/process/words.py",
    "    for pattern, shown in _SECRETS:",
    "    for pattern, shown in _SECRETS[:0]:",
    means="a sentence for all tenants shows keys, organisations and addresses",
)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Incorrect key {KEY}.", "Incorrect key ***."),
        (
            "Incorrect API key provided: my-co****rd42. See https://x.com/keys.",
            "Incorrect API key provided: *** See https://x.com/keys.",
        ),
        ("The key ending in mnop is invalid", "The key ending in *** is invalid"),
        ("It begins with sk-proj-01234567 and more", "It begins with *** and more"),
        ("Key sk-abc...wxyz is revoked", "Key *** is revoked"),
        ("The key was 23456789abcd.", "The key was ***."),
        ("Authorization: Bearer abc.def-ghi was rejected", "Authorization: Bearer *** was rejected"),
        ("Token eyJhbGciOi.eyJzdWIi.sig_nature is expired", "Token *** is expired"),
        ("api_key=abcdef123; password: hunter22", "api_key=***; password: ***"),
        ("AIzaSyD-qrstuvwxyz is not valid", "*** is not valid"),
        ("gpt-4o in organization org-abc123 on TPM: Limit 30000", "gpt-4o in organization *** on TPM: Limit 30000"),
        ("Organization 'Acme Ltd' is suspended", "Organization *** is suspended"),
        ("Project `proj_abc` lacks the model `gpt-5`", "Project *** lacks the model `gpt-5`"),
        ("Ask bob.o'hara@acme.example.com", "Ask ***"),
        ("GET https://bob:hunter2@host/v1?api-version=1&key=abc failed", "GET https://***@host/v1?*** failed"),
        ("Request 0b6ff3e2-1111-4222-8333-99887766aabb failed", "Request *** failed"),
        ("Trace 4bf92f3577b34da6a3ce929d0e0e4736", "Trace ***"),
        (
            "The model `meta-llama/Llama-3.3-70B-Instruct` does not exist",
            "The model `meta-llama/Llama-3.3-70B-Instruct` does not exist",
        ),
        (
            "Your organization has been disabled; see user-supplied data",
            "Your organization has been disabled; see user-supplied data",
        ),
        ("max_tokens is too large: 2500 > 2048", "max_tokens is too large: 2500 > 2048"),
    ],
)
def test_secrets_in_words_are_hidden(text, expected):
    assert words_for_people(text, [KEY], SENT) == expected


@guards(
    "shared/process/words.py",
    "words = _without_quotations(words, _line(sent)) if sent else words",
    "words = words",
    means="a sentence for all tenants quotes the text of one of them",
)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Flagged: 'The harbour opens at seven in the morning'", "Flagged: '…'"),
        ('Invalid: "the harbour\\nopens at seven\\nin the morning" (1)', 'Invalid: "…" (1)'),
        ('Bad: "opens at seven … for all ships\\". \\u00c4rger am Hafen"', 'Bad: "opens at seven … …"'),
        ("Cannot embed 'at seven'", "Cannot embed '…'"),
        ("Unsupported parameter: 'max_tokens'", "Unsupported parameter: 'max_tokens'"),
        ("İstanbul: THE HARBOUR OPENS AT SEVEN", "İstanbul: …"),
        ("The harbour opens at nine", "… nine"),
        ("It opens at seven", "It opens at seven"),
        ("THE HARBOUR OPENS AT SEVEN", "…"),
        ('The harbour opens, and: in the morning, "for', "…, and: …"),
    ],
)
def test_quotations_of_request_are_removed(text, expected):
    assert words_for_people(text, [], SENT) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<!doctype html><head><title>403 Forbidden &amp; no more</title></head>", "403 Forbidden & no more"),
        ("<html><body><h1>Bad <b>gateway</b></h1><p>Text.</p>", "Bad gateway"),
        ("<html><script>var a = 1;</script><p>Log in first. Then try again.</p>", "Log in first."),
        ("one\ntwo\x00three\u202efour", "one two three four"),
        ("  ", ""),
        ("word " * 100, ("word " * 100)[:199].rstrip() + "…"),
    ],
)
def test_words_become_one_short_line(text, expected):
    assert words_for_people(text) == expected


@pytest.mark.parametrize(
    "text", ["a/" * 5_000, "a@" * 5_000, "a-" * 5_000, "<title>" * 1_000, "*" * 5_000, "a." * 5_000]
)
def test_hostile_words_are_read_quickly(text):
    assert len(words_for_people(text, [KEY], SENT * 1_000)) <= 200

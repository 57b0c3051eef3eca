"""Messages of providers whose code does not name the problem, and their meanings.

Servers answer 400 for a wrong key, an unknown model, an exhausted quota and a text that is too long alike. Each phrase
is from the server named next to it. They are searched in the words without quotations of the request, so that a text
about content filters does not look like a filtered text.
"""

from __future__ import annotations

import re
from enum import Enum, auto


class Meaning(Enum):
    """The cause of an error."""

    KEY = auto()
    NO_MODEL = auto()
    NO_ADDRESS = auto()
    NO_QUOTA = auto()
    DAILY_LIMIT = auto()
    SLOWER = auto()
    TOO_LONG = auto()
    FILTERED = auto()
    FIREWALL = auto()
    REGION = auto()
    LOADING = auto()
    NOT_TAKEN = auto()
    FAILED = auto()
    NO_CAPACITY = auto()
    NO_TIER = auto()


# The first match counts, so an exact phrase comes before a general one.
_PHRASES: tuple[tuple[Meaning, str], ...] = (
    # OpenAI, vLLM, DeepSeek, Mistral ("… too large for model with 32768 maximum context length"); Ollama
    (Meaning.TOO_LONG, r"maximum context length|(?:exceeds|over) the (?:available )?context (?:size|length)"),
    (Meaning.TOO_LONG, r"longer than the max(?:imum|_)?\s?model[ _]len"),  # vLLM
    (
        Meaning.TOO_LONG,
        r"input (?:\(\d+ tokens\) )?is too large to process|context size has been exceeded",
    ),  # llama.cpp
    (Meaning.TOO_LONG, r"(?:must have|have) less than \d+ tokens|`inputs` tokens \+ `max_new_tokens`"),  # TEI, TGI
    (Meaning.TOO_LONG, r"prompt is too long: \d+ tokens"),  # Anthropic
    (Meaning.TOO_LONG, r"input token count .{0,40}exceeds the maximum"),  # Gemini
    (Meaning.TOO_LONG, r"input or output tokens must be reduced in order to run"),  # OpenAI, with status 429
    (Meaning.TOO_LONG, r"request too large for model|reduce the length of the messages"),  # Groq
    (Meaning.TOO_LONG, r"context length of only \d+ tokens|context the overflows"),  # LM Studio
    (Meaning.TOO_LONG, r"range of input length should be|too many tokens: (?:the )?total"),  # DashScope, Cohere
    (Meaning.FILTERED, r"content management policy|responsible ai polic"),  # Azure
    (Meaning.FILTERED, r"input was flagged|requires moderation on"),  # OpenRouter, with status 403
    (Meaning.FILTERED, r"rejected as a result of our safety system|violating our usage policy"),  # OpenAI
    (Meaning.FILTERED, r"may contain inappropriate content|content exists risk"),  # DashScope, DeepSeek
    (Meaning.FILTERED, r"blocked by (?:the |our )?content filter|content filtering policy|prohibited[ _]content"),
    (Meaning.REGION, r"country, region, or territory not supported|user location is not supported"),  # OpenAI, Gemini
    (
        Meaning.DAILY_LIMIT,
        r"(?:tokens|requests) per day|free-models-per-day|\b[rt]pd\b|daily (?:limit|quota)",
    ),  # Groq, OpenRouter
    (
        Meaning.NO_QUOTA,
        r"insufficient (?:balance|credits?|funds|quota)|credit balance is too low",
    ),  # DeepSeek, Anthropic
    (
        Meaning.NO_QUOTA,
        r"(?:monthly )?included credits|requires more credits|account is not active",
    ),  # HF, OpenRouter, OpenAI
    (Meaning.NO_QUOTA, r"account is in good standing|\barrearage\b|billing hard limit"),  # DashScope, OpenAI
    (
        Meaning.KEY,
        r"api key not valid|(?:incorrect|invalid|missing|expired|wrong) api[ -]?key|invalid x-api-key",
    ),  # Gemini, OpenAI
    (Meaning.KEY, r"api[ -]?key (?:is )?(?:invalid|missing|expired)|no auth credentials|invalid authentication"),
    (Meaning.KEY, r"incorrect subscription key|access denied due to invalid"),  # Azure
    (
        Meaning.NO_ADDRESS,
        r"unexpected endpoint or method|unrecognized request url|\b404 page not found",
    ),  # LM Studio, OpenAI, Ollama
    (Meaning.NO_MODEL, r"\bmodel\b.{0,120}?\b(?:not found|not exist|is not available|is not loaded|not deployed)"),
    (
        Meaning.NO_MODEL,
        r"not a valid model|invalid model\b|unknown model|no models? loaded|no such model",
    ),  # OpenRouter, Mistral, LM Studio
    (
        Meaning.NO_MODEL,
        r"deployment for this resource does not exist|no endpoints found (?:for|matching)",
    ),  # Azure, OpenRouter
    (Meaning.LOADING, r"loading model|model is (?:currently |still )?loading"),  # llama.cpp, Hugging Face
    (Meaning.FIREWALL, r"attention required!|request (?:was |has been )?blocked\b|requested url was rejected"),
    (Meaning.FIREWALL, r"you have been blocked|web application firewall|access denied \|"),  # Cloudflare, F5
)
_COMPILED = tuple((meaning, re.compile(phrase, re.IGNORECASE)) for meaning, phrase in _PHRASES)


def meaning_of(words: str) -> Meaning | None:
    """Return the cause that a provider's words name; None if they name none of these."""
    return next((meaning for meaning, phrase in _COMPILED if phrase.search(words)), None)

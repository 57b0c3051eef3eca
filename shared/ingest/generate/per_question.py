"""The `per-question` strategy, for models too small to write a list: one short call per question.

Each call asks about one sentence of the text. A schema restricts the reply to a question that starts with a question
word and soon contains a name from the sentence. The calls of a chunk share their start (instructions, title, text),
which llama.cpp keeps in its prompt cache while they run one after the other.

Measured with SmolLM2-135M and MiniLM on 40 passages of XQuAD: 88 % of the passed questions find their own passage first
among 240, 97 % in the first three, and 4.7 of 6 pass. Unrestricted questions about the entire text: 43 to 76 %, 2 to 3
pass; about a sentence without the names: 80 %, 4.2 pass (`bench.questions`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.spending.usage import Usage
from shared.domain.text.sentences import sentences
from shared.ingest.generate.prompts import WORD_SYSTEM, WORD_TASK, WORD_TEMPLATE, render
from shared.ingest.generate.replies import questions_in
from shared.ingest.generate.types import BadQuestions, GeneratedQuestions, GenerationOptions
from shared.providers.chat import ChatModel, ChatRequest, Message
from shared.providers.replies.json_replies import MalformedReply

DEFAULT_COUNT = 6

_MAX_TOKENS = 48  # a longer reply rambles: it is truncated, invalid, and dropped
_TEMPERATURE = 0.2
_SHORTEST_SENTENCE = 25
_NAMES_OF_SENTENCE, _NAMES_OF_TEXT = 5, 8

# Starts of questions, in the order of the calls. The next words are listed, because the model otherwise drifts into
# questions about questions.
_STARTS = (
    ("What", "is|was|are|were|did|does|do|happened to|made"),
    ("How", "did|does|is|was|were|are|do"),
    ("Where", "did|was|were|is|are|does"),
    ("When", "did|was|were|is"),
    ("Why", "did|is|was|were|are|do|does"),
)
# Runs of capitalised words, and names such as `max_tokens`.
_NAME = re.compile(
    r"\b[^\W\d_a-z][\w'’-]*(?: (?:of |the |de )?[^\W\d_a-z][\w'’-]*){0,4}|\b[a-z]+(?:_[a-z]+)+\b"  # noqa: RUF001
)
_COMMON = frozenset(
    [
        *("a", "an", "the", "this", "that", "these", "those", "it", "its", "he", "she", "they", "we", "you", "i"),
        *("his", "her", "their", "our", "your", "and", "or", "but", "if", "as", "for", "from", "by", "with", "in"),
        *("on", "at", "to", "of", "when", "where", "while", "after", "before", "during", "since", "because", "there"),
        *("also", "however", "although", "some", "many", "most", "other", "under", "both", "each", "one", "two"),
        *("first", "not", "no", "all", "any", "such", "what", "who", "how", "why", "which", "then", "thus", "so"),
    ]
)
_BEFORE_SENTENCE = ("", ".", "!", "?", ":")
_PLAIN = re.compile(r"[\w '-]{3,40}")


def requests(content: ChunkContent, options: GenerationOptions) -> list[ChatRequest]:
    """Return one call per question, without repetitions: sentences spread over the text, question words in turn."""
    prompt = render(template_of(options), content, count=1, text=content.text).strip()
    text_names, _ = _names(content.text)
    starts = [
        (sentence, *_STARTS[index % len(_STARTS)])
        for index, sentence in enumerate(_spread(content.text, count_of(options)))
    ]
    calls = []
    for sentence, word, continuations in dict.fromkeys(starts):
        sure, doubtful = _names(sentence)
        names = sure[:_NAMES_OF_SENTENCE] or text_names[:_NAMES_OF_TEXT] or doubtful
        task = render(WORD_TASK, content, count=1, text=sentence).replace("{word}", word)
        calls.append(_request(f"{prompt}\n\n{task}", _pattern(word, continuations, names)))
    return calls


def template_of(options: GenerationOptions) -> str:
    return options.template or WORD_TEMPLATE


def count_of(options: GenerationOptions) -> int:
    return DEFAULT_COUNT if options.questions_per_chunk == "auto" else options.questions_per_chunk


def _spread(text: str, count: int) -> list[str]:
    """Return `count` sentences spread over the text; if it has fewer, some are repeated."""
    found = [text[s.start : s.end] for s in sentences(text) if s.end - s.start >= _SHORTEST_SENTENCE] or [text.strip()]
    if len(found) < count:
        return [found[index % len(found)] for index in range(count)]
    return [found[index * len(found) // count] for index in range(count)]


def _names(text: str) -> tuple[list[str], list[str]]:
    """Return the names in a text, most frequent first, and capitalized words at sentence starts, which may be none."""
    names: Counter[str] = Counter()
    doubtful: list[str] = []
    for match in _NAME.finditer(text):
        name = _without_common(match[0])
        before = text[max(0, match.start() - 2) : match.start()].strip()
        if not _PLAIN.fullmatch(name):
            continue
        if before in _BEFORE_SENTENCE and name == match[0] and " " not in name:
            doubtful.append(name)
        else:
            names[name] += 1
    return [name for name, _ in names.most_common()], list(dict.fromkeys(doubtful))


def _without_common(name: str) -> str:
    words = name.split()
    while words and words[0].casefold().partition("'")[0] in _COMMON:
        words = words[1:]
    return " ".join(words)


def _pattern(word: str, continuations: str, names: Sequence[str]) -> str:
    """Return a regular expression in llama.cpp's subset; it excludes commas, because the model would ramble."""
    if not names:
        return rf'^{word} [^"\\?,]{{8,}}\?$'
    return rf"^{word} ({continuations}) (the )?({'|'.join(names)})( |'s )" + r'[^"\\?,]{6,}\?$'


def _request(prompt: str, pattern: str) -> ChatRequest:
    return ChatRequest(
        messages=(Message("system", WORD_SYSTEM), Message("user", prompt)),
        schema=_schema(pattern),
        max_tokens=_MAX_TOKENS,
        temperature=_TEMPERATURE,
    )


def _schema(pattern: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"question": {"type": "string", "pattern": pattern}},
        "required": ["question"],
        "additionalProperties": False,
    }


async def generate_questions(model: ChatModel, content: ChunkContent, options: GenerationOptions) -> GeneratedQuestions:
    """Generate one question after the other. A bad reply yields no question; without any question, raise an error.

    No call is repeated, because the other questions make up for a missing one at no cost.
    """
    usage, questions = Usage(), list[str]()
    calls = requests(content, options)
    fault = ""
    for call in calls:
        completion = await model.complete(call)
        usage += completion.usage
        try:
            questions += questions_in(completion.text)[:1]
        except MalformedReply as error:
            fault = str(error)
    if not questions:
        message = f"none of the model's replies contained a question: {fault}"
        raise BadQuestions(message, usage=usage, calls=len(calls), faults=(message,))
    return GeneratedQuestions(tuple(questions), usage, len(calls))

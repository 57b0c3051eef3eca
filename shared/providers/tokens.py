"""Tokens, counted by the model's own tokenizer if its file is given, else estimated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from shared.domain.errors import InvalidInput
from shared.providers.embedding import estimated_tokens


class TokenCounter(Protocol):
    """Counts the tokens of texts; for English, an estimate is rarely too low."""

    @property
    def exact(self) -> bool: ...

    def count(self, texts: Sequence[str]) -> list[int]: ...


class EstimatingCounter:
    exact = False

    def count(self, texts: Sequence[str]) -> list[int]:
        return [estimated_tokens(text) for text in texts]


class TokenizerCounter:
    """A model's `tokenizer.json`.

    Raises:
        InvalidInput: the file is not a tokenizer; the message says what to do.
    """

    exact = True

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415 - only where a tokenizer is set

        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise InvalidInput(
                f"FOREASK_LLM_TOKENIZER: {path} cannot be read as a tokenizer.json ({error});"
                " give the file of that name from the model's repository, or leave the setting out to have tokens"
                " estimated.",
                field="llm_tokenizer",
            ) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(e.ids) for e in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def token_counter(path: Path | None) -> TokenCounter:
    return EstimatingCounter() if path is None else TokenizerCounter(path)

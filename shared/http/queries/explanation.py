"""The sentences of an explained query, from the counts in its trace."""

from __future__ import annotations

from functools import singledispatch

from shared.query.retrieve.trace import (
    AssemblyFacts,
    DiversityFacts,
    EmbedFacts,
    FetchFacts,
    FusionFacts,
    RerankFacts,
    ReturnFacts,
    RewriteFacts,
    SearchFacts,
)


@singledispatch
def sentence(facts: object) -> str | None:
    """Describe the work of a stage; None if it has no counts."""
    if facts is None:
        return None
    raise TypeError(f"{type(facts).__name__} has no sentence")


@sentence.register
def _(facts: RewriteFacts) -> str:
    return f"one call, {facts.texts} more {'text' if facts.texts == 1 else 'texts'} searched"


@sentence.register
def _(_: EmbedFacts) -> str:
    return "the question"


@sentence.register
def _(facts: SearchFacts) -> str:
    counts = ", ".join(f"{channel} {count}" for channel, count in facts.chunks.items())
    return f"chunks by channel: {counts or 'none'}"


@sentence.register
def _(facts: FusionFacts) -> str:
    return f"{facts.chunks} chunks by {facts.fusion}, {facts.below_min_score} below min_score"


@sentence.register
def _(facts: FetchFacts) -> str:
    return f"{facts.chunks} chunks"


@sentence.register
def _(facts: RerankFacts) -> str:
    return f"{facts.chunks} chunks reranked"


@sentence.register
def _(facts: DiversityFacts) -> str:
    return f"{facts.chosen} chosen of {facts.candidates}"


@sentence.register
def _(facts: ReturnFacts) -> str:
    return (
        f"{facts.units} by {facts.unit}, of the first {facts.matches} chunks,"
        f" {facts.duplicates} with the text of another"
    )


@sentence.register
def _(facts: AssemblyFacts) -> str:
    return (
        f"{facts.shortened} cut where another has the same text, {facts.over_budget} over the budget;"
        f" {facts.tokens} tokens, {'counted' if facts.exact else 'estimated'}"
    )

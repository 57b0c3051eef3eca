"""Quality of BM25 without other channels, by language.

`python -m bench.bm25 [SET...]`: nDCG@10 of the keyword channel on labelled sets, each in its own collection, by

- before: words as runs of letters and digits, with English stems and stop words for every language;
- Qdrant: its own BM25 with the `multilingual` tokenizer and the set's language, if it supports that language;
- now: the product's words, for the languages that its detector finds in the passages;
- together: the same, with the passages of all sets in one collection, whose queries are tokenized for every language.

Inverse document frequencies are Qdrant's, computed here.
"""

from __future__ import annotations

import argparse
import re
import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import log
from pathlib import Path

import qdrant_edge
import Stemmer
from foreask_evaluation.labelled import LabelledCorpus, read_set

from bench.__main__ import EVALDATA
from features.evaluation.metrics import scores
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.text.bm25 import document_vector, query_vector
from shared.domain.text.words import ENGLISH_STOP_WORDS, STEMMERS
from shared.ingest.parse.chunks.languages import with_languages

Terms = Mapping[int, float]
_DEPTH = 10


@dataclass
class PostingLists:
    """Texts by their ids, each with the weights of its terms, and the texts that have a term."""

    postings: dict[int, list[tuple[str, float]]] = field(default_factory=lambda: defaultdict(list))
    number: int = 0

    def add(self, name: str, terms: Terms) -> None:
        self.number += 1
        for term, weight in terms.items():
            self.postings[term].append((name, weight))

    def best(self, query: Terms) -> list[str]:
        found: dict[str, float] = defaultdict(float)
        for term, weight_in_query in query.items():
            having = self.postings.get(term, [])
            rarity = log(1 + (self.number - len(having) + 0.5) / (len(having) + 0.5))
            for name, weight in having:
                found[name] += weight_in_query * rarity * weight
        return sorted(found, key=lambda name: (-found[name], name))[:_DEPTH]


def terms_before(text: str) -> Counter[int]:
    return Counter(term for word in re.findall(r"\w+", text.lower()) if (term := _term_before(word)) is not None)


@cache
def _term_before(word: str) -> int | None:
    if word in ENGLISH_STOP_WORDS or len(word) > 40:
        return None
    folded = "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
    return zlib.crc32(_english(folded or word).encode())


_english = Stemmer.Stemmer("english").stemWord


def weighed(counts: Counter[int]) -> Terms:
    length = 1.2 * (0.25 + 0.75 * counts.total() / 256)
    return {term: n * 2.2 / (n + length) for term, n in counts.items()}


def of_qdrant(language: str | None) -> qdrant_edge.Bm25:
    config = {"tokenizer": qdrant_edge.TokenizerType.Multilingual, "ascii_folding": True}
    try:
        return qdrant_edge.Bm25(qdrant_edge.Bm25Config(language=STEMMERS.get(language or ""), **config))
    except ValueError:  # no stemmer for the language
        return qdrant_edge.Bm25(qdrant_edge.Bm25Config(**config))


def quality(corpus: LabelledCorpus, texts: PostingLists, cut: Callable[[str], Terms]) -> float:
    rankings = {query: texts.best(cut(text)) for query, text in corpus.queries.items()}
    measured = scores(corpus.judgements, rankings)["ndcg@10"]
    return sum(measured.values()) / len(measured)


def contents_of(corpus: LabelledCorpus) -> dict[str, ChunkContent]:
    found = [with_languages([ChunkContent.whole(passage.text)])[0] for passage in corpus.passages]
    return {passage.id: content for passage, content in zip(corpus.passages, found, strict=True)}


def weights_of(text: str, languages: Sequence[str]) -> Terms:
    vector = query_vector(text, languages)
    return dict(zip(vector.indices, vector.values, strict=True))


def terms_of(content: ChunkContent) -> Terms:
    vector = document_vector(content.text, content.language)
    return dict(zip(vector.indices, vector.values, strict=True))


def measure(corpus: LabelledCorpus, contents: Mapping[str, ChunkContent]) -> tuple[float, float, float]:
    spoken = Counter(content.language for content in contents.values())
    engine = of_qdrant(spoken.most_common(1)[0][0])
    before, qdrant, now = PostingLists(), PostingLists(), PostingLists()
    for name, content in contents.items():
        before.add(name, weighed(terms_before(content.text)))
        vector = engine.embed_document(content.text)
        qdrant.add(name, dict(zip(vector.indices, vector.values, strict=True)))
        now.add(name, terms_of(content))
    languages = sorted(language for language in spoken if language)
    return (
        quality(corpus, before, lambda text: dict.fromkeys(terms_before(text), 1.0)),
        quality(corpus, qdrant, lambda text: dict.fromkeys(engine.embed_query(text).indices, 1.0)),
        quality(corpus, now, lambda text: weights_of(text, languages)),
    )


def together(sets: Sequence[LabelledCorpus], contents: Sequence[Mapping[str, ChunkContent]]) -> list[float]:
    texts = PostingLists()
    for corpus, found in zip(sets, contents, strict=True):
        for name, content in found.items():
            texts.add(f"{corpus.name}/{name}", terms_of(content))
    languages = sorted({c.language for found in contents for c in found.values() if c.language})
    values = []
    for corpus in sets:
        prefix = f"{corpus.name}/"
        judged = {q: {prefix + p: score for p, score in of_query.items()} for q, of_query in corpus.judgements.items()}
        rankings = {q: texts.best(weights_of(text, languages)) for q, text in corpus.queries.items()}
        measured = scores(judged, rankings)["ndcg@10"]
        values.append(sum(measured.values()) / len(measured))
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    folders = sorted(folder for folder in EVALDATA.glob("*") if folder.is_dir())
    parser.add_argument("sets", nargs="*", type=Path, default=folders)
    sets = [read_set(folder) for folder in parser.parse_args().sets]
    contents = list(map(contents_of, sets))
    mixed = together(sets, contents)
    print(f"{'':16} {'passages':>8} {'questions':>9} {'before':>7} {'Qdrant':>7} {'now':>6} {'together':>8}  languages")
    for corpus, found, in_all in zip(sets, contents, mixed, strict=True):
        before, qdrant, now = measure(corpus, found)
        spoken = Counter(content.language or "?" for content in found.values())
        listed = ", ".join(f"{language} {n}" for language, n in spoken.most_common(4))
        sizes = f"{len(corpus.passages):8} {len(corpus.queries):9}"
        print(f"{corpus.name:16} {sizes} {before:7.3f} {qdrant:7.3f} {now:6.3f} {in_all:8.3f}  {listed}", flush=True)


if __name__ == "__main__":
    main()

"""Quality of search on texts that OCR has read: `python -m bench scan_retrieval [FOLDER...]`.

Each passage of a labelled set is rendered as a page of its own and read, as `python -m bench scans` does. nDCG@10 of
the keyword channel (BM25) and of the text channel (vectors of the embedded model, which knows English) is measured on
the passages and on their read texts. Folders have the form of `foreask eval`; their names end in the language. The
sets are xquad in English, German and Russian: https://github.com/google-deepmind/xquad.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from foreask_evaluation.labelled import LabelledCorpus, read_set

from bench.__main__ import EVALDATA
from bench.bm25 import PostingLists, contents_of, quality, terms_of, weights_of
from bench.scans import CONDITIONS, DPI, lines_of, page_of_lines
from embedded.minilm import MiniLM
from features.evaluation.metrics import scores
from shared.domain.errors import Unreadable
from shared.ingest.parse.scans.engine import Engine
from shared.ingest.parse.scans.language_data import folder, lacking
from shared.ingest.parse.scans.reading import read_page

LANGUAGES = {"xquad_oracle": "eng", "xquad_de": "deu", "xquad_ru": "rus"}
_LINES = 38  # of a page
_DEPTH = 10


@cache
def _engine(language: str) -> Engine:
    return Engine(folder(), [language])


def read_passage(text: str, language: str, condition: str) -> str:
    """Return the text that is read from the pages of a passage; pages that cannot be read have none."""
    lines = list(lines_of(text, language))
    pages = [lines[at : at + _LINES] for at in range(0, len(lines), _LINES)]
    return "\n".join(_read(page, language, condition) for page in pages)


def _read(lines: Sequence[str], language: str, condition: str) -> str:
    content = CONDITIONS[condition](page_of_lines(lines, language))
    try:
        return read_page(content, 1, DPI, _engine(language)).text
    except Unreadable:
        return ""


def of_keywords(corpus: LabelledCorpus) -> float:
    contents = contents_of(corpus)
    texts = PostingLists()
    for name, content in contents.items():
        texts.add(name, terms_of(content))
    languages = sorted({content.language for content in contents.values() if content.language})
    return quality(corpus, texts, lambda text: weights_of(text, languages))


def of_vectors(corpus: LabelledCorpus, model: MiniLM) -> float:
    names = [passage.id for passage in corpus.passages]
    passages, _ = model.embed([passage.text for passage in corpus.passages])
    queries, _ = model.embed([*corpus.queries.values()])
    nearest = np.argsort(-(queries @ passages.T), axis=1, kind="stable")[:, :_DEPTH]
    rankings = {query: [names[row] for row in rows] for query, rows in zip(corpus.queries, nearest, strict=True)}
    measured = scores(corpus.judgements, rankings)["ndcg@10"]
    return sum(measured.values()) / len(measured)


def measure(corpus: LabelledCorpus, language: str, condition: str, process: ProcessPoolExecutor, model: MiniLM) -> str:
    """Return a line: the passages of which nothing was read, and each channel on printed and on read texts."""
    printed = [passage.text for passage in corpus.passages]
    count = len(printed)
    found = list(process.map(read_passage, printed, [language] * count, [condition] * count))
    passages = tuple(replace(passage, text=text) for passage, text in zip(corpus.passages, found, strict=True))
    read = replace(corpus, passages=passages)
    channels = [(of_keywords(corpus), of_keywords(read)), (of_vectors(corpus, model), of_vectors(read, model))]
    shown = " ".join(f"{before:8.4f} {after:6.4f} {after - before:+7.4f}" for before, after in channels)
    return f"{corpus.name:13} {condition:15} {count:8} {found.count(''):6} {shown}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[EVALDATA / name for name in LANGUAGES])
    parser.add_argument("--page", choices=CONDITIONS, default="clean", help="%(default)s by default")
    options = parser.parse_args()
    model = MiniLM()
    channels = "".join(f" {name:>8} {'read':>6} {'':7}" for name in ("keywords", "vectors"))
    print(f"{'':13} {'page':15} {'passages':>8} {'unread':>6}{channels}")
    for path in options.folders:
        language = LANGUAGES.get(path.name, "eng")
        if not path.is_dir():
            print(f"{path.name}: left out, because {path} is missing: store xquad there in the form of `foreask eval`")
        elif reason := lacking([language]):
            print(f"{path.name}: left out: {reason}")
        else:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                print(measure(read_set(path), language, options.page, process, model), flush=True)


if __name__ == "__main__":
    main()

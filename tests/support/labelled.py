"""A small labelled set in files, whose scores can be calculated by hand."""

import json

# The first passage has two questions, each of the next three has one, and the others have none.
QUESTIONS = {
    "p0": ["Who tends the lighthouse lamp nightly?", "Which keeper polishes brass lenses?"],
    "p1": ["Where do herons nest during monsoon?"],
    "p2": ["Where do herons fish during monsoon winter?"],
    "p3": ["How long does granite weather during monsoon lamp?"],
}
TEXTS = [
    "Old Bertram climbs the tower at dusk.",
    "Tall birds breed in mangrove thickets.",
    "Ponds freeze, so wading birds move south.",
    "Igneous rock erodes over millennia.",
    "Copper wire conducts electricity well.",
    "Bakers knead dough before sunrise.",
    "Violins are tuned in perfect fifths.",
    "Glaciers carve deep valleys slowly.",
    "Chess clocks were introduced in tournaments.",
    "Cinnamon comes from the bark of trees.",
]
QUERIES = {
    "first": QUESTIONS["p0"][0],
    "second": QUESTIONS["p1"][0],  # relevant: p2, whose question is the next nearest
    "none": TEXTS[9],  # relevant: p9, which has no question
    "half": QUESTIONS["p3"][0],  # relevant: p3, which ranks first, and p9, which is not returned
    "again": QUESTIONS["p2"][0],
    "third": "How long does granite weather during monsoon herons?",  # relevant: p2, which ranks after p3 and p1
    "unrated": "Which question has no rating?",
}
QRELS = [
    ("first", "p0", 1),
    ("second", "p2", 1),
    ("none", "p9", 1),
    ("half", "p3", 1),
    ("half", "p9", 1),
    ("again", "p2", 1),
    ("third", "p2", 1),
    ("first", "nowhere", 1),
]


def write(folder, *, generated=True):
    folder.mkdir(parents=True, exist_ok=True)
    passages = [{"_id": f"p{number}", "title": "", "text": text} for number, text in enumerate(TEXTS)]
    write_lines(folder / "corpus.jsonl", passages)
    write_lines(folder / "queries.jsonl", [{"_id": name, "text": text} for name, text in QUERIES.items()])
    rows = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in QRELS)]
    (folder / "qrels.tsv").write_text("\n".join(rows) + "\n")
    if generated:
        rows = [{"passage_id": name, "questions": own} for name, own in QUESTIONS.items()]
        write_lines(folder / "generated.jsonl", rows)
    return folder


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

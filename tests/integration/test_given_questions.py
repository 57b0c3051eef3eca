"""Given questions are limited in number, must be similar to their chunk's text, and are marked in hits."""

from dataclasses import replace

from tests.support.api import work

KEEPER = "The lighthouse keeper lives alone on the northern cliff all the year round."


async def test_given_questions_above_limit_are_dropped_with_reason(client, services, library):
    document = await library.add(KEEPER, questions=[f"Where does keeper {n} live alone?" for n in range(22)])
    await work(services, "parse", "index")

    (chunk,) = (await client.get(f"/v1/documents/{document.id}/chunks")).json()["items"]
    found = await client.post("/v1/retrieve", json={"question": "Where does keeper 3 live alone?"})

    assert [question["passed"] for question in chunk["questions"]].count(True) == 20
    dropped = {question["reason"] for question in chunk["questions"] if not question["passed"]}
    assert dropped == {"more than the 20 ready-made questions that a chunk may have"}
    (hit,) = found.json()["chunks"]
    assert (hit["matched_question"], hit["matched_question_source"]) == ("Where does keeper 3 live alone?", "given")


async def test_dissimilar_given_questions_are_dropped(client, services, library):
    strict = {name: replace(indexer, floor=0.3) for name, indexer in services.indexers.items()}
    questions = [
        "Who lives alone on the northern cliff?",
        "Who lives alone on the northern cliff",
        "What is a pelican?",
    ]
    document = await library.add(KEEPER, questions=questions)
    await work(replace(services, indexers=strict), "parse", "index")

    (chunk,) = (await client.get(f"/v1/documents/{document.id}/chunks")).json()["items"]

    passed = {question["text"]: question["passed"] for question in chunk["questions"]}
    assert passed == dict(zip(questions, (True, True, False), strict=True))

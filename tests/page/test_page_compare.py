"""The screen Compare: a set is labelled and opened; a run is followed, and found again after leaving the screen."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.page.conftest import ask
from tests.page.screens import fits, require_accessible

QUESTIONS = [
    {"question": "How many days of leave does everybody have?", "external_ids": ["leave.md"]},
    {"question": "What does the per diem abroad follow?", "external_ids": ["travel.md"]},
    {"question": "Wie viele Tage Urlaub haben alle?", "external_ids": ["urlaub.md"]},
    {"question": "Who wrote the sentence of a stranger?", "external_ids": ["hostile.md"]},
]


async def test_evaluation_matches_command_line_and_survives_reload(visit, deployment, tmp_path):
    lines = tmp_path / "help desk.jsonl"
    lines.write_text("\n".join(json.dumps(each) for each in QUESTIONS))
    page = visit.page
    await visit.go("/lab/compare")
    await page.locator("input[type=file]").set_input_files(lines)
    await expect(page.locator(".notice")).to_contain_text("Saved 4 questions from help desk.jsonl as set help-desk.")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.locator(".compared tbody tr")).to_have_count(4)
    assert await fits(page)
    await page.reload()
    await expect(page.locator(".compared tbody tr")).to_have_count(4)
    await expect(page.locator(".warning")).to_contain_text("4 questions is too few to detect small differences")
    await require_accessible(page)

    address = f"http://127.0.0.1:{deployment.port}"
    wanted = ["--strategies", "default,text,bm25,text+bm25 rrf", "--output", tmp_path / "out", "--url", address]
    options = ["--collection", "default", "--questions", lines, *wanted]
    command = [sys.executable, "-m", "cli", "eval", *map(str, options)]
    subprocess.run(command, check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, timeout=60)
    theirs = json.loads((tmp_path / "out" / "results.json").read_text())
    ours = deployment.client.get(f"/v1/collections/default/evaluations/{page.url.split('/')[-1].split('?')[0]}").json()
    assert ours["results"]["per_query"] == {
        name: pytest.approx(values, abs=1e-9) for name, values in theirs["per_query"].items()
    }
    shown = await page.locator(".compared strong").all_inner_texts()
    assert shown == [f"{row['ndcg@10']:.2f}" for row in theirs["rows"]]

    await page.locator("input[type=file]").set_input_files(tmp_path / "out" / "results.json")
    await expect(page.get_by_role("heading", name="results.json")).to_be_visible()
    await expect(page.locator(".compared tbody tr")).to_have_count(4)


async def test_differing_question_opens_in_explain(visit, tmp_path):
    per_query = {"default": {QUESTIONS[0]["question"]: 0.4}, "text": {QUESTIONS[0]["question"]: 1.0}}
    row = dict.fromkeys(("ndcg@10_low", "ndcg@10_high", "mrr@10", "recall@1", "recall@10"), 0.5)
    rows = [
        {"strategy": "default", "ndcg@10": 0.4, "difference": -0.6, "difference_low": -0.7, "difference_high": -0.5},
        {"strategy": "text", "ndcg@10": 1.0},
    ]
    results = {
        "queries": 1,
        "baseline": "text",
        "default": "default",
        "notes": [],
        "left_out": [],
        "per_query": per_query,
        "rows": [row | {"p_value": 0.0001, "milliseconds_per_query": 3.0} | each for each in rows],
    }
    (tmp_path / "results.json").write_text(json.dumps(results))
    await visit.go("/lab/compare")
    await visit.page.locator("input[type=file]").set_input_files(tmp_path / "results.json")
    await expect(visit.page.locator(".compared")).to_contain_text("\u22120.60 [\u22120.70, \u22120.50]")
    await visit.page.get_by_role("link", name="as text").click()
    await expect(visit.page).to_have_url(re.compile(r"/lab/explain(\?collection=default)?#q=How"))
    await expect(visit.page.locator(".weight .number")).to_have_text(["0.0", "1.0", "0.0"])


async def test_user_questions_are_labelled_by_keyboard(visit, deployment):
    await ask(visit, "When is leave pro rata?")
    await visit.go("/lab/compare")
    deployment.client.delete("/v1/collections/default/labelled-sets/asked")
    await visit.page.reload()
    await visit.page.get_by_role("button", name="Label user questions").click()
    await expect(visit.page.locator(".candidates li").first).to_be_visible()
    while await visit.page.locator(".labelling h2").inner_text() != "When is leave pro rata?":
        await visit.page.keyboard.press("Space")
        await expect(visit.page.locator(".candidates li").first).to_be_visible()
    names = await visit.page.locator(".candidates .name").all_inner_texts()
    position = next(n for n, name in enumerate(names, 1) if "leave" in name.lower())
    await visit.page.keyboard.press(str(position))
    await expect(visit.page.locator(".candidates input").nth(position - 1)).to_be_checked()
    await visit.page.keyboard.press("Space")
    await expect(visit.page.locator(".labelling .tools")).to_contain_text("1 labelled")
    sets = deployment.client.get("/v1/collections/default/labelled-sets").json()["items"]
    name = next(each["set"] for each in sets)
    kept = deployment.client.get(f"/v1/collections/default/labelled-sets/{name}").json()["questions"]
    assert {"question": "When is leave pro rata?", "external_ids": ["leave.md"], "chunk_ids": []} in kept


async def test_invalid_set_file_reports_reason(visit, tmp_path):
    (tmp_path / "notes.jsonl").write_text('{"question": "a", "external_ids": ["b"]}\nnot JSON\n')
    await visit.go("/lab/compare")
    await visit.page.locator("input[type=file]").set_input_files(tmp_path / "notes.jsonl")
    await expect(visit.page.locator(".trouble")).to_contain_text("Line 2 of notes.jsonl is not JSON.")

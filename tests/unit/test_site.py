"""The list of the documentation's pages, and `llms.txt`, which is made from it."""

import re
import runpy
from pathlib import Path

from tests.support.planted import guards

CLONE = Path(__file__).parents[2]
PAGES = runpy.run_path(str(CLONE / "docs/site/pages.py"))
LINK = re.compile(r"- \[[^\]]+\]\(([^)]+)\): .+")


def tree(folder, entries, files):
    for path in ("docs/README.md", *files):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("# 0001: A decision\n")
    listed = "\n".join(f"- [A page]({path}): its notes" for path in entries)
    (folder / "docs/README.md").write_text(f"# Documentation\n\n> A summary.\n\n## Reference\n\n{listed}\n")
    return folder


@guards("docs/site/pages.py", '"is not listed": {', '"is not listed": set() and {', means="a page is on no list")
def test_each_page_is_listed_once(tmp_path):
    root = tree(tmp_path, ["reference/a.md", "reference/a.md", "../b.md"], ["docs/reference/a.md", "docs/how-to/c.md"])

    assert PAGES["problems"](root) == (
        "docs/how-to/c.md is not listed",
        "docs/reference/a.md is listed twice",
        "b.md is missing",
    )


def test_every_link_of_llms_txt_leads_to_page():
    assert PAGES["problems"](CLONE) == ()
    head, *lines = PAGES["llms"](CLONE).splitlines()
    links = [match[1] for match in map(LINK.fullmatch, lines) if match]

    assert head == "# foreask"
    assert lines[1].startswith("> ")
    assert "## Optional" in lines
    assert set(links) >= {str(path.relative_to(CLONE)) for path in CLONE.glob("docs/*/*.md")}
    assert len(links) == len(set(links)) == len([line for line in lines if line.startswith("- ")])
    assert all((CLONE / link).is_file() for link in links)


@guards("docs/site/pages.py", "({site}{page.path})", "({page.path})", means="links of another host lead nowhere")
def test_links_of_llms_txt_have_address_of_site():
    lines = PAGES["llms"](CLONE, "https://docs.example/").splitlines()

    assert all("](https://docs.example/" in line for line in lines if line.startswith("- "))


def test_full_text_has_all_pages_except_optional():
    text = PAGES["full_text"](CLONE)

    for path in CLONE.glob("docs/*/*.md"):
        included = path.parent.name in {"quickstart", "how-to", "reference", "explanation"}
        assert (path.read_text().strip() in text) == included, path

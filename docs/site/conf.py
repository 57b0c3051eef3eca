"""The site of the documentation: `make site`, which is Sphinx with this file, over the Markdown files of the tree.

The source folder is the root of the tree, so that links between `docs`, the README, the changelog and the clients'
READMEs are the same on a forge and on the site, and are checked by one build. With `-W` every broken link, anchor and
picture fails it. Nothing is loaded from other hosts.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from shutil import copyfile

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

from pages import DECISIONS, LIST, full_text, llms, problems, sections  # noqa: E402

project = "foreask"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
author = "The authors of foreask"
project_copyright = f"{author}, Apache 2.0"
root_doc = "README"
# The second one only writes `.nojekyll`, for hosts that hide folders such as `_static`.
extensions = ["myst_parser", "sphinx.ext.githubpages"]
include_patterns = ["*.md", "docs/**.md", "**/README.md"]
exclude_patterns = [".*", "build", "dist", "tests", "**/node_modules"]
suppress_warnings = ["toc.not_included"]  # the READMEs; `check_list` checks the pages of `docs`
highlight_language = "none"

myst_heading_anchors = 6  # with the anchors of GitHub and GitLab
myst_enable_extensions: list[str] = []

html_theme = "furo"
html_title = f"foreask {version}"
html_short_title = "foreask"
html_favicon = str(ROOT / "api/web/icon.svg")
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_baseurl = re.sub(
    r"(?<=[^/])$", "/", os.environ.get("SITE_URL", "")
)  # of canonical links and `llms.txt`; without it, links are relative
html_copy_source = False  # the Markdown files are next to the pages: `text_next_to_pages`
html_use_index = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#2459a8",
        "color-brand-content": "#2459a8",
        "color-brand-visited": "#2459a8",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7fb0f5",
        "color-brand-content": "#7fb0f5",
        "color-brand-visited": "#7fb0f5",
    },
    "top_of_page_buttons": [],
}

logger = logging.getLogger(__name__)
_FILE = re.compile(r'\b(?:src|srcset)="(?!\w+:)([^"]+)"')


def check_list(_app: Sphinx) -> None:
    for problem in problems(ROOT):
        logger.warning("%s: %s", LIST, problem)


def add_navigation(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the tables of contents, which a forge would show as code, when their pages are read."""
    if docname == root_doc:
        for heading, pages in sections(ROOT).items():
            entries = "\n".join(f"{page.title} </{page.path.with_suffix('')}>" for page in pages)
            source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{entries}\n```\n"
    elif docname == str(DECISIONS / "README"):
        source[0] += "\n\n```{toctree}\n:glob:\n\n0*\n```\n"


def copy_pictures(app: Sphinx, document: nodes.document) -> None:
    """Copy the pictures of raw HTML, which Sphinx does not read, and report missing ones."""
    folder = Path(app.env.docname).parent
    for raw in document.findall(nodes.raw):
        for name in _FILE.findall(raw.astext()):
            if not (ROOT / folder / name).is_file():
                logger.warning("picture not found: %s", name, location=raw)
                continue
            _copy(app, folder / name)


def text_next_to_pages(app: Sphinx, exception: Exception | None) -> None:
    """Write the start page, the Markdown file of each page, and the lists of pages for programs."""
    if exception:
        return
    output = Path(app.outdir)
    for name in app.env.found_docs:
        _copy(app, Path(f"{name}.md"))
    copyfile(output / f"{root_doc}.html", output / "index.html")
    (output / "llms.txt").write_text(llms(ROOT, html_baseurl), encoding="utf-8")
    (output / "llms-full.txt").write_text(full_text(ROOT), encoding="utf-8")


def _copy(app: Sphinx, path: Path) -> None:
    target = Path(app.outdir) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    copyfile(ROOT / path, target)


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", check_list)
    app.connect("source-read", add_navigation)
    app.connect("doctree-read", copy_pictures)
    app.connect("build-finished", text_next_to_pages)

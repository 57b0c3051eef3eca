"""Passages and answers: Markdown becomes documents on the screen, and hostile Markdown stays text."""

from pathlib import Path

from playwright.async_api import expect

# The elements and event handlers of the HTML standard and its predecessors.
ELEMENTS, HANDLERS = (part.split() for part in Path(__file__).with_name("hostile_markup.txt").read_text().split("\n\n"))
TAGS = [
    f'<{element} {HANDLERS[number % len(HANDLERS)]}=hit() src=x href="javascript:hit()" data="data:text/html,x">x'
    for number, element in enumerate(ELEMENTS)
]
MARKDOWN = [
    "[a](javascript:hit())",
    "[a](JaVaScRiPt:hit() 'x')",
    "[a](data:text/html;base64,PHNjcmlwdD5oaXQoKTwvc2NyaXB0Pg==)",
    "[a](vbscript:hit())",
    "[a](&#106;avascript:hit())",
    "[a]\n\n[a]: javascript:hit()",
    "![a](x 'onerror=hit()')",
    '![a"onerror="hit()](x)',
    "![a](javascript:hit())",
    "<javascript:hit()>",
    "<https://e.com/\"onmouseover='hit()'>",
    "https://e.com/<img src=x onerror=hit()>",
    "```<script>hit()</script>\nx\n```",
    '```js" onload="hit()\nx\n```',
    "`<img src=x onerror=hit()>`",
    "| <img src=x onerror=hit()> | b |\n|---|---|\n| <svg onload=hit()> | [a](javascript:hit()) |",
    "# <script>hit()</script>",
    "> <iframe srcdoc='<script>parent.hit()</script>'>",
    "- <details open ontoggle=hit()>",
    "1. [ ] <input autofocus onfocus=hit()>",
    "&lt;img src=x onerror=hit()&gt;",
    "&#60;img src=x onerror=hit()&#62;",
    "<!--><img src=x onerror=hit()>-->",
    "<![CDATA[<img src=x onerror=hit()>]]>",
    "<?php hit() ?>",
    "**<b onclick=hit()>**_<i>_~~<s>~~",
    "<scr\0ipt>hit()</scr\0ipt>",
    "${hit()}{{hit()}}<%= hit() %>",
    "?lit$1$<!--?lit$1$-->",
]
PAYLOADS = TAGS + MARKDOWN
DRAW = """async (texts) => {
  window.hits = 0;
  window.hit = () => { window.hits += 1; };
  const folder = document.querySelector("script[type=module]").src.replace(/[^/]*$/, "");
  const { markdown } = await import(folder + "parts/markdown.js");
  const { render } = await import(folder + "vendor/lit-html.js");
  const box = document.createElement("div");
  document.body.append(box);
  const found = [];
  for (const text of texts) {
    render(markdown(text, (number) => `[${number}]`), box);
    await new Promise((done) => setTimeout(done, 0));
    const all = [...box.querySelectorAll("*")];
    const attributes = all.flatMap((each) => [...each.attributes].map(({ name }) => name));
    found.push({ elements: all.map((each) => each.localName), attributes, text: box.textContent, hits: window.hits });
  }
  return found;
}"""
ALLOWED = {
    *("p", "div", "span", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"),
    *("pre", "code", "blockquote", "strong", "em", "del", "hr", "br"),
}
WRITTEN = """# Rates

Travel abroad is **paid** at `rate 2`, see [the table](https://example.org/rates) and ![a map](map.png).

| Country | Euros |
|:--------|------:|
| France  |    57 |
| Norway  |    75 |

```python
def rate(country):
    return 57
```

1. Ask first.
2. Keep *receipts*.
"""


async def test_hostile_markdown_stays_text(visit):
    assert len(PAYLOADS) >= 100
    await visit.go("/ask")
    drawn = await visit.page.evaluate(DRAW, PAYLOADS)

    for payload, found in zip(PAYLOADS, drawn, strict=True):
        assert set(found["elements"]) <= ALLOWED, payload
        assert set(found["attributes"]) <= {"class", "dir", "start", "tabindex", "role", "aria-label"}, payload
        assert found["hits"] == 0, payload
    for payload, found in zip(TAGS, drawn, strict=False):
        assert payload in found["text"]


async def test_deeply_nested_passage_is_shown(visit, deployment):
    deployment.ingest({"deep.md": "> " * 400 + "The anchor is at the bottom of all quotations."}, collection="deep")
    [document] = deployment.wait_until_settled(1, collection="deep")
    await visit.go(f"/documents/{document['id']}")
    await expect(visit.page.locator(".reading .marked")).to_contain_text("The anchor is at the bottom")
    assert await visit.page.locator(".reading blockquote").count() < 10


async def test_passage_looks_like_document(visit, deployment):
    deployment.ingest({"rates.md": WRITTEN}, collection="rates")
    [document] = deployment.wait_until_settled(1, collection="rates")
    page = visit.page
    await visit.go(f"/documents/{document['id']}")
    reading = page.locator(".reading .marked")
    await expect(reading.locator("td")).to_have_text(["France", "57", "Norway", "75"])
    await expect(reading.locator("td.right").first).to_have_css("text-align", "end")
    await expect(reading.locator("strong")).to_have_text("paid")
    await expect(reading.locator(".heading")).to_have_text("Rates")
    assert "def rate(country):\n    return 57" in await reading.locator("pre").inner_text()
    await expect(reading.locator(".target")).to_have_text("(https://example.org/rates)")
    await expect(reading.locator(".picture")).to_have_text("Picture: a map")
    await expect(reading.locator("ol li")).to_have_text(["Ask first.", "Keep receipts."])
    row = page.locator(".row .name")
    await expect(row).to_contain_text("1 Travel abroad is paid at rate 2, see the table and a map.")
    assert "**" not in await reading.inner_text()
    assert "|" not in await reading.inner_text()

// Markdown of answers and passages as templates: only their own strings become elements.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, openPage } from "./browser.mjs";

const { markdown } = await openPage()("parts/markdown.js");
const shown = (text) => drawn(markdown(text)).text;

test("Markdown shows the words of its text", () => {
  for (const [text, words] of [
    ["a &amp; b &#8364; &#x20ac; &unknown; &#0;", "a & b \u20ac \u20ac &unknown; &#0;"],
    ["one\ntwo", "one two"],
    ["[the site](https://example.org/a)", "the site (https://example.org/a)"],
    ["https://example.org/a", "https://example.org/a"],
    ["![a map](map.png)", "Picture: a map"],
    ["[image: a map]", "Picture: a map"],
    ["- [x] done\n- [ ] open", "\u2611 done \u2610 open"],
    ["2 \\* 3", "2 * 3"],
  ]) assert.equal(shown(text), words);
});

test("wrapped lines of a passage are one paragraph", () => {
  const html = (...given) => drawn(markdown(...given)).html;
  assert.match(html("Documents shows an\nestimate."), /shows an\nestimate/);
  assert.match(html("A scan\nof lines.", undefined, true), /A scan<br>of lines/);
});

test("links and pictures are words without addresses to follow", () => {
  for (const text of ["[a](javascript:hit())", "[a](https://example.org)", "![a](x 'onerror=hit()')", "<https://example.org>", "[a]\n\n[a]: javascript:hit()"]) {
    assert.doesNotMatch(drawn(markdown(text)).html, /<(?:a|img)\b|\s(?:href|src|on\w+)=/, text);
  }
});

test("HTML in Markdown is text", () => {
  for (const text of ["<img src=x onerror=hit()>", "<!-- a --><b onclick=hit()>b</b>", "```<script>hit()</script>\nx\n```", "&lt;img src=x onerror=hit()&gt;", "?lit$1$<!--?lit$1$-->"]) {
    assert.doesNotMatch(drawn(markdown(text)).html.replace(/<\/?(?:p|pre|code|br)(?: dir="auto")?>/g, ""), /[<>]/, text);
  }
});

test("citations are drawn only in answers", () => {
  assert.equal(drawn(markdown("So they say [1], [12] and [1234].", (number) => `{${number}}`)).text, "So they say {1}, {12} and [1234].");
  assert.equal(shown("So they say [1]."), "So they say [1].");
});

test("deep quotations end at eight levels", () => {
  const { html, text } = drawn(markdown(`${"> ".repeat(40)}The anchor is at the bottom.`));
  assert.ok(html.match(/<blockquote/g).length < 10);
  assert.match(text, /The anchor is at the bottom\.$/);
});

test("tables of a passage are not landmarks of the screen", () => {
  const table = "| Ship | Place |\n|---|---|\n| Ketch | quay 3 |\n";
  const { html } = drawn(markdown(`${table}\nAnd\n\n${table}`));
  assert.equal(html.match(/ tabindex="0" role="group" aria-label="Table"/g)?.length, 2);
});

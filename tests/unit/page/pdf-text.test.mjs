// The words of a passage on the pages of a PDF.

import assert from "node:assert/strict";
import test from "node:test";
import { openPage } from "./browser.mjs";

const { locate } = await openPage()("parts/pdf-text.js");
const BOATS = "Total: 5 boats of wood.";

const LOCATED = {
  "ligatures are letters": [[["The \ufb01rst o\ufb03cer."]], "The first officer.", [], [[0, 0, "The \ufb01rst o\ufb03cer."]]],
  "divided word is one word": [[["every ves-", "sel leaves."]], "every vessel\nleaves.", [], [[0, 0, "every ves"], [0, 1, "sel leaves."]]],
  "punctuation at the end of a line is marked": [
    [["The pier, an old one,", "is closed at night."]], "The pier, an old one, is closed at night.", [],
    [[0, 0, "The pier, an old one,"], [0, 1, "is closed at night."]],
  ],
  "accents and markup are ignored": [[["Cafe\u0301 on the quay"]], "**Caf\u00e9** on the [quay](map.md)", [], [[0, 0, "Cafe\u0301 on the quay"]]],
  "sentence is located by characters": [[["A B", "A. Tea is at four. C"]], "\u{1f600} Tea is at four. C", [[2, 17]], [[0, 1, "Tea is at four."]]],
  "sentence continues after the end of a page": [
    [["The sentence goes on after", "7"], ["Ships", "the end of its first page."]], "The sentence goes on after the end of its first page.", [],
    [[0, 0, "The sentence goes on after"], [1, 1, "the end of its first page."]],
  ],
  "context decides between equal sentences": [[[BOATS, "Sum.", BOATS]], `Sum. ${BOATS}`, [[5, 28]], [[0, 2, BOATS]]],
  "equal sentences without context are not marked": [[[BOATS, BOATS]], BOATS, [], []],
  "part of a number is not marked": [[["In 2012 nothing left."]], "12", [], []],
  "number of another sentence is not marked": [[["In 2012 no ship left."]], "Ships: 12", [[7, 9]], []],
  "text of another page is not marked": [[["Another text, which has no vessel."]], "Every vessel leaves. It is late.", [], []],
  "small part of a passage is not marked": [[["It is late in the evening."]], "Vessels leave the harbour before nine. It is late in the evening.", [], []],
  "page without text has no marks": [[[]], "Every vessel leaves.", [], []],
};

for (const [name, [pages, text, sentences, expected]] of Object.entries(LOCATED)) {
  test(name, () => {
    const { marks } = locate(pages, text, sentences);
    assert.deepEqual(marks.map(({ page, item, start, end }) => [page, item, pages[page][item].slice(start, end)]), expected);
  });
}

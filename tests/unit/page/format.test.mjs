// Numbers, times and names as people read them.

import assert from "node:assert/strict";
import test from "node:test";
import { openPage, stopClock } from "./browser.mjs";

const NOW = "2026-03-09T12:00:00Z";
const FORMS = {
  "en": ["12,345", "0.87", "$1.50", "9 Mar 2026", "2 h 5 min", "3 days ago", "2.5 MB"],
  "de-DE": ["12.345", "0,87", "1,50 $", "09.03.2026", "2 h 5 min", "vor 3 Tagen", "2,5 MB"],
  "zh-CN": ["12,345", "0.87", "$1.50", "2026年3月9日", "2 小时 5 分钟", "3天前", "2.5 MB"],
};

test("durations are written in common units", async () => {
  const { duration } = await openPage()("parts/format.js");
  for (const [seconds, written] of [
    [0.0031, "3.1 ms"], [0.25, "250 ms"], [2, "2 s"], [9.96, "10 s"], [45, "45 s"], [89, "89 s"], [2550, "43 min"], [3660, "61 min"], [5400, "1 h 30 min"],
    [7500, "2 h 5 min"], [43_200, "12 h"], [273_600, "3 d 4 h"],
  ]) assert.equal(duration(seconds), written);
});

for (const [language, forms] of Object.entries(FORMS)) {
  test(`numbers and dates have the form of ${language}`, async (t) => {
    stopClock(t, NOW);
    const { ago, count, dateOf, duration, money, score, size } = await openPage({ languages: [language] })("parts/format.js");
    const written = [count(12_345), score(0.871), money(1.5), dateOf(NOW), duration(7500), ago("2026-03-06T09:00:00Z"), size(2.5e6)];
    assert.deepEqual(written.map((text) => text.replaceAll("\u00a0", " ")), forms);
  });
}

test("formats are made at their first use", async (t) => {
  const made = [];
  for (const kind of ["NumberFormat", "DateTimeFormat", "RelativeTimeFormat", "ListFormat", "PluralRules"]) {
    const Kind = Intl[kind];
    t.mock.property(Intl, kind, class extends Kind {
      constructor(...options) {
        super(...options);
        made.push(kind);
      }
    });
  }
  const { count } = await openPage({ languages: ["de"] })("parts/format.js");
  assert.deepEqual(made, []);
  assert.equal(count(1000) + count(2000), "1.0002.000");
  assert.deepEqual(made, ["NumberFormat"]);
});

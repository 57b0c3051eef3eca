// The language of the page, and texts that a translation orders differently.

import assert from "node:assert/strict";
import test from "node:test";
import { Store, drawn, elements, openPage, settled, textOf } from "./browser.mjs";

test("first known language of the browser is used", async () => {
  const { negotiated } = await openPage()("parts/words.js");
  for (const [preferred, language] of [
    [["de-DE"], "de"], [["zh-CN"], "zh"], [["fr", "de-AT", "en"], "de"], [["zh-TW", "de"], "de"],
    [["fr-FR"], "en"], [["zh-TW"], "en"], [["en-US"], "en"], [[], "en"],
  ]) assert.equal(negotiated(preferred), language, preferred.join());
});

test("chosen language is used instead of the browsers", async () => {
  const store = new Store();
  store.setItem("foreask.language", "zh");
  const { language } = await openPage({ languages: ["de"], store })("parts/words.js");
  assert.equal(language, "zh");
  assert.equal(document.documentElement.lang, "zh-Hans");
});

const ENTRY = { id: "8a5d0c3e-51c8-4f6e-9a3b-2b7b8f0c9d11", created_at: "2026-10-01T09:30:00Z", changes: {}, actor: { kind: "key", name: "admin", key_id: null } };
const RECORDED = [["revoke", "key", "reporter"], ["switch", "build", "papers 2"], ["archive", "key", "old"]];
const PHRASES = {
  de: ["Schlüssel reporter widerrufen", "Build papers 2 umschalten", "archive Schlüssel old"],
  zh: ["吊销 密钥 reporter", "切换 构建 papers 2", "archive 密钥 old"],
};

for (const [language, phrases] of Object.entries(PHRASES)) {
  test(`recorded changes are phrases of ${language}`, async () => {
    const items = RECORDED.map(([action, object, name]) => ({ ...ENTRY, action, object, object_name: name }));
    const audit = await openPage({ languages: [language], replies: () => ({ items, next_cursor: null }) })("routes/audit.js");
    await audit.load();
    await settled();
    const written = elements(drawn(audit.view()).html, "th").slice(-items.length).map(textOf);
    assert.deepEqual(written.map((text) => text.replaceAll(" ", "")), phrases.map((text) => text.replaceAll(" ", "")));
  });
}

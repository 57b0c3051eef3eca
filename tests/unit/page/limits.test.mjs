// Keys and budgets: their amounts, and confirmations of what cannot be undone.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, openPage, settled } from "./browser.mjs";

const NONE = { requests_per_second: null, tokens_per_day: null, cost_per_day: null, max_tokens: null };
const KEY = {
  id: "k1", name: "website", prefix: "fa_1", scopes: ["ask"], expires_at: null, revoked_at: null, last_used_at: null, filter: null, limits: { ...NONE, cost_per_day: 2.5 },
};
const BUDGET = { id: "b1", collection: "faq", job_id: null, period: "day", unit: "money", limit: 50, spent: 12.5, reserved: 0, exhausted: false, set_by: "tenant" };
const menuEvent = { currentTarget: { closest: () => null } };

/** Open a screen; `sent` has its changes. @param {string} name @param {Record<string, unknown>} replies by path */
async function openScreen(name, replies) {
  const sent = [];
  const load = openPage({
    replies: (path, { method, body }) => {
      if (method === "GET") return replies[path] ?? { key: {}, items: [], from_settings: [], next_cursor: null };
      sent.push([method, path, body && JSON.parse(body)]);
      return { ...KEY, key: "secret" };
    },
  });
  const screen = await load(`routes/${name}.js`);
  await screen.load();
  await settled();
  const { confirmation } = await load("kit/dialog.js");
  return { draw: () => drawn(screen.view()), sent, dialog: () => drawn(confirmation()), unload: screen.unload };
}

const openKeys = (items) => openScreen("keys", { "/v1/keys": { items, from_settings: [], next_cursor: null } });
const openLimits = (items) => openScreen("limits", { "/v1/budgets": { items } });

test("screen without keys offers to create one", async () => {
  const { draw } = await openKeys([]);
  assert.match(draw().text, /^No keys yet Create one for each .* Create a key$/);
});

test("cost of a key has its currency", async () => {
  const { draw } = await openKeys([KEY]);
  assert.match(draw().text, /\$2\.50 per day/);
  draw().handler("click", "Change limits")(menuEvent);
  assert.match(draw().text, /Cost per day USD/);
});

test("key is created with its permissions and limits", async () => {
  const { draw, sent } = await openKeys([KEY]);
  draw().handler("click", "Create a key")();
  const elements = [
    { name: "name", value: "web" }, { name: "days", value: "30" }, { name: "scopes", value: "ask", checked: true }, { name: "scopes", value: "read", checked: false },
    { name: "filter", value: "audience = public" }, { name: "limits.cost_per_day", value: "2" }, { name: "limits.tokens_per_day", value: "" },
  ];
  draw().handler("submit")({ preventDefault() {}, target: { elements, reset() {} } });
  await settled();
  assert.deepEqual(sent, [["POST", "/v1/keys", {
    name: "web", scopes: ["ask"], expires_in_seconds: 2_592_000, filter: { audience: "public" }, limits: { cost_per_day: 2, tokens_per_day: null },
  }]]);
  assert.match(draw().text, /The key website was created\..* secret Copy/);
});

test("key is revoked after confirmation only", async () => {
  for (const isSure of [false, true]) {
    const { draw, sent, dialog } = await openKeys([KEY]);
    draw().handler("click", "Revoke")(menuEvent);
    dialog().handler("click", isSure ? "Revoke" : "Cancel")({ target: {} });
    await settled();
    assert.equal(sent.length, isSure ? 1 : 0);
  }
});

test("amounts of budgets have their units", async () => {
  const { draw } = await openLimits([BUDGET, { ...BUDGET, id: "b2", unit: "tokens", spent: 1200, limit: 5000 }]);
  assert.match(draw().text, /faq, money a day \$12\.50 \$50\.00 tenant/);
  assert.match(draw().text, /faq, tokens a day 1,200 5,000 tenant/);
});

test("budget is changed in its row", async () => {
  const { draw, sent } = await openLimits([BUDGET]);
  draw().handler("click", "Change")(menuEvent);
  draw().handler("submit")({ preventDefault() {}, target: { elements: [{ name: "limit", value: "60" }], reset() {} } });
  await settled();
  assert.deepEqual(sent, [["PUT", "/v1/budgets", { collection: "faq", job_id: null, period: "day", unit: "money", limit: 60 }]]);
});

test("budget is deleted after confirmation only", async () => {
  for (const isSure of [false, true]) {
    const { draw, sent, dialog } = await openLimits([BUDGET]);
    draw().handler("click", "Delete")(menuEvent);
    dialog().handler("click", isSure ? "Delete" : "Cancel")({ target: {} });
    await settled();
    assert.deepEqual(sent.map(([method, path]) => [method, path]), isSure ? [["DELETE", "/v1/budgets/b1"]] : []);
  }
});

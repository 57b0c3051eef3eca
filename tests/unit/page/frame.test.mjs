// The frame: screens by the scopes of the key, its name, the palette, and refused keys.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, openPage, pass, settled, stopClock } from "./browser.mjs";

const ALL = ["read", "ask", "feedback", "write", "manage"];

/** Return the modules of a page whose key has these rights. */
async function pageOf(me) {
  const load = openPage({ replies: (path) => (path.startsWith("/v1/documents") ? { items: [{ id: "1", title: "Travel" }] } : me) });
  const { loadPermissions } = await load("parts/permissions.js");
  await loadPermissions();
  const navigation = await load("parts/navigation.js");
  return { load, navigation, paths: navigation.allowedScreens().map(({ path }) => path) };
}

test("operator sees screens of operators only", async () => {
  const { paths } = await pageOf({ tenant: null, key: "night-shift", scopes: ["operator"] });
  assert.deepEqual(paths, ["/tenants", "/audit", "/api"]);
});

test("person sees own screens, not numbers of all documents", async () => {
  const person = { user: "ada", groups: ["legal"] };
  const { paths } = await pageOf({ tenant: "acme", key: "intranet", scopes: ["ask", "read", "feedback"], person });
  assert.deepEqual(paths, ["/ask", "/documents", "/api"]);
});

test("user without keys sees no screen of operators", async () => {
  const { paths } = await pageOf({ tenant: "default", key: null, scopes: [...ALL, "operator"] });
  assert.ok(paths.includes("/keys") && !paths.includes("/tenants"));
});

test("navigation names tenant and key, and its letters open allowed screens", async () => {
  const { navigation } = await pageOf({ tenant: "acme", key: "website", scopes: ["ask"] });
  const { text } = drawn(navigation.navigation("/ask"));
  assert.match(text, /acme\s+website/);
  assert.equal(navigation.pathOf("a"), "/ask");
  assert.equal(navigation.pathOf("k"), undefined);
});

test("palette finds allowed screens and documents", async (t) => {
  const { load } = await pageOf({ tenant: "acme", key: "website", scopes: ["ask", "read"] });
  const palette = await load("parts/palette.js");
  t.mock.timers.enable({ apis: ["setTimeout"] });
  palette.open(() => {});
  assert.ok(!palette.targets().some(({ path }) => path === "/keys"));
  drawn(palette.view()).handler("input")({ target: { value: "doc" } });
  assert.deepEqual(palette.targets().map(({ path }) => path), ["/documents"]);
  t.mock.timers.tick(1000);
  t.mock.timers.reset();
  await settled();
  assert.deepEqual(palette.targets().map(({ path }) => path), ["/documents", "/documents/1"]);
});

test("dialog says why a key was refused", async () => {
  const states = ["unknown", "revoked"];
  const load = openPage({ replies: () => {
    const state = states.shift();
    return state ? Response.json({ status: 401, detail: "no", key_state: state }, { status: 401 }) : { items: [] };
  } });
  const { get, onKeyRequired, storeKey } = await load("api.js");
  const given = [];
  onKeyRequired(async ({ state }) => {
    given.push(state);
    storeKey(`key-${given.length}`, false);
  });
  await get("/v1/jobs");
  assert.deepEqual(given, ["unknown", "revoked"]);
});

test("problem in the format of OpenAI keeps its sentence", async () => {
  const refusal = { error: { message: "This request needs a key with the scope 'ask'.", code: "forbidden" } };
  const load = openPage({ replies: () => Response.json(refusal, { status: 403 }) });
  const { get } = await load("api.js");
  await assert.rejects(get("/v1/models"), { message: refusal.error.message, status: 403 });
});

test("problem names its request and waits as long as demanded", async (t) => {
  stopClock(t, "2026-10-01T08:00:00Z");
  const headers = { "x-request-id": "0198f3a1", "retry-after": "2", "content-type": "application/problem+json" };
  const refusal = { status: 429, detail: "Too many requests: 10 a second are allowed." };
  const load = openPage({ replies: () => Response.json(refusal, { status: 429, headers }) });
  const { post } = await load("api.js");
  const { problemCard } = await load("parts/notice.js");
  const { setRenderer } = await load("store.js");
  const problem = await post("/v1/retrieve", {}).catch((error) => error);
  let shown;
  const draw = () => (shown = drawn(problemCard(problem, () => {})));
  setRenderer(draw);
  draw();
  assert.match(shown.html, /<code>0198f3a1<\/code>/);
  assert.match(shown.html, /disabled[^>]*>Try again in 2 s<\/button>/);
  await pass(t, 1000);
  assert.match(shown.text, /Try again in 1 s/);
  await pass(t, 1000);
  assert.doesNotMatch(shown.html, /disabled|Try again in/);
});

// Signing in at an identity provider: the redirect, the way back, renewed tokens, and signing out.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import test from "node:test";
import { drawn, openPage, settled } from "./browser.mjs";

const PROVIDER = {
  available: true,
  client_id: "page",
  scope: "openid",
  authorization_endpoint: "https://login.test/auth",
  end_session_endpoint: "https://login.test/end",
};
const SIGNED_IN = { id: "person:1", token: "a.b.c", expires_in_seconds: 300, refresh_token: "r1", name: "Ada" };

/** Open a page at an address; `page.left` has the addresses to which it has gone, `page.sent` its requests. */
async function opened(path, replies = () => ({})) {
  const page = { left: [], sent: [], shown: [] };
  const load = openPage({
    path,
    replies: (address, request) => {
      page.sent.push({ address, key: request.headers?.authorization, body: request.body && JSON.parse(request.body) });
      return replies(address, request);
    },
  });
  location.assign = (address) => page.left.push(address);
  location.replace = (address) => page.left.push(address);
  history.replaceState = (...given) => page.shown.push(given[2]);
  return Object.assign(page, { load, signIn: await load("parts/sign-in.js"), person: await load("person.js") });
}

/** Start a sign-in; return its parameters. */
async function started(page) {
  await page.signIn.signIn(PROVIDER);
  return new URL(page.left.pop()).searchParams;
}

const storedTexts = () => JSON.stringify({ ...localStorage });

test("sign-in sends challenge, state and nonce, and returns to the screen", async () => {
  const page = await opened("/documents?collection=hr#top", () => SIGNED_IN);
  const query = await started(page);
  assert.match(query.get("redirect_uri"), /^http:\/\/foreask\.test\/.*\/signed-in$/);
  assert.equal(query.get("code_challenge_method"), "S256");
  assert.ok(query.get("state").length >= 43 && query.get("nonce").length >= 43);
  assert.notEqual(query.get("state"), query.get("nonce"));

  const screen = await page.signIn.finish(new URLSearchParams({ code: "c1", state: query.get("state") }));

  assert.match(screen, /\?collection=hr#top$/);
  const [{ address, body }] = page.sent;
  assert.equal(address, "/v1/sign-in/token");
  const challenge = createHash("sha256").update(body.code_verifier).digest("base64url");
  assert.equal(challenge, query.get("code_challenge"));
  assert.equal(body.nonce, query.get("nonce"));
  assert.equal(page.person.person().token, "a.b.c");
  assert.ok(!storedTexts().includes("a.b.c"));
});

test("code of another tab or another sign-in is not redeemed", async () => {
  const page = await opened("/");
  await assert.rejects(page.signIn.finish(new URLSearchParams({ code: "c", state: "x" })), /has expired/);
  const query = await started(page);
  await assert.rejects(page.signIn.finish(new URLSearchParams({ code: "c", state: "other" })), /has expired/);
  const again = new URLSearchParams({ code: "c", state: query.get("state") });
  await assert.rejects(page.signIn.finish(again), /has expired/); // a state is used once
  assert.deepEqual(page.sent, []);
});

test("provider's refusal is named, and another sign-in can start", async () => {
  const page = await opened("/signed-in", () => PROVIDER);
  const query = await started(page);
  const route = await page.load("routes/signed-in.js");
  await route.load({ query: new URLSearchParams({ error: "access_denied", state: query.get("state") }) });
  assert.match(drawn(route.view()).text, /The identity provider refused the sign-in: access_denied/);
  assert.deepEqual(page.shown, [location.pathname]); // without the query

  await drawn(route.view()).handler("click", "Sign in again")();
  assert.match(page.left[0], /^https:\/\/login\.test\/auth\?/);
});

test("returned person is sent to the screen without the code", async () => {
  const page = await opened("/ask?x=1", () => SIGNED_IN);
  const query = await started(page);
  const route = await page.load("routes/signed-in.js");
  await route.load({ query: new URLSearchParams({ code: "c1", state: query.get("state") }) });
  assert.equal(page.left.length, 1);
  assert.match(page.left[0], /\?x=1$/);
});

test("token is renewed once before it expires, and the key stays", async (t) => {
  let renewals = 0;
  const page = await opened("/", (address) => {
    if (address !== "/v1/sign-in/refresh") return {};
    renewals += 1;
    return { ...SIGNED_IN, token: "d.e.f", refresh_token: "r2", name: "7" };
  });
  t.mock.timers.enable({ apis: ["Date"] });
  const { get, key } = await page.load("api.js");
  page.signIn.storePerson(SIGNED_IN);
  await get("/v1/jobs");
  assert.equal(key(), "person:1");

  t.mock.timers.tick(250_000);
  await Promise.all([get("/v1/jobs"), get("/v1/keys"), get("/v1/me")]);

  assert.equal(renewals, 1);
  assert.deepEqual(page.sent.filter(({ address }) => address !== "/v1/sign-in/refresh").map((each) => each.key), [
    "Bearer a.b.c", "Bearer d.e.f", "Bearer d.e.f", "Bearer d.e.f",
  ]);
  assert.equal(key(), "person:1");
  assert.deepEqual([page.person.person().name, page.person.person().refresh], ["Ada", "r2"]);
});

test("refused token is renewed, else the dialog opens", async () => {
  const expired = () => Response.json({ status: 401, detail: "expired", key_state: "expired" }, { status: 401 });
  let canRenew = true;
  const page = await opened("/", (address, { headers }) => {
    if (address === "/v1/sign-in/refresh") return canRenew ? { ...SIGNED_IN, token: "d.e.f" } : expired();
    return headers.authorization === "Bearer a.b.c" || !canRenew ? expired() : { items: [] };
  });
  const { get, onKeyRequired } = await page.load("api.js");
  const asked = [];
  onKeyRequired(async ({ state }) => {
    asked.push(state);
    canRenew = true;
    page.signIn.storePerson({ ...SIGNED_IN, token: "g.h.i" });
  });
  page.signIn.storePerson(SIGNED_IN);
  await get("/v1/jobs");
  assert.deepEqual(asked, []);

  canRenew = false;
  await get("/v1/jobs");
  assert.deepEqual(asked, ["expired"]);
});

test("dialog offers the sign-in, and keys next to it", async () => {
  const page = await opened("/", (address) => (address === "/v1/sign-in" ? PROVIDER
    : Response.json({ status: 401, detail: "no", key_state: "missing" }, { status: 401 })));
  const { get, onKeyRequired } = await page.load("api.js");
  const { ask, keyDialog } = await page.load("parts/key.js");
  onKeyRequired(ask);
  get("/v1/jobs");
  await settled();
  const dialog = drawn(keyDialog());
  assert.match(dialog.text, /^Sign in Sign in to use this server\. Sign in Use an API key Key/);
  await dialog.handler("click", "Sign in")();
  assert.match(page.left[0], /^https:\/\/login\.test\/auth\?/);
});

test("dialog says that the provider is unreachable, and takes a key", async () => {
  const down = "The identity provider cannot be reached: it did not answer in time.";
  const page = await opened("/", (address) => (address === "/v1/sign-in"
    ? Response.json({ status: 503, detail: down }, { status: 503 })
    : Response.json({ status: 401, detail: "no", key_state: "missing" }, { status: 401 })));
  const { get, onKeyRequired } = await page.load("api.js");
  const { ask, keyDialog } = await page.load("parts/key.js");
  onKeyRequired(ask);
  get("/v1/jobs");
  await settled();
  assert.match(drawn(keyDialog()).text, /^API key required.*The identity provider cannot be reached/);
});

test("person's name is in the navigation, and signing out forgets the token", async () => {
  const page = await opened("/", (address) => (address === "/v1/sign-in" ? PROVIDER : { tenant: "acme", key: "person:1", scopes: ["ask"] }));
  page.signIn.storePerson(SIGNED_IN);
  const { loadPermissions } = await page.load("parts/permissions.js");
  await loadPermissions();
  const { navigation } = await page.load("parts/navigation.js");
  assert.match(drawn(navigation("/ask")).text, /Signed in as Ada acme/);

  await drawn(navigation("/ask")).handler("click", "Sign out")();

  assert.equal(page.person.person(), null);
  const left = new URL(page.left[0]);
  assert.equal(left.origin + left.pathname, PROVIDER.end_session_endpoint);
  assert.deepEqual([...left.searchParams.keys()], ["client_id", "post_logout_redirect_uri"]); // and no token
});

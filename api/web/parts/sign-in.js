// Signing in and out at an identity provider, with a code, PKCE, a state and a nonce (OpenID Connect). The module is
// loaded when a person signs in, or when their token expires.

import { html, nothing } from "../vendor/lit-html.js";
import { Problem, ROOT, get, post, stopViewing } from "../api.js";
import { PERSON, forgetPerson, person } from "../person.js";
import { isStoring, session } from "../store.js";
import { say } from "./words.js";

/** @import { Refusal } from "../api.js" */
/** @import { Person } from "../person.js" */
/** @typedef {Api["SignInView"]} Provider */

const STARTED = "foreask.sign-in"; // the sign-in of this tab
const BACK = "/signed-in"; // address to which the provider sends the person

/** Whether the browser can sign in: it stores the state of the sign-in, and computes digests. */
const canSignIn = () => isStoring && Boolean(globalThis.crypto?.subtle);

/**
 * Return the identity provider, null if persons cannot sign in, and the reason if they could at another time.
 * @returns {Promise<[Provider | null, string]>}
 */
export async function providerOf() {
  try {
    const provider = await get("/v1/sign-in");
    if (!provider.available || canSignIn()) return [provider.available ? provider : null, ""];
    return [null, say`To sign in, open this page over HTTPS in a browser that stores data of this site.`];
  } catch (problem) {
    return [null, problem.status === 503 ? problem.message : ""];
  }
}

/**
 * Draw the form of the dialog.
 * @param {Provider} provider @param {Refusal} refusal @param {string} words why a key was refused; may be empty
 * @param {unknown} keyForm
 */
export function signInForm(provider, { state, detail }, words, keyForm) {
  const refused = person() ? (state === "expired" ? say`Your sign-in has expired.` : detail) : words;
  return html`<div class="sign-in"><h2 id="key-title">${say`Sign in`}</h2>
    <p role=${refused ? "alert" : nothing}>${refused || say`Sign in to use this server.`}</p>
    <button class="main" autofocus @click=${() => signIn(provider)}>${say`Sign in`}</button>
    <details><summary>${say`Use an API key`}</summary>${keyForm}</details></div>`;
}

/** Return bytes in base64url. @param {Uint8Array} bytes */
function encoded(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const random = () => encoded(crypto.getRandomValues(new Uint8Array(32)));

/** @param {string} verifier */
async function challengeOf(verifier) {
  return encoded(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

const back = () => location.origin + ROOT + BACK;

/**
 * Leave the page for the provider, which sends the person back to the screen that is open now.
 * @param {Provider} provider @param {string} [screen] path of another screen, with its query
 */
export async function signIn(provider, screen) {
  const here = location.pathname.slice(ROOT.length) + location.search + location.hash;
  const started = { state: random(), nonce: random(), verifier: random(), screen: screen ?? here };
  session.setItem(STARTED, JSON.stringify(started));
  location.assign(withQuery(provider.authorization_endpoint ?? "", {
    response_type: "code",
    client_id: provider.client_id ?? "",
    scope: provider.scope ?? "openid",
    redirect_uri: back(),
    state: started.state,
    nonce: started.nonce,
    code_challenge: await challengeOf(started.verifier),
    code_challenge_method: "S256",
  }));
}

/**
 * Redeem the code with which the provider has sent the person back; return the screen that was open before.
 * @param {URLSearchParams} query of the address
 * @throws {Problem} the sign-in was refused, has expired, or was not started in this tab
 */
export async function finish(query) {
  const started = JSON.parse(session.getItem(STARTED) ?? "null");
  session.removeItem(STARTED);
  if (!started || query.get("state") !== started.state) {
    throw new Problem({ detail: say`This sign-in has expired. Sign in again.` });
  }
  const code = query.get("code");
  if (!code) {
    throw new Problem({ detail: say`The identity provider refused the sign-in: ${query.get("error") ?? "?"}` });
  }
  storePerson(await post("/v1/sign-in/token", {
    code,
    code_verifier: started.verifier,
    nonce: started.nonce,
    redirect_uri: back(),
  }));
  return started.screen.startsWith(BACK) ? "/" : started.screen;
}

/** Sign out here and at the provider, which may ask for a confirmation. */
export async function signOut() {
  const provider = await get("/v1/sign-in").catch(() => null);
  forgetPerson();
  stopViewing();
  const end = provider?.end_session_endpoint;
  location.assign(end ? withQuery(end, {
    client_id: provider.client_id ?? "",
    post_logout_redirect_uri: `${location.origin}${ROOT}/`,
  }) : `${ROOT}/`);
}

/** @param {string} address @param {Record<string, string>} parameters */
function withQuery(address, parameters) {
  return `${address}${address.includes("?") ? "&" : "?"}${new URLSearchParams(parameters)}`;
}

/** @param {Api["SignedInView"]} reply @param {Person} [before] whose token was renewed */
export function storePerson(reply, before) {
  const { id, token, expires_in_seconds: seconds, refresh_token: refresh } = reply;
  const name = before?.name ?? reply.name; // only the reply to a sign-in has the name to show
  const until = Date.now() + 1000 * seconds;
  session.setItem(PERSON, JSON.stringify({ id, name, token, until, refresh: refresh ?? before?.refresh ?? null }));
}

/** @type {Promise<void> | null} */
let renewing = null;

/** Replace a token that expires or was refused; return whether there is another one now. @param {string} token */
export async function renew(token) {
  const before = person();
  if (before?.refresh && before.token === token) {
    await (renewing ??= requestNext(before).finally(() => (renewing = null)));
  }
  return Boolean(person()) && person()?.token !== token;
}

/** @param {Person} before */
async function requestNext(before) {
  try {
    const reply = await fetch(`${ROOT}/v1/sign-in/refresh`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ refresh_token: before.refresh }),
      cache: "no-store",
      credentials: "omit",
    });
    if (person()?.token !== before.token) return; // signed out since
    if (reply.ok) storePerson(await reply.json(), before);
    // The provider renews no token: its session has ended.
    else if (![429, 503].includes(reply.status)) session.setItem(PERSON, JSON.stringify({ ...before, refresh: null }));
  } catch {
    // The server is unreachable: the token is used until it expires.
  }
}

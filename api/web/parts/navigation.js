// The main navigation: groups of screens in a column or, on a small display, three screens and a menu of all.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, forgetKey, key } from "../api.js";
import { person } from "../person.js";
import { redraw } from "../store.js";
import { icon, logo } from "./icon.js";
import { languagePicker } from "./language.js";
import { identity, may } from "./permissions.js";
import { say } from "./words.js";

/** @import { Scope } from "./permissions.js" */
/**
 * @typedef {{path: string, words: string, sign: string, scope?: Scope, or?: Scope, letter?: string,
 *   first?: boolean}} Screen
 *   a key needs one of two scopes; without a scope, every key may use the screen
 */

/** @type {{name: string, screens: Screen[]}[]} */
const GROUPS = [
  {
    name: say`Installation`,
    screens: [
      { path: "/tenants", words: say`Tenants`, sign: "building-2", scope: "operator", letter: "n", first: true },
    ],
  },
  {
    name: "",
    screens: [
      { path: "/ask", words: say`Ask`, sign: "message-circle-question-mark", scope: "ask", letter: "a", first: true },
    ],
  },
  {
    name: say`Library`,
    screens: [
      { path: "/documents", words: say`Documents`, sign: "files", scope: "read", letter: "d", first: true },
      { path: "/collections", words: say`Collections`, sign: "library", scope: "all", letter: "o" },
      { path: "/sources", words: say`Sources`, sign: "folder-sync", scope: "all", letter: "s" },
    ],
  },
  {
    name: say`Insights`,
    screens: [
      { path: "/questions", words: say`Questions`, sign: "list-checks", scope: "manage", letter: "q" },
      { path: "/gaps", words: say`Gaps`, sign: "search-x", scope: "manage", letter: "g" },
    ],
  },
  {
    name: say`Lab`,
    screens: [
      { path: "/lab/explain", words: say`Explain`, sign: "scan-search", scope: "tune", letter: "e" },
      { path: "/lab/try", words: say`Try`, sign: "flask-conical", scope: "write", letter: "t" },
      { path: "/lab/compare", words: say`Compare`, sign: "scale", scope: "manage", letter: "c" },
    ],
  },
  {
    name: say`Operations`,
    screens: [
      { path: "/work", words: say`Work`, sign: "activity", scope: "all", letter: "w", first: true },
      { path: "/jobs", words: say`Jobs`, sign: "list-todo", scope: "all", letter: "j" },
      { path: "/keys", words: say`Keys`, sign: "key-round", scope: "manage", letter: "k" },
      { path: "/access", words: say`Access`, sign: "circle-user-round", scope: "manage", letter: "r" },
      { path: "/limits", words: say`Limits`, sign: "gauge", scope: "manage", letter: "l" },
      { path: "/audit", words: say`Audit`, sign: "scroll-text", scope: "manage", or: "operator", letter: "u" },
    ],
  },
  { name: "", screens: [{ path: "/api", words: "API", sign: "code-xml" }] },
];
const SCREENS = GROUPS.flatMap((group) => group.screens);
/** Screens that are rarely used: menus and the palette lead to them. @type {Screen[]} */
const TASKS = [
  { path: "/erase", words: say`Erase a person`, sign: "circle-user-round", scope: "manage" },
];

/** @param {Screen} screen */
const isAllowed = ({ scope, or }) => !scope || may(scope) || Boolean(or && may(or));

/** Return the screens that the key may use. */
export const allowedScreens = () => SCREENS.filter(isAllowed);

/** Return all screens that the key may use, also the ones outside of the navigation. */
export const reachableScreens = () => [...SCREENS, ...TASKS].filter(isAllowed);

/** Return the letters that open a screen after `g`, each with the screen's name. */
export const letters = () => allowedScreens().flatMap(({ letter, words }) => (letter ? [[letter, words]] : []));

let open = false;

/** Return the address of the screen with a letter. @param {string} letter */
export const pathOf = (letter) => allowedScreens().find((screen) => screen.letter === letter)?.path;

/** Close the menu of a small display; return whether it was open. */
export function closeMenu() {
  const was = open;
  open = false;
  if (was) redraw();
  return was;
}

/** @param {string} path of the current screen */
export function navigation(path) {
  const current = SCREENS.find((screen) => path.startsWith(screen.path) || (path === "/" && screen.path === "/ask"));
  const toggle = () => ((open = !open), redraw());
  return html`<nav class=${open ? "rail open" : "rail"} aria-label=${say`Main`}>
    <span class="mark" aria-hidden="true">${logo()}foreask</span>
    ${GROUPS.map((group) => links(group, current))}
    <div class="foot">${account()}${languagePicker()}</div>
    <button class="menu"
      aria-expanded=${open}
      data-current=${Boolean(current && !current.first)}
      @click=${toggle}>${icon("menu")}${say`Menu`}</button>
  </nav>`;
}

/** The tenant and the name of the key, and a button that signs out. */
function account() {
  const me = identity();
  const user = person();
  const removeKey = () => (forgetKey(), location.assign(`${ROOT}/`));
  const leave = user ? async () => (await import("./sign-in.js")).signOut() : removeKey;
  const name = me?.key?.startsWith("settings:") ? say`Settings key` : me?.key;
  const tenant = me?.tenant ?? say`Operator`;
  const shown = html`<p class="account" title=${user?.name ?? me?.key ?? ""}>${icon("circle-user-round")}<span>
    <span class="hidden">${say`Signed in as`}</span>
    <span class="name clip">${user?.name ?? tenant}</span>
    <span class="soft small clip">${user ? tenant : name}</span></span></p>`;
  const removal = html`<button class="sign-out" @click=${leave}>${icon("log-out")}${
    user ? say`Sign out` : say`Remove key`}</button>`;
  return html`${me ? shown : nothing}${key() ? removal : nothing}`;
}

/** @param {typeof GROUPS[number]} group @param {Screen | undefined} current */
function links({ name, screens }, current) {
  const allowed = screens.filter(isAllowed);
  if (!allowed.length) return nothing;
  return html`<div class="group" role=${name ? "group" : nothing} aria-label=${name || nothing}>
    ${name ? html`<span class="group-name" aria-hidden="true">${name}</span>` : nothing}
    ${allowed.map((screen) => html`<a class=${screen.first ? "first" : ""} href=${ROOT + screen.path}
      aria-current=${screen === current ? "page" : "false"}>${icon(screen.sign)}${screen.words}</a>`)}
  </div>`;
}

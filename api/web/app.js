// The frame: navigation, keyboard shortcuts, and the screen of the current address.

import { html, nothing, render } from "./vendor/lit-html.js";
import { ROOT, onKeyRequired, viewed } from "./api.js";
import { confirmation, dismiss } from "./kit/dialog.js";
import { redraw, setRenderer, redrawNow } from "./store.js";
import { allowedScreens, closeMenu, letters, navigation, pathOf } from "./parts/navigation.js";
import { notice } from "./parts/notice.js";
import { loadPermissions, may, onKnown } from "./parts/permissions.js";
import { loadWords, say } from "./parts/words.js";

/** The parts of the kit, for developers. @type {[RegExp, () => Promise<any>]} */
const GALLERY = [/^\/gallery$/, () => import("./routes/gallery.js")];
/** The address to which an identity provider sends a person. @type {[RegExp, () => Promise<any>]} */
const SIGNED_IN = [/^\/signed-in$/, () => import("./routes/signed-in.js")];
// A screen's module is loaded on the first visit. The module of the first screen is part of the document.
/** @type {[RegExp, () => Promise<any>][]} */
const ROUTES = [
  [/^\/(?:ask)?$/, () => import("./routes/ask.js")],
  [/^\/documents$/, () => import("./routes/documents.js")],
  [/^\/documents\/(?<id>[^/]+)$/, () => import("./routes/document.js")],
  [/^\/questions$/, () => import("./routes/questions.js")],
  [/^\/questions\/(?<id>[^/]+)$/, () => import("./routes/question.js")],
  [/^\/gaps$/, () => import("./routes/gaps.js")],
  [/^\/lab\/explain$/, () => import("./routes/explain.js")],
  [/^\/lab\/try$/, () => import("./routes/try.js")],
  [/^\/lab\/compare(?:\/(?<id>[^/]+))?$/, () => import("./routes/compare.js")],
  [/^\/collections$/, () => import("./routes/collections.js")],
  [/^\/collections\/(?<id>[^/]+)$/, () => import("./routes/collection.js")],
  [/^\/work$/, () => import("./routes/work.js")],
  [/^\/keys$/, () => import("./routes/keys.js")],
  [/^\/access$/, () => import("./routes/access.js")],
  [/^\/limits$/, () => import("./routes/limits.js")],
  [/^\/audit$/, () => import("./routes/audit.js")],
  [/^\/jobs$/, () => import("./routes/jobs.js")],
  [/^\/sources$/, () => import("./routes/sources.js")],
  [/^\/tenants$/, () => import("./routes/tenants.js")],
  [/^\/erase(?:\/(?<id>[^/]+))?$/, () => import("./routes/erase.js")],
  [/^\/api$/, () => import("./routes/api.js")],
  [/^\/answers\/(?<id>[^/]+)$/, () => import("./routes/shared.js")],
  SIGNED_IN,
  GALLERY,
];
const missing = () => import("./routes/missing.js"); // the screen of any other address
const shortcutKeys = () => [
  ["/", say`Go to the question or search field`],
  [say`Ctrl K`, say`Go to a screen or a document`],
  ...letters().map(([letter, words]) => [`g ${letter}`, words]),
  [say`Esc`, say`Stop an answer or close a panel`],
  ["?", say`Show keyboard shortcuts`],
];

// Elements that handle key presses themselves.
const TEXT_FIELDS = "input:not([type=file], [type=checkbox]), textarea, select, dialog";

/** @type {any} the module of the current screen, with its address */
let current = null;
let help = false;
let goPressed = false;

/** Load the screen of an address. @param {string} path */
async function screenOf(path) {
  for (const [pattern, load] of ROUTES) {
    const match = pattern.exec(path);
    if (match) return { route: await load(), path, id: match.groups?.id ?? "" };
  }
  return { route: await missing(), path, id: "" };
}

let navigations = 0;

/** @param {string} address within the page @param {() => void} [then] called when the screen is loaded */
async function open(address, then) {
  const navigation = ++navigations;
  const { pathname, search } = new URL(address, location.origin);
  if (navigation > 1) await loadWords(); // the document's screen has its words
  const screen = await screenOf(pathname.slice(ROOT.length) || "/").catch((error) => {
    if (!current) throw error;
    location.assign(address); // the server has a newer version of the page
    return null;
  });
  if (!screen || navigation !== navigations) return; // the user has opened another screen by then
  then?.();
  closeMenu();
  dismiss();
  current?.route.unload();
  current = screen;
  document.title = `${current.route.title} \u00b7 foreask`;
  current.route.load({ id: current.id, query: new URLSearchParams(search) });
  redrawNow();
}

const focusMain = () => document.getElementById("main")?.focus();

/** @param {string} path */
function go(path) {
  open(ROOT + path, () => {
    current?.route.leave?.(); // stores the scroll position in the entry of the history that is left
    history.pushState(null, "", ROOT + path);
    focusMain();
  });
}

/** Open links within the page without loading the document again. @param {MouseEvent} event */
function onClick(event) {
  const link = event.target instanceof Element && event.target.closest("a[href]");
  if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const address = new URL(link.href);
  const path = address.pathname.slice(ROOT.length);
  if (address.origin !== location.origin || !ROUTES.some(([pattern]) => pattern.test(path))) return;
  event.preventDefault();
  go(path + address.search + address.hash);
}

/** At the start of the page, open the first screen of a key that may not ask, such as an operator's. */
function leaveAsk() {
  const address = ROOT + allowedScreens()[0].path;
  if (["", "/"].includes(location.pathname.slice(ROOT.length)) && !may("ask")) {
    open(address, () => history.replaceState(null, "", address));
  }
}

/** @type {typeof import("./parts/key.js") | null} */
let keys = null;
const loadKeys = async () => (keys ??= await import("./parts/key.js"));
onKeyRequired(async (refusal) => (await loadKeys()).ask(refusal));

/** @type {typeof import("./parts/palette.js") | null} */
let palette = null;

const loadPalette = async () => (palette ??= await import("./parts/palette.js"));
const openPalette = async () => (await loadPalette()).open(go);

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey) {
    event.preventDefault(); // browsers search the web
    if (!document.querySelector("dialog[open]")) openPalette();
    return;
  }
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.target instanceof Element && event.target.closest(TEXT_FIELDS)) return;
  if (goPressed) {
    const path = pathOf(event.key);
    goPressed = false;
    if (path) go(path);
  } else if (event.key === "g") goPressed = true;
  else if (event.key === "/") {
    event.preventDefault();
    /** @type {HTMLElement | null} */ (document.querySelector("#question, #search"))?.focus();
  } else if (event.key === "?") {
    help = !help;
    redraw();
  } else if (event.key === "Escape" && !closeMenu() && help) {
    help = false;
    redraw();
  }
}

function frame() {
  /** @param {Event} event */
  const skip = (event) => (event.preventDefault(), focusMain());
  return html`<a class="skip" href="#main" @click=${skip}>${say`Skip to content`}</a>
    ${viewed ? banner?.viewBanner(viewed) : nothing}
    ${navigation(current.path)}
    <main id="main" tabindex="-1">
      <h1 class=${current.route.titled ? "title" : "hidden"}>${current.route.title}</h1>
      ${current.route.view()}
    </main>
    ${notice()} ${confirmation()} ${keys?.keyDialog() ?? nothing} ${palette?.view() ?? nothing}
    ${help ? shortcuts() : nothing}`;
}

function shortcuts() {
  return html`<aside class="help" aria-label=${say`Keyboard shortcuts`}><h2>${say`Keyboard shortcuts`}</h2>
    <dl>${shortcutKeys().map(shortcut)}</dl></aside>`;
}

/** @param {string[]} shortcut */
const shortcut = ([key, words]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`;

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
let drawn = false;
/** @type {typeof import("./parts/view-banner.js") | null} */
let banner = null;
document.documentElement.classList.toggle("with-view", viewed !== null);
if (viewed) import("./parts/view-banner.js").then((module) => ((banner = module), redraw()));
setRenderer(() => {
  if (!current || (viewed && !banner)) return; // a view without its banner looks like the key's own
  if (!drawn) app.replaceChildren(); // the static navigation, which is visible before any module runs
  drawn = true;
  document.documentElement.classList.toggle("with-composer", Boolean(current.route.hasComposer?.()));
  render(frame(), app);
});
addEventListener("popstate", () => open(location.href, focusMain)); // the focused element may disappear
addEventListener("beforeunload", () => current?.route.leave?.()); // at "pagehide" a reload has the entry's old state
addEventListener("pageshow", (event) => event.persisted && location.reload()); // the key may have been removed since
document.addEventListener("click", onClick);
document.addEventListener("keydown", onKey);
onKnown(leaveAsk);
if (!SIGNED_IN[0].test(location.pathname.slice(ROOT.length))) loadPermissions(); // it would ask for a key
open(location.href);
// Load the other screens in the background, so that they open at once. The document may be complete before this module
// runs, because it waits for the words of the language.
const rare = [GALLERY, SIGNED_IN];
const usual = ROUTES.filter((route) => !rare.includes(route)).map(([, load]) => load);
const screens = [...usual, missing, loadPalette, loadKeys];
const loadScreens = async () => {
  await loadWords();
  for (const load of screens) load().catch(() => {});
};
const preload = () => window.setTimeout(loadScreens, 1000);
if (document.readyState === "complete") preload();
else addEventListener("load", preload);

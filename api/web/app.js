// The frame: where one is, how one gets elsewhere, and the screen of this address.

import { html, nothing, render } from "./vendor/lit-html.js";
import { ROOT, forgetKey, key } from "./api.js";
import { changed, drawnBy, drawnNow } from "./store.js";
import { keyDialog } from "./parts/key.js";
import { loadMe, may } from "./parts/me.js";
import { notice } from "./parts/notice.js";

// A screen's module is loaded when one goes there; the first one's came with the document.
/** @type {[RegExp, () => Promise<any>][]} */
const ROUTES = [
  [/^\/(?:ask)?$/, () => import("./routes/ask.js")],
  [/^\/documents$/, () => import("./routes/documents.js")],
  [/^\/documents\/(?<id>[^/]+)$/, () => import("./routes/document.js")],
  [/^\/questions$/, () => import("./routes/questions.js")],
  [/^\/lab\/explain$/, () => import("./routes/explain.js")],
  [/^\/lab\/try$/, () => import("./routes/try.js")],
  [/^\/lab\/compare(?:\/(?<id>[^/]+))?$/, () => import("./routes/compare.js")],
  [/^\/collections\/(?<id>[^/]+)$/, () => import("./routes/collection.js")],
  [/^\/work$/, () => import("./routes/work.js")],
  [/^\/api$/, () => import("./routes/api.js")],
];
const PLACES = /** @type {const} */ ([
  ["/ask", "Ask", "a", "ask"],
  ["/documents", "Documents", "d", "read"],
  ["/questions", "Questions", "q", "manage"],
  ["/work", "Work", "w", "read"],
  ["/lab/explain", "Explain", "e", "ask"],
  ["/lab/try", "Try", "t", "write"],
  ["/lab/compare", "Compare", "c", "manage"],
]);
const KEYS = [["/", "Go to the question or search field"], ["g a", "Ask"], ["g d", "Documents"], ["g q", "Questions"], ["g w", "Work"], ["g e", "Explain"], ["g t", "Try"], ["g c", "Compare"], ["Esc", "Stop an answer or close a panel"], ["?", "Show keyboard shortcuts"]];

const TYPED = "input:not([type=file], [type=checkbox]), textarea, select, dialog"; // what takes letters itself

/** @type {any} the module of the screen, with its address */
let current = null;
let help = false;
let going = false;

/** The screen of an address, which is loaded by then. @param {string} path */
async function screenOf(path) {
  for (const [pattern, load] of ROUTES) {
    const match = pattern.exec(path);
    if (match) return { route: await load(), path, id: match.groups?.id ?? "" };
  }
  return { route: await ROUTES[0][1](), path: "/", id: "" };
}

let goings = 0;

/** @param {string} address within the page @param {() => void} [then] when its screen is there */
async function arrive(address, then) {
  const going = ++goings;
  const { pathname, search } = new URL(address, location.origin);
  const screen = await screenOf(pathname.slice(ROOT.length) || "/").catch((error) => {
    if (!current) throw error;
    location.assign(address); // the server has another page by now
    return null;
  });
  if (!screen || going !== goings) return; // one has gone elsewhere meanwhile
  then?.();
  current?.route.leave();
  current = screen;
  document.title = `${current.route.title} \u00b7 foreask`;
  current.route.load({ id: current.id, query: new URLSearchParams(search) });
  drawnNow();
}

/** @param {string} path */
function go(path) {
  arrive(ROOT + path, () => {
    history.pushState(null, "", ROOT + path);
    document.getElementById("main")?.focus();
  });
}

/** Links within the page change the screen, not the document. @param {MouseEvent} event */
function followed(event) {
  const link = event.target instanceof Element && event.target.closest("a[href]");
  if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const address = new URL(link.href);
  const path = address.pathname.slice(ROOT.length);
  if (address.origin !== location.origin || !ROUTES.some(([pattern]) => pattern.test(path))) return;
  event.preventDefault();
  go(path + address.search + address.hash);
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.metaKey || event.ctrlKey || event.altKey || (event.target instanceof Element && event.target.closest(TYPED))) return;
  if (going) {
    const place = PLACES.find(([, , key]) => key === event.key);
    going = false;
    if (place) go(place[0]);
  } else if (event.key === "g") going = true;
  else if (event.key === "/") {
    event.preventDefault();
    /** @type {HTMLElement | null} */ (document.querySelector("#question, #search"))?.focus();
  } else if (event.key === "?") {
    help = !help;
    changed();
  } else if (event.key === "Escape" && help) {
    help = false;
    changed();
  }
}

function frame() {
  /** @param {Event} event */
  const skip = (event) => (event.preventDefault(), document.getElementById("main")?.focus());
  return html`<a class="skip" href="#main" @click=${skip}>Skip to content</a>
    <nav class="rail" aria-label="Main">
      <span class="mark" aria-hidden="true">foreask</span>
      ${PLACES.filter(([, , , scope]) => may(scope)).map(([path, words]) => html`<a href=${ROOT + path}
        aria-current=${current.path.startsWith(path) || (path === "/ask" && current.path === "/") ? "page" : "false"}>${words}</a>`)}
      <a class="last" href=${`${ROOT}/api`} aria-current=${current.path === "/api" ? "page" : "false"}>API</a>
      ${key() ? html`<button class="quiet" @click=${() => (forgetKey(), location.assign(`${ROOT}/`))}>Remove key</button>` : nothing}
    </nav>
    <main id="main" tabindex="-1"><h1 class="hidden">${current.route.title}</h1>${current.route.view()}</main>
    ${notice()} ${keyDialog()} ${help ? keys() : nothing}`;
}

function keys() {
  return html`<aside class="help" aria-label="Keyboard shortcuts"><h2>Keyboard shortcuts</h2>
    <dl>${KEYS.map(([key, words]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`)}</dl></aside>`;
}

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
let begun = false;
drawnBy(() => {
  if (!current) return;
  if (!begun) app.replaceChildren(); // the rail that the document came with, to be seen before any module runs
  begun = true;
  render(frame(), app);
});
addEventListener("popstate", () => arrive(location.href));
document.addEventListener("click", followed);
document.addEventListener("keydown", pressed);
loadMe();
arrive(location.href);
// The other screens are at hand when one goes there.
addEventListener("load", () => window.setTimeout(() => ROUTES.map(([, load]) => load().catch(() => {})), 1000));

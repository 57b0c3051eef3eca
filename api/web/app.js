// The frame: where one is, how one gets elsewhere, and the screen of this address.

import { html, nothing, render } from "./vendor/lit-html.js";
import { ROOT } from "./api.js";
import { changed, drawnBy } from "./store.js";
import { keyDialog } from "./parts/key.js";
import { loadMe, may } from "./parts/me.js";
import { notice } from "./parts/notice.js";
import * as ask from "./routes/ask.js";
import * as document_ from "./routes/document.js";
import * as documents from "./routes/documents.js";
import * as explain from "./routes/explain.js";
import * as questions from "./routes/questions.js";
import * as try_ from "./routes/try.js";
import * as work from "./routes/work.js";

const ROUTES = [
  [/^\/(?:ask)?$/, ask],
  [/^\/documents$/, documents],
  [/^\/documents\/(?<id>[^/]+)$/, document_],
  [/^\/questions$/, questions],
  [/^\/lab\/explain$/, explain],
  [/^\/lab\/try$/, try_],
  [/^\/work$/, work],
];
const PLACES = /** @type {const} */ ([
  ["/ask", "Ask", "a", "ask"],
  ["/documents", "Documents", "d", "read"],
  ["/questions", "Questions", "q", "manage"],
  ["/work", "Work", "w", "read"],
  ["/lab/explain", "Explain", "e", "ask"],
  ["/lab/try", "Try", "t", "write"],
]);
const KEYS = [["/", "to the question or the search"], ["g a", "Ask"], ["g d", "Documents"], ["g q", "Questions"], ["g w", "Work"], ["g e", "Explain"], ["g t", "Try"], ["Esc", "stops an answer, closes a panel"], ["?", "these keys"]];

let current = null;
let help = false;
let going = false;

function here() {
  const path = location.pathname.slice(ROOT.length) || "/";
  for (const [pattern, route] of ROUTES) {
    const match = pattern.exec(path);
    if (match) return { route, path, place: { id: match.groups?.id ?? "", query: new URLSearchParams(location.search) } };
  }
  return { route: ask, path: "/", place: { id: "", query: new URLSearchParams() } };
}

function arrive() {
  current?.route.leave();
  current = here();
  document.title = `${current.route.title} \u00b7 foreask`;
  current.route.load(current.place);
  changed();
}

function go(path) {
  history.pushState(null, "", ROOT + path);
  arrive();
  document.getElementById("main")?.focus();
}

/** Links within the page change the screen, not the document. */
function followed(event) {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const address = new URL(link.href);
  const path = address.pathname.slice(ROOT.length);
  if (address.origin !== location.origin || !ROUTES.some(([pattern]) => pattern.test(path))) return;
  event.preventDefault();
  go(path + address.search + address.hash);
}

function pressed(event) {
  if (event.metaKey || event.ctrlKey || event.altKey || event.target.closest?.("input, textarea, select, dialog")) return;
  if (going) {
    const place = PLACES.find(([, , key]) => key === event.key);
    going = false;
    if (place) go(place[0]);
  } else if (event.key === "g") going = true;
  else if (event.key === "/") {
    event.preventDefault();
    document.querySelector("#question, #search")?.focus();
  } else if (event.key === "?") {
    help = !help;
    changed();
  } else if (event.key === "Escape" && help) {
    help = false;
    changed();
  }
}

function frame() {
  return html`<a class="skip" href="#main" @click=${(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>To the content</a>
    <nav class="rail" aria-label="Places">
      <span class="mark" aria-hidden="true">foreask</span>
      ${PLACES.filter(([, , , scope]) => may(scope)).map(([path, words]) => html`<a href=${ROOT + path}
        aria-current=${current.path.startsWith(path) || (path === "/ask" && current.path === "/") ? "page" : "false"}>${words}</a>`)}
      <a class="last" href=${`${ROOT}/docs`}>API</a>
    </nav>
    <main id="main" tabindex="-1"><h1 class="hidden">${current.route.title}</h1>${current.route.view()}</main>
    ${notice()} ${keyDialog()} ${help ? keys() : nothing}`;
}

function keys() {
  return html`<aside class="help" aria-label="Keys"><h2>Keys</h2>
    <dl>${KEYS.map(([key, words]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`)}</dl></aside>`;
}

drawnBy(() => render(frame(), document.getElementById("app")));
addEventListener("popstate", arrive);
document.addEventListener("click", followed);
document.addEventListener("keydown", pressed);
loadMe();
arrive();

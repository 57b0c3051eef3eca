// The page's modules in Node: the names of a browser that they use, and their templates as HTML. It is no browser: what
// depends on layout, focus or events of a user is tested in `tests/page`.

import { registerHooks } from "node:module";

const WEB = new URL("../../../api/web/", import.meta.url);
const ROOT = new URL("../..", `${WEB}app.js`).pathname; // the API's address, as seen by the modules
const nothing = () => {};
let pages = 0;

// Each page has its own instances of all modules, because an import passes on the query of its address.
registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context);
    const { search } = new URL(context.parentURL ?? "file:///");
    return { ...found, url: found.url.startsWith(WEB.href) && !found.url.includes("?") ? found.url + search : found.url };
  },
});

/** A store of the browser, whose values are its properties; without room for more characters than `room`. */
export class Store {
  constructor(room = Infinity) {
    Object.defineProperties(this, { room: { value: room } });
  }

  getItem(name) {
    return Object.hasOwn(this, name) ? this[name] : null;
  }

  setItem(name, value) {
    const used = Object.entries(this).reduce((sum, [each, text]) => sum + (each === name ? 0 : each.length + text.length), 0);
    if (used + name.length + value.length > this.room) throw new DOMException("The store is full.", "QuotaExceededError");
    this[name] = value;
  }

  removeItem(name) {
    delete this[name];
  }
}

/**
 * Return a function that imports modules of a new page.
 * @param {{languages?: string[], path?: string, store?: Store, session?: Store, replies?: (path: string, request: RequestInit) => unknown}} options
 *   replies: the API, which returns the JSON of a reply or a `Response`
 */
export function openPage({ languages = ["en"], path = "/", store = new Store(), session = new Store(), replies = () => ({}) } = {}) {
  const events = new EventTarget();
  const known = {
    window: globalThis,
    document: {
      hidden: false, documentElement: {}, body: {}, activeElement: null, createTreeWalker: nothing, createComment: nothing,
      addEventListener: nothing, removeEventListener: nothing, getElementById: () => null, querySelector: () => null, querySelectorAll: () => [],
    },
    navigator: { languages },
    location: new URL(path, "http://foreask.test"),
    history: { replaceState: nothing, pushState: nothing },
    localStorage: store,
    sessionStorage: session,
    matchMedia: () => ({ matches: true }),
    requestAnimationFrame: (draw) => queueMicrotask(draw),
    addEventListener: (name, handle) => events.addEventListener(name, handle),
    removeEventListener: (name, handle) => events.removeEventListener(name, handle),
    dispatchEvent: (event) => events.dispatchEvent(event),
    fetch: async (address, request) => {
      const reply = await replies(`/${address.slice(ROOT.length)}`, request);
      return reply instanceof Response ? reply : Response.json(reply);
    },
  };
  for (const [name, value] of Object.entries(known)) Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  const number = ++pages;
  return (/** @type {string} */ name) => import(`${WEB.href}${name}?page=${number}`);
}

/** Stop the clock at a time until the end of the test, so that `pass` moves it. @param {import("node:test").TestContext} t @param {string} time */
export function stopClock(t, time) {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"], now: Date.parse(time) });
  t.mock.method(performance, "now", () => Date.now());
}

/** Let work finish, then let time pass, and let the work that it starts finish. @param {import("node:test").TestContext} t @param {number} milliseconds */
export async function pass(t, milliseconds) {
  await settled();
  t.mock.timers.tick(milliseconds);
  await settled();
}

// Digests that another thread computes: it may need longer than all rounds of `settled`.
const digests = new Set();
const { digest } = crypto.subtle;
crypto.subtle.digest = function (...given) {
  const result = digest.apply(this, given);
  digests.add(result);
  result.finally(() => digests.delete(result));
  return result;
};

/** Wait until all work that waits neither for time nor for a held reply has finished. */
export async function settled() {
  for (let round = 0; round < 20; round += 1) {
    await Promise.allSettled(digests);
    await new Promise((done) => setImmediate(done));
  }
}

const ATTRIBUTE = /\s([@.?]?)([\w-]+)=(["']?)$/;
const ESCAPED = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (value) => String(value).replace(/[&<>"]/g, (each) => ESCAPED[each]);
const unescaped = (text) => Object.entries(ESCAPED).reduceRight((all, [each, reference]) => all.replaceAll(reference, each), text);

/**
 * Draw a template: its `html`, its `text` without tags, and `handler`, which returns the function that handles an event
 * of the element with these words or this label, or of the first element that handles it. A handler is a number in `html`.
 */
export function drawn(template) {
  const handlers = [];
  const html = write(template, handlers).replace(/<!--.*?-->/gs, "");
  /** @param {string} event @param {string} [words] */
  const handler = (event, words) => {
    const labelled = [...html.matchAll(/<[^>]*>/g)].find(([tag]) => words && attribute(tag, "aria-label") === words && tag.includes(` @${event}=`));
    if (labelled) return handlers[Number(new RegExp(`@${event}="(\\d+)"`).exec(labelled[0])[1])];
    const inner = words === undefined ? "" : "(.*?)</\\1>"; // an input has no end tag
    const all = [...html.matchAll(new RegExp(`<([\\w-]+)[^>]*@${event}="(\\d+)"[^>]*>${inner}`, "gs"))];
    const found = all.find(([, , , inner]) => words === undefined || textOf(inner) === words);
    if (!found) throw new Error(`no element with the words ${words} handles ${event}: ${textOf(html)}`);
    return handlers[Number(found[2])];
  };
  return { html, handler, text: textOf(html) };
}

/** Return the words of HTML, with one space between elements. @param {string} html */
export const textOf = (html) => unescaped(html.replace(/<[^>]*>/g, " ")).replace(/\s+/g, " ").trim();

/** Return the HTML of each element of a name. @param {string} html @param {string} name */
export const elements = (html, name) => [...html.matchAll(new RegExp(`<${name}[\\s>].*?</${name}>`, "gs"))].map(([found]) => found);

/** Return the value of an attribute of the first element in HTML. @param {string} html @param {string} name */
export const attribute = (html, name) => unescaped(new RegExp(`\\s${name}="([^"]*)"`).exec(html)?.[1] ?? "");

/** @param {any} value @param {unknown[]} handlers @returns {string} */
function write(value, handlers) {
  if (value === null || value === undefined || typeof value === "symbol") return ""; // `nothing` is a symbol
  if (Array.isArray(value)) return value.map((each) => write(each, handlers)).join("");
  if (value._$litDirective$) return write(directed(value.values), handlers);
  if (!value._$litType$) return escaped(value);
  return value.values.reduce((html, each, index) => place(html, each, handlers) + value.strings[index + 1], value.strings[0]);
}

/** Append a value to HTML: as content, or as a part of a tag. @param {string} html @param {any} value @param {unknown[]} handlers */
function place(html, value, handlers) {
  if (html.lastIndexOf("<") <= html.lastIndexOf(">")) return html + write(value, handlers);
  const [whole, sign, name, quote] = ATTRIBUTE.exec(html) ?? [];
  if (whole === undefined || quote) return html + (typeof value === "symbol" ? "" : escaped(value)); // a part of a quoted attribute
  const before = html.slice(0, -whole.length);
  if (sign === "@") return `${before} @${name}="${handlers.push(value) - 1}"`;
  if (sign === "?") return value ? `${before} ${name}` : before;
  return typeof value === "symbol" ? before : `${before} ${name}="${escaped(value?._$litDirective$ ? directed(value.values) : value)}"`;
}

/** Return the value of `live`, or the items of `repeat`. @param {any[]} values */
function directed([first, ...others]) {
  const draw = others.at(-1);
  return typeof draw === "function" ? [...first].map(draw) : first;
}

// Numbers, times and names as people read them.

const numbers = new Intl.NumberFormat("en");
const times = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const UNITS = /** @type {const} */ ([["day", 86400], ["hour", 3600], ["minute", 60]]);

/** @param {number} value */
export const count = (value) => numbers.format(value);

/** @param {number} value a score, not a percentage */
export const score = (value) => value.toFixed(2);

/** @param {number} value @param {string} one @param {string} [many] */
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** @param {string} time as the API returns it */
export function ago(time) {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  for (const [unit, size] of UNITS) {
    if (seconds >= size) return times.format(-Math.floor(seconds / size), unit);
  }
  return "just now";
}

/** @param {string} time in the future, as the API returns it */
export function until(time) {
  const seconds = (Date.parse(time) - Date.now()) / 1000;
  return seconds <= 0 ? "now" : `in ${duration(seconds)}`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

/** @param {string} time as the API returns it */
export const clockTime = (time) => clock.format(new Date(time));

const precise = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** @param {string} time as the API returns it */
export const clockSeconds = (time) => precise.format(new Date(time));

const dayTimes = new Intl.DateTimeFormat("en-GB", { weekday: "short", hour: "2-digit", minute: "2-digit" });

/** @param {string} time as the API returns it */
export const dayTime = (time) => dayTimes.format(new Date(time));

const days = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

const localDays = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** @param {string} time as the API returns it; a day is in UTC */
export const dayOf = (time) => (time.length > 10 ? localDays : days).format(new Date(time));

const dates = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" });

/** @param {string} time as the API returns it */
export const dateOf = (time) => dates.format(new Date(time));

/** Return a duration in the largest suitable units, like the server: 40 s, 43 min, 2 h 5 min, 3 d 4 h. @param {number} seconds */
export function duration(seconds) {
  const [minutes, hours] = [Math.round(seconds / 60), Math.round(seconds / 3600)];
  if (seconds < 1) return `${seconds < 0.01 ? Number((seconds * 1000).toFixed(1)) : Math.round(seconds * 1000)} ms`;
  if (seconds < 90) return `${seconds < 10 ? Number(seconds.toFixed(1)) : Math.round(seconds)} s`;
  if (minutes < 90) return `${minutes} min`;
  return hours < 48 ? twoUnits(minutes, 60, "h", "min") : twoUnits(hours, 24, "d", "h");
}

/** @param {number} total of the small unit @param {number} size @param {string} large @param {string} small */
const twoUnits = (total, size, large, small) => `${Math.floor(total / size)} ${large}${total % size ? ` ${total % size} ${small}` : ""}`;

/** Return the start of a text, without half of a character. @param {string} text @param {number} most UTF-16 units */
export const cut = (text, most) => text.slice(0, most).replace(/[\ud800-\udbff]$/, "");

/** @param {number | null} dollars */
export function money(dollars) {
  if (dollars === null || dollars === undefined) return "";
  return dollars < 0.01 && dollars > 0 ? `$${dollars.toPrecision(1)}` : `$${dollars.toFixed(2)}`;
}

/** Return the sum of costs, of which null ones are unknown. @param {(number | null)[]} costs */
export function totalCost(costs) {
  const known = costs.filter((each) => each !== null);
  if (!known.length) return "price unknown";
  const sum = money(known.reduce((total, each) => total + each, 0));
  return known.length < costs.length ? `at least ${sum}` : sum;
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** @param {{title: string | null, filename: string | null, external_id: string}} document */
export const nameOf = (document) => document.title || document.filename || document.external_id;

/** @param {string[]} headings @param {string} [otherwise] */
export const path = (headings, otherwise = "") => headings.join(" \u203a ") || otherwise;

/** Return the start of a passage in one line, without the marks of Markdown. @param {string} text @param {number} most */
export function opening(text, most) {
  const plain = text.slice(0, 4 * most)
    .replace(/!?\[([^\]]*)\]\([^)\s]*\)/g, "$1")
    .replace(/^\s*(?:#{1,6}|>|[-*+]|```\w*)\s/gm, "")
    .replace(/^[\s|:-]+$/gm, "")
    .replace(/\*\*|__|[`|]/g, " ");
  return plain.replace(/\s+/g, " ").replace(/ ([.,;:!?])/g, "$1").trim().slice(0, most);
}

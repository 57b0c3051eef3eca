// Numbers, times and names as people read them.

import { counted, language, locale, once, say } from "./words.js";

const numbers = once(() => new Intl.NumberFormat(locale));
const times = once(() => new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" }));
const UNITS = /** @type {const} */ ([["day", 86400], ["hour", 3600], ["minute", 60]]);
// English dates put the day first, 27 Nov 2026, and have 24 hours.
const dateLocale = language === "en" ? "en-GB" : locale;

/** @param {number} value */
export const count = (value) => numbers().format(value);

const lists = once(() => new Intl.ListFormat(locale));

/** Join texts: 3, 4, and 5. @param {string[]} texts */
export const listed = (texts) => lists().format(texts);

/** @type {Map<number, Intl.NumberFormat>} */
const decimals = new Map();

/** Return a number with a fixed number of decimals. @param {number} value @param {number} digits */
export function decimal(value, digits) {
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false };
  const known = decimals.get(digits) ?? new Intl.NumberFormat(locale, options);
  decimals.set(digits, known);
  return known.format(value);
}

/** @param {number} value a score, not a percentage */
export const score = (value) => decimal(value, 2);

/** @param {number} value @param {string} one @param {string} [many] */
export const plural = (value, one, many = `${one}s`) => counted(value, count(value), one, many);

/** @param {string} time as the API returns it */
export function ago(time) {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  for (const [unit, size] of UNITS) {
    if (seconds >= size) return times().format(-Math.floor(seconds / size), unit);
  }
  return say`just now`;
}

/** @param {string} time in the future, as the API returns it */
export function until(time) {
  const seconds = (Date.parse(time) - Date.now()) / 1000;
  return seconds <= 0 ? say`now` : say`in ${duration(seconds)}`;
}

const clock = once(() => new Intl.DateTimeFormat(dateLocale, { hour: "2-digit", minute: "2-digit" }));

/** @param {string} time as the API returns it */
export const clockTime = (time) => clock().format(new Date(time));

const precise = once(() => new Intl.DateTimeFormat(dateLocale, { timeStyle: "medium" }));

/** @param {string} time as the API returns it */
export const clockSeconds = (time) => precise().format(new Date(time));

/** @type {Intl.DateTimeFormatOptions} */
const DAY_TIME = { weekday: "short", hour: "2-digit", minute: "2-digit" };
const dayTimes = once(() => new Intl.DateTimeFormat(dateLocale, DAY_TIME));

/** @param {string} time as the API returns it */
export const dayTime = (time) => dayTimes().format(new Date(time));

const days = once(() => new Intl.DateTimeFormat(dateLocale, { day: "numeric", month: "short", timeZone: "UTC" }));

const localDays = once(() => new Intl.DateTimeFormat(dateLocale, { day: "numeric", month: "short" }));

/** @param {string} time as the API returns it; a day is in UTC */
export const dayOf = (time) => (time.length > 10 ? localDays() : days()).format(new Date(time));

const dates = once(() => new Intl.DateTimeFormat(dateLocale, { dateStyle: "medium" }));

/** @param {string} time as the API returns it */
export const dateOf = (time) => dates().format(new Date(time));

const moments = once(() => new Intl.DateTimeFormat(dateLocale, { dateStyle: "medium", timeStyle: "short" }));

/** @param {string} time as the API returns it */
export const momentOf = (time) => moments().format(new Date(time));

/**
 * Return a duration in the largest suitable units, like the server: 40 s, 43 min, 2 h 5 min, 3 d 4 h.
 * @param {number} seconds
 */
export function duration(seconds) {
  const [minutes, hours] = [Math.round(seconds / 60), Math.round(seconds / 3600)];
  if (seconds < 1) {
    const milliseconds = seconds < 0.01 ? Number((seconds * 1000).toFixed(1)) : Math.round(seconds * 1000);
    return say`${numbers().format(milliseconds)} ms`;
  }
  if (seconds < 90) return say`${seconds < 10 ? numbers().format(Number(seconds.toFixed(1))) : Math.round(seconds)} s`;
  if (minutes < 90) return say`${minutes} min`;
  if (hours < 48) return minutes % 60 ? say`${Math.floor(minutes / 60)} h ${minutes % 60} min` : say`${minutes / 60} h`;
  return hours % 24 ? say`${Math.floor(hours / 24)} d ${hours % 24} h` : say`${hours / 24} d`;
}

/** Return the start of a text, without half of a character. @param {string} text @param {number} most UTF-16 units */
export const cut = (text, most) => text.slice(0, most).replace(/[\ud800-\udbff]$/, "");

const DOLLARS = /** @type {const} */ ({ style: "currency", currency: "USD", currencyDisplay: "narrowSymbol" });
const dollars = once(() => new Intl.NumberFormat(locale, DOLLARS));
/** @type {Intl.NumberFormatOptions} */
const COMPACT = { ...DOLLARS, notation: "compact", maximumSignificantDigits: 3 };
const compactDollars = once(() => new Intl.NumberFormat(locale, COMPACT));
const smallDollars = once(() => new Intl.NumberFormat(locale, { ...DOLLARS, maximumSignificantDigits: 1 }));

/** @param {number | null} cost in dollars */
export function money(cost) {
  if (cost === null || cost === undefined) return "";
  return (cost < 0.01 && cost > 0 ? smallDollars() : dollars()).format(cost);
}

/** @param {number} cost in dollars */
export const shortMoney = (cost) => compactDollars().format(cost);

/** Return the sum of costs, of which null ones are unknown. @param {(number | null)[]} costs */
export function totalCost(costs) {
  const known = costs.filter((each) => each !== null);
  if (!known.length) return say`price unknown`;
  const sum = money(known.reduce((total, each) => total + each, 0));
  return known.length < costs.length ? say`at least ${sum}` : sum;
}

/** @param {number} bytes */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${decimal(bytes / 1e6, 1)} MB`;
}

/** @param {{title: string | null, filename: string | null, external_id: string}} document */
export const nameOf = (document) => document.title || document.filename || document.external_id;

/** @param {string[]} headings @param {string} [otherwise] */
export const path = (headings, otherwise = "") => headings.join(" \u203a ") || otherwise;

/**
 * Return the position of a passage in its document, as in "p. 2 \u00b7 Leave \u203a First year"; empty if unknown.
 * @param {Parameters<typeof nameOf>[0] & {heading_path: string[], page: number | null}} chunk
 */
export function positionOf(chunk) {
  const { heading_path: headings, page } = chunk;
  const within = path(headings[0] === nameOf(chunk) ? headings.slice(1) : headings);
  return [page ? say`p. ${page}` : "", within].filter(Boolean).join(" \u00b7 ");
}

/**
 * Return Markdown as plain words in one line: without its marks, its tables' lines and the addresses of links.
 * @param {string} text
 */
export const withoutMarks = (text) => text
  .replace(/!?\[([^\]]*)\]\([^)\s]*\)/g, "$1")
  .replace(/^\s*(?:#{1,6}|>|[-*+]|```\w*)\s/gm, "")
  .replace(/^[\s|:-]+$/gm, "")
  .replace(/\*+(?=\S)|(?<=\S)\*+|__|[`|]/g, " ")
  .replace(/\s+/g, " ").replace(/ ([.,;:!?])/g, "$1").trim();

/**
 * Return the start of a passage in one line, without its first headings and the marks of Markdown.
 * @param {string} text
 * @param {number} most
 */
export function opening(text, most) {
  const body = text.replace(/^(?:\s*#{1,6} [^\n]*(?:\n|$))+/, "");
  return withoutMarks((body.trim() ? body : text).slice(0, 4 * most)).slice(0, most);
}

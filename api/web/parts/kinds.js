// The originals that the page can show, by name and declared type. Their bytes are checked when they are shown.

import { html, nothing } from "../vendor/lit-html.js";
import { say } from "./words.js";

/** @typedef {"pdf" | "picture" | "table"} Kind */

/** @type {[Kind, RegExp, RegExp][]} */
const KINDS = [
  ["pdf", /\.pdf$/i, /^application\/pdf$/],
  ["picture", /\.(?:png|jpe?g|gif|webp|bmp|avif)$/i, /^image\/(?:png|jpeg|gif|webp|bmp|avif)$/],
  ["table", /\.(?:csv|tsv|xlsx|xlsm|xls|ods)$/i, /^text\/(?:csv|tab-separated-values)$|spreadsheet|ms-excel$/],
];

/**
 * Return how the original can be shown; null: only as a download.
 * @param {{filename: string | null, external_id: string, media_type?: string | null}} document
 */
export function kindOf({ filename, external_id, media_type }) {
  const kind = KINDS.find(([, names, types]) => names.test(filename ?? external_id) || types.test(media_type ?? ""));
  return kind?.[0] ?? null;
}

/** @param {Kind} kind @param {number | null} page */
export function openingOf(kind, page) {
  if (kind === "pdf") return page ? say`Open at page ${page}` : say`Open PDF`;
  return kind === "picture" ? say`Show picture` : say`Show table`;
}

/**
 * Link to the reader with the original.
 * @param {string} address of the passage in the reader
 * @param {{filename: string | null, external_id: string, page: number | null}} chunk
 */
export function linkTo(address, chunk) {
  const kind = kindOf(chunk);
  return kind ? html`<a href=${`${address}&view=original`}>${openingOf(kind, chunk.page)}</a>` : nothing;
}

// The limits of a tenant, each with its use.

import { table } from "../kit/table.js";
import { bar } from "./bars.js";
import { count, money, size } from "./format.js";
import { say } from "./words.js";

/** @typedef {Api["TenantLimitView"]} Limit */

/**
 * Each limit: its name, and how its values are written.
 * @type {Record<Limit["name"], [string, (value: number) => string]>}
 */
const LIMITS = {
  requests_per_second: [say`Requests per second`, count],
  upload_bytes_per_day: [say`Uploads per day`, size],
  documents: [say`Documents`, count],
  collections: [say`Collections`, count],
  tokens_per_day: [say`Tokens of the ingest per day`, count],
  cost_per_day: [say`Cost of the ingest per day`, money],
  query_tokens_per_day: [say`Tokens of queries per day`, count],
  query_cost_per_day: [say`Cost of queries per day`, money],
};
const NEARLY = 0.9; // share of a limit from which its bar warns

/** Return the share of a limit that is used; null if it is unknown. @param {Limit} each */
const shareOf = ({ limit, used }) => (limit === null || used === null ? null : used / limit);

/** @param {Limit} each */
function use(each) {
  const share = shareOf(each);
  return share === null ? "" : bar(share, share >= NEARLY ? "degraded" : "working");
}

/** @param {Limit} each @param {number | null} value @param {string} none */
const written = ({ name }, value, none) => (value === null ? none : LIMITS[name][1](value));

/**
 * Render the limits that are set, and the existing documents and collections.
 * @param {Limit[]} all @param {string} label of the table
 */
export const limitTable = (all, label) => table({
  label,
  rows: all.filter(({ limit, used }) => limit !== null || used !== null),
  columns: [
    { words: say`Limit`, cell: ({ name }) => LIMITS[name][0], main: true },
    { words: say`Used`, cell: (each) => written(each, each.used, "\u2013"), number: true },
    { words: say`Share`, cell: use, silent: true, width: "minmax(2rem, 0.6fr)" },
    { words: say`Maximum`, cell: (each) => written(each, each.limit, say`unlimited`), number: true },
  ],
});

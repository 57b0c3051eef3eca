// The kinds of sources with their options, as the form of a source shows them, with the server's names.

import { say } from "./words.js";

/** @typedef {Partial<import("../kit/field.js").Field> & {name: string, label: string}} Facts */
/** @typedef {Facts & {many?: boolean, rare?: boolean}} Option */
/**
 * @typedef {{name: string, words: string, hint: string, sign: string, options: readonly Option[], secret?: boolean,
 *   pushed?: boolean, address: {label: string, placeholder: string, hint: string}}} Kind
 *   many: whether the value is a list, with commas between its items; rare: whether the option is shown on request
 *   secret: whether the operator's secret may be needed; pushed: whether a program sends its entries
 */

/** @type {Option} */
const READERS = {
  name: "readers",
  label: say`Readers of the documents`,
  hint: say`A pattern and its persons and groups in each line. The first match counts, and no person reads the other documents. Empty: readers are not changed`,
  placeholder: "legal/* = group:legal",
  type: "area",
  rows: 2,
  wide: true,
  code: true,
  rare: true,
};
/** @type {Option} */
const READERS_COLUMN = {
  name: "readers_column",
  label: say`Column of the readers`,
  hint: say`Readers of a row\u2019s document: persons and groups with commas between them. Empty: readers are not changed`,
  placeholder: "readers",
  code: true,
  rare: true,
};
/** @type {Option} */
const INCLUDE = {
  name: "include",
  label: say`Only these files`,
  hint: say`Patterns with commas between them, such as *.md, guides/*. Empty: all files`,
  many: true,
};
/** @type {Option} */
const EXCLUDE = { name: "exclude", label: say`Without these files`, hint: say`Patterns, such as drafts/*`, many: true };
/** @type {readonly Option[]} */
const FILES = [
  INCLUDE,
  EXCLUDE,
  { name: "hidden", label: say`Also hidden files`, hint: say`Names that start with a dot`, type: "check", rare: true },
  {
    name: "copy_files",
    label: say`Copy the files`,
    hint: say`Old versions can then be read again, and the originals are shown. Otherwise they are read from the source when they are needed`,
    type: "check",
    rare: true,
  },
  READERS,
];
/** @type {Option} */
const REGION = {
  name: "region",
  label: say`Region`,
  hint: say`Of a public bucket in S3. Empty: us-east-1`,
  placeholder: "eu-central-1",
  rare: true,
};
/** @type {readonly Option[]} */
const PAGES = [
  {
    name: "include",
    label: say`Only these pages`,
    hint: say`Patterns of addresses or paths, such as /docs/*. Empty: all pages`,
    many: true,
  },
  { name: "exclude", label: say`Without these pages`, hint: say`Patterns, such as /docs/old/*`, many: true },
  { name: "pages", label: say`Most pages of a sync`, hint: say`Empty: 10,000`, type: "number", min: 1, rare: true },
  { ...READERS, placeholder: "/legal/* = group:legal" },
];

/** @type {readonly Kind[]} */
export const KINDS = [
  {
    name: "folder",
    words: say`Folder`,
    hint: say`Files on the server or on a mounted drive`,
    sign: "folder",
    address: {
      label: say`Folder`,
      placeholder: "/srv/handbook",
      hint: say`Its path on the server. The operator decides which folders may be read`,
    },
    options: [
      ...FILES,
      {
        name: "permissions",
        label: say`Readers from file permissions`,
        hint: say`Only persons and groups that may read a file on the server read its document`,
        type: "check",
        rare: true,
      },
    ],
  },
  {
    name: "crawl",
    words: say`Site`,
    hint: say`All pages that the links of a start page reach`,
    sign: "globe",
    address: {
      label: say`Start page`,
      placeholder: "https://example.org/docs/",
      hint: say`Pages in its folder are read`,
    },
    options: [
      ...PAGES,
      {
        name: "prefix",
        label: say`Start of all paths`,
        hint: say`Empty: the folder of the start page`,
        placeholder: "/docs/",
        rare: true,
      },
      {
        name: "depth",
        label: say`Most links to a page`,
        hint: say`From the start page. Empty: 20`,
        type: "number",
        min: 0,
        max: 100,
        rare: true,
      },
      {
        name: "same_pattern",
        label: say`Most pages of a pattern`,
        hint: say`Pages whose addresses differ only in numbers and parameters. Empty: 1,000`,
        type: "number",
        min: 1,
        rare: true,
      },
    ],
  },
  {
    name: "sitemap",
    words: say`Sitemap`,
    hint: say`The pages that a sitemap lists`,
    sign: "map",
    address: { label: say`Address of the sitemap`, placeholder: "https://example.org/sitemap.xml", hint: "" },
    options: PAGES,
  },
  {
    name: "rss",
    words: say`Feed`,
    hint: say`The pages of an RSS or Atom feed`,
    sign: "rss",
    address: { label: say`Address of the feed`, placeholder: "https://example.org/feed.xml", hint: "" },
    options: PAGES,
  },
  {
    name: "list",
    words: say`List of pages`,
    hint: say`A text file with an address in each line`,
    sign: "list",
    address: { label: say`Address of the list`, placeholder: "https://example.org/pages.txt", hint: "" },
    options: PAGES,
  },
  {
    name: "git",
    words: say`Repository`,
    hint: say`Files of a Git repository`,
    sign: "git-branch",
    secret: true,
    address: {
      label: say`Repository`,
      placeholder: "https://example.org/handbook.git",
      hint: say`Its HTTPS address, or git+file:/// with a path on the server`,
    },
    options: [
      { name: "ref", label: say`Branch or tag`, hint: say`Empty: the default branch`, placeholder: "main" },
      { name: "path", label: say`Folder`, hint: say`Only files below it. Empty: all`, placeholder: "docs", code: true },
      ...FILES,
      {
        name: "link",
        label: say`Link for readers`,
        hint: say`Address of a file, with {commit} and {path}`,
        placeholder: "https://example.org/handbook/blob/{commit}/{path}",
        code: true,
        rare: true,
      },
    ],
  },
  {
    name: "objects",
    words: say`Bucket`,
    hint: say`Objects in S3, Google Cloud Storage or Azure`,
    sign: "cloud",
    secret: true,
    address: {
      label: say`Bucket`,
      placeholder: "s3://bucket/folder",
      hint: say`s3://, gs:// or az://, with a folder if only a part is read`,
    },
    options: [...FILES, REGION],
  },
  {
    name: "rows",
    words: say`Table file`,
    hint: say`Rows of JSON lines or Parquet files`,
    sign: "table",
    secret: true,
    address: {
      label: say`File`,
      placeholder: "file:///srv/faq.jsonl",
      hint: say`A path or an object that ends in .jsonl or .parquet. A * in its name selects several files`,
    },
    options: [
      {
        name: "id",
        label: say`Column of the id`,
        placeholder: "id",
        hint: say`Empty: _id, id or external_id`,
        code: true,
      },
      { name: "text", label: say`Column of the text`, placeholder: "text", code: true },
      { name: "title", label: say`Column of the title`, placeholder: "title", code: true },
      { name: "url", label: say`Column of the address`, placeholder: "url", code: true, rare: true },
      {
        name: "metadata",
        label: say`Columns of the metadata`,
        hint: say`With commas between them`,
        many: true,
        code: true,
        rare: true,
      },
      { ...EXCLUDE, rare: true },
      REGION,
      READERS_COLUMN,
      { ...READERS, placeholder: "legal-* = group:legal" },
    ],
  },
  {
    name: "postgresql",
    words: say`Database`,
    hint: say`Rows of a table or a query in PostgreSQL`,
    sign: "database",
    secret: true,
    address: {
      label: say`Database`,
      placeholder: "postgresql://host:5432/database",
      hint: say`Without a user or a password: the secret has them`,
    },
    options: [
      { name: "table", label: say`Table or view`, hint: say`Or a query below`, placeholder: "articles", code: true },
      { name: "schema", label: say`Schema`, placeholder: "public", code: true },
      {
        name: "query",
        label: say`Query`,
        hint: say`A single SELECT that returns the columns`,
        type: "area",
        rows: 2,
        wide: true,
        code: true,
      },
      { name: "id", label: say`Column of the id`, required: true, placeholder: "id", code: true },
      { name: "text", label: say`Column of the text`, required: true, placeholder: "text", code: true },
      { name: "title", label: say`Column of the title`, placeholder: "title", code: true },
      {
        name: "version",
        label: say`Column of the version`,
        hint: say`It changes with each change of the row. Empty: the columns are compared`,
        placeholder: "updated_at",
        code: true,
        rare: true,
      },
      {
        name: "metadata",
        label: say`Columns of the metadata`,
        hint: say`With commas between them`,
        many: true,
        code: true,
        rare: true,
      },
      {
        name: "format",
        label: say`Format of the text`,
        type: "select",
        options: [
          ["", say`Plain text`],
          ["markdown", "Markdown"],
          ["html", "HTML"],
        ],
        rare: true,
      },
      { name: "user", label: say`User of the database`, hint: say`Unless the secret has one`, code: true, rare: true },
      {
        name: "sslmode",
        label: say`Encryption`,
        type: "select",
        options: [
          ["", say`Verify the host\u2019s certificate`],
          ["verify-ca", say`Verify the authority only`],
          ["require", say`Encrypt only`],
          ["disable", say`None`],
        ],
        rare: true,
      },
      {
        name: "timeout_seconds",
        label: say`Time for a statement`,
        hint: say`Empty: 300 seconds`,
        type: "number",
        min: 1,
        max: 3600,
        unit: "s",
        rare: true,
      },
      READERS_COLUMN,
      { ...READERS, placeholder: "legal-* = group:legal" },
    ],
  },
  {
    name: "push",
    words: say`Program`,
    hint: say`A connector of yours sends the entries`,
    sign: "upload",
    pushed: true,
    address: { label: say`Name of the program`, placeholder: "crm", hint: say`Any name: nothing is read from there` },
    options: [READERS],
  },
];

/** @param {string} name @returns {Kind | undefined} */
export const kindOf = (name) => KINDS.find((each) => each.name === name);

/**
 * Return the address that the server expects: a path is a file, and a repository has a scheme of its own.
 * @param {string} kind @param {string} typed
 */
export function addressOf(kind, typed) {
  if (kind === "push") return typed.includes("://") ? typed : `push://${typed}`;
  if (typed.startsWith("/")) return `${kind === "git" ? "git+" : ""}file://${typed}`;
  return kind === "git" && /^https?:/i.test(typed) ? `git+${typed}` : typed;
}

/**
 * Return the options that a form sends: without empty ones, so that the server's defaults apply.
 * @param {Kind} kind @param {Record<string, any>} typed
 * @param {Record<string, any>} [old] options of which the form may not know some
 */
export function optionsOf(kind, typed = {}, old = {}) {
  const options = { ...old };
  for (const { name, many, type } of kind.options) {
    if (!(name in typed)) continue;
    const value = many
      ? typed[name]
          ?.split(",")
          .map((/** @type {string} */ each) => each.trim())
          .filter(Boolean)
      : typed[name];
    if (
      value === null ||
      value === undefined ||
      value === "" ||
      (many && !value.length) ||
      (type === "check" && !value && !(name in old))
    )
      delete options[name];
    else options[name] = value;
  }
  return options;
}

/** Return the value that the form shows of an option. @param {unknown} value */
export function shownOption(value) {
  if (!Array.isArray(value)) return value ?? undefined;
  return value.some((each) => typeof each === "object") ? value.map(shownRule).join("\n") : value.join(", ");
}

/**
 * Return a rule of readers as a line, which the server reads again. Names with commas are JSON.
 *
 * @param {{match: string, readable_by: string | string[]}} rule
 */
function shownRule({ match, readable_by: readers }) {
  const names = Array.isArray(readers) ? readers : [readers];
  const isJson = Array.isArray(readers) && names.some((name) => name.includes(","));
  return `${match} = ${isJson ? JSON.stringify(names) : names.join(", ")}`;
}

// Markdown as nodes. The parser's tokens become templates: no document text is interpreted as HTML.

import { html, nothing } from "../vendor/lit-html.js";
import { Lexer } from "../vendor/marked.js";
import { CITATION } from "./turns.js";
import { say } from "./words.js";

const PICTURE = /^\[(?:image|picture)(?::\s*(.*))?\]$/i;
/** @type {Record<string, string>} */
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };
const REFERENCE = /&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]+));/gi;

const MOST_LEVELS = 8; // of quotations and lists in each other; deeper ones would leave no width

/** @typedef {(number: number) => unknown} Cite renders a citation */

/**
 * Render Markdown. Links show their target instead of leading to it, and pictures are named, not loaded.
 * @param {string} text @param {Cite} [cite] without it, `[1]` is text
 * @param {boolean} [lines] whether a line end is shown: models and OCR mean it, but documents are often wrapped
 */
export function markdown(text, cite, lines = false) {
  return blocks(new Lexer({ gfm: true, breaks: lines }).lex(text), cite);
}

/** @param {any[]} tokens @param {Cite} [cite] @returns {unknown[]} */
const blocks = (tokens, cite, level = 0) => tokens.map((token) => block(token, cite, level));

/** @param {any} token @param {Cite | undefined} cite @param {number} level @returns {unknown} */
function block(token, cite, level) {
  if (level > MOST_LEVELS) return html`<p dir="auto">${token.raw.trim()}</p>`;
  switch (token.type) {
    case "heading": // its level in the document is unrelated to the levels of the page
      return html`<p class="heading" dir="auto">${inlines(token.tokens, cite)}</p>`;
    case "paragraph":
      return html`<p dir="auto">${inlines(token.tokens, cite)}</p>`;
    case "list":
      return token.ordered
        ? html`<ol start=${token.start || 1}>${token.items.map(
            (/** @type {any} */ item) => listed(item, cite, level + 1),
          )}</ol>`
        : html`<ul>${token.items.map((/** @type {any} */ item) => listed(item, cite, level + 1))}</ul>`;
    case "table":
      return table(token, cite);
    case "code":
      return html`<pre><code>${token.text}</code></pre>`;
    case "blockquote":
      return html`<blockquote dir="auto">${blocks(token.tokens, cite, level + 1)}</blockquote>`;
    case "hr":
      return html`<hr>`;
    case "space":
      return nothing;
    case "html":
    case "def":
      return html`<p dir="auto">${token.raw.trim()}</p>`;
    default:
      return inline(token, cite);
  }
}

/** @param {any} item @param {Cite | undefined} cite @param {number} level */
const listed = (item, cite, level) => html`<li dir="auto">${blocks(item.tokens, cite, level)}</li>`;

/**
 * Render lines as a table; null if they are not one.
 * @param {string[]} lines head, delimiter and rows
 * @param {(row: number) => boolean} isMarked
 */
export function tableOf(lines, isMarked) {
  const [token] = new Lexer({ gfm: true, breaks: true }).lex(lines.join("\n"));
  return token?.type === "table" ? table(token, undefined, isMarked) : null;
}

/** @param {any} token @param {Cite} [cite] @param {(row: number) => boolean} [isMarked] */
function table(token, cite, isMarked = () => false) {
  /** @param {any} cell */
  const side = (cell) => (cell.align === "right" || cell.align === "center" ? cell.align : "");
  /** @param {any} cell */
  const head = (cell) => html`<th class=${side(cell)}>${inlines(cell.tokens, cite)}</th>`;
  /** @param {any[]} cells @param {number} index */
  const row = (cells, index) => html`<tr class=${isMarked(index) ? "cited-row" : nothing}>${cells.map(
    (cell) => html`<td class=${side(cell)}>${inlines(cell.tokens, cite)}</td>`,
  )}</tr>`;
  return html`<div class="table-box" tabindex="0" role="group" aria-label=${say`Table`}><table>
    <thead><tr>${token.header.map(head)}</tr></thead>
    <tbody>${token.rows.map(row)}</tbody>
  </table></div>`;
}

/** @param {any[]} tokens @param {Cite} [cite] @returns {unknown[]} */
const inlines = (tokens, cite) => tokens.map((token) => inline(token, cite));

/** @param {any} token @param {Cite} [cite] @returns {unknown} */
function inline(token, cite) {
  switch (token.type) {
    case "strong":
      return html`<strong>${inlines(token.tokens, cite)}</strong>`;
    case "em":
      return html`<em>${inlines(token.tokens, cite)}</em>`;
    case "del":
      return html`<del>${inlines(token.tokens, cite)}</del>`;
    case "codespan":
      return html`<code>${token.text}</code>`;
    case "br":
      return html`<br>`;
    case "link": {
      const isAddress = token.text === token.href || `mailto:${token.text}` === token.href;
      return isAddress ? token.text : html`${inlines(token.tokens)} <span class="target">(${token.href})</span>`;
    }
    case "image":
      return picture(token.text);
    case "checkbox":
      return token.checked ? "\u2611 " : "\u2610 ";
    case "escape":
      return token.text;
    case "html":
      return token.raw;
    default:
      return token.tokens ? inlines(token.tokens, cite) : words(token.raw, cite);
  }
}

/** @param {string} text @param {Cite} [cite] */
function words(text, cite) {
  const named = PICTURE.exec(text.trim());
  if (named) return picture(named[1]);
  if (!cite) return decoded(text);
  return text.split(CITATION).map((part, index) => (index % 2 ? cite(Number(part)) : decoded(part)));
}

/** @param {string | undefined} name */
const picture = (name) => html`<span class="picture">${name ? say`Picture: ${name}` : say`Picture`}</span>`;

/** Replace character references, which the parser leaves. @param {string} text */
const decoded = (text) => text.replace(REFERENCE, (whole, decimal, hex, name) => {
  const code = decimal ? Number(decimal) : parseInt(hex ?? "", 16);
  if (name) return ENTITIES[name.toLowerCase()] ?? whole;
  return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : whole;
});

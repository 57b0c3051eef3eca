// Answers as templates. Document text is never interpreted as HTML.

import { html, nothing } from "../vendor/lit-html.js";

const INLINE = /\*\*(.+?)\*\*|`([^`]+)`|\[(\d{1,3})\]/g;

/**
 * Render an answer: paragraphs, quotations, lists, bold, code, and citations as buttons.
 * @param {string} text
 * @param {(number: number) => unknown} cite renders a citation
 */
export function prose(text, cite) {
  const blocks = text.split(/\n{2,}/).filter((block) => block.trim());
  return blocks.map((block) => {
    const lines = block.split("\n");
    if (lines.every((line) => line.startsWith(">"))) {
      return html`<blockquote dir="auto">${inline(lines.map((line) => line.replace(/^>\s?/, "")).join(" "), cite)}</blockquote>`;
    }
    if (lines.every((line) => /^\s*([-*]|\d+\.)\s/.test(line))) {
      return html`<ul>${lines.map((line) => html`<li>${inline(line.replace(/^\s*([-*]|\d+\.)\s/, ""), cite)}</li>`)}</ul>`;
    }
    return html`<p dir="auto">${lines.map((line, index) => [index ? html`<br>` : nothing, inline(line, cite)])}</p>`;
  });
}

/** @param {string} text @param {(number: number) => unknown} cite */
function inline(text, cite) {
  /** @type {unknown[]} */
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(from, match.index));
    if (match[1] !== undefined) parts.push(html`<strong>${inline(match[1], cite)}</strong>`);
    else if (match[2] !== undefined) parts.push(html`<code>${match[2]}</code>`);
    else parts.push(cite(Number(match[3])));
    from = match.index + match[0].length;
  }
  parts.push(text.slice(from));
  return parts;
}

/** Render a passage with its line breaks. @param {string} text */
export const passage = (text) => html`<div class="passage" dir="auto">${text}</div>`;

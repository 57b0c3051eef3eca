// Tabs, of which one panel is shown. Arrows, Home and End move between them.
//
//   tabs({ id: "views", label: say`Views`, chosen, choose: (name) => ((chosen = name), redraw()), items: [
//     { name: "text", words: say`Text`, body: () => reading(document) },
//     { name: "file", words: say`File`, body: () => original(document) }] })

import { html } from "../vendor/lit-html.js";
import { next } from "./menu.js";

/** @typedef {{name: string, words: unknown, body: () => unknown}} Tab */

/**
 * @param {{id: string, label: string, items: readonly Tab[], chosen: string, choose: (name: string) => void}} facts
 *   id: unique on the screen; chosen: name of the shown tab
 */
export function tabs({ id, label, items, chosen, choose }) {
  const shown = items.find(({ name }) => name === chosen) ?? items[0];
  /** @param {any} event */
  const pressed = (event) => {
    const isRight = getComputedStyle(event.currentTarget).direction === "rtl";
    const to = next(
      turned(event.key, isRight),
      items.indexOf(shown),
      items.map(() => ""),
    );
    if (to === null) return;
    event.preventDefault();
    choose(items[to].name);
    event.currentTarget.children[to].focus();
  };
  /** @param {Tab} each */
  const tab = (each) => html`<button class="kit-tab" type="button" role="tab" id=${`${id}-${each.name}`}
    aria-selected=${each === shown} aria-controls=${`${id}-panel`} tabindex=${each === shown ? 0 : -1}
    @click=${() => choose(each.name)}>${each.words}</button>`;
  return html`<div class="kit-tabs" role="tablist" aria-label=${label} @keydown=${pressed}>${items.map(tab)}</div>
    <div class="kit-panel" role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-${shown.name}`} tabindex="0">
      ${shown.body()}</div>`;
}

/** Return the key of a vertical list for one of tabs. @param {string} key @param {boolean} isRight right to left */
function turned(key, isRight) {
  if (key === (isRight ? "ArrowLeft" : "ArrowRight")) return "ArrowDown";
  if (key === (isRight ? "ArrowRight" : "ArrowLeft")) return "ArrowUp";
  return key === "Home" || key === "End" ? key : "";
}

// A button that opens a menu of actions. The browser closes it at Escape or a click elsewhere; arrows, Home, End and
// the first letter of an item move in it.
//
//   menu({ id: `more-${each.id}`, label: say`Actions of ${each.name}`, items: [
//     { words: say`Rename`, run: () => rename(each) },
//     { words: say`Explain`, href: `${ROOT}/lab/explain` },
//     may("manage") && { words: say`Delete`, run: () => remove(each), danger: true }] })

import { html, nothing } from "../vendor/lit-html.js";
import { icon } from "../parts/icon.js";

/** @typedef {{words: string, run?: () => void, href?: string, sign?: string, danger?: boolean}} Item action or link */

/**
 * @param {{id: string, label: string, items: readonly (Item | null | false)[], words?: unknown, sign?: string}} facts
 *   id: unique on the screen
 *   label: name of the button for screen readers
 *   items: the actions that the key may use; a menu without items is not shown
 *   words: on the button; default: an icon
 */
export function menu({ id, label, items, words, sign = "ellipsis" }) {
  const shown = items.filter((each) => Boolean(each));
  if (!shown.length) return nothing;
  return html`<button class=${words ? nothing : "kit-menu-button"} type="button" popovertarget=${id}
      aria-haspopup="menu" aria-label=${label} title=${words ? nothing : label}>${words ?? icon(sign)}</button>
    <div class="kit-menu" id=${id} popover role="menu" aria-label=${label} @keydown=${pressed}>
      ${shown.map(item)}</div>`;
}

/** Render an item; the browser gives the first one the focus. @param {any} each @param {number} index */
function item({ words, run, href, sign, danger }, index) {
  const content = html`${sign ? icon(sign) : nothing}${words}`;
  if (href) return html`<a class="kit-item" role="menuitem" tabindex="-1" href=${href}
    ?autofocus=${!index}>${content}</a>`;
  /** @param {any} event */
  const chosen = (event) => {
    event.currentTarget.closest("[popover]")?.hidePopover(); // the button gets the focus before the action moves it
    run();
  };
  return html`<button class=${danger ? "kit-item kit-danger" : "kit-item"} type="button" role="menuitem" tabindex="-1"
    ?autofocus=${!index} @click=${chosen}>${content}</button>`;
}

/** @param {any} event */
function pressed(event) {
  if (event.key === "Tab") event.currentTarget.hidePopover();
  const all = [...event.currentTarget.querySelectorAll("[role=menuitem]")];
  const words = all.map((each) => each.textContent.trim());
  const to = next(event.key, all.indexOf(document.activeElement), words);
  if (to === null) return;
  event.preventDefault();
  all[to].focus();
}

/**
 * Return the item that a key moves to; null: the key does not move.
 *
 * @param {string} key @param {number} from @param {string[]} words of the items
 */
export function next(key, from, words) {
  const many = words.length;
  if (key === "ArrowDown") return (from + 1) % many;
  if (key === "ArrowUp") return (from - 1 + many) % many;
  if (key === "Home") return 0;
  if (key === "End") return many - 1;
  if (key.length !== 1 || key === " ") return null;
  const order = words.map((_, index) => (from + 1 + index) % many);
  return order.find((index) => words[index].toLowerCase().startsWith(key.toLowerCase())) ?? null;
}

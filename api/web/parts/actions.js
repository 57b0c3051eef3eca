// Menus of the rows of a virtual list. The kit's menu has a list of actions next to each button, which would make
// scrolling slow: these buttons share one list, which is drawn while it is open. It may have reasons and options, too.

import { html, nothing } from "../vendor/lit-html.js";
import { next } from "../kit/menu.js";
import { redraw, redrawNow } from "../store.js";
import { icon } from "./icon.js";

/**
 * `checked` is the state of an option.
 * @typedef {{words: string, act?: () => void, href?: string, danger?: boolean, checked?: boolean}} Action
 */

/**
 * `reasons` are sentences above the actions.
 * @typedef {{id: string, label: string, reasons?: string[], actions: () => Action[]}} Menu
 */

/** @type {Menu | null} */
let shown = null;

/** Render the button of a menu. @param {Menu} menu */
export function menuButton(menu) {
  /** @param {Event & {currentTarget: HTMLElement}} event */
  const clicked = (event) => (shown?.id === menu.id ? close() : open(menu, event.currentTarget));
  return html`<button class="kit-menu-button" aria-label=${menu.label} aria-haspopup="menu"
    aria-expanded=${String(shown?.id === menu.id)} @click=${clicked}>${icon("ellipsis")}</button>`;
}

/** @returns {HTMLElement | null} */
const element = () => document.getElementById("actions");
const items = () => /** @type {HTMLElement[]} */ ([...(element()?.querySelectorAll("[role^=menuitem]") ?? [])]);

/**
 * Show a menu below its button, or above it near the end of the window.
 * @param {Menu} menu @param {HTMLElement} button
 */
function open(menu, button) {
  if (shown) close();
  shown = menu;
  redrawNow();
  const list = element();
  if (!list) return;
  button.focus(); // it takes the focus again when the menu is closed
  list.showPopover();
  const from = button.getBoundingClientRect();
  const below = from.bottom + list.offsetHeight + 8 < innerHeight;
  list.style.top = `${below ? from.bottom + 4 : Math.max(8, from.top - list.offsetHeight - 4)}px`;
  list.style.left = `${Math.max(8, Math.min(from.right, innerWidth - 8) - list.offsetWidth)}px`;
  addEventListener("scroll", close, { once: true, capture: true });
  items()[0]?.focus();
}

function close() {
  removeEventListener("scroll", close, { capture: true });
  element()?.hidePopover();
}

/** Render the open menu. A screen with menus renders it once, as its last element. */
export function openMenu() {
  if (!shown) return nothing;
  /** @param {ToggleEvent} event */
  const toggled = (event) => event.newState === "closed" && ((shown = null), redraw());
  const { label, reasons = [], actions } = shown;
  return html`<div id="actions" class="kit-menu actions" popover @toggle=${toggled} @keydown=${pressed}>
    ${reasons.length ? html`<ul class="reasons small" role="list">${reasons.map(reason)}</ul>` : nothing}
    <div role="menu" aria-label=${label}>${actions().map(item)}</div></div>`;
}

/** @param {string} sentence */
const reason = (sentence) => html`<li dir="auto">${sentence}</li>`;

/** @param {Action} action */
function item({ words, act, href, danger = false, checked }) {
  const chosen = () => (close(), act?.());
  if (href) return html`<a class="kit-item" role="menuitem" href=${href} @click=${close}>${words}</a>`;
  if (checked === undefined) {
    return html`<button class=${danger ? "kit-item kit-danger" : "kit-item"} role="menuitem" @click=${chosen}>
      ${words}</button>`;
  }
  return html`<button class="kit-item" role="menuitemcheckbox" aria-checked=${String(checked)} @click=${chosen}>
    <span class="grow">${words}</span
    ><span class="tick" aria-hidden="true">${checked ? icon("check") : ""}</span></button>`;
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.key === "Tab") close();
  const all = items();
  const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const to = next(event.key, at, all.map((each) => each.innerText.trim()));
  if (to === null) return;
  event.preventDefault();
  all[to].focus();
}

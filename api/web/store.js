// Redraws the screen at most once per animation frame, after the state has changed; and the stores of the browser.

let render = () => {};
let scheduled = false;

/** @param {() => void} renderer draws the whole screen from the current state */
export function setRenderer(renderer) {
  render = renderer;
}

/** Redraw the screen in the next animation frame. */
export function redraw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    render();
  });
}

/** Redraw at once, so that the next key press acts on the new screen. */
export function redrawNow() {
  render();
}

/** Whether the browser stores data for the next visit. Its settings may block that: access to the stores then fails. */
export const isStoring = hasStores();

function hasStores() {
  try {
    return Boolean(localStorage && sessionStorage);
  } catch {
    return false;
  }
}

/**
 * Return a store whose values last until the page is closed. Its values are its properties, as in the stores of a
 * browser.
 * @returns {Pick<Storage, "getItem" | "setItem" | "removeItem">}
 */
export function inMemory() {
  /** @type {Record<string, any>} */
  const values = Object.create({
    getItem: (/** @type {string} */ name) => values[name] ?? null,
    setItem: (/** @type {string} */ name, /** @type {string} */ value) => void (values[name] = value),
    removeItem: (/** @type {string} */ name) => Reflect.deleteProperty(values, name),
  });
  return /** @type {any} */ (values);
}

export const local = isStoring ? localStorage : inMemory();
export const session = isStoring ? sessionStorage : inMemory();

/** Store a choice for the next visit. @param {string} name @param {string} value */
export function remember(name, value) {
  local.setItem(`foreask.${name}`, value);
}

/** @param {string} name @param {string} [fallback] */
export function remembered(name, fallback = "") {
  return local.getItem(`foreask.${name}`) ?? fallback;
}

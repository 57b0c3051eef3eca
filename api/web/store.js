// Redraws the screen at most once per animation frame, after the state has changed.

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

/** Store a choice for the next visit. @param {string} name @param {string} value */
export function remember(name, value) {
  localStorage.setItem(`foreask.${name}`, value);
}

/** @param {string} name @param {string} [fallback] */
export function remembered(name, fallback = "") {
  return localStorage.getItem(`foreask.${name}`) ?? fallback;
}

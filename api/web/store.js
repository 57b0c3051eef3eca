// When something has changed the screen is drawn again, once a frame.

let draw = () => {};
let waits = false;

/** @param {() => void} how draws the whole screen from what is known */
export function drawnBy(how) {
  draw = how;
}

/** Have the screen drawn again soon. */
export function changed() {
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => {
    waits = false;
    draw();
  });
}

/** Have it drawn at once: who presses the next key means what is there by then. */
export function drawnNow() {
  draw();
}

/** Keep a choice for the next visit. @param {string} name @param {string} value */
export function remember(name, value) {
  localStorage.setItem(`foreask.${name}`, value);
}

/** @param {string} name @param {string} [otherwise] */
export function remembered(name, otherwise = "") {
  return localStorage.getItem(`foreask.${name}`) ?? otherwise;
}

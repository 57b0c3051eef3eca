// Helpers of the screens of keys and limits.

import { notify } from "./notice.js";

/** Run an action, and show its problem. @param {() => Promise<unknown>} action */
export async function attempt(action) {
  try {
    await action();
    return true;
  } catch (problem) {
    notify(problem.message, { seconds: 10 });
    return false;
  }
}

// Sharing of an answer by a link that colleagues can open.

import { ROOT, post, send } from "../api.js";
import { copied } from "./clipboard.js";
import { dateOf } from "./format.js";
import { notify } from "./notice.js";
import { say } from "./words.js";

/** Share an answer, and copy its link. @param {import("./turns.js").Turn} turn */
export async function share(turn) {
  try {
    const body = { query_id: turn.queryId ?? "", answer: turn.answer };
    const { id, expires_at: end } = await post("/v1/shared-answers", body);
    const link = `${location.origin}${ROOT}/answers/${id}`;
    const isCopied = await copied(link);
    const undo = () =>
      send("DELETE", `/v1/shared-answers/${id}`).then(
        () => notify(say`The link no longer works.`),
        (problem) => notify(problem.message),
      );
    const expiry = say`Colleagues with a key for these documents can open it. It expires on ${dateOf(end)}.`;
    notify(`${isCopied ? say`Link copied.` : link} ${expiry}`, { undo, seconds: 15 });
  } catch (problem) {
    notify(problem.message);
  }
}

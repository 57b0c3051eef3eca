// A question with its answer, its sources, and the actions on them.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, post } from "../api.js";
import { redraw } from "../store.js";
import { duration, path, plural } from "./format.js";
import { icon } from "./icon.js";
import { notify, problemCard } from "./notice.js";
import { may } from "./permissions.js";
import { prose } from "./prose.js";
import { asRequest } from "./request.js";
import { resultNotice } from "./result-notice.js";
import { sourcesOf } from "./turns.js";
import { say } from "./words.js";

/** @import { Turn, Source } from "./turns.js" */
/** @typedef {{show: (turn: Turn, index: number) => void, copy: (turn: Turn) => void, again?: (turn: Turn) => void, edit?: (turn: Turn) => void, share?: (turn: Turn) => void}} Actions a shared answer has fewer */

/** @type {Record<string, string>} */
const INCOMPLETE = {
  length: say`This answer is incomplete: the model reached its token limit.`,
  content_filter: say`This answer is incomplete: the provider's content filter stopped it.`,
  interrupted: say`This answer is incomplete: the model's reply was interrupted.`,
};

/** @param {Turn} turn */
export const requestOf = ({ question, collection, history }) => ({ question, collection, top_k: 8, ...(history.length ? { history } : {}) });

/**
 * @param {Turn} turn @param {number | null} open index of the open source
 * @param {boolean} isLast @param {boolean} busy whether this answer is being written @param {Actions} actions
 */
export function answerView(turn, open, isLast, busy, actions) {
  const { phase, problem } = turn;
  return html`<article class="answer" aria-busy=${String(busy)} aria-labelledby=${`question-${turn.id}`}>
    <h2 class="question-title" dir="auto" id=${`question-${turn.id}`}>${turn.question}</h2>
    ${turn.searched === turn.question ? nothing : html`<p class="soft small">${say`Searched for ${html`<q dir="auto">${turn.searched}</q>`}`}</p>`}
    ${phase === "searching" ? html`<p class="soft">${say`Searching\u2026`}</p>` : nothing}
    ${turn.isNew ? html`<p class="hidden" role="status">${spoken(turn)}</p>` : nothing}
    <div class="written">${prose(turn.answer, (number) => cite(turn, number, open, actions))}</div>
    ${resultNotice(turn)}
    ${turn.stopped ? html`<p class="soft">${say`Stopped.`}</p>` : nothing}
    ${turn.incomplete_reason ? html`<p class="warning">${INCOMPLETE[turn.incomplete_reason] ?? INCOMPLETE.interrupted}</p>` : nothing}
    ${problemCard(problem, () => actions.again?.(turn))}
    ${turn.facts ? facts(turn) : nothing}
    ${sourceList(turn, open, actions)}
    ${phase === "done" ? actionLine(turn, open, actions) : nothing}
    ${turn.facts && isLast ? asRequest("POST", "/v1/query", requestOf(turn)) : nothing}
  </article>`;
}

/** Return the announcement for screen readers: the phase, then the complete answer. @param {Turn} turn */
function spoken({ phase, answer }) {
  if (phase === "done") return answer;
  return phase === "writing" ? say`Writing the answer.` : say`Searching.`;
}

/** @param {Turn} turn @param {number} number @param {number | null} open @param {Actions} actions */
function cite(turn, number, open, actions) {
  const index = sourcesOf(turn).findIndex((each) => each.number === number);
  if (index < 0) return html`<span class="cited soft">[${number}]</span>`;
  return html`<button class="cited" aria-label=${say`Source ${number}`} aria-pressed=${String(index === open)}
    @click=${() => actions.show(turn, index)}>${number}</button>`;
}

/** @param {Turn} turn */
function facts(turn) {
  if (!turn.facts) return nothing;
  const { passages, seconds, tokens, removed } = turn.facts;
  const parts = [turn.form === "extractive" ? say`Quoted from documents` : say`Written by a model`, plural(passages, "passage"), duration(seconds)];
  if (!turn.certain) parts.push(say`uncertain`);
  if (tokens) parts.push(plural(tokens, "token"));
  if (removed) parts.push(say`${plural(removed, "invalid citation")} removed`);
  return html`<p class="facts soft small">${parts.join(" \u00b7 ")}</p>`;
}

/** @param {Turn} turn @param {number | null} open @param {Actions} actions */
function sourceList(turn, open, actions) {
  const list = sourcesOf(turn);
  if (!list.length) return nothing;
  return html`<h3>${!(turn.found && (turn.certain || turn.incomplete_reason)) ? say`Closest passages` : turn.cited ? say`Sources` : say`Results`}</h3>
    <ol class="sources">
      ${list.map(
        ({ number, chunk }, index) => html`<li><button class="source" aria-current=${String(index === open)}
          @click=${() => actions.show(turn, index)}>
          <span class="cited" aria-hidden="true">${number}</span>
          <span><span class="name" dir="auto">${path(chunk.heading_path, chunk.title ?? chunk.external_id)}</span>
            <span class="soft small" dir="auto">${reason(chunk)}</span></span>
        </button></li>`,
      )}
    </ol>`;
}

/** Return why a passage was found; for a stored answer, the name of its file. @param {Source["chunk"]} chunk */
function reason(chunk) {
  if (chunk.text === undefined) return chunk.filename ?? chunk.external_id;
  return chunk.matched_question ?? (chunk.matched_question_source ? say`matched by another user's question` : say`matched by text`);
}

/** @param {Turn} turn @param {number | null} open @param {Actions} actions */
function actionLine(turn, open, actions) {
  const isRated = Boolean(turn.cited?.length && turn.queryId);
  const rated = sourcesOf(turn)[open ?? 0]?.chunk.chunk_id ?? "";
  const helpful = turn.helpful.get(rated);
  const explain = `${ROOT}/lab/explain?collection=${encodeURIComponent(turn.collection)}#q=${encodeURIComponent(turn.searched)}`;
  return html`<p class="feedback">
    ${isRated && may("feedback") ? html`<button aria-pressed=${String(helpful === true)} @click=${() => rate(turn, rated, true)}>${icon("check")} ${say`Helpful`}</button>
    <button aria-pressed=${String(helpful === false)} @click=${() => rate(turn, rated, false)}>${icon("x")} ${say`Not helpful`}</button>` : nothing}
    ${turn.answer ? html`<button class="quiet" @click=${() => actions.copy(turn)}>${say`Copy`}</button>` : nothing}
    ${turn.cited?.length && turn.queryId && actions.share ? html`<button class="quiet" @click=${() => actions.share?.(turn)}>${say`Share`}</button>` : nothing}
    ${actions.edit ? html`<button class="quiet" @click=${() => actions.edit?.(turn)}>${say`Edit`}</button>` : nothing}
    ${actions.again ? html`<button class="quiet" @click=${() => actions.again?.(turn)}>${say`Ask again`}</button>` : nothing}
    ${turn.facts ? html`<a href=${explain}>${say`Explain`}</a>` : nothing}
  </p>`;
}

const OUTCOMES = {
  accepted: say`Thanks. Your question now finds this passage.`,
  already_accepted: say`Your question is already linked to this passage.`,
  already_asked: say`Your question is already linked to this passage.`,
  retracted: say`Your question was removed from this passage.`,
  not_accepted: say`Thanks for your feedback.`,
  chunk_full: say`Thanks for your feedback.`,
  pending_review: say`Thanks. An editor will review your question.`,
};

/** @param {Turn} turn @param {string} id of the rated chunk @param {boolean} helpful */
async function rate(turn, id, helpful) {
  if (!turn.queryId) return;
  try {
    const { outcome } = await post("/v1/feedback", { query_id: turn.queryId, chunk_id: id, helpful });
    turn.helpful.set(id, helpful);
    notify(OUTCOMES[outcome], { undo: outcome === "accepted" ? () => rate(turn, id, false) : undefined, seconds: 8 });
  } catch (problem) {
    notify(problem.message);
  }
  redraw();
}

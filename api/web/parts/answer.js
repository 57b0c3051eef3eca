// A question with its answer, its sources, and the actions on them.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { ROOT, post } from "../api.js";
import { menu } from "../kit/menu.js";
import { redraw } from "../store.js";
import { clamp, clampToggle } from "./clamp.js";
import { count, duration, nameOf, plural, positionOf, withoutMarks } from "./format.js";
import { icon } from "./icon.js";
import { notify, problemCard } from "./notice.js";
import { may } from "./permissions.js";
import { prose } from "./prose.js";
import { asRequest } from "./request.js";
import { resultNotice } from "./result-notice.js";
import { CITATION, requestOf, shownAnswer, sourcesOf } from "./turns.js";
import { say } from "./words.js";

/** @import { Turn, Source } from "./turns.js" */
/** @typedef {(turn: Turn) => void} Action */
/**
 * @typedef {{show: (turn: Turn, index: number) => void, copy: Action, again?: Action, edit?: Action,
 *   share?: Action, explainSharing?: () => void}} Actions a shared answer has fewer
 *   explainSharing: says why answers cannot be shared
 */

/** @type {Record<string, string>} */
const INCOMPLETE = {
  length: say`This answer is incomplete: the model reached its token limit.`,
  content_filter: say`This answer is incomplete: the provider's content filter stopped it.`,
  interrupted: say`This answer is incomplete: the model's reply was interrupted.`,
};

/**
 * Render the answers of a conversation.
 * @param {Turn[]} turns @param {(turn: Turn) => number | null} openOf returns the index of an answer's open source
 * @param {Turn | undefined} running the answer that is being written @param {Actions} actions
 */
export function answersView(turns, openOf, running, actions) {
  const last = turns.at(-1);
  /** @param {Turn} turn */
  const one = (turn) => answerView(turn, openOf(turn), turn === last, turn === running, actions);
  return repeat(turns, (/** @type {Turn} */ turn) => turn.id, one);
}

/**
 * @param {Turn} turn @param {number | null} open index of the open source
 * @param {boolean} isLast @param {boolean} busy whether this answer is being written @param {Actions} actions
 */
export function answerView(turn, open, isLast, busy, actions) {
  const { phase, problem } = turn;
  const sources = sourcesOf(turn);
  return html`<article class="answer" aria-busy=${String(busy)} aria-labelledby=${`question-${turn.id}`}>
    <h2 class="question-title ${clamp(turn.question)}" dir="auto" id=${`question-${turn.id}`}>${turn.question}</h2>
    ${clampToggle(turn.question)}
    ${turn.searched === turn.question ? nothing
      : html`<p class="soft small">${say`Searched for ${html`<q dir="auto">${turn.searched}</q>`}`}</p>`}
    ${phase === "searching" ? html`<p class="soft">${say`Searching\u2026`}</p>` : nothing}
    ${turn.isNew ? html`<p class="hidden" role="status">${spoken(turn)}</p>` : nothing}
    <div class="written">${prose(shownAnswer(turn), (number) => cite(turn, sources, number, open, actions))}</div>
    ${resultNotice(turn)}
    ${turn.stopped ? html`<p class="soft">${say`Stopped.`}</p>` : nothing}
    ${incomplete(turn)}
    ${problemCard(problem, () => actions.again?.(turn))}
    ${facts(turn)}
    ${sourceList(turn, sources, open, actions)}
    ${phase === "done" ? actionLine(turn, open, actions) : nothing}
    ${turn.facts && isLast ? asRequest("POST", "/v1/query", requestOf(turn)) : nothing}
  </article>`;
}

/** @param {Turn} turn */
function incomplete({ incomplete_reason: reason }) {
  return reason ? html`<p class="warning">${INCOMPLETE[reason] ?? INCOMPLETE.interrupted}</p>` : nothing;
}

/** Return the announcement for screen readers: the phase, then the words of the complete answer. @param {Turn} turn */
function spoken(turn) {
  if (turn.phase === "done") return withoutMarks(shownAnswer(turn).replace(CITATION, ""));
  return turn.phase === "writing" ? say`Writing the answer.` : say`Searching.`;
}

/**
 * @param {Turn} turn @param {Source[]} sources @param {number} number in the text of the answer
 * @param {number | null} open @param {Actions} actions
 */
function cite(turn, sources, number, open, actions) {
  const index = sources.findIndex((each) => each.number === number);
  if (index < 0) return html`<span class="cited soft">[${number}]</span>`;
  return html`<button class="cited" aria-label=${say`Source ${index + 1}`} aria-pressed=${String(index === open)}
    @click=${() => actions.show(turn, index)}>${index + 1}</button>`;
}

/** @param {Turn} turn */
function facts(turn) {
  if (!turn.facts) return nothing;
  const { passages, seconds, tokens, removed } = turn.facts;
  const isWritten = turn.form !== "extractive"; // the answer itself says that it is quoted, or uncertain
  const parts = isWritten && turn.found ? [say`Written by a model`] : [];
  const cited = turn.found ? (turn.cited ?? []) : [];
  if (passages) parts.push(say`${count(cited.length)} of ${plural(passages, "passage")} cited`);
  parts.push(duration(seconds));
  if (isWritten && !turn.certain) parts.push(say`uncertain`);
  if (tokens) parts.push(plural(tokens, "token"));
  if (removed) parts.push(say`${plural(removed, "invalid citation")} removed`);
  return html`<p class="facts soft small">${parts.join(" \u00b7 ")}</p>`;
}

/** @param {Turn} turn @param {Source[]} list @param {number | null} open @param {Actions} actions */
function sourceList(turn, list, open, actions) {
  if (!list.length) return nothing;
  const isAnswered = turn.found && (turn.certain || turn.incomplete_reason);
  return html`<h3>${!isAnswered ? say`Closest passages` : turn.cited ? say`Sources` : say`Results`}</h3>
    <ol class="sources">
      ${list.map(
        ({ chunk }, index) => html`<li><button class="source" aria-current=${String(index === open)}
          @click=${() => actions.show(turn, index)}>
          <span class="cited" aria-hidden="true">${index + 1}</span>
          <span>${place(chunk)}<span class="soft small">${reason(chunk)}</span></span>
        </button></li>`,
      )}
    </ol>`;
}

/** @param {Source["chunk"]} chunk */
function place(chunk) {
  const position = positionOf(chunk);
  return html`<span dir="auto"><b>${nameOf(chunk)}</b>${position ? ` \u00b7 ${position}` : nothing}</span>`;
}

/**
 * Return why a passage was found; nothing if that is unknown, as for a stored answer.
 * @param {Source["chunk"]} chunk
 */
function reason({ matched_question: question, matched_question_source: source }) {
  if (question === undefined) return nothing;
  if (question) return say`Matched question: ${html`<q dir="auto">${question}</q>`}`;
  return source ? say`Matched another user's question` : say`Matched by its text`;
}

/** @param {Turn} turn @param {number | null} open @param {Actions} actions */
function actionLine(turn, open, actions) {
  const isRated = Boolean(turn.cited?.length && turn.queryId);
  const rated = sourcesOf(turn)[open ?? 0]?.chunk.chunk_id ?? "";
  const helpful = turn.helpful.get(rated);
  const [collection, searched] = [turn.collection, turn.searched].map(encodeURIComponent);
  const explain = `${ROOT}/lab/explain?collection=${collection}#q=${searched}`;
  const { again, copy, edit, share, explainSharing } = actions;
  const isCutOff = turn.stopped && !turn.problem; // the display of a problem has a button for another attempt
  /** @param {boolean} isHelpful @param {string} sign @param {string} words */
  const rating = (isHelpful, sign, words) => html`<button class="rating" aria-label=${words}
    aria-pressed=${String(helpful === isHelpful)} @click=${() => rate(turn, rated, isHelpful)}>
    ${icon(sign)}<span class="wide-only">${words}</span></button>`;
  const id = `more-${turn.id}`;
  const items = [
    edit ? { words: say`Edit question`, run: () => edit(turn) } : null,
    again && !isCutOff ? { words: say`Ask again`, run: () => again(turn) } : null,
    turn.facts && may("tune") ? { words: say`Explain`, href: explain } : null,
    isRated && explainSharing ? { words: say`Share`, run: explainSharing } : null,
  ];
  return html`<div class="feedback">
    ${isCutOff && again ? html`<button @click=${() => again(turn)}>${say`Ask again`}</button>` : nothing}
    ${isRated && may("feedback")
      ? html`${rating(true, "thumbs-up", say`Helpful`)} ${rating(false, "thumbs-down", say`Not helpful`)}` : nothing}
    ${turn.answer ? html`<button class="quiet" @click=${() => copy(turn)}>${say`Copy`}</button>` : nothing}
    ${isRated && share ? html`<button class="quiet" @click=${() => share(turn)}>${say`Share`}</button>` : nothing}
    ${menu({ id, label: say`More actions`, items })}
  </div>`;
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

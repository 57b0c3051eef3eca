// The builds of a collection next to each other: differences, progress, costs, and the quality that was measured.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT } from "../api.js";
import { card } from "../kit/card.js";
import { table } from "../kit/table.js";
import { bar } from "./bars.js";
import { inStates } from "./collection-numbers.js";
import { ago, count, duration, money, plural, score } from "./format.js";
import { LABELS, differing, inWords } from "./options.js";
import { may } from "./permissions.js";
import { OPEN } from "./state.js";
import { say } from "./words.js";

const FINISHED = ["ready", "degraded", "failed"];
const FEWEST = 30; // questions of a set that the gate accepts
/** The states of builds, as users read them. @type {Record<string, string>} */
const STATES = {
  filling: say`being filled`, paused: say`paused`, following: say`complete`, live: say`live`,
  dropping: say`being deleted`,
};

/**
 * @typedef {Api["BuildView"]} Build
 * @typedef {import("../routes/compare.js").Run} Run
 * @typedef {"pause" | "resume" | "drop" | "switch" | "force"} Action
 * @typedef {{
 *   name: string, builds: Build[], runs: Run[], sets: Api["LabelledSetSizeView"][], gateSet: string, busy: string,
 * }} Shown
 * @typedef {{
 *   act: (build: Build, action: Action) => void, runGate: (build: Build) => void, chooseSet: (set: string) => void,
 * }} Actions
 */

/** Return the share of a build's documents that are finished, with their numbers. @param {Build} build */
export function progressOf(build) {
  const done = inStates(build.documents, FINISHED);
  const total = Math.max(build.source_documents, inStates(build.documents, [...FINISHED, ...OPEN]));
  return { done, total, isFinished: build.state === "live" || (build.state === "following" && done >= total) };
}

/** Explain the state of a build. @param {Build} build @param {boolean} isFinished */
function meaning(build, isFinished) {
  if (build.state === "live") return say`Answers all questions of users.`;
  if (build.state === "paused") return say`No documents are copied until you resume. Users do not see it.`;
  if (build.state === "dropping") return say`Its documents and points are being deleted.`;
  if (build.state === "filling") {
    return say`Documents are copied to it and processed with its options. Users do not see it.`;
  }
  if (build.live_until) {
    return say`Was live until ${ago(build.live_until)}. It receives every change, so you can go back at once.`;
  }
  if (!isFinished) return say`It has all documents, and their questions are being written. Users do not see it.`;
  return say`It has all documents and receives every change. Users do not see it until you make it live.`;
}

/** @param {Shown} shown @param {Actions} actions */
export function builds(shown, actions) {
  const all = shown.builds;
  return html`<section aria-labelledby="builds-title"><h3 id="builds-title">${say`Builds`}</h3>
    <p class="soft">${say`A build is a complete copy of the collection with its own prompt, options and embedding \
model. One build is live. To change them for existing documents, fill another build next to it, compare both, and make \
it live.`}</p>
    <ul class="kit-cards builds" role="list">${all.map((each) => one(each, shown, actions))}</ul>
    ${all.length > 1 || shown.runs.some((run) => run.results) ? quality(shown) : nothing}</section>`;
}

/** @param {Build} build @param {Shown} shown @param {Actions} actions */
function one(build, shown, actions) {
  const progress = progressOf(build);
  const isQuiet = progress.isFinished || build.state === "dropping";
  const words = build.state === "following" && !progress.isFinished ? STATES.filling : STATES[build.state];
  const state = build.state === "live" ? html`<strong class="good">${words}</strong>` : words;
  return card({
    label: say`Build ${build.build}`,
    title: say`Build ${build.build}`,
    facts: html`${state} \u00b7 ${say`created ${ago(build.created_at)}`}`,
    body: html`<p class="small">${meaning(build, progress.isFinished)}</p>
      ${isQuiet ? nothing : filling(build, progress)}
      ${facts(build)} ${differences(build, shown.builds)}
      ${may("manage") ? tools(build, progress.isFinished, shown, actions) : nothing}`,
  });
}

/** @param {Build} build @param {{done: number, total: number}} progress */
function filling(build, { done, total }) {
  const left = build.eta_seconds ? say`about ${duration(build.eta_seconds)} left` : "";
  const words = [say`${count(done)} of ${plural(total, "document")}`, left].filter(Boolean).join(" \u00b7 ");
  return html`<div role="status">${bar(total ? done / total : 0, build.state === "paused" ? "degraded" : "working")}
    <p class="soft small">${words}</p></div>`;
}

/** @param {Build} build */
function facts(build) {
  const failed = inStates(build.documents, ["failed", "degraded"]);
  const errors = failed ? html` <span class="bad">${say`${count(failed)} with errors`}</span>` : nothing;
  /** @type {[string, unknown][]} */
  const rows = [
    [say`Documents`, html`${count(build.copied)}${errors}`],
    [say`Cost`, typeof build.cost === "number" ? money(build.cost) : "\u2013"],
    [say`Embedding model`, html`<code>${build.embedding_model}</code>`],
  ];
  return html`<dl class="build-facts">
    ${rows.map(([words, value]) => html`<div><dt>${words}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** List the options in which a build differs from the live one. @param {Build} build @param {Build[]} all */
function differences(build, all) {
  const live = all.find((each) => each.state === "live");
  const { effective } = build;
  if (!live?.effective || !effective || live === build) return nothing;
  const before = live.effective;
  const names = differing(effective, before);
  const isOther = build.embedding_model !== live.embedding_model;
  if (!names.length && !isOther) return html`<p class="soft small">${say`The same options as the live build.`}</p>`;
  /** @param {import("./options.js").Option} name */
  const difference = (name) => (name === "prompt"
    ? html`<details><summary>${LABELS.prompt}</summary><pre>${effective.prompt}</pre></details>`
    : say`${LABELS[name]}: ${inWords(name, effective)} instead of ${inWords(name, before)}`);
  return html`<div class="small"><p class="soft">${say`Different from the live build:`}</p>
    <ul class="build-differences">${names.map((name) => html`<li>${difference(name)}</li>`)}
      ${isOther ? html`<li>${say`Embedding model`}</li>` : nothing}</ul></div>`;
}

/**
 * Render the actions of a build that is not live, each with its effect.
 * @param {Build} build @param {boolean} isFinished @param {Shown} shown @param {Actions} actions
 */
function tools(build, isFinished, shown, actions) {
  const { state } = build;
  if (state === "live" || state === "dropping") return nothing;
  const isBusy = shown.busy !== "";
  /** @param {Action} action @param {string} words @param {string} [kind] */
  const button = (action, words, kind = "") => html`<button class=${kind} ?disabled=${isBusy}
    @click=${() => actions.act(build, action)}>${words}</button>`;
  const drop = button("drop", say`Delete build`, "quiet");
  if (state === "filling") return html`<p class="tools">${button("pause", say`Pause`)}${drop}</p>`;
  if (state === "paused") return html`<p class="tools">${button("resume", say`Resume`)}${drop}</p>`;
  return html`${build.live_until ? nothing : gate(build, isFinished, shown, actions)}
    <div class="build-step">${effectOf(build, shown.builds)}<p class="tools">${live(build, button)}${drop}</p></div>`;
}

/** Explain a switch. @param {Build} build @param {Build[]} all */
function effectOf(build, all) {
  const before = all.find((each) => each.state === "live");
  if (!before) return nothing;
  return html`<p class="small">${say`From the next question on, answers come from build ${build.build}. \
Build ${before.build} stays complete, so you can go back.`}</p>`;
}

/** @param {Build} build @param {(action: Action, words: string) => unknown} button */
function live(build, button) {
  if (build.live_until) return button("switch", say`Go back to build ${build.build}`);
  if (build.gate?.open) return button("switch", say`Make live`);
  return button("force", say`Make live without an open gate\u2026`);
}

/** @param {Build} build @param {boolean} isFinished @param {Shown} shown @param {Actions} actions */
function gate(build, isFinished, shown, { runGate, chooseSet }) {
  const sets = shown.sets.filter((each) => each.questions >= FEWEST);
  /** @param {On<HTMLSelectElement>} event */
  const chosen = (event) => chooseSet(event.target.value);
  /** @param {Api["LabelledSetSizeView"]} each */
  const option = ({ set, questions }) => html`<option value=${set} ?selected=${set === shown.gateSet}>${set}
    (${count(questions)})</option>`;
  const picker = html`<label class="inline small">${say`Questions`} <select @change=${chosen}>
    <option value="" ?selected=${!shown.gateSet}>${say`that users accepted`}</option>
    ${sets.map(option)}</select></label>`;
  return html`<div class="build-step"><p class="small">${say`The gate compares this build with the live one: \
documents, points, search quality and query time. It calls no language model, and opens if the build is not worse.`}</p>
    ${gateResult(build)}
    <p class="tools">${sets.length ? picker : nothing}
      <button ?disabled=${shown.busy !== "" || !isFinished} @click=${() => runGate(build)}>${build.gate
        ? say`Run the gate again` : say`Run the gate`}</button></p></div>`;
}

/** @param {Build} build */
function gateResult(build) {
  if (!build.gate) return nothing;
  /** @type {{open: boolean, reasons: string[], notes: string[]}} */
  const { open, reasons = [], notes = [] } = /** @type {any} */ (build.gate);
  const verdict = open ? say`The gate is open: the build is not worse.` : say`The gate is closed:`;
  return html`<div class="small"><p class=${open ? "good" : "bad"}>${verdict}</p>
    ${reasons.length || notes.length ? html`<ul class="build-differences" lang="en" dir="ltr">
      ${reasons.map((each) => html`<li>${each}</li>`)}
      ${notes.map((each) => html`<li class="soft">${each}</li>`)}</ul>` : nothing}</div>`;
}

/** @typedef {{words: string, values: Map<number, unknown>}} Measure a measured quality of some builds */

/** @param {Shown} shown */
function quality(shown) {
  const rows = [...gateMeasures(shown.builds), ...evaluated(shown)];
  const compare = `${ROOT}/lab/compare?collection=${encodeURIComponent(shown.name)}`;
  const link = may("manage") ? html`<a href=${compare}>${say`Measure a build in Compare`}</a>` : nothing;
  if (!rows.length) {
    return html`<p class="soft small">${say`No quality was measured yet. Run the gate, or search labelled questions in \
each build.`} ${link}</p>`;
  }
  const measured = shown.builds.filter((build) => rows.some(({ values }) => values.has(build.build)));
  const columns = measured.map((build) => ({
    words: build.state === "live" ? say`Build ${build.build}, live` : say`Build ${build.build}`,
    cell: (/** @type {Measure} */ { values }) => values.get(build.build) ?? "\u2013",
    number: true,
  }));
  return html`<h4>${say`Quality`}</h4>
    <p class="soft small">${say`nDCG@10 is 1 if every question finds its documents first, and 0 if none does; in \
brackets the 95\u00a0% interval.`} ${link}</p>
    ${table({ label: say`Quality of the builds`, rows, columns: [
      { words: say`Measured`, cell: (/** @type {Measure} */ { words }) => words, main: true }, ...columns,
    ] })}`;
}

/** @param {unknown} mean @param {number} low @param {number} high */
const withInterval = (mean, low, high) => html`<span>${mean}
  <span class="soft">[${score(low)}, ${score(high)}]</span></span>`;

/** Return the measures of the newest gates. @param {Build[]} all @returns {Measure[]} */
function gateMeasures(all) {
  const compared = all.find((each) => each.state === "live")?.build;
  return all.flatMap(({ build, gate: report, live_until: wasLive, state }) => {
    // An earlier gate of a build that was live compared it with another one.
    if (!report || compared === undefined || wasLive || state === "live") return [];
    const { quality: found, latency } = /** @type {any} */ (report);
    /** @param {string} words @param {(name: "live" | "build") => unknown} value @returns {Measure} */
    const row = (words, value) => ({ words, values: new Map([[compared, value("live")], [build, value("build")]]) });
    const rows = [];
    /** @param {{mean: number, low: number, high: number}} interval */
    const inBrackets = ({ mean, low, high }) => withInterval(score(mean), low, high);
    if (found) rows.push(row(gateWords(found), (name) => inBrackets(found[name])));
    if (latency) {
      const words = say`95\u00a0% of the queries take at most`;
      rows.push(row(words, (name) => duration(latency[`${name}_milliseconds`] / 1000)));
    }
    return rows;
  });
}

/** @param {{source: string, questions: number}} found */
const gateWords = ({ source, questions }) => (source === "labelled"
  ? say`nDCG@10 of the gate, ${plural(questions, "labelled question")}`
  : say`nDCG@10 of the gate, ${plural(questions, "accepted question")}`);

/**
 * Return the newest evaluation of each set in each build.
 * @param {Pick<Shown, "name" | "runs">} shown @returns {Measure[]}
 */
export function evaluated({ name, runs }) {
  /** @type {Map<string, Measure>} */
  const rows = new Map();
  for (const { id, build, labelled_set: set, questions, results } of runs) {
    const row = results?.rows?.find((each) => each.strategy === "default");
    if (!row || build === null || set === null) continue;
    const words = say`nDCG@10 of ${set}, ${plural(questions, "question")}`;
    const measure = rows.get(set) ?? { words, values: new Map() };
    rows.set(set, measure);
    if (measure.values.has(build)) continue; // runs are listed newest first
    const address = `${ROOT}/lab/compare/${id}?collection=${encodeURIComponent(name)}`;
    const mean = html`<a href=${address}>${score(row["ndcg@10"])}</a>`;
    measure.values.set(build, withInterval(mean, row["ndcg@10_low"], row["ndcg@10_high"]));
  }
  return [...rows.values()];
}

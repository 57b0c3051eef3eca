// A collection: contents, calibration, options with the cost of a rebuild, builds, and verification.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, follow, get, post, send } from "../api.js";
import { redraw } from "../store.js";
import { whisker } from "../parts/bars.js";
import { ago, count, decimal, plural, duration, score, totalCost } from "../parts/format.js";
import { STATES } from "../parts/state.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { language, say } from "../parts/words.js";

export const title = say`Collection`;
const named = new Intl.DisplayNames(language, { type: "language" });
/** @type {Record<string, string>} */
const NAMES = { questions: say`questions`, text: say`text`, bm25: say`words` };
const SOURCES = { labelled: say`labelled questions`, accepted: say`accepted questions`, generated: say`generated questions`, texts: say`chunk texts` };
// The numeric options of a collection, with labels and hints.
const NUMBERS = /** @type {const} */ ([
  ["questions_per_chunk", say`Questions per chunk`, say`auto: 3 to 10, depending on length`],
  ["chunk_max_chars", say`Maximum chunk length`, say`characters`],
  ["chunk_overlap_chars", say`Chunk overlap`, say`characters`],
  ["section_max_chars", say`Section length`, say`characters; empty: no sections`],
]);

/**
 * @typedef {{name: string, view: Api["CollectionView"] | null, builds: Api["BuildView"][], sets: Api["LabelledSetSizeView"][],
 *   estimate: {change: Record<string, any>, estimated: Api["EstimateView"]} | null, verified: (Omit<Api["VerificationReply"], "findings"> & {whole: boolean}) | null,
 *   findings: Api["FindingView"][], problem: any, busy: string}} Collected
 */

/** @returns {Collected} */
const newState = (name = "") => ({ name, view: null, builds: [], sets: [], estimate: null, verified: null, findings: [], problem: null, busy: "" });
let seen = newState();
let running = new AbortController();

/** @returns {`/v1/collections/${string}`} */
const base = (now = seen) => `/v1/collections/${encodeURIComponent(now.name)}`;

/** @param {{id: string}} route */
export async function load({ id }) {
  seen = newState(decodeURIComponent(id));
  await refresh();
}

export function unload() {
  running.abort();
  seen = newState(); // running requests write into the discarded state
}

async function refresh(now = seen) {
  const address = base(now);
  try {
    const [view, builds, sets] = await Promise.all([get(address), get(`${address}/builds`),
      may("manage") ? get(`${address}/labelled-sets`).catch(() => ({ items: [] })) : { items: [] }]);
    Object.assign(now, { view, builds: builds.items, sets: sets.items, problem: null });
  } catch (problem) {
    now.problem = problem;
  }
  redraw();
}

/** Run a long action, then load the collection again. @param {string} words @param {(now: Collected) => Promise<any>} action */
async function attempt(words, action) {
  const now = seen;
  now.busy = words;
  redraw();
  try {
    await action(now);
    await refresh(now);
  } catch (problem) {
    now.problem = problem;
  }
  now.busy = "";
  redraw();
}

/** @param {string} set */
const calibrate = (set) => attempt(say`Calibrating\u2026`, async (now) => {
  const questions = set ? (await get(`${base(now)}/labelled-sets/${encodeURIComponent(set)}`)).questions : null;
  const { source } = await post(`${base(now)}/calibration`, { questions });
  notify(say`Calibrated with ${SOURCES[source ?? "labelled"]}.`);
});
const forget = () => attempt(say`Removing the calibration\u2026`, () => send("DELETE", `${base()}/calibration`));

/** Return the options of the form that differ from the collection's. @param {HTMLFormElement} form */
function differing(form) {
  const given = new FormData(form);
  /** @type {Record<string, any>} */
  const options = seen.view?.options ?? {};
  /** @type {[string, string | number | true | null][]} */
  const entries = NUMBERS.map(([name, words]) => {
    const text = String(given.get(name) ?? "").trim();
    if (text && text !== "auto" && !/^\d+$/.test(text)) throw new Error(say`${words}: \u201c${text}\u201d is not a whole number. Use digits only.`);
    return [name, text === "" ? null : text === "auto" ? "auto" : Number(text)];
  });
  for (const name of ["prepend_questions", "context"]) entries.push([name, given.has(name) || null]);
  for (const name of ["ocr_languages", "prompt"]) entries.push([name, String(given.get(name) ?? "").trim() || null]);
  return Object.fromEntries(entries.filter(([name, value]) => value !== plain(options[name])));
}

/** Normalize an option, so that an empty field and an unchecked box count as not set. @param {unknown} value */
const plain = (value) => (value === false || value === "" ? null : value ?? null);

/** @param {HTMLFormElement} form */
const estimate = (form) => attempt(say`Estimating\u2026`, async (now) => {
  const change = differing(form);
  const estimated = await post("/v1/estimates", { collection: now.name, migrate: change });
  now.estimate = { change, estimated };
});
/** @param {HTMLFormElement} form */
const save = (form) => attempt(say`Saving\u2026`, async (now) => {
  await send("PUT", base(now), { body: { ...now.view?.options, ...differing(form) } });
  now.estimate = null;
  notify(say`Saved. New documents use these options. Existing documents keep theirs until they are uploaded or indexed again.`);
});
const rebuild = () => attempt(say`Starting\u2026`, async (now) => {
  const { build } = await post(`${base(now)}/builds`, now.estimate?.change);
  now.estimate = null;
  notify(say`Build ${build} is being filled. Queries still use the live build.`);
});

/** Run the gate of a build, with the compared points and documents while it runs. @param {`/v1/collections/${string}/builds/${number}`} path */
async function runGate(path) {
  const now = seen;
  const { signal } = (running = new AbortController());
  /** @param {string} name @param {any} data of an event of that name */
  const onEvent = (name, data) => {
    if (name === "error") throw new Error(data.detail);
    if (name === "done") notify(data.reasons.join(" ") || say`The build passed the gate.`, { seconds: 15 });
    else now.busy = data.state === "queued" ? say`Queued\u2026` : say`Comparing: ${plural(data.points, "point")}, ${plural(data.documents, "document")}\u2026`;
    redraw();
  };
  try {
    await follow("POST", `${path}/gate`, onEvent, { body: {}, signal, headers: { accept: "text/event-stream" } });
  } catch (problem) {
    if (!signal.aborted) throw problem;
    if (now === seen) await send("DELETE", `${path}/gate`).catch(() => {}); // it may have finished
  }
}

/** @param {Api["BuildView"]} build @param {"drop" | "gate" | "switch" | "pause" | "resume"} action */
const act = (build, action) => attempt("\u2026", async () => {
  const path = /** @type {const} */ (`${base()}/builds/${build.build}`);
  if (action === "drop") await send("DELETE", path);
  else if (action === "gate") await runGate(path);
  else await post(`${path}/${action}`, action === "switch" ? {} : undefined);
});

/** Cancel the verification or the gate. Without this it continues when the page is left. */
const stop = () => running.abort();

/** @param {boolean} repair */
async function verify(repair) {
  const now = seen;
  const control = (running = new AbortController());
  const busy = repair ? say`Repairing\u2026` : say`Comparing\u2026`;
  Object.assign(now, { verified: null, findings: [], busy });
  redraw();
  /** @param {string} name @param {any} data of an event of that name */
  const onEvent = (name, data) => {
    if (name === "finding") now.findings.push(data);
    else if (name === "error") now.problem = { message: data.detail };
    else {
      now.verified = { ...data, whole: name === "done" };
      now.busy = data.state === "queued" ? say`Queued\u2026` : busy;
    }
    redraw();
  };
  try {
    await follow("POST", `${base(now)}/verify`, onEvent, { body: { repair }, signal: control.signal, headers: { accept: "text/event-stream" } });
  } catch (problem) {
    if (!control.signal.aborted) now.problem = problem;
    else if (now === seen) await send("DELETE", `${base(now)}/verify`).catch(() => {}); // it may have finished
  }
  now.busy = "";
  redraw();
}

/** @param {HTMLFormElement} form */
const erase = (form) => attempt(say`Deleting\u2026`, async (now) => {
  if (new FormData(form).get("name") !== now.name) throw new Error(say`The name does not match.`);
  await send("DELETE", base(now));
  location.assign(`${ROOT}/documents`);
  await new Promise(() => {}); // until the page is left
});

/** @param {(form: HTMLFormElement) => void} action @returns {(event: On<HTMLFormElement>) => void} */
const submitted = (action) => (event) => (event.preventDefault(), action(event.target));

export function view() {
  const { view: shown } = seen;
  if (!shown) return html`<section class="column">${problemCard(seen.problem, () => refresh())}</section>`;
  return html`<section class="column wide collection">
    <h2 dir="auto">${shown.name}</h2>
    <p class="counts soft small">${Object.entries(shown.documents).map(([state, many]) => html`<span><a href=${`${ROOT}/documents?collection=${encodeURIComponent(shown.name)}`}>${count(many)} ${STATES[state] ?? state}</a></span>`)}
      <span>${shown.points === null ? say`points unknown: Qdrant is unavailable` : counted(plural(shown.points, "point"), shown.points_age_seconds)}</span>
      <span>${say`embedding model ${html`<code>${shown.embedding_model}</code>`}`}</span>
      ${shown.languages.length ? html`<span>${shown.languages.map((code) => named.of(code)).join(", ")}</span>` : nothing}<span>${say`created ${ago(shown.created_at)}`}</span></p>
    ${shown.notice ? html`<p class="warning">${shown.notice}</p>` : nothing}
    ${problemCard(seen.problem, () => refresh())} <p role="status" class="soft small busy">${seen.busy}</p>
    ${calibration(shown.calibration)} ${may("manage") ? options(shown.options) : nothing} ${builds()}
    ${may("manage") ? [verification(), erasing()] : nothing}
  </section>`;
}

/** Return the number of points with its age at the time of the reply. @param {string} points @param {number | null | undefined} seconds */
function counted(points, seconds) {
  if (typeof seconds !== "number") return points;
  return seconds < 10 ? say`${points} (counted just now)` : say`${points} (counted ${duration(seconds)} ago)`;
}

/** @param {Api["CalibrationView"]} measured */
function calibrated({ source, questions, chunks }) {
  const name = SOURCES[source ?? "labelled"];
  const used = plural(chunks ?? 0, "chunk");
  return questions ? say`Calibrated with ${name} (${count(questions)}) on ${used}.` : say`Calibrated with ${name} on ${used}.`;
}

/** @param {Api["CalibrationView"] | null | undefined} measured */
function calibration(measured) {
  const low = measured ? Math.min(0.9, ...Object.values(measured.channels ?? {}).map((each) => Math.floor(each.low * 10) / 10)) : 0;
  /** @type {[string, Api["NDCG"]][]} */
  const rows = Object.entries(measured?.channels ?? {}).map(([name, each]) => [say`${NAMES[name]} alone`, each]);
  if (measured?.equal) rows.push([say`equal weights`, measured.equal]);
  if (measured?.chosen) rows.push([say`these weights`, measured.chosen]);
  return html`<section><h3>${say`Calibration`}</h3>
    ${measured ? html`<p>${say`Weights: ${Object.entries(NAMES).map(([name, words]) => `${words} ${decimal(measured.weights[name], 1)}`).join(" \u00b7 ")}.`} ${calibrated(measured)}</p>
      ${rows.length ? html`<table class="compared"><caption class="hidden">${say`nDCG@10 with its 95\u00a0% interval`}</caption><tbody>${rows.map(([words, each]) => html`<tr><th scope="row">${words}</th><td class="interval">${whisker(each, low, each === measured.chosen)}</td><td class="number">${score(each.mean)} <span class="soft">[${score(each.low)}, ${score(each.high)}]</span></td></tr>`)}</tbody></table>` : nothing}`
    : html`<p class="soft">${say`Not calibrated yet: all channels have equal weight. Calibration runs automatically once there are enough questions.`}</p>`}
    ${may("manage") ? html`<p class="tools"><button @click=${() => calibrate("")}>${say`Calibrate with generated questions`}</button>
      ${seen.sets.map((each) => html`<button @click=${() => calibrate(each.set)}>${say`Calibrate with ${each.set}`}</button>`)}
      ${measured ? html`<button class="quiet" @click=${forget}>${say`Remove calibration`}</button>` : nothing}
      <a href=${`${ROOT}/lab/compare?collection=${encodeURIComponent(seen.name)}`}>${say`Compare search strategies`}</a></p>` : nothing}</section>`;
}

/** @param {Api["CollectionOptionsView"]} given */
function options(given) {
  /** @param {On<HTMLButtonElement & {form: HTMLFormElement}>} event */
  const estimateClicked = (event) => estimate(event.target.form);
  return html`<section><h3>${say`Options`}</h3><form class="options" @submit=${submitted(save)} @input=${() => seen.estimate && ((seen.estimate = null), redraw())}>
    ${NUMBERS.map(([name, words, meaning]) => html`<label>${words}<input name=${name} .value=${String(given[name] ?? "")} placeholder=${say`server default`} inputmode="numeric"><span class="soft small">${meaning}</span></label>`)}
    <label>${say`Languages of scans`}<input name="ocr_languages" .value=${given.ocr_languages ?? ""} placeholder=${say`server default`}><span class="soft small">${say`such as eng+deu`}</span></label>
    <label class="check"><input type="checkbox" name="prepend_questions" .checked=${given.prepend_questions === true}> ${say`Prepend questions to the chunk when embedding`}</label>
    <label class="check"><input type="checkbox" name="context" .checked=${given.context === true}> ${say`Also write context and search terms for each chunk`}</label>
    <label class="whole">${say`Prompt`}<textarea name="prompt" rows="3" dir="auto" placeholder=${say`server default; {text} is replaced by the chunk`} .value=${given.prompt ?? ""}></textarea></label>
    ${Object.keys(given.filterable).length ? html`<p class="soft small">${say`Indexed metadata fields:`} ${Object.entries(given.filterable).map(([name, type]) => `${name} (${type})`).join(", ")}</p>` : nothing}
    <p class="tools"><button class=${seen.estimate ? "" : "main"} type="submit">${say`Save`}</button>
      <button type="button" @click=${estimateClicked}>${say`Estimate a rebuild`}</button></p></form>
    ${seen.estimate ? price(seen.estimate) : nothing}</section>`;
}

/** @param {{change: Record<string, any>, estimated: Api["EstimateView"]}} made */
function price({ change, estimated: each }) {
  const options = Object.keys(change).length ? say`With new ${Object.keys(change).join(", ")}` : say`With current options`;
  const parts = [plural(each.documents, "document"), plural(each.calls, "call"), plural(each.prompt_tokens + each.completion_tokens, "token"), plural(each.embeddings, "embedding")];
  parts.push(totalCost([each.llm_cost, each.embedding_cost]));
  if (each.seconds !== null) parts.push(say`${duration(each.seconds)} at the rate limits`);
  return html`<div class="card" role="status"><p>${options}: ${parts.join(" \u00b7 ")}</p>
    <p class="soft small">${say`Existing questions are reused at no cost. Queries use the live build until you switch.`}</p>
    <p><button class="main" @click=${rebuild}>${say`Start the rebuild`}</button></p></div>`;
}

/** The states of builds, as users read them. @type {Record<string, string>} */
const BUILDS = { filling: say`filling`, paused: say`paused`, following: say`following`, live: say`live`, dropping: say`being deleted` };

function builds() {
  if (seen.builds.length < 2) return nothing;
  /** @type {Partial<Record<Api["BuildState"], ("pause" | "resume" | "gate" | "switch")[]>>} */
  const actions = { filling: ["pause"], paused: ["resume"], following: ["gate", "switch"] };
  const words = { pause: say`Pause`, resume: say`Resume`, gate: say`Run the gate`, switch: say`Make live` };
  return html`<section><h3>${say`Builds`}</h3><ul class="questions wrapping" role="list">${seen.builds.map((build) => html`<li>
    <span class="grow">${say`Build ${build.build}, ${BUILDS[build.state] ?? build.state}`}<span class="soft small">${build.embedding_model} \u00b7 ${say`${count(build.copied)} of ${plural(build.source_documents, "document")} copied`} \u00b7 ${Object.entries(build.documents).map(([state, many]) => `${count(many)} ${STATES[state] ?? state}`).join(", ")}${build.gate ? ` \u00b7 ${build.gate.open ? say`gate open` : say`gate closed`}` : ""}</span></span>
    ${may("manage") && build.state !== "live" ? html`${(actions[build.state] ?? []).map((action) => html`<button @click=${() => act(build, action)}>${words[action]}</button>`)}
      <button class="quiet" @click=${() => act(build, "drop")}>${say`Delete`}</button>` : nothing}</li>`)}</ul>
    <button class="quiet" @click=${() => refresh()}>${say`Refresh`}</button></section>`;
}

const FINDINGS = { missing: say`missing`, stale: say`stale`, orphaned: say`orphaned` };

/** Describe the result of a verification. @param {NonNullable<Collected["verified"]>} verified @param {number} wrong number of wrong points */
function differences(verified, wrong) {
  const compared = `${plural(verified.documents, "document")}, ${plural(verified.points, "point")}`;
  if (!wrong && !verified.repaired) return verified.whole ? say`No differences: ${compared}.` : `${compared}.`;
  const found = say`${compared}: ${count(verified.missing)} missing, ${count(verified.stale)} stale, ${count(verified.orphaned)} orphaned, ${count(verified.repaired)} repaired.`;
  return verified.whole && !wrong ? say`No differences: ${found}` : found;
}

function verification() {
  const { verified, findings } = seen;
  const wrong = verified ? verified.missing + verified.stale + verified.orphaned - verified.repaired : 0;
  return html`<section><h3>${say`Verification`}</h3>
    <p class="tools"><button ?disabled=${seen.busy !== ""} @click=${() => verify(false)}>${say`Verify`}</button>
      ${verified?.whole && wrong ? html`<button @click=${() => verify(true)}>${say`Repair ${plural(wrong, "point")}`}</button>` : nothing}
      ${seen.busy ? html`<button class="quiet" @click=${stop}>${say`Stop`}</button>` : nothing}</p>
    ${verified ? html`<p class=${verified.whole && !wrong ? "good" : ""}>${differences(verified, wrong)}</p>` : html`<p class="soft">${say`Compares every point in Qdrant with the ledger. Neither verification nor repair calls a language model.`}</p>`}
    ${findings.length ? html`<details><summary>${plural(findings.length, "finding")}</summary><ul class="questions" role="list">${findings.slice(0, 50).map((each) => html`<li><span class="grow">${FINDINGS[each.kind]}: ${each.reason}</span>
      ${each.document_id ? html`<a href=${`${ROOT}/documents/${each.document_id}${each.chunk_id ? `?chunk=${each.chunk_id}` : ""}`}>${say`Open document`}</a>` : nothing}<span class="soft small">${each.repaired ? say`repaired` : ""}</span></li>`)}</ul></details>` : nothing}</section>`;
}

function erasing() {
  return html`<details><summary>${say`Delete the collection`}</summary><form class="options" @submit=${submitted(erase)}>
    <p>${say`Permanently deletes its documents, questions, points and query log in all builds. Cost records are kept.`}</p>
    <label>${say`Type the collection name to confirm`}<input name="name" autocomplete="off" required></label><p><button class="danger" type="submit">${say`Delete`}</button></p></form></details>`;
}

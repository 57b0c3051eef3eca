// A collection: contents, builds with their quality, options with the cost of a rebuild, calibration, and verification.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, follow, get, post, send } from "../api.js";
import { confirmed } from "../kit/dialog.js";
import { empty } from "../kit/empty.js";
import { skeleton } from "../kit/skeleton.js";
import { redraw } from "../store.js";
import { whisker } from "../parts/bars.js";
import { builds } from "../parts/builds.js";
import { closeDialog, collectionDialog, openDialog } from "../parts/collection-dialog.js";
import { questionsOf } from "../parts/collection-numbers.js";
import { optionsForm, optionsInForce } from "../parts/collection-options.js";
import { isListed, loadCollections } from "../parts/collections.js";
import { ago, count, decimal, plural, duration, score } from "../parts/format.js";
import { STATES } from "../parts/state.js";
import { may } from "../parts/permissions.js";
import { notify, problemCard } from "../parts/notice.js";
import { polling } from "../parts/polling.js";
import { language, once, say } from "../parts/words.js";

export const title = say`Collection`;
const languageNames = once(() => new Intl.DisplayNames(language, { type: "language" }));
/** @type {Record<string, string>} */
const NAMES = { questions: say`questions`, text: say`text`, bm25: say`words` };
const SOURCES = {
  labelled: say`labelled questions`,
  accepted: say`accepted questions`,
  generated: say`generated questions`,
  texts: say`chunk texts`,
};

/**
 * @typedef {{
 *   name: string, isRead: boolean, view: Api["CollectionView"] | null, builds: Api["BuildView"][],
 *   sets: Api["LabelledSetSizeView"][], runs: import("./compare.js").Run[], gateSet: string,
 *   estimate: import("../parts/collection-options.js").Estimated | null, options: ReturnType<typeof optionsForm>,
 *   verified: (Omit<Api["VerificationReply"], "findings"> & {whole: boolean}) | null, findings: Api["FindingView"][],
 *   problem: any, busy: string,
 * }} Collected
 */

/** @returns {Collected} */
const newState = (name = "") => ({
  name, isRead: false, view: null, builds: [], sets: [], runs: [], gateSet: "", estimate: null, verified: null,
  findings: [], problem: null, busy: "",
  options: optionsForm(() => seen.view, { save, estimate, forget: forgetEstimate, rebuild: () => rebuild() }),
});
let running = new AbortController();
const polled = { problem: /** @type {any} */ (null) };
const screen = polling(polled, read);
let seen = newState();

/** @returns {`/v1/collections/${string}`} */
const base = (now = seen) => `/v1/collections/${encodeURIComponent(now.name)}`;

/** @param {{id: string}} route */
export async function load({ id }) {
  seen = newState(decodeURIComponent(id));
  polled.problem = null;
  await begin();
}

async function begin() {
  seen.problem = null;
  await screen.start();
  await readMeasured();
}

export function unload() {
  running.abort();
  screen.stop();
  closeDialog();
  seen = newState(); // running requests write into the discarded state
}

/** Read the collection and its builds, if it exists. */
async function read() {
  const now = seen;
  if (!now.view) {
    await loadCollections();
    if (!isListed(now.name)) return void (now.isRead = true);
  }
  try {
    const [view, all] = await Promise.all([get(base(now)), get(`${base(now)}/builds`)]);
    Object.assign(now, { isRead: true, view, builds: all.items });
  } catch (problem) {
    if (!problem.isNoCollection) throw problem;
    now.view = null; // it was deleted
  }
}

/** Read the labelled sets and the evaluations, which only some keys may see. */
async function readMeasured(now = seen) {
  if (now !== seen || !now.view || !may("manage")) return;
  try {
    const [sets, runs] = await Promise.all([get(`${base(now)}/labelled-sets`), get(`${base(now)}/evaluations`)]);
    Object.assign(now, { sets: sets.items, runs: runs.items });
  } catch (problem) {
    now.problem ??= problem;
  }
  redraw();
}

/**
 * Run a long action, then load the collection again.
 * @param {string} words
 * @param {(now: Collected) => Promise<any>} action
 */
async function attempt(words, action) {
  const now = seen;
  Object.assign(now, { busy: words, problem: null });
  redraw();
  try {
    await action(now);
    await Promise.all([screen.poll(), readMeasured(now)]);
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

/** @param {Record<string, any>} change */
async function estimate(change) {
  const now = seen;
  const estimated = await post("/v1/estimates", { collection: now.name, migrate: change });
  now.estimate = { change, estimated };
  redraw();
}

function forgetEstimate() {
  if (!seen.estimate) return;
  seen.estimate = null;
  redraw();
}

/** @param {Record<string, any>} change */
async function save(change) {
  const now = seen;
  now.view = await send("PUT", base(now), { body: { ...now.view?.options, ...change } });
  now.estimate = null;
  const saved = say`Saved. New documents use these options. Existing documents keep theirs until they are uploaded or indexed again.`;
  notify(saved);
}

const rebuild = () => attempt(say`Starting\u2026`, async (now) => {
  const { build } = await post(`${base(now)}/builds`, now.estimate?.change);
  now.estimate = null;
  notify(say`Build ${build} is being filled. Queries still use the live build.`);
});

/**
 * Run the gate of a build, with the compared points and documents while it runs.
 * @param {`/v1/collections/${string}/builds/${number}`} path
 */
async function runGate(path) {
  const now = seen;
  const { signal } = (running = new AbortController());
  /** @param {string} name @param {any} data of an event of that name */
  const onEvent = (name, data) => {
    if (name === "error") throw new Error(data.detail);
    if (name === "done") notify(data.reasons.join(" ") || say`The build passed the gate.`, { seconds: 15 });
    else if (data.state === "queued") now.busy = say`Queued\u2026`;
    else {
      now.busy = say`Comparing: ${plural(data.points, "point")}, ${plural(data.documents, "document")}\u2026`;
    }
    redraw();
  };
  try {
    const questions = now.gateSet ? await questionsOfSet(now) : null;
    const headers = { accept: "text/event-stream" };
    await follow("POST", `${path}/gate`, onEvent, { body: { questions }, signal, headers });
  } catch (problem) {
    if (!signal.aborted) throw problem;
    if (now === seen) await send("DELETE", `${path}/gate`).catch(() => {}); // it may have finished
  }
}

/** Return the questions of the chosen set as the gate needs them. @param {Collected} now */
async function questionsOfSet(now) {
  const { questions } = await get(`${base(now)}/labelled-sets/${encodeURIComponent(now.gateSet)}`);
  if (!questions.every((each) => each.external_ids?.length)) {
    throw new Error(say`The set ${now.gateSet} is labelled by chunks, which differ between builds. Choose a set that \
is labelled by documents.`);
  }
  return questions.map(({ question, external_ids: names = [] }) => ({ question, external_ids: names }));
}

/** @param {Api["BuildView"]} build */
const pathOf = (build) => /** @type {const} */ (`${base()}/builds/${build.build}`);

/** @param {Api["BuildView"]} build */
const dropping = (build) => ({
  title: say`Delete build ${build.build}?`,
  text: build.live_until ? say`You cannot switch back to it afterwards. Paid questions are retained for a while.`
    : say`Its points are deleted. Paid questions are kept for a while.`,
  action: say`Delete build`,
  danger: true,
});

/** @param {Api["BuildView"]} build */
const forcing = (build) => ({
  title: say`Make build ${build.build} live without an open gate?`,
  text: say`Nothing has shown that it has all documents and finds as much as the live build. You can go back at any \
time.`,
  action: say`Make live`,
  danger: true,
});

/** @param {Api["BuildView"]} build @param {import("../parts/builds.js").Action} action */
async function act(build, action) {
  const path = pathOf(build);
  const question = action === "drop" ? dropping(build) : action === "force" ? forcing(build) : null;
  if (question && !(await confirmed(question))) return;
  await attempt("\u2026", async () => {
    if (action === "drop") await send("DELETE", path);
    else if (action === "pause" || action === "resume") await post(`${path}/${action}`);
    else await post(`${path}/switch`, { force: action === "force" });
  });
}

const actions = {
  act,
  runGate: (/** @type {Api["BuildView"]} */ build) => void attempt("\u2026", () => runGate(pathOf(build))),
  chooseSet: (/** @type {string} */ set) => ((seen.gateSet = set), redraw()),
};

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
    await follow("POST", `${base(now)}/verify`, onEvent, {
      body: { repair },
      signal: control.signal,
      headers: { accept: "text/event-stream" },
    });
  } catch (problem) {
    if (!control.signal.aborted) now.problem = problem;
    else if (now === seen) await send("DELETE", `${base(now)}/verify`).catch(() => {}); // it may have finished
  }
  now.busy = "";
  redraw();
}

export function view() {
  const { view: shown, isRead, problem } = seen;
  const trouble = problemCard(problem ?? polled.problem, begin);
  if (!shown) {
    const isTrouble = problem || polled.problem;
    return html`<section class="column wide">${isTrouble ? trouble : isRead ? missing() : skeleton()}</section>`;
  }
  return html`<section class="column wide collection">
    ${heading(shown)}
    ${trouble} <p role="status" class="soft small busy">${seen.busy}</p>
    ${builds(seen, actions)}
    ${may("manage") ? seen.options.section(shown, seen) : optionsInForce(shown)}
    ${calibration(shown.calibration)}
    ${may("manage") ? [verification(), deletion(shown)] : nothing}
    ${collectionDialog()}
  </section>`;
}

const missing = () => empty({
  sign: "library",
  title: say`There is no collection \u201c${seen.name}\u201d`,
  text: say`It was deleted, or it was never created. The first upload to it creates it, too.`,
  actions: html`<a class="button main" href=${`${ROOT}/collections`}>${say`Show all collections`}</a>
    ${may("write") ? html`<a class="button" href=${`${ROOT}/documents`}>${say`Upload documents`}</a>` : nothing}`,
});

/** @param {Api["CollectionView"]} shown */
function heading(shown) {
  const edit = () => openDialog(({ openDescription }) => openDescription(shown, screen.poll));
  const description = shown.description ? html`<span dir="auto">${shown.description}</span>`
    : html`<span class="soft">${say`No description`}</span>`;
  return html`<div class="collection-head"><p class="small"><a href=${`${ROOT}/collections`}>${say`Collections`}</a></p>
    <h2 dir="auto">${shown.name}</h2>
    <p>${description} ${may("manage") ? html`<button class="quiet" @click=${edit}>${say`Edit description`}</button>`
      : nothing}</p></div>
    <p class="counts soft small">${contents(shown).map((each) => html`<span>${each}</span>`)}</p>
    ${shown.notice ? html`<p class="warning">${shown.notice}</p>` : nothing}`;
}

/** Return the numbers and facts of a collection. @param {Api["CollectionView"]} shown */
function contents(shown) {
  const address = `${ROOT}/documents?collection=${encodeURIComponent(shown.name)}`;
  const questions = questionsOf(shown);
  const documents = Object.entries(shown.documents).map(([state, many]) => html`<a href=${address}>${count(many)}
    ${STATES[state] ?? state}</a>`);
  const points = shown.points === null ? say`points unknown: Qdrant is unavailable`
    : counted(plural(shown.points, "point"), shown.points_age_seconds);
  return [
    ...documents,
    ...(questions === null ? [] : [plural(shown.chunks ?? 0, "chunk"), plural(questions, "question")]),
    points,
    say`embedding model ${html`<code>${shown.embedding_model}</code>`}`,
    ...(shown.languages.length ? [shown.languages.map((code) => languageNames().of(code)).join(", ")] : []),
    say`created ${ago(shown.created_at)}`,
  ];
}

/**
 * Return the number of points with its age at the time of the reply.
 * @param {string} points
 * @param {number | null | undefined} seconds
 */
function counted(points, seconds) {
  if (typeof seconds !== "number") return points;
  return seconds < 10 ? say`${points} (counted just now)` : say`${points} (counted ${duration(seconds)} ago)`;
}

/** @param {Api["CalibrationView"]} measured */
function calibrated({ source, questions, chunks }) {
  const name = SOURCES[source ?? "labelled"];
  const used = plural(chunks ?? 0, "chunk");
  return questions
    ? say`Calibrated with ${name} (${count(questions)}) on ${used}.`
    : say`Calibrated with ${name} on ${used}.`;
}

/** @param {Api["CalibrationView"] | null | undefined} measured */
function calibration(measured) {
  /** @type {[string, Api["NDCG"]][]} */
  const rows = Object.entries(measured?.channels ?? {}).map(([name, each]) => [say`${NAMES[name]} alone`, each]);
  if (measured?.equal) rows.push([say`equal weights`, measured.equal]);
  if (measured?.chosen) rows.push([say`these weights`, measured.chosen]);
  const none = say`Not calibrated yet: all channels have equal weight. Calibration runs automatically once there are enough questions.`;
  const toComparison = `${ROOT}/lab/compare?collection=${encodeURIComponent(seen.name)}`;
  return html`<section><h3>${say`Calibration`}</h3>
    ${measured ? measurement(measured, rows) : html`<p class="soft">${none}</p>`}
    ${may("manage")
      ? html`<p class="tools">
          <button @click=${() => calibrate("")}>${say`Calibrate with generated questions`}</button>
          ${seen.sets.map(
            (each) => html`<button @click=${() => calibrate(each.set)}>${say`Calibrate with ${each.set}`}</button>`,
          )}
          ${measured ? html`<button class="quiet" @click=${forget}>${say`Remove calibration`}</button>` : nothing}
          <a href=${toComparison}>${say`Compare search strategies`}</a></p>`
      : nothing}</section>`;
}

/** @param {Api["CalibrationView"]} measured @param {[string, Api["NDCG"]][]} rows */
function measurement(measured, rows) {
  const lows = Object.values(measured.channels ?? {}).map((each) => Math.floor(each.low * 10) / 10);
  const low = Math.min(0.9, ...lows);
  const weights = Object.entries(NAMES).map(([name, words]) => `${words} ${decimal(measured.weights[name], 1)}`);
  return html`<p>${say`Weights: ${weights.join(" \u00b7 ")}.`} ${calibrated(measured)}</p>
    ${rows.length
      ? html`<table class="compared"><caption class="hidden">${say`nDCG@10 with its 95\u00a0% interval`}</caption>
          <tbody>${rows.map(([words, each]) => html`<tr>
            <th scope="row">${words}</th>
            <td class="interval">${whisker(each, low, each === measured.chosen)}</td>
            <td class="number">${score(each.mean)}
              <span class="soft">[${score(each.low)}, ${score(each.high)}]</span></td>
          </tr>`)}</tbody></table>`
      : nothing}`;
}

const FINDINGS = { missing: say`missing`, stale: say`stale`, orphaned: say`orphaned` };

/**
 * Describe the result of a verification.
 * @param {NonNullable<Collected["verified"]>} verified
 * @param {number} wrong number of wrong points
 */
function differences(verified, wrong) {
  const compared = `${plural(verified.documents, "document")}, ${plural(verified.points, "point")}`;
  if (!wrong && !verified.repaired) return verified.whole ? say`No differences: ${compared}.` : `${compared}.`;
  const found = say`${compared}: ${count(verified.missing)} missing, ${count(verified.stale)} stale, ${count(verified.orphaned)} orphaned, ${count(verified.repaired)} repaired.`;
  return verified.whole && !wrong ? say`No differences: ${found}` : found;
}

function verification() {
  const { verified, findings } = seen;
  const wrong = verified ? verified.missing + verified.stale + verified.orphaned - verified.repaired : 0;
  const purpose = say`Compares every point in Qdrant with the ledger. Neither verification nor repair calls a language model.`;
  return html`<section><h3>${say`Verification`}</h3>
    <p class="tools"><button ?disabled=${seen.busy !== ""} @click=${() => verify(false)}>${say`Verify`}</button>
      ${verified?.whole && wrong
        ? html`<button @click=${() => verify(true)}>${say`Repair ${plural(wrong, "point")}`}</button>`
        : nothing}
      ${seen.busy ? html`<button class="quiet" @click=${stop}>${say`Stop`}</button>` : nothing}</p>
    ${verified
      ? html`<p class=${verified.whole && !wrong ? "good" : ""}>${differences(verified, wrong)}</p>`
      : html`<p class="soft">${purpose}</p>`}
    ${findings.length
      ? html`<details><summary>${plural(findings.length, "finding")}</summary>
          <ul class="questions" role="list">${findings.slice(0, 50).map(finding)}</ul></details>`
      : nothing}</section>`;
}

/** @param {Collected["findings"][number]} each */
function finding(each) {
  const address = `${ROOT}/documents/${each.document_id}${each.chunk_id ? `?chunk=${each.chunk_id}` : ""}`;
  return html`<li><span class="grow">${FINDINGS[each.kind]}: ${each.reason}</span>
    ${each.document_id ? html`<a href=${address}>${say`Open document`}</a>` : nothing}
    <span class="soft small">${each.repaired ? say`repaired` : ""}</span></li>`;
}

/** @param {Api["CollectionView"]} shown */
function deletion(shown) {
  const deleted = () => location.assign(`${ROOT}/collections`);
  const clicked = () => openDialog(({ openDeletion }) => openDeletion(shown, deleted));
  return html`<section><h3>${say`Delete`}</h3>
    <p class="soft">${say`Deletes the collection with all documents, questions and builds.`}</p>
    <p><button class="danger" @click=${clicked}>
      ${say`Delete the collection\u2026`}</button></p>
  </section>`;
}

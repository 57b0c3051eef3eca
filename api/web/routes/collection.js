// A collection: what is in it, how it was measured, its options and what another choice would cost, its builds, its points.

import { html, nothing } from "../vendor/lit-html.js";
import { ROOT, follow, get, post, send } from "../api.js";
import { changed } from "../store.js";
import { whisker } from "../parts/bars.js";
import { ago, count, counted, duration, money, score } from "../parts/format.js";
import { may } from "../parts/me.js";
import { say, trouble } from "../parts/notice.js";

export const title = "Collection";
/** @type {Record<string, string>} */
const NAMES = { questions: "questions", text: "text", bm25: "words" };
const SOURCES = { labelled: "labelled questions", accepted: "accepted questions", generated: "its own questions", texts: "its texts alone" };
// The numbers of a collection that people change, with what they mean.
const NUMBERS = /** @type {const} */ ([
  ["questions_per_chunk", "Questions for each chunk", "auto: 3 to 10, by its length"],
  ["chunk_max_chars", "Longest chunk", "characters"],
  ["chunk_overlap_chars", "Overlap of chunks", "characters"],
  ["section_max_chars", "Sections of", "characters; empty: no sections"],
]);

/**
 * @typedef {{name: string, view: Api["CollectionView"] | null, builds: Api["BuildView"][], sets: Api["LabelledSetSizeView"][],
 *   estimate: {change: Record<string, any>, estimated: Api["EstimateView"]} | null, verified: (Omit<Api["VerificationReply"], "findings"> & {whole: boolean}) | null,
 *   findings: Api["FindingView"][], problem: any, busy: string}} Collected
 */

/** @returns {Collected} */
const fresh = (name = "") => ({ name, view: null, builds: [], sets: [], estimate: null, verified: null, findings: [], problem: null, busy: "" });
let seen = fresh();
let running = new AbortController();

/** @returns {`/v1/collections/${string}`} */
const base = (now = seen) => `/v1/collections/${encodeURIComponent(now.name)}`;

/** @param {{id: string}} place */
export async function load({ id }) {
  seen = fresh(decodeURIComponent(id));
  await refresh();
}

export function leave() {
  running.abort();
  seen = fresh(); // what is still under way writes into what is not shown any more
}

async function refresh(now = seen) {
  const address = base(now);
  try {
    const [view, builds, sets] = await Promise.all([get(address), get(`${address}/builds`),
      may("manage") ? get(`${address}/labelled`).catch(() => ({ items: [] })) : { items: [] }]);
    Object.assign(now, { view, builds: builds.items, sets: sets.items, problem: null });
  } catch (problem) {
    now.problem = problem;
  }
  changed();
}

/** Do something that takes a while, and read the collection again. @param {string} words @param {(now: Collected) => Promise<any>} what */
async function attempt(words, what) {
  const now = seen;
  now.busy = words;
  changed();
  try {
    await what(now);
    await refresh(now);
  } catch (problem) {
    now.problem = problem;
  }
  now.busy = "";
  changed();
}

/** @param {string} set */
const calibrate = (set) => attempt("Calibrating\u2026", async (now) => {
  const questions = set ? (await get(`${base(now)}/labelled/${encodeURIComponent(set)}`)).questions : null;
  const { source } = await post(`${base(now)}/calibration`, { questions });
  say(`It was measured with ${SOURCES[source ?? "labelled"]}.`);
});
const forget = () => attempt("Forgetting\u2026", () => send("DELETE", `${base()}/calibration`));

/** The options of the form that differ from those of the collection. @param {HTMLFormElement} form */
function differing(form) {
  const given = new FormData(form);
  /** @type {Record<string, any>} */
  const options = seen.view?.options ?? {};
  /** @type {[string, string | number | true | null][]} */
  const entries = NUMBERS.map(([name, words]) => {
    const text = String(given.get(name) ?? "").trim();
    if (text && text !== "auto" && !/^\d+$/.test(text)) throw new Error(`${words}: \u201c${text}\u201d is no whole number. Write it without signs between its digits.`);
    return [name, text === "" ? null : text === "auto" ? "auto" : Number(text)];
  });
  entries.push(["prepend_questions", given.has("prepend_questions") || null], ["prompt", String(given.get("prompt") ?? "").trim() || null]);
  return Object.fromEntries(entries.filter(([name, value]) => value !== plain(options[name])));
}

/** What an option is where none is given: a field that is empty, a box without its mark. @param {unknown} value */
const plain = (value) => (value === false || value === "" ? null : value ?? null);

/** @param {HTMLFormElement} form */
const estimate = (form) => attempt("Counting\u2026", async (now) => {
  const change = differing(form);
  const estimated = await post("/v1/estimates", { collection: now.name, migrate: change });
  now.estimate = { change, estimated };
});
/** @param {HTMLFormElement} form */
const save = (form) => attempt("Saving\u2026", async (now) => {
  await send("PUT", base(now), { body: { ...now.view?.options, ...differing(form) } });
  now.estimate = null;
  say("New documents follow these options. Those that are there stay as they are until they are handed in or indexed again.");
});
const rebuild = () => attempt("Beginning\u2026", async (now) => {
  const { build } = await post(`${base(now)}/builds`, now.estimate?.change);
  now.estimate = null;
  say(`Build ${build} is filled beside the live one; queries notice nothing.`);
});

/** @param {Api["BuildView"]} build @param {"drop" | "gate" | "switch" | "pause" | "resume"} action */
const act = (build, action) => attempt("\u2026", async () => {
  const path = /** @type {const} */ (`${base()}/builds/${build.build}`);
  if (action === "drop") await send("DELETE", path);
  else if (action === "gate") say((await post(`${path}/gate`, {})).reasons.join(" ") || "Nothing speaks against it.", { seconds: 15 });
  else await post(`${path}/${action}`, action === "switch" ? {} : undefined);
});

/** @param {boolean} repair */
async function verify(repair) {
  const now = seen;
  const control = (running = new AbortController());
  Object.assign(now, { verified: null, findings: [], busy: repair ? "Repairing\u2026" : "Comparing\u2026" });
  changed();
  /** @param {string} name @param {any} data of an event of that name */
  const heard = (name, data) => {
    if (name === "finding") now.findings.push(data);
    else if (name === "error") now.problem = { message: data.detail };
    else now.verified = { ...data, whole: name === "done" };
    changed();
  };
  try {
    await follow("POST", `${base(now)}/verify`, heard, { body: { repair }, signal: control.signal, headers: { accept: "text/event-stream" } });
  } catch (problem) {
    if (!control.signal.aborted) now.problem = problem;
  }
  now.busy = "";
  changed();
}

/** @param {HTMLFormElement} form */
const erase = (form) => attempt("Deleting\u2026", async (now) => {
  if (new FormData(form).get("name") !== now.name) throw new Error("That is not its name.");
  await send("DELETE", base(now));
  location.assign(`${ROOT}/documents`);
  await new Promise(() => {}); // until the page is left
});

/** @param {(form: HTMLFormElement) => void} what @returns {(event: On<HTMLFormElement>) => void} */
const submitted = (what) => (event) => (event.preventDefault(), what(event.target));

export function view() {
  const { view: shown } = seen;
  if (!shown) return html`<section class="column">${trouble(seen.problem, () => refresh())}</section>`;
  return html`<section class="column wide collection">
    <h2 dir="auto">${shown.name}</h2>
    <p class="counts soft small">${Object.entries(shown.documents).map(([state, many]) => html`<span><a href=${`${ROOT}/documents?collection=${encodeURIComponent(shown.name)}`}>${count(many)} ${state}</a></span>`)}
      <span>${shown.points === null ? "points unknown: Qdrant is away" : counted(shown.points, "point")}</span>
      <span>embedded by <code>${shown.embedding_model}</code></span>
      ${shown.languages.length ? html`<span>in ${shown.languages.join(", ")}</span>` : nothing}<span>made ${ago(shown.created_at)}</span></p>
    ${shown.notice ? html`<p class="warning">${shown.notice}</p>` : nothing}
    ${trouble(seen.problem, () => refresh())} <p role="status" class="soft small busy">${seen.busy}</p>
    ${calibration(shown.calibration)} ${may("manage") ? options(shown.options) : nothing} ${builds()}
    ${may("manage") ? [verification(), erasing()] : nothing}
  </section>`;
}

/** @param {Api["CalibrationView"] | null | undefined} measured */
function calibration(measured) {
  const low = measured ? Math.min(0.9, ...Object.values(measured.channels ?? {}).map((each) => Math.floor(each.low * 10) / 10)) : 0;
  /** @type {[string, Api["NDCG"]][]} */
  const rows = Object.entries(measured?.channels ?? {}).map(([name, each]) => [`${NAMES[name]} alone`, each]);
  if (measured?.equal) rows.push(["equal weights", measured.equal]);
  if (measured?.chosen) rows.push(["these weights", measured.chosen]);
  return html`<section><h3>Calibration</h3>
    ${measured ? html`<p>Weights: ${Object.entries(NAMES).map(([name, words]) => `${words} ${measured.weights[name].toFixed(1)}`).join(" \u00b7 ")}, measured with ${SOURCES[measured.source ?? "labelled"]}${measured.questions ? ` (${count(measured.questions)})` : ""}, when there were ${counted(measured.chunks ?? 0, "chunk")}.</p>
      ${rows.length ? html`<table class="compared"><caption class="hidden">nDCG@10 with its 95 % interval</caption><tbody>${rows.map(([words, each]) => html`<tr><th scope="row">${words}</th><td class="interval">${whisker(each, low, words === "these weights")}</td><td class="number">${score(each.mean)} <span class="soft">[${score(each.low)}, ${score(each.high)}]</span></td></tr>`)}</tbody></table>` : nothing}`
    : html`<p class="soft">It was not measured yet: all channels weigh the same. That happens by itself when it has some questions.</p>`}
    ${may("manage") ? html`<p class="tools"><button @click=${() => calibrate("")}>Measure with its own questions</button>
      ${seen.sets.map((each) => html`<button @click=${() => calibrate(each.set)}>Choose weights by ${each.set}</button>`)}
      ${measured ? html`<button class="quiet" @click=${forget}>Forget</button>` : nothing}
      <a href=${`${ROOT}/lab/compare?collection=${encodeURIComponent(seen.name)}`}>Compare ways of searching</a></p>` : nothing}</section>`;
}

/** @param {Api["CollectionOptionsView"]} given */
function options(given) {
  /** @param {On<HTMLButtonElement & {form: HTMLFormElement}>} event */
  const asked = (event) => estimate(event.target.form);
  return html`<section><h3>Options</h3><form class="options" @submit=${submitted(save)} @input=${() => seen.estimate && ((seen.estimate = null), changed())}>
    ${NUMBERS.map(([name, words, meaning]) => html`<label>${words}<input name=${name} .value=${String(given[name] ?? "")} placeholder="as the server" inputmode="numeric"><span class="soft small">${meaning}</span></label>`)}
    <label class="check"><input type="checkbox" name="prepend_questions" .checked=${given.prepend_questions === true}> Embed a chunk with its questions in front</label>
    <label class="whole">Prompt<textarea name="prompt" rows="3" dir="auto" placeholder="as the server; {text} stands for the chunk" .value=${given.prompt ?? ""}></textarea></label>
    ${Object.keys(given.filterable).length ? html`<p class="soft small">Filtered by an index: ${Object.entries(given.filterable).map(([name, type]) => `${name} (${type})`).join(", ")}</p>` : nothing}
    <p class="tools"><button class="main" type="submit">Save for new documents</button>
      <button type="button" @click=${asked}>What would a rebuild cost?</button></p></form>
    ${seen.estimate ? price(seen.estimate) : nothing}</section>`;
}

/** @param {{change: Record<string, any>, estimated: Api["EstimateView"]}} made */
function price({ change, estimated: each }) {
  const what = Object.keys(change).length ? `With ${Object.keys(change).join(", ")} changed` : "As it is";
  const cost = [each.llm_cost, each.embedding_cost].filter((one) => one !== null).reduce((sum, one) => sum + one, 0);
  const parts = [counted(each.documents, "document"), counted(each.calls, "call"), `${count(each.prompt_tokens + each.completion_tokens)} tokens`, counted(each.embeddings, "embedding")];
  return html`<div class="card" role="status"><p>${what}: ${parts.join(" \u00b7 ")}${each.llm_cost === null && each.embedding_cost === null ? ", at prices that the server does not know" : `, ${money(cost)}`}${each.seconds === null ? "" : `, ${duration(each.seconds)} at the limits`}.</p>
    <p class="soft small">Questions that are paid for are not paid for again. Queries are answered by the live build until you switch.</p>
    <p><button class="main" @click=${rebuild}>Rebuild beside the live one</button></p></div>`;
}

function builds() {
  if (seen.builds.length < 2) return nothing;
  /** @type {Partial<Record<Api["BuildState"], ("pause" | "resume" | "gate" | "switch")[]>>} */
  const actions = { filling: ["pause"], paused: ["resume"], following: ["gate", "switch"] };
  const words = { pause: "Pause", resume: "Go on", gate: "Compare with the live one", switch: "Let it answer" };
  return html`<section><h3>Builds</h3><ul class="questions parting" role="list">${seen.builds.map((build) => html`<li>
    <span class="grow">Build ${build.build}, ${build.state}<span class="soft small">${build.embedding_model} \u00b7 ${count(build.copied)} of ${counted(build.source_documents, "document")} begun \u00b7 ${Object.entries(build.documents).map(([state, many]) => `${count(many)} ${state}`).join(", ")}${build.gate ? ` \u00b7 gate ${build.gate.open ? "open" : "closed"}` : ""}</span></span>
    ${may("manage") && build.state !== "live" ? html`${(actions[build.state] ?? []).map((action) => html`<button @click=${() => act(build, action)}>${words[action]}</button>`)}
      <button class="quiet" @click=${() => act(build, "drop")}>Delete</button>` : nothing}</li>`)}</ul>
    <button class="quiet" @click=${() => refresh()}>Look again</button></section>`;
}

function verification() {
  const { verified, findings } = seen;
  const wrong = verified ? verified.missing + verified.stale + verified.orphaned - verified.repaired : 0;
  return html`<section><h3>Is everything there?</h3>
    <p class="tools"><button ?disabled=${seen.busy !== ""} @click=${() => verify(false)}>Compare with Qdrant</button>
      ${verified?.whole && wrong ? html`<button class="main" @click=${() => verify(true)}>Repair ${counted(wrong, "point")}</button>` : nothing}
      ${seen.busy ? html`<button class="quiet" @click=${() => running.abort()}>Stop</button>` : nothing}</p>
    ${verified ? html`<p class=${verified.whole && !wrong ? "good" : ""}>${verified.whole ? (wrong ? "" : "Nothing is missing and nothing is too much: ") : ""}${counted(verified.documents, "document")}, ${counted(verified.points, "point")}${wrong || verified.repaired ? `: ${count(verified.missing)} missing, ${count(verified.stale)} stale, ${count(verified.orphaned)} orphaned, ${count(verified.repaired)} repaired` : ""}.</p>` : html`<p class="soft">Every point is compared with the ledger. No language model is called, to repair neither.</p>`}
    ${findings.length ? html`<details><summary>${counted(findings.length, "finding")}</summary><ul class="questions" role="list">${findings.slice(0, 50).map((each) => html`<li><span class="grow">${each.kind}: ${each.why}</span>
      ${each.document_id ? html`<a href=${`${ROOT}/documents/${each.document_id}${each.chunk_id ? `?chunk=${each.chunk_id}` : ""}`}>its document</a>` : nothing}<span class="soft small">${each.repaired ? "repaired" : ""}</span></li>`)}</ul></details>` : nothing}</section>`;
}

function erasing() {
  return html`<details><summary>Delete the collection</summary><form class="options" @submit=${submitted(erase)}>
    <p>Its documents, questions, points and log go for good, in all builds; what it has cost stays in the books.</p>
    <label>Its name, to be sure<input name="name" autocomplete="off" required></label><p><button class="danger" type="submit">Delete it</button></p></form></details>`;
}

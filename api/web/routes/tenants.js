// Tenants: the operator's screen with the state of the installation, and each tenant's documents, use and limits.

import { html, nothing } from "../vendor/lit-html.js";
import { repeat } from "../vendor/directives/repeat.js";
import { get } from "../api.js";
import { count } from "../parts/format.js";
import { icon } from "../parts/icon.js";
import { problemCard } from "../parts/notice.js";
import { server } from "../parts/permissions.js";
import { polledList } from "../parts/polling.js";
import { openedTenant, tenantDetails, toggleTenant, total } from "../parts/tenant.js";
import { say } from "../parts/words.js";

export const title = say`Tenants`;
export const titled = true;
const STATES = {
  ready: say`All components answer.`,
  degraded: say`A component does not answer. Uploads are accepted, and nothing is lost.`,
  unavailable: say`No upload can be accepted.`,
  stopping: say`This process is stopping.`,
};
/** @type {Record<string, string>} */
const COMPONENTS = { ledger: say`Ledger`, broker: say`Broker`, qdrant: "Qdrant", uploads: say`Uploads` };
const STAGES = /** @type {const} */ ([
  ["parse", say`Parsing`], ["read", say`Reading pages`], ["generate", say`Generating questions`],
  ["index", say`Indexing`],
]);
const FIRST_KEY = html`<code>foreask keys create first --tenant NAME --scope read --scope ask --scope feedback --scope
  write --scope manage</code>`;

const HINT = say`A tenant appears with its first document. To make the first key of a tenant, run ${FIRST_KEY} on the server.`;

/** @type {{health: Api["ReadyReply"] | null, deployment: Api["DeploymentView"] | null, me: Api["MeView"] | null}} */
const seen = { health: null, deployment: null, me: null };

const tenants = polledList(
  () => get("/v1/operator/tenants?limit=100"),
  (cursor) => get(`/v1/operator/tenants?limit=100&cursor=${cursor}`),
  async () => {
    [seen.health, seen.deployment] = await Promise.all([health(), get("/v1/operator/status")]);
  },
);

/**
 * Return the state of the server, which is also the body of a reply with status 503.
 * @returns {Promise<Api["ReadyReply"]>}
 */
const health = () => get("/health/ready").catch((problem) => {
  if (problem.facts?.components) return problem.facts;
  throw problem;
});

export async function load() {
  server().then((me) => (seen.me = me));
  await tenants.load();
}

export const { unload } = tenants;

export function view() {
  const { items, next, problem } = tenants.state;
  if (!items) return html`<section class="column">${problemCard(problem, load)}</section>`;
  const all = tenants.all(nameOf);
  return html`<section class="column wide">
    ${problemCard(problem, load)}
    ${seen.health ? state(seen.health) : nothing}
    ${seen.deployment ? totals(seen.deployment) : nothing}
    <h2>${say`Tenants`}</h2>
    ${all.length ? table(all) : html`<p class="empty soft">${say`No tenant has documents yet.`}</p>`}
    ${next ? html`<button @click=${tenants.more}>${say`Show more tenants`}</button>` : nothing}
    <p class="soft small">${HINT}</p>
  </section>`;
}

/** @param {Api["ReadyReply"]} health */
function state({ status, components, reasons, warnings }) {
  const { me } = seen;
  const [embedding, chat] = [me?.embedding ?? "\u2013", me?.chat ?? "\u2013"];
  const facts = me ? [say`Version ${me.version}`, say`Embedding ${embedding}`, say`Language model ${chat}`] : [];
  return html`<section class="state-of-server" aria-label=${say`State of the server`}>
    <p class=${status === "ready" ? "good" : "bad"}><strong>${STATES[status]}</strong></p>
    <ul role="list" class="counts">${Object.entries(components).map(component)}</ul>
    ${[...Object.values(reasons), ...warnings].map((each) => html`<p class="warning" lang="en" dir="ltr">${each}</p>`)}
    ${facts.length ? html`<p class="soft small">${facts.join(" \u00b7 ")}</p>` : nothing}
  </section>`;
}

/** @param {string[]} component with its state */
function component([name, state]) {
  const isUp = state === "up";
  return html`<li><span class="state ${isUp ? "ready" : "failed"}">${COMPONENTS[name] ?? name}</span>
    <span class="soft">${isUp ? say`available` : say`unavailable`}</span></li>`;
}

/** @param {Api["DeploymentView"]} all */
function totals({ documents, chunks, open, workers_wanted: wanted, dead }) {
  /** @param {string} words @param {number} number */
  const fact = (words, number) => html`<div><dt>${words}</dt><dd>${count(number)}</dd></div>`;
  /** @param {typeof STAGES[number]} stage */
  const stage = ([name, words]) => html`<div class="card"><h2>${words}</h2><dl>${fact(say`open`, open[name])}
    ${wanted ? fact(say`workers needed`, wanted[name] ?? 0) : nothing}</dl></div>`;
  return html`<div class="cards"><div class="card"><h2>${say`Documents`}</h2><dl>${fact(say`stored`, total(documents))}
    ${fact(say`chunks`, total(chunks))} ${fact(say`failures`, dead)}</dl></div>${STAGES.map(stage)}</div>`;
}

/** @param {Api["TenantView"][]} all */
function table(all) {
  return html`<div class="scrolls" tabindex="0" role="region" aria-label=${say`Tenants`}><table class="tenants">
    <thead><tr><th scope="col">${say`tenant`}</th><th scope="col" class="number">${say`documents`}</th>
      <th scope="col" class="number wide-only">${say`chunks`}</th><th scope="col" class="number">${say`open`}</th>
      <th scope="col" class="number">${say`failures`}</th></tr></thead>
    <tbody>${repeat(all, nameOf, row)}</tbody></table></div>`;
}

/** @param {Api["TenantView"]} each */
const nameOf = (each) => each.tenant;

/** @param {Api["TenantView"]} each */
function row({ tenant, documents, chunks, stages, dead }) {
  const open = Object.values(stages).reduce((sum, each) => sum + each.due + each.in_flight + each.delayed, 0);
  const isOpen = openedTenant() === tenant;
  return html`<tr>
      <th scope="row"><button class="quiet" aria-expanded=${isOpen} @click=${() => toggleTenant(tenant)}>
        ${icon("chevron-right")}${tenant}</button></th>
      <td class="number">${count(total(documents))}</td>
      <td class="number wide-only">${count(total(chunks))}</td>
      <td class="number">${count(open)}</td>
      <td class="number">${dead ? html`<span class="bad">${count(dead)}</span>` : count(0)}</td></tr>
    ${isOpen ? html`<tr><td colspan="5">${tenantDetails()}</td></tr>` : nothing}`;
}

// The bottleneck of the work in a sentence: the server names its cause and its values.

import { count, duration, listed, plural } from "./format.js";
import { say } from "./words.js";

/** @typedef {Api["PaceView"]} Pace @typedef {Api["PaceValues"]} Values */

/** Names of limits, as the server writes them with a space. @type {Record<string, string>} */
export const LIMITS = {
  llm_requests: say`language model requests`, llm_tokens: say`language model tokens`,
  embedding_requests: say`embedding requests`, embedding_tokens: say`embedding tokens`,
};
/** @param {string} name */
export const limitName = (name) => LIMITS[name.replace(" ", "_")] ?? name;

const COMPONENTS = /** @type {Record<string, string>} */ ({
  ledger: "PostgreSQL", broker: say`the broker`, qdrant: "Qdrant", uploads: say`the store of uploads`,
});
const WITHOUT_WORKER = /** @type {Record<string, (waiting: number) => string>} */ ({
  parse: (waiting) => say`No worker parses documents: ${plural(waiting, "document")} waiting.`,
  read: (waiting) => say`No worker reads pages: ${plural(waiting, "page")} waiting.`,
  generate: (waiting) => say`No worker generates questions: ${plural(waiting, "chunk")} waiting.`,
  index: (waiting) => say`No worker indexes chunks: ${plural(waiting, "chunk")} waiting.`,
});

/** The sentences by cause. @type {Record<Api["PaceView"]["cause"], (pace: Pace) => string>} */
const SENTENCES = {
  component_down: ({ down }) => (down.length
    ? say`No answer from ${listed(down.map((name) => COMPONENTS[name] ?? name))}.`
    : say`Nothing can be indexed at the moment.`),
  idle: () => say`No work is waiting.`,
  breaker: ({ values }) => (values.component === "embedding"
    ? say`The embedding provider fails. Its calls continue when it answers again.`
    : say`The language model's provider fails. Its calls continue when it answers again.`),
  cooldown: ({ values }) => paused(values),
  limit: ({ values }) => limited(values),
  budget: () => say`A budget is used up: no questions are generated until it is raised, or until its period ends.`,
  paused: () => say`All open work belongs to paused jobs.`,
  no_worker: ({ values }) => withoutWorker(values),
  batches: () => say`All open chunks wait for batches of the provider, which take up to 24 hours.`,
  stalled: ({ values }) => stalled(values),
  working: () => "",
};

/** @param {Values} values */
function paused({ component, pause_seconds: seconds, is_flex: isFlex }) {
  const time = duration(seconds ?? 1);
  if (isFlex) return say`The provider has no capacity left in the service tier flex: the next call is made in ${time}.`;
  return component === "embedding"
    ? say`The embedding provider requires a pause: the next call is made in ${time}.`
    : say`The language model's provider requires a pause: the next call is made in ${time}.`;
}

/** @param {Values} values */
function limited({ limit, used, most, unit }) {
  const name = limitName(limit ?? "");
  const numbers = [count(used ?? 0), count(most ?? 0)];
  return unit === "in_flight"
    ? say`A limit slows the work, ${name}: ${numbers[0]} of at most ${numbers[1]} calls are running.`
    : say`A limit slows the work, ${name}: ${numbers[0]} of ${numbers[1]} per minute are used.`;
}

/** @param {Values} values */
function withoutWorker({ stage, embedding, waiting }) {
  const many = waiting ?? 0;
  if (stage) return WITHOUT_WORKER[stage](many);
  return say`No worker serves the embedding ${embedding ?? ""}: ${plural(many, "chunk")} waiting.`;
}

/** @param {Values} values */
function stalled({ in_progress: running, due, delayed }) {
  const parts = [];
  if (running) parts.push(say`${count(running)} in progress`);
  if (due) parts.push(say`${count(due)} due`);
  if (delayed) parts.push(say`${count(delayed)} waiting for another attempt`);
  return say`No chunk has finished in the last minute: ${listed(parts)}.`;
}

/**
 * Return the sentences about the work: its bottleneck, and its pace with the time left, as far as they are known.
 * @param {{pace: Pace, chunks_per_minute: number, eta_seconds: number | null}} status
 */
export function paceOf({ pace, chunks_per_minute: rate, eta_seconds: left }) {
  const chunks = plural(Math.round(rate), "chunk");
  const sentence = SENTENCES[pace.cause](pace);
  if (pace.cause === "idle") return sentence;
  if (left !== null) return `${sentence} ${say`About ${duration(left)} left, at ${chunks} per minute.`}`.trim();
  return sentence || say`${chunks} per minute. The time left is not known yet.`;
}

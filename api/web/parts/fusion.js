// The server's fusion (shared/query/retrieve), repeated here so that sliders react without a request. A test compares
// both.

const REFERENCE_RANK = 5;
const OUT = 1.5;
const AGREEMENT = 0.35;
const BEST_TEXTS = 10;
const SAME = 0.7;
const SAME_GAIN = 8;
const HALF = 2;
export const CHANNELS = /** @type {const} */ (["questions", "text", "bm25"]);

const RRF_K = 60; // constant of reciprocal rank fusion
/** The fusion methods, by their names in the API. */
export const FUSIONS = /** @type {const} */ (["scores", "mean", "rrf", "max"]);

/**
 * @typedef {Api["CandidateView"]} Candidate
 * @typedef {Record<string, number>} Numbers by channel
 * @typedef {(chunks: Candidate[], floors: Numbers, weights: Numbers) => (chunk: Candidate) => number} Method
 */

/**
 * @param {Pick<Api["CandidatesView"], "chunks" | "floors">} candidates
 * @param {Record<string, number>} weights of the channels
 * @param {string} fusion
 * @returns {{chunk_id: string, score: number}[]} best first
 */
export function fused({ chunks, floors }, weights, fusion = "scores") {
  const score = (fusion === "scores" ? byEvidence : METHODS[fusion])(chunks, floors, weights);
  const scored = chunks.map((chunk) => ({ chunk_id: chunk.chunk_id, score: score(chunk) }));
  return scored.sort((one, other) => other.score - one.score || (one.chunk_id < other.chunk_id ? -1 : 1));
}

/**
 * Return a chunk's score in a channel. A chunk that the channel did not find gets half of the channel's floor.
 * @type {(chunk: Candidate, channel: string, floors: Numbers) => number}
 */
const scoreIn = (chunk, channel, floors) => Math.max(0, chunk.channels[channel]?.score ?? (floors[channel] ?? 0) / 2);
const foundIn = (/** @type {Candidate} */ chunk) => CHANNELS.filter((channel) => chunk.channels[channel]);
const sum = (/** @type {number[]} */ numbers) => numbers.reduce((all, each) => all + each, 0);

/** @type {Record<string, Method>} */
const METHODS = {
  mean: (_, floors, weights) => {
    const all = sum(CHANNELS.map((channel) => weights[channel])) || 1;
    return (chunk) => sum(CHANNELS.map((channel) => weights[channel] * scoreIn(chunk, channel, floors))) / all;
  },
  rrf: (_, __, weights) => (chunk) =>
    sum(foundIn(chunk).map((channel) => weights[channel] / (RRF_K + chunk.channels[channel].rank))),
  max: (_, __, weights) => (chunk) =>
    Math.max(0, ...foundIn(chunk).map((channel) => weights[channel] * chunk.channels[channel].score)),
};

/** @type {Method} */
function byEvidence(chunks, floors, weights) {
  const most = Math.max(...CHANNELS.map((channel) => weights[channel]), Number.MIN_VALUE);
  const share = Object.fromEntries(CHANNELS.map((channel) => [channel, weights[channel] / most]));
  const reference = Object.fromEntries(
    CHANNELS.map((channel) => [channel, weights[channel] > 0 ? fifth(chunks, channel) : 0]),
  );
  reference.questions = Math.max(reference.questions, reference.text);
  const best = chunks.filter(({ channels }) => channels.text?.rank <= BEST_TEXTS);
  const asked = best.filter(({ channels }) => channels.questions).length / (best.length || 1);
  return (chunk) => {
    const [q, t, b] = CHANNELS.map((channel) => scoreIn(chunk, channel, floors));
    const [question, text] = [out(q, reference.questions), out(t, reference.text)];
    const assumed = chunk.channels.questions ? 0 : (1 - asked) * text;
    const near = Math.max(share.questions * question, share.text * text);
    const weaker = Math.min(share.questions * Math.max(question, assumed), share.text * text);
    const both = AGREEMENT * Math.sqrt(asked) * weaker;
    const words = share.bm25 * out(b, reference.bm25);
    const same = Math.min(share.questions, share.text) * SAME_GAIN * Math.max(0, q - SAME) * t;
    const x = near + both + words + same;
    return x / (HALF + x);
  };
}

const out = (/** @type {number} */ score, /** @type {number} */ reference) =>
  score + OUT * Math.max(0, score - reference);

/** @param {Candidate[]} chunks @param {string} channel */
function fifth(chunks, channel) {
  const scores = chunks.map((chunk) => chunk.channels[channel]?.score ?? -1).sort((one, other) => other - one);
  return Math.max(0, scores[REFERENCE_RANK - 1] ?? 0);
}

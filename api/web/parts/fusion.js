// Fusion as the server computes it (shared/query/retrieve/fusion.py and evidence.py): weights can be moved without a request.

const CROWD = 5;
const OUT = 1.5;
const SAME = 0.7;
const SAME_GAIN = 8;
const HALF = 2;
export const CHANNELS = /** @type {const} */ (["questions", "text", "bm25"]);

const RANK = 60; // of reciprocal ranks
/** The ways of fusing, by the names that the API has for them. */
export const FUSIONS = /** @type {const} */ (["scores", "mean", "rrf", "max"]);

/**
 * @typedef {Api["CandidateView"]} Candidate
 * @typedef {Record<string, number>} Numbers of the channels
 * @typedef {(chunks: Candidate[], floors: Numbers, weights: Numbers) => (chunk: Candidate) => number} Way
 */

/**
 * @param {Pick<Api["CandidatesView"], "chunks" | "floors">} candidates
 * @param {Record<string, number>} weights of the channels
 * @param {string} fusion
 * @returns {{chunk_id: string, score: number}[]} best first
 */
export function fused({ chunks, floors }, weights, fusion = "scores") {
  const score = (fusion === "scores" ? byEvidence : WAYS[fusion])(chunks, floors, weights);
  const scored = chunks.map((chunk) => ({ chunk_id: chunk.chunk_id, score: score(chunk) }));
  return scored.sort((one, other) => other.score - one.score || (one.chunk_id < other.chunk_id ? -1 : 1));
}

/** A chunk that a channel did not find scores between 0 and its floor there. @type {(chunk: Candidate, channel: string, floors: Numbers) => number} */
const scoreIn = (chunk, channel, floors) => Math.max(0, chunk.channels[channel]?.score ?? (floors[channel] ?? 0) / 2);
const placesOf = (/** @type {Candidate} */ chunk) => CHANNELS.filter((channel) => chunk.channels[channel]);
const sum = (/** @type {number[]} */ numbers) => numbers.reduce((all, each) => all + each, 0);

/** @type {Record<string, Way>} */
const WAYS = {
  mean: (_, floors, weights) => {
    const all = sum(CHANNELS.map((channel) => weights[channel])) || 1;
    return (chunk) => sum(CHANNELS.map((channel) => weights[channel] * scoreIn(chunk, channel, floors))) / all;
  },
  rrf: (_, __, weights) => (chunk) => sum(placesOf(chunk).map((channel) => weights[channel] / (RANK + chunk.channels[channel].rank))),
  max: (_, __, weights) => (chunk) => Math.max(0, ...placesOf(chunk).map((channel) => weights[channel] * chunk.channels[channel].score)),
};

/** @type {Way} */
function byEvidence(chunks, floors, weights) {
  const most = Math.max(...CHANNELS.map((channel) => weights[channel]), Number.MIN_VALUE);
  const share = Object.fromEntries(CHANNELS.map((channel) => [channel, weights[channel] / most]));
  const crowd = Object.fromEntries(CHANNELS.map((channel) => [channel, weights[channel] > 0 ? fifth(chunks, channel) : 0]));
  crowd.questions = Math.max(crowd.questions, crowd.text);
  return (chunk) => {
    const [q, t, b] = CHANNELS.map((channel) => scoreIn(chunk, channel, floors));
    const near = Math.max(share.questions * out(q, crowd.questions), share.text * out(t, crowd.text));
    const words = share.bm25 * out(b, crowd.bm25);
    const same = Math.min(share.questions, share.text) * SAME_GAIN * Math.max(0, q - SAME) * t;
    const x = near + words + same;
    return x / (HALF + x);
  };
}

const out = (/** @type {number} */ score, /** @type {number} */ crowd) => score + OUT * Math.max(0, score - crowd);

/** @param {Candidate[]} chunks @param {string} channel */
function fifth(chunks, channel) {
  const scores = chunks.map((chunk) => chunk.channels[channel]?.score ?? -1).sort((one, other) => other - one);
  return Math.max(0, scores[CROWD - 1] ?? 0);
}

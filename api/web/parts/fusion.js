// The default fusion, as the server computes it (shared/query/retrieve/evidence.py): weights can be moved without a request.

const CROWD = 5;
const OUT = 1.5;
const SAME = 0.7;
const SAME_GAIN = 8;
const HALF = 2;
export const CHANNELS = /** @type {const} */ (["questions", "text", "bm25"]);

/**
 * @param {{chunks: {chunk_id: string, channels: Record<string, {score: number}>}[], floors: Record<string, number>}} candidates
 * @param {Record<string, number>} weights of the channels
 * @returns {{chunk_id: string, score: number}[]} best first
 */
export function fused({ chunks, floors }, weights) {
  const most = Math.max(...CHANNELS.map((channel) => weights[channel]), Number.MIN_VALUE);
  const share = Object.fromEntries(CHANNELS.map((channel) => [channel, weights[channel] / most]));
  const crowd = Object.fromEntries(CHANNELS.map((channel) => [channel, weights[channel] > 0 ? fifth(chunks, channel) : 0]));
  crowd.questions = Math.max(crowd.questions, crowd.text);
  const scored = chunks.map((chunk) => {
    const [q, t, b] = CHANNELS.map((channel) => {
      const place = chunk.channels[channel];
      return Math.max(0, place ? place.score : (floors[channel] ?? 0) / 2);
    });
    const near = Math.max(share.questions * out(q, crowd.questions), share.text * out(t, crowd.text));
    const words = share.bm25 * out(b, crowd.bm25);
    const same = Math.min(share.questions, share.text) * SAME_GAIN * Math.max(0, q - SAME) * t;
    const x = near + words + same;
    return { chunk_id: chunk.chunk_id, score: x / (HALF + x) };
  });
  return scored.sort((one, other) => other.score - one.score);
}

const out = (score, crowd) => score + OUT * Math.max(0, score - crowd);

function fifth(chunks, channel) {
  const scores = chunks.map((chunk) => chunk.channels[channel]?.score ?? -1).sort((one, other) => other - one);
  return Math.max(0, scores[CROWD - 1] ?? 0);
}

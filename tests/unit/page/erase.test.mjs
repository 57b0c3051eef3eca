// Erase a person: the search in pages, the chosen documents, and the progress of an erasure.

import assert from "node:assert/strict";
import test from "node:test";
import { drawn, openPage, pass, settled, stopClock } from "./browser.mjs";

const DELETES = {
  versions: 1, chunks: 2, questions: 5, accepted_questions: 0, resolutions: 0, shared_answers: 1, conversations: 0,
};
const RECORDS = {
  queries: 0, queries_in_gaps: 0, feedback: 0, accepted_questions: 0, shared_answers: 0, conversations: 0,
};
const found = (id) => ({
  id, collection: "handbook", external_id: `${id}.md`, title: null, filename: null, state: "ready",
  matches: { text: `Ada Lovelace leads ${id}.`, title: "Ada" }, deletes: DELETES,
});
const page = (more) => ({ documents: [], examined: 10, records: RECORDS, next_cursor: null, ...more });
const ERASURE = {
  id: "e1", scope: "documents", collection: null, document_id: null, document_ids: ["a", "b"], state: "running",
  documents_left: 2, deleted: { documents: 2 }, started_at: "2026-10-02T04:00:00Z", finished_at: null,
};

const bodyOf = (request) => JSON.parse(request.body);

test("search adds up all pages", async () => {
  const cursors = [];
  const pages = [
    page({ documents: [found("a")], records: { ...RECORDS, queries: 2, feedback: 1 }, next_cursor: "n" }),
    page({ documents: [found("b")], records: { ...RECORDS, queries: 1, conversations: 1 } }),
  ];
  const load = openPage({
    replies: (_path, request) => (cursors.push(bodyOf(request).cursor), pages[cursors.length - 1]),
  });
  const { searchPerson, recordsOf } = await load("parts/person.js");
  const sizes = [];

  const result = await searchPerson(["Ada"], "", ({ documents }) => sizes.push(documents.length));

  assert.deepEqual([cursors, sizes, result.examined], [[null, "n"], [1, 2], 20]);
  assert.equal(recordsOf(result.records), 4); // feedback is counted with its query
});

test("cancelled search reads no further page", async () => {
  let reads = 0;
  const load = openPage({ replies: () => (reads++, page({ next_cursor: "n" })) });
  const { searchPerson } = await load("parts/person.js");
  await searchPerson(["Ada"], "", () => reads < 3);
  assert.equal(reads, 3);
});

test("texts are lines, each once", async () => {
  const { textsOf, wrongTexts } = await openPage()("parts/person.js");
  assert.deepEqual(textsOf(" Ada \n\nada@x.org\nAda"), ["Ada", "ada@x.org"]);
  assert.equal(wrongTexts(["Ada"]), "");
  assert.equal(wrongTexts(["王伟"]), "");
  assert.match(wrongTexts([]), /at least one/);
  assert.match(wrongTexts(["A"]), /two characters/);
  assert.match(wrongTexts(["a".repeat(101)]), /100/);
  assert.match(wrongTexts(Array.from({ length: 11 }, (_, index) => `text ${index}`)), /at most 10/);
});

test("running erasure becomes finished and checked", async (t) => {
  stopClock(t, "2026-10-02T05:00:00Z");
  let erasure = ERASURE;
  let checks = 0;
  const load = openPage({
    path: "/erase/e1",
    replies: (path) => (path.endsWith("remaining-data") ? (checks++, { found: 0, locations: [] }) : erasure),
  });
  const screen = await load("routes/erase.js");
  await screen.load({ id: "e1" });
  assert.match(drawn(screen.view()).text, /2 documents.*2 of 2 rows are still to be deleted/s);
  erasure = { ...ERASURE, state: "finished", documents_left: 0, deleted: { documents: 2, queries: 3 } };
  await pass(t, 2000);
  await settled();
  const { text } = drawn(screen.view());
  assert.match(text, /Deleted: 2 documents and 3 logged questions\./);
  assert.match(text, /contain nothing of it/);
  await pass(t, 6000);
  assert.equal(checks, 1);
  screen.unload();
});

test("leftovers are listed with their number", async () => {
  const leftovers = [
    { engine: "qdrant", location: "foreask_x", count: 4, unchecked: null },
    { engine: "postgresql", location: "chunks", count: 0, unchecked: null },
  ];
  const finished = { ...ERASURE, state: "finished", documents_left: 0 };
  const load = openPage({
    replies: (path) => (path.endsWith("remaining-data") ? { found: 4, locations: leftovers } : finished),
  });
  const screen = await load("routes/erase.js");
  await screen.load({ id: "e1" });
  const { text } = drawn(screen.view());
  assert.match(text, /4 remaining rows/);
  assert.match(text, /foreask_x/);
  assert.doesNotMatch(text, /postgresql chunks/);
  screen.unload();
});

// The kit: fields, forms, tables, menus, dialogs and tabs.

import assert from "node:assert/strict";
import test from "node:test";
import { attribute, drawn, elements, openPage, settled, textOf } from "./browser.mjs";

const FIELDS = [
  { name: "name", label: "Name", required: true, pattern: "[a-z]+", mismatch: "Only small letters." },
  { name: "limits.cost", label: "Cost", type: "number" },
  { name: "scopes", label: "Permissions", type: "checks", options: [["ask", "Ask"], ["read", "Read"]] },
  { name: "kind", label: "Kind", type: "tiles", options: [["folder", "Folder"], ["git", "Repository"]] },
  { name: "hidden", label: "Hidden files", type: "check" },
];
const control = (name, value, more = {}) => ({ name, value, ...more });

/** Open a form of these fields; `sent` has the values of its submissions. */
async function openForm({ refuse = null, keeps = false } = {}) {
  const { createForm } = await openPage()("kit/form.js");
  const sent = [];
  const form = createForm((values) => {
    sent.push(values);
    if (refuse) throw refuse;
  }, { keeps });
  const element = { elements: [], resets: 0, reset: () => (element.resets += 1) };
  const draw = () => drawn(form.view({ action: "Add", body: (field) => FIELDS.map(field) }));
  const submit = async () => {
    draw().handler("submit")({ preventDefault() {}, target: element });
    await settled();
  };
  return { form, element, sent, draw, submit };
}

test("form submits values by the types of its fields", async () => {
  const { element, sent, submit } = await openForm();
  element.elements = [
    control("name", "  wiki "), control("limits.cost", "2.5"), control("other", "x"), control("scopes", "ask", { checked: true }),
    control("scopes", "read", { checked: false }), control("kind", "folder", { checked: false }), control("kind", "git", { checked: true }),
    control("hidden", "true", { checked: false }),
  ];
  await submit();
  element.elements = [control("name", ""), control("limits.cost", "")];
  await submit();
  assert.deepEqual(sent, [
    { name: "wiki", limits: { cost: 2.5 }, scopes: ["ask"], kind: "git", hidden: false },
    { name: null, limits: { cost: null } },
  ]);
  assert.equal(element.resets, 2);
});

test("form that keeps its values is not reset", async () => {
  const { element, submit } = await openForm({ keeps: true });
  await submit();
  assert.equal(element.resets, 0);
});

test("cancelled submission keeps the values", async () => {
  const { createForm } = await openPage()("kit/form.js");
  const element = { elements: [], resets: 0, reset: () => (element.resets += 1) };
  for (const reply of [false, true]) {
    drawn(createForm(async () => reply).view({ action: "Add", body: () => "" })).handler("submit")({ preventDefault() {}, target: element });
    await settled();
    assert.equal(element.resets, Number(reply));
  }
});

test("errors of the server are shown at their fields", async () => {
  const errors = [{ field: "name", message: "It is in use." }, { field: "limits.cost", message: "Too small." }, { field: "scopes.0", message: "Unknown." }];
  const { draw, submit, element } = await openForm({ refuse: { message: "name: It is in use. (2 more)", errors } });
  await submit();
  const { html, text } = draw();
  assert.equal(element.resets, 0);
  assert.doesNotMatch(text, /2 more/);
  const [name] = elements(html, "div").filter((each) => each.includes("It is in use."));
  const [described] = attribute(name.match(/<input[^>]*>/)[0], "aria-describedby").split(" ");
  assert.match(name, new RegExp(`id="${described}"[^>]*>It is in use\\.`));
  assert.match(name, /aria-invalid="true"/);
  assert.ok(text.includes("Too small.") && text.includes("Unknown."));
});

test("problem without a field is shown above the buttons", async () => {
  const { draw, submit } = await openForm({ refuse: { message: "The server is unreachable." } });
  await submit();
  assert.match(draw().html, /role="alert">The server is unreachable\..*type="submit"/s);
});

test("problem of an unknown field is not lost", async () => {
  const { errorsOf } = await openPage()("kit/form.js");
  const problem = { message: "names: Wrong.", errors: [{ field: "names", message: "Wrong." }, { field: "name", message: "Bad." }] };
  assert.deepEqual(errorsOf(problem, ["name"]), { errors: { name: "Bad." }, rest: problem });
  assert.deepEqual(errorsOf({ message: "Bad.", field: "name.0", errors: null }, ["name"]), { errors: { name: "Bad." }, rest: null });
});

test("typing removes the error of a field", async () => {
  const { draw, submit } = await openForm({ refuse: { message: "It is in use.", field: "name" } });
  await submit();
  draw().handler("input")({ target: { value: "other" } });
  assert.doesNotMatch(draw().text, /in use/);
});

test("browser's errors are shown at their fields", async () => {
  const { draw } = await openForm();
  let isBubble = true;
  const invalid = (value, validity) => ({ preventDefault: () => (isBubble = false), target: { validity, validationMessage: "Fill in this field.", value } });
  draw().handler("invalid")(invalid("A", { patternMismatch: true }));
  assert.match(draw().text, /Only small letters\./);
  await settled();
  draw().handler("invalid")(invalid("", {}));
  assert.match(draw().text, /Fill in this field\./);
  assert.doesNotMatch(draw().text, /Only small letters\./);
  assert.ok(!isBubble);
});

test("second submission waits for the first one", async () => {
  const { createForm } = await openPage()("kit/form.js");
  const reply = Promise.withResolvers();
  let calls = 0;
  const form = createForm(() => (calls++, reply.promise));
  const draw = () => drawn(form.view({ action: "Add", busy: "Adding", body: () => "" }));
  const event = { preventDefault() {}, target: { elements: [], reset() {} } };
  draw().handler("submit")(event);
  draw().handler("submit")(event);
  assert.match(draw().html, /aria-disabled="true">Adding</);
  reply.resolve();
  await settled();
  assert.equal(calls, 1);
  assert.match(draw().html, /submit"\s*>Add</);
});

test("table labels the cells of narrow displays", async () => {
  const { table } = await openPage()("kit/table.js");
  const columns = [{ words: "Name", cell: (row) => row.name, main: true }, { words: "Cost", cell: (row) => row.cost, number: true }, { words: "Actions", cell: () => "x", silent: true }];
  const { html, text } = drawn(table({ label: "Budgets", rows: [{ name: "all", cost: "$2" }], columns, key: (row) => row.name }));
  assert.equal(text, "Name Cost Actions all $2 x");
  assert.match(html, /<td role="cell" class="kit-number"\s+data-label="Cost">\$2</);
  assert.match(html, /<td role="cell"\s*>x</);
  assert.match(html, /--kit-columns:minmax\(8rem, 1fr\) auto auto/);
});

test("keys move in a menu", async () => {
  const { next } = await openPage()("kit/menu.js");
  const words = ["Rename", "Explain", "Delete"];
  const moves = [["ArrowDown", 2, 0], ["ArrowDown", -1, 0], ["ArrowUp", 0, 2], ["Home", 2, 0], ["End", 0, 2], ["d", 0, 2], ["e", 1, 1], ["x", 0, null], [" ", 0, null], ["Tab", 0, null]];
  for (const [key, from, to] of moves) assert.equal(next(key, from, words), to, key);
});

test("menu without an allowed action is not shown", async () => {
  const { menu } = await openPage()("kit/menu.js");
  assert.equal(drawn(menu({ id: "more", label: "More", items: [null, false] })).html, "");
});

test("question is answered once, with its button", async () => {
  const { confirmed, confirmation, dismiss } = await openPage()("kit/dialog.js");
  const facts = { title: "Delete it?", text: "It is lost.", action: "Delete", danger: true };
  for (const [words, isSure] of [["Delete", true], ["Cancel", false]]) {
    const answer = confirmed(facts);
    assert.equal(drawn(confirmation()).text, "Delete it? It is lost. Delete Cancel");
    drawn(confirmation()).handler("click", words)({ target: {} });
    assert.equal(await answer, isSure);
    assert.equal(drawn(confirmation()).html, "");
  }
  const [left, following] = [confirmed(facts), confirmed({ ...facts, title: "Delete another?" })];
  assert.equal(await left, false);
  assert.match(drawn(confirmation()).text, /another/);
  dismiss();
  assert.equal(await following, false);
});

test("arrow keys choose tabs", async () => {
  const { tabs } = await openPage()("kit/tabs.js");
  globalThis.getComputedStyle = () => ({ direction: "ltr" });
  const chosen = [];
  const items = ["text", "file"].map((name) => ({ name, words: name, body: () => `${name}s` }));
  const view = drawn(tabs({ id: "views", label: "Views", items, chosen: "file", choose: (name) => chosen.push(name) }));
  const list = { children: [{ focus() {} }, { focus() {} }] };
  for (const key of ["ArrowRight", "ArrowLeft", "End", "x"]) view.handler("keydown")({ key, currentTarget: list, preventDefault() {} });
  assert.deepEqual(chosen, ["text", "text", "file"]);
  assert.equal(textOf(elements(view.html, "div").at(-1)), "files");
});

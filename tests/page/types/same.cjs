// Prints the modules of a file {name: [written, served]} whose texts differ in more than comments.
const { readFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const typescript = createRequire(`${process.cwd()}/`)("typescript");

const compilerOptions = { removeComments: true, target: "es2023", module: "es2022" };
const code = (text) => typescript.transpileModule(text, { compilerOptions }).outputText;
const modules = Object.entries(JSON.parse(readFileSync(process.argv[2], "utf8")));
const others = modules.filter(([, [written, served]]) => code(written) !== code(served)).map(([name]) => name);
for (const name of others) console.error(`${name}: a line that looks like a comment is part of a text.`);
process.exit(others.length ? 1 : 0);

// The published schemas compile in Ajv with its defaults, without a warning, and refuse what the product refuses.
//
//     node tests/ajv/main.mjs NODE_MODULES

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(join(resolve(process.argv[2]), "from-here.js"));
// 2020-12 is what the schemas say they are; everything else is as Ajv has it.
const Ajv = require("ajv/dist/2020").default;
const folder = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "schemas");

const compiled = new Map();
for (const file of readdirSync(folder).filter((name) => name.endsWith(".json"))) {
  const told = [];
  const log = (...words) => told.push(words.join(" "));
  const ajv = new Ajv({ logger: { log, warn: log, error: log } });
  compiled.set(file, ajv.compile(JSON.parse(readFileSync(join(folder, file), "utf8"))));
  assert.deepEqual(told, [], `${file}: Ajv has something against it`);
}
assert.ok(compiled.size >= 8, `only ${[...compiled.keys()]} were found`);

const policy = compiled.get("policy.schema.json");
const deadline = (text) => policy({ version: 1, retry: { deadline: text } });
for (const text of ["5s", "1m30s", "1.5 s", " 2 minutes ", "unlimited", "20µs"]) {
  assert.ok(deadline(text), `a deadline of ${text}: ${JSON.stringify(policy.errors)}`);
}
for (const text of ["5 parsecs", "5", "-1s", ".5s", "1.s", "0.5ns", "soon", "0s", "1s ".repeat(30)]) {
  assert.ok(!deadline(text), `a deadline of ${text} is taken`);
}
const session = compiled.get("session.schema.json");
assert.ok(!session({ v: 1, kind: "session", format: 4294967296, run: "r", policy: "p", created: 0 }));
console.log(`ajv: ${compiled.size} schemas`);

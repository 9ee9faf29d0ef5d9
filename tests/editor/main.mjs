// What an editor shows of policies and test files: completion, hover and problems, by the published schemas.
//
//     node tests/editor/main.mjs NODE_MODULES

import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Server } from "./server.mjs";

const schemas = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "schemas");
const modeline = (name) => `# yaml-language-server: $schema=${pathToFileURL(join(schemas, `${name}.schema.json`)).href}\n`;
const policy = (text) => modeline("policy") + text;
const cases = (text) => modeline("test") + text;

const words = (documentation) => documentation?.value ?? documentation ?? "";
/** The problems as people see them: the line, from 1, and what is wrong. */
const told = (file) => file.problems.map((problem) => `${problem.range.start.line + 1}: ${problem.message}`);

const tests = {
  async "a key is completed with its description"(server) {
    const items = await server.completions("a.yaml", policy("version: 1\nretry:\n  m|\n"));
    const item = items.find((item) => item.label === "max_attempts");
    assert.ok(item, `max_attempts is not offered: ${items.map((item) => item.label)}`);
    assert.match(words(item.documentation), /The first attempt plus retries/);
  },

  async "an error class is completed"(server) {
    const items = await server.completions("b.yaml", policy("version: 1\nretry:\n  retry_on:\n    - |\n"));
    const labels = items.map((item) => item.label);
    for (const label of ["rate_limit", "timeout", "network_error"]) {
      assert.ok(labels.includes(label), `${label} is not offered: ${labels}`);
    }
  },

  async "a field shows its description"(server) {
    const text = "version: 1\nretry:\n  back|off: {kind: constant, delay: 1s}\n";
    assert.match(await server.hover("c.yaml", policy(text)), /The delay before each next attempt/);
  },

  async "a field shows its unit and an example"(server) {
    const shown = await server.hover("d.yaml", policy("version: 1\nlimits:\n  total_|delay: 1m\n"));
    assert.match(shown, /With a unit: ms, s, m, h, d/);
    assert.match(shown, /Examples?:\s+```yaml\s+2m|Examples?:[^]*2m/);
  },

  async "a key that is not known is a problem on its line"(server) {
    const file = await server.open("e.yaml", policy("version: 1\nretry:\n  max_attempts: 3\n  max_atempts: 3\n"));
    assert.equal(file.problems.length, 1, told(file).join("\n"));
    assert.match(told(file)[0], /^5: .*max_atempts/);
  },

  async "a word that is not known is a problem on its line"(server) {
    const text = "version: 1\ntools:\n  search:\n    effect: readonly\n";
    const file = await server.open("f.yaml", policy(text));
    assert.equal(file.problems.length, 1, told(file).join("\n"));
    assert.match(told(file)[0], /^5: .*read_only/);
  },

  async "a policy without mistakes has no problems"(server) {
    const text = `version: 1
retry:
  max_attempts: 4
  retry_on: {add: [execution_error]}
  backoff: {kind: exponential, base: 500ms, factor: 2, cap: 30s, jitter: full}
  by_class: {rate_limit: {max_attempts: 6}}
tools:
  "http.*": {effect: idempotent, retry: {deadline: 2m}}
limits: {max_attempts: 5}
`;
    assert.deepEqual(told(await server.open("g.yaml", policy(text))), []);
  },

  async "an outcome of a test is described"(server) {
    const text = "version: 1\ncases:\n  - name: x\n    tool: search\n    out|comes: [ok]\n    expect: {attempts: 1}\n";
    assert.match(await server.hover("h.test.yaml", cases(text)), /How the runs of the tool end/);
  },

  async "what a test expects is completed"(server) {
    const text = "version: 1\ncases:\n  - name: x\n    tool: search\n    expect:\n      att|\n";
    const items = await server.completions("i.test.yaml", cases(text));
    const item = items.find((item) => item.label === "attempts");
    assert.ok(item, `attempts is not offered: ${items.map((item) => item.label)}`);
    assert.match(words(item.documentation), /How often tools run/);
  },

  async "a mistake in a test is a problem on its line"(server) {
    const text = "version: 1\ncases:\n  - name: x\n    tool: search\n    expect:\n      attempts: 1\n      final: okay\n";
    const file = await server.open("j.test.yaml", cases(text));
    assert.equal(file.problems.length, 1, told(file).join("\n"));
    assert.match(told(file)[0], /^8: /);
  },

  async "a test without mistakes has no problems"(server) {
    const text = `version: 1
inline:
  tools: {search: {effect: read_only, retry: {max_attempts: 3}}}
cases:
  - name: gives up after three attempts
    tool: search
    outcomes: [rate_limit x9]
    expect: {attempts: 3, final: retry_exhausted, never: [{directive: finish}]}
`;
    assert.deepEqual(told(await server.open("k.test.yaml", cases(text))), []);
  },
};

const [modules] = process.argv.slice(2);
if (!modules) {
  throw new Error("usage: node tests/editor/main.mjs NODE_MODULES");
}
const server = new Server(modules);
let failed = 0;
try {
  await server.start();
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test(server);
      console.log(`ok: ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED: ${name}\n  ${error.message}`);
    }
  }
} finally {
  server.stop();
}
console.log(`editors: ${Object.keys(tests).length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);

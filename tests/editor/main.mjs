// What an editor shows of policies and test files: completion, hover and problems, by the published schemas.
//
//     node tests/editor/main.mjs NODE_MODULES

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Server } from "./server.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const schemas = join(root, "schemas");
const builtin = join(root, "policies", "default.yaml");
const modeline = (name) => `# yaml-language-server: $schema=${pathToFileURL(join(schemas, `${name}.schema.json`)).href}\n`;
const policy = (text) => modeline("policy") + text;
const cases = (text) => modeline("test") + text;

const words = (documentation) => documentation?.value ?? documentation ?? "";
/** The problems as people see them: the line, from 1, and what is wrong. */
const told = (file) => file.problems.map((problem) => `${problem.range.start.line + 1}: ${problem.message}`);

/** Whether a line names an error class with rules of its own: what it has there is no default. */
const isClass = (lines, number) => {
  const indent = (line) => line.search(/[^ ]/);
  const outer = (line) => line.trim() && !line.trim().startsWith("#") && indent(line) < indent(lines[number]);
  return lines.slice(0, number).findLast(outer)?.trim() === "by_class:";
};

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

  async "a key shows its default"(server) {
    const shown = await server.hover("aa.yaml", policy("version: 1\nretry:\n  max_|attempts: 7\n"));
    assert.match(shown, /The first attempt plus retries/);
    assert.match(shown, /Default: .*4.*models.*16/);
    const field = await server.hover("ab.yaml", policy("version: 1\nretry:\n  attempt_|timeout: 7s\n"));
    assert.match(field, /The longest one attempt may take[^]*unit: ms, s, m, h, d[^]*Default: .*unlimited.*tools.*1m/);
  },

  async "every key of the built-in policy shows its default, and nothing twice"(server) {
    // Templates of several lines need no hover; without them, `|` marks the place alone.
    const lines = readFileSync(builtin, "utf8").replaceAll("|", ">").split("\n");
    const end = lines.findIndex((line) => /^(session|errors):/.test(line));
    const bare = [];
    let keys = 0;
    for (const [number, line] of lines.slice(0, end).entries()) {
      const key = /^ *([a-z_]+): +[^>#]/.exec(line);
      if (!key || key[1] === "version" || isClass(lines, number)) continue;
      keys += 1;
      const at = line.indexOf(key[1]) + 1;
      const marked = lines.with(number, `${line.slice(0, at)}|${line.slice(at)}`).join("\n");
      const shown = await server.hover(`key-${number}.yaml`, policy(marked));
      if (!shown.includes("Default: ") || shown.includes(" || ")) bare.push(`${number + 1}: ${line}: ${shown}`);
    }
    assert.ok(keys > 80, `${keys}`);
    assert.deepEqual(bare, []);
  },

  async "a word shows what it means, and no other word as its example"(server) {
    const shown = await server.hover("ac.yaml", policy("version: 1\ntools:\n  pay:\n    effect: non_|idempotent\n"));
    assert.match(shown, /Something new each time/);
    assert.match(shown, /What a run of the tool does to the world/);
    assert.ok(!shown.includes("read"), shown);
    const item = await server.hover("ad.yaml", policy("version: 1\nretry:\n  retry_on: [time|out]\n"));
    assert.match(item, /No answer within the time allowed/);
    assert.ok(!item.includes("rate"), item);
  },

  async "no type of the program is a title"(server) {
    for (const text of ["ver|sion: 1\n", "version: 1\nre|try: {max_attempts: 3}\n"]) {
      assert.ok(!/PolicyFile|Layer|####/.test(await server.hover(`ae${text.length}.yaml`, policy(text))));
    }
  },

  async "a form is completed whole"(server) {
    const forms = async (name, text) => {
      const items = await server.completions(name, text);
      return (label) => items.find((item) => item.label === label)?.insertText ?? `${label} is not offered`;
    };
    const backoff = await forms("af.yaml", policy("version: 1\nretry:\n  backoff:\n    |\n"));
    for (const kind of ["constant", "linear", "exponential", "fibonacci", "schedule"]) {
      assert.ok(backoff(kind).startsWith(`kind: ${kind}\n`), backoff(kind));
    }
    assert.match(backoff("exponential"), /^kind: exponential\nbase: .*500ms.*\nfactor: /);
    const retry = await forms("ag.yaml", policy("version: 1\nretry:\n  |\n"));
    assert.match(retry("max_attempts"), /^max_attempts: \$\{1:4\}$/);
    assert.match(retry("backoff"), /kind.*exponential[^]*base[^]*factor/);
    assert.match(retry("server_delay"), /mode.*floor/);
    const top = await forms("ah.yaml", policy("version: 1\n|\n"));
    assert.match(top("tools"), /search\*[^]*effect.*read_only/);
    assert.match(top("models"), /gpt-\*[^]*retry[^]*max_attempts/);
    assert.ok(!/search|effect/.test(top("models")), top("models"));
    const names = await forms("ai.yaml", policy("version: 1\nmodels:\n  |\n"));
    assert.match(names("model"), /model/);
    const case_ = await forms("aj.test.yaml", cases("version: 1\ninline:\n  retry:\n    backoff:\n      |\ncases: []\n"));
    assert.match(case_("exponential"), /^kind: exponential\n/);
  },

  async "a wrong value says what is expected"(server) {
    for (const [text, expected] of [
      ["retry: {backoff: expo}", /object/],
      ["retry: {attempt_timeout: 30}", /Expected "string/],
      ["retry: {max_attempts: many}", /integer/],
      ["retry: 3", /RetryMapping/],
      ["retry: {retry_on: timeout}", /array/],
      ["retry: {backoff: {kind: expo}}", /"constant" \| "linear" \| "exponential"/],
      ["tools: {pay: {effect: 3}}", /"read_only" \| "idempotent"/],
    ]) {
      const file = await server.open(`ak${text.length}.yaml`, policy(`version: 1\n${text}\n`));
      assert.match(told(file).join("\n"), expected, text);
      assert.ok(!/not allowed|PolicyFile/.test(told(file).join("\n")), told(file).join("\n"));
    }
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

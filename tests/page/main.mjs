// Opens the page of `unfazed serve` in Chromium: a waiting request, a decision and a cooldown appear on it, and a hostile name of a model
// stays text.
//
//     apt-get install chromium
//     node tests/page/main.mjs target/release/unfazed [FOLDER FOR SCREENSHOTS]
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [unfazed, pictures] = process.argv.slice(2);
const PATIENCE = 60_000;
const HOSTILE = "x-<img src=x onerror='document.title=1'>";
const scratch = mkdtempSync(join(tmpdir(), "unfazed-page-"));
const children = [];

const POLICY = `version: 1
models:
  '*':
    cooldown: 10m
    retry: {max_attempts: 2, backoff: {kind: constant, delay: 300ms}}
  paced:
    pace: {requests: {limit: 2, per: 30s}, max_wait: unlimited}
`;

const hash = (key) => createHash("sha256").update(key).digest("hex");

// A provider: one model is down, one never answers, the others do after a while.
function provider() {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (piece) => body += piece);
    request.on("end", () => {
      const { model } = JSON.parse(body);
      if (model === "slow") return;
      const [status, answer] = model === "down"
        ? [503, { error: { message: "a secret of the provider" } }]
        : [200, { choices: [{ message: { role: "assistant", content: "hi" }, finish_reason: "stop" }], usage: { prompt_tokens: 9, completion_tokens: 3 } }];
      setTimeout(() => {
        response.writeHead(status, { "content-type": "application/json" });
        response.end(JSON.stringify(answer));
      }, 20 + Math.random() * 80);
    });
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

function gateway(base) {
  const model = (name) => `  ${name}: {api: openai, base_url: '${base}', model: ${name}}\n`;
  writeFileSync(join(scratch, "policy.yaml"), POLICY);
  writeFileSync(join(scratch, "gateway.yaml"), `version: 1\npolicy: policy.yaml\nmodels:\n${["down", "spare", "slow", "paced"].map(model).join("")}
routes: {'x-*': [down, spare], slow: slow, paced: paced}
keys:
  desk: {sha256: ${hash("desk-key")}}
  shop: {sha256: ${hash("shop-key")}, budget: {per: 30d, requests: 2}}\n`);
  const child = spawn(unfazed, ["serve", "gateway.yaml", "--addr", "127.0.0.1:0"], { cwd: scratch, stdio: ["ignore", "ignore", "pipe"] });
  children.push(child);
  return new Promise((resolve, reject) => {
    createInterface({ input: child.stderr }).on("line", (line) => line.startsWith("serves  ") && resolve(line.slice(8)));
    child.on("exit", (code) => reject(new Error(`the gateway ended with ${code}`)));
  });
}

// Chromium, spoken to by a pipe: messages of JSON that end with a zero byte.
function browser() {
  const child = spawn("chromium", [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", `--user-data-dir=${join(scratch, "profile")}`, "--remote-debugging-pipe",
  ], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  children.push(child);
  const [, , , to, from] = child.stdio, open = new Map(), listeners = [];
  let last = 0, rest = "";
  from.on("data", (piece) => {
    const messages = (rest + piece).split("\0");
    rest = messages.pop();
    for (const message of messages.map((text) => JSON.parse(text))) {
      const waits = open.get(message.id);
      open.delete(message.id);
      if (!waits) listeners.forEach((listener) => listener(message));
      else if (message.error) waits.reject(new Error(JSON.stringify(message.error)));
      else waits.resolve(message.result);
    }
  });
  const send = (method, params = {}, sessionId = undefined) => new Promise((resolve, reject) => {
    open.set(++last, { resolve, reject });
    to.write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`);
  });
  return { send, listen: (listener) => listeners.push(listener) };
}

async function main() {
  const server = await provider();
  const url = await gateway(`http://127.0.0.1:${server.address().port}/v1`);
  const chromium = browser(), wrong = [];
  const { targetId } = await chromium.send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await chromium.send("Target.attachToTarget", { targetId, flatten: true });
  const send = (method, params) => chromium.send(method, params, sessionId);
  chromium.listen(({ method, params }) => {
    if (method === "Runtime.exceptionThrown") wrong.push(params.exceptionDetails.text);
    // No icon is served: whoever has a tab does without.
    if (method === "Log.entryAdded" && params.entry.level === "error" && !`${params.entry.url} ${params.entry.text}`.includes("favicon")) wrong.push(params.entry.text);
  });
  for (const domain of ["Page", "Runtime", "Log"]) await send(`${domain}.enable`);
  await send("Emulation.setDeviceMetricsOverride", { width: 1280, height: 1000, deviceScaleFactor: 1, mobile: false });
  await send("Page.navigate", { url });
  const evaluate = async (expression) => (await send("Runtime.evaluate", { expression, returnByValue: true })).result.value;
  // While the page is loaded there is no body.
  const text = async () => await evaluate("document.body?.innerText") ?? "";
  const until = async (what) => {
    for (const begun = Date.now(); ; await new Promise((next) => setTimeout(next, 100))) {
      const shown = await text();
      if (shown.includes(what)) return shown;
      assert.ok(Date.now() - begun < PATIENCE, `the page does not show \`${what}\`:\n${shown}\n${wrong.join("\n")}`);
    }
  };
  const ask = (model, key = "desk-key") => fetch(`${url}/v1/chat/completions`, { method: "POST", headers: { "x-api-key": key }, body: JSON.stringify({ model, messages: [{ role: "user", content: "a word of the prompt" }] }) }).catch(() => {});

  await until("none yet: all requests were answered at once");
  for (const word of ["down", "spare", "slow", "ready", "none"]) await until(word);
  ask("slow");
  await until("the answer");
  await ask(HOSTILE);
  await until("cools down, 10 min");
  for (const word of ["next model", "down → spare", "policy.yaml:5:27", "overloaded", HOSTILE]) await until(word);
  for (let n = 0; n < 4; n += 1) ask("paced");
  await until("its turn at model paced");
  for (let n = 0; n < 4; n += 1) await ask("x-mini", "shop-key");
  for (const word of ["budget used up", "keys.shop.budget.requests", "2 times", "2 of 2 in 30 days"]) await until(word);
  const ended = Date.now() + (pictures ? 16_000 : 0);
  while (Date.now() < ended) await ask("x-mini");
  const shown = await text();
  for (const secret of ["a word of the prompt", "a secret of the provider", "shop-key", hash("shop-key")]) assert.ok(!shown.includes(secret), secret);
  assert.equal(await evaluate("document.querySelectorAll('img').length"), 0);
  assert.equal(await evaluate("document.title"), "unfazed serve");
  assert.ok(await evaluate("document.querySelectorAll('svg .up').length") > 0, "no bar of a plot");
  // A script that gets into the page does not run.
  await evaluate("{ const late = document.createElement('script'); try { late.text = 'document.title = 2'; } catch {} document.head.append(late); }");
  assert.equal(await evaluate("document.title"), "unfazed serve");
  const unexpected = wrong.filter((text) => !/TrustedScript|Trusted Type|script-src/i.test(text));
  assert.deepEqual(unexpected, []);
  for (const scheme of pictures ? ["light", "dark"] : []) {
    await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
    const { data } = await send("Page.captureScreenshot", { format: "png", captureBeyondViewport: true });
    writeFileSync(join(pictures, `page-${scheme}.png`), Buffer.from(data, "base64"));
  }
  console.log("page: a waiting request, decisions and a cooldown are shown, and a hostile name is text");
}

let code = 0;
try {
  await main();
} catch (error) {
  code = 1;
  console.error(error);
} finally {
  children.forEach((child) => child.kill("SIGKILL"));
  setTimeout(() => {
    rmSync(scratch, { recursive: true, force: true });
    process.exit(code);
  }, 300);
}

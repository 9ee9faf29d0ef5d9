// A host with a loop of its own, in TypeScript: it runs the tools, and `unfazed step` decides.
//     npm i typescript @types/node
//     npx tsc --module nodenext --target es2022 --types node client.mts && node client.mjs [UNFAZED]
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
type Directive = { directive: string; work: number; [field: string]: any };
const parameters = { type: "object", properties: { item: { type: "integer" } }, required: ["item"] };
const prices: Record<number, string> = { 7: "3.50", 42: "12.50" };
const asked = new Set<number>();

/** The tool. The first request for an item fails. */
async function price(item: number): Promise<string> {
  if (!asked.has(item) && asked.add(item)) throw new Error("the shop is busy");
  return prices[item]!;
}

const policy = fileURLToPath(new URL("policy.yaml", import.meta.url));
const child = spawn(process.argv[2] ?? "unfazed", ["step", policy], { stdio: ["pipe", "pipe", "inherit"] });
const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();

/** Writes a line, and reads the answer to it. Answers come in the order of the lines, whoever waits. */
async function ask(line: object): Promise<Directive[]> {
  child.stdin.write(JSON.stringify(line) + "\n");
  const next = await answers.next();
  if (next.done) throw new Error("unfazed has ended");
  const answer = JSON.parse(next.value);
  if (answer.kind === "error") throw new Error(answer.message);
  return answer.list;
}

/** Does the work of all these at once, and what follows from each. */
const all = (list: Directive[]): Promise<unknown> => Promise.all(list.map(work));
async function work(directive: Directive): Promise<unknown> {
  const tell = async (event: string, fields: object = {}) =>
    all(await ask({ kind: "event", event, work: directive.work, ...fields }));
  switch (directive.directive) {
    case "append":
      return console.log(`${directive.message.call}: ${directive.message.text}`);
    case "run_tool":
      const outcome = await price(directive.arguments.item).then(
        (data) => ({ outcome: "ok", data }),
        ({ message }) => ({ outcome: "failed", failure: { class: "network_error", message }, effect: "not_started" }),
      );
      return tell("tool_finished", { outcome });
    case "wait":
      console.log(`${directive.subject}: attempt ${directive.attempt} in ${directive.delay / 1e6} ms`);
      await sleep(directive.delay / 1e6);
      return tell("timer_fired");
    case "ask":
      return tell("answered", { answer: "none" });
  }
}

await ask({ kind: "hello", v: 1, tools: [{ name: "price", parameters }] });
await ask({ kind: "start", run: "typescript" });
const calls = [7, 42, "six"].map((item) => ({ id: `call_${item}`, name: "price", arguments: JSON.stringify({ item }) }));
await all(await ask({ kind: "event", event: "tools_proposed", calls }));
child.stdin.end();

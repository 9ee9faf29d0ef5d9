// The official client in TypeScript: a call that is corrected, one that asks a person, one that is taken back.
//
//     node client.mjs NODE_MODULES UNFAZED POLICY SERVER...
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, unfazed, policy, ...server] = process.argv.slice(2);
const sdk = (path) => import(pathToFileURL(join(modules, "@modelcontextprotocol/sdk/dist/esm", path)).href);
createRequire(import.meta.url);
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { ElicitRequestSchema } = await sdk("types.js");

const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
const questions = [];
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  questions.push(params.message);
  return { action: questions.length === 1 ? "accept" : "decline", content: {} };
});
await client.connect(new StdioClientTransport({
  command: unfazed, args: ["mcp", "--policy", policy, "--", ...server], stderr: "inherit",
}));

const fail = (what, seen) => { console.error(what, JSON.stringify(seen)); process.exit(1); };
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);

const { tools } = await client.listTools();
if (!tools.some((tool) => tool.name === "get-sum")) fail("tools", tools);
const wrong = await call("get-sum", { a: "one", b: 2 });
if (!wrong.isError || wrong._meta.unfazed.class !== "invalid_args") fail("corrected", wrong);
const sum = await call("get-sum", { a: 1, b: 2 });
if (!sum.content[0].text.includes("3")) fail("sum", sum);
const agreed = await call("echo", { message: "agreed" });
if (agreed.isError) fail("agreed", agreed);
const declined = await call("echo", { message: "declined" });
if (!declined.isError || questions.length !== 2) fail("declined", declined);

const seen = [];
await call("trigger-long-running-operation", { duration: 1, steps: 3 }, { onprogress: ({ progress }) => seen.push(progress) });
if (seen.length < 2) fail("progress", seen);
const stop = new AbortController();
const stopped = call("trigger-long-running-operation", { duration: 60, steps: 2 }, { signal: stop.signal });
setTimeout(() => stop.abort("no need"), 200);
await stopped.then((result) => fail("not stopped", result), () => {});
const links = await client.readResource({ uri: (await client.listResources()).resources[0].uri });
if (!links.contents.length) fail("resource", links);
await client.close();
console.log("done");

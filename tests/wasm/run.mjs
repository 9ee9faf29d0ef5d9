// Runs the module of this folder: reads what it is to load in the first line of its input and an envelope in each other, and
// prints the policy's digest, and for each envelope the directives and the digest of the state.
//
//     node tests/wasm/run.mjs unfazed_wasm.wasm <lines

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
const imports = WebAssembly.Module.imports(module).map(({ module, name }) => `${module}.${name}`);
if (imports.length > 0) {
  throw new Error(`the module imports: ${imports.join(", ")}`);
}
const { memory, buffer, seed, load, step, digest } = new WebAssembly.Instance(module).exports;
seed(randomBytes(8).readBigUInt64LE());

const call = (act, text) => {
  const bytes = new TextEncoder().encode(text);
  const at = buffer(bytes.length);
  new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
  const length = act();
  // What is left may be elsewhere; a buffer of its own length stays where it is.
  return new TextDecoder().decode(new Uint8Array(memory.buffer, buffer(length), length));
};

const [first, ...envelopes] = readFileSync(0, "utf8").trimEnd().split("\n");
console.log(call(load, first));
for (const envelope of envelopes) {
  console.log(call(step, envelope));
  console.log(call(digest, ""));
}

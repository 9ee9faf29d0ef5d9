// The YAML language server that editors run, spoken to over standard input and output.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// The longest one answer may take, in milliseconds.
const PATIENCE = 60_000;

/** A server with a folder of its own. `modules` is the node_modules folder it is installed in. */
export class Server {
  #process;
  #input = Buffer.alloc(0);
  #asked = new Map();
  #problems = new Map();
  #waiting = [];
  #last = 0;
  #folder = mkdtempSync(join(tmpdir(), "editor-"));

  constructor(modules) {
    const program = join(modules, ".bin", "yaml-language-server");
    if (!existsSync(program)) {
      throw new Error(`there is no ${program}; npm install yaml-language-server`);
    }
    this.#process = spawn(program, ["--stdio"], { stdio: ["pipe", "pipe", "inherit"] });
    this.#process.on("exit", (code) => this.#fail(new Error(`the server ended with code ${code}`)));
    this.#process.stdout.on("data", (bytes) => this.#read(bytes));
  }

  async start() {
    await this.#ask("initialize", {
      processId: process.pid,
      rootUri: pathToFileURL(this.#folder).href,
      capabilities: {
        textDocument: {
          completion: { completionItem: { documentationFormat: ["markdown"], snippetSupport: true } },
          hover: { contentFormat: ["markdown"] },
        },
        workspace: { configuration: true },
      },
    });
    this.#send({ method: "initialized", params: {} });
  }

  /** Opens a file of that text; answers with the problems the server finds in it. */
  async open(name, text) {
    const path = join(this.#folder, name);
    writeFileSync(path, text);
    const uri = pathToFileURL(path).href;
    const problems = this.#next(uri);
    this.#send({
      method: "textDocument/didOpen",
      params: { textDocument: { uri, languageId: "yaml", version: 1, text } },
    });
    return { uri, text, problems: await problems };
  }

  /** What may stand at the mark `|` of the text, which is taken out before the file is opened. */
  async completions(name, marked) {
    const { file, position } = await this.#openMarked(name, marked);
    const answer = await this.#ask("textDocument/completion", { textDocument: { uri: file.uri }, position });
    return Array.isArray(answer) ? answer : answer.items;
  }

  /** What is shown on the word at the mark `|`. */
  async hover(name, marked) {
    const { file, position } = await this.#openMarked(name, marked);
    const answer = await this.#ask("textDocument/hover", { textDocument: { uri: file.uri }, position });
    return answer?.contents?.value ?? "";
  }

  stop() {
    this.#process.removeAllListeners("exit");
    this.#process.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #openMarked(name, marked) {
    const at = marked.indexOf("|");
    const before = marked.slice(0, at).split("\n");
    const position = { line: before.length - 1, character: before.at(-1).length };
    const file = await this.open(name, marked.slice(0, at) + marked.slice(at + 1));
    return { file, position };
  }

  /** The problems that are told next about a file. */
  #next(uri) {
    return this.#patiently(`problems of ${uri}`, (done) => this.#problems.set(uri, done));
  }

  #ask(method, params) {
    const id = ++this.#last;
    return this.#patiently(method, (done) => {
      this.#asked.set(id, done);
      this.#send({ id, method, params });
    });
  }

  #patiently(what, begin) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no answer: ${what}`)), PATIENCE);
      this.#waiting.push(reject);
      begin((answer) => {
        clearTimeout(timer);
        resolve(answer);
      });
    });
  }

  #fail(error) {
    this.#waiting.forEach((reject) => reject(error));
  }

  #send(message) {
    const body = JSON.stringify({ jsonrpc: "2.0", ...message });
    this.#process.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  }

  #read(bytes) {
    this.#input = Buffer.concat([this.#input, bytes]);
    for (;;) {
      const end = this.#input.indexOf("\r\n\r\n");
      if (end < 0) return;
      const length = Number(/Content-Length: (\d+)/i.exec(this.#input.toString("utf8", 0, end))[1]);
      if (this.#input.length < end + 4 + length) return;
      const message = JSON.parse(this.#input.toString("utf8", end + 4, end + 4 + length));
      this.#input = this.#input.subarray(end + 4 + length);
      this.#take(message);
    }
  }

  #take(message) {
    if (message.method === undefined) {
      if (message.error) this.#fail(new Error(message.error.message));
      this.#asked.get(message.id)?.(message.result);
    } else if (message.method === "textDocument/publishDiagnostics") {
      this.#problems.get(message.params.uri)?.(message.params.diagnostics);
    } else if (message.id !== undefined) {
      // It asks for settings; it gets those of a fresh editor, without schemas from the network.
      const settings = { schemaStore: { enable: false }, validate: true, hover: true, completion: true };
      const result = message.method === "workspace/configuration" ? message.params.items.map(() => settings) : null;
      this.#send({ id: message.id, result });
    }
  }
}

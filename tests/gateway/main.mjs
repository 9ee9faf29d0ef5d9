// Clients in Node.js through `unfazed serve`, with their own retries as they are by default where they obey the gateway:
//
//     node tests/gateway/main.mjs UNFAZED PYTHON NODE_MODULES
//
// NODE_MODULES has openai, @anthropic-ai/sdk, @google/genai, ai, @ai-sdk/openai, @ai-sdk/anthropic, @ai-sdk/google and zod. What
// is held is what the objects of a client hold, in front of a model of its dialect, and of each other dialect.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [unfazed, python, modules] = process.argv.slice(2);
globalThis.AI_SDK_LOG_WARNINGS = false;
const require = createRequire(pathToFileURL(`${modules}/`));
const load = async (name) => import(pathToFileURL(require.resolve(name)));

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const SCHEMA = {
    type: "object",
    properties: { city: { type: "string" }, degrees: { type: "integer" } },
    required: ["city", "degrees"],
    additionalProperties: false,
};
const OSLO = { city: "Oslo", degrees: 7 };
const LOOK = { type: "object", properties: { item: { type: "string" } }, required: ["item"], additionalProperties: false };
// The errors of a scene: what is said, the status, how many attempts there are.
const FAILURES = [
    ["slow down", 429, 1],
    ["give up", 429, 1],
    ["who am I", 401, 1],
    ["fall over", 500, 4],
    ["too busy", 529, 4],
];

let number = 0;
const atFirst = () => `at first ${(number += 1)}.`;

const scene = spawn(python, ["tests/gateway/scene.py", unfazed], { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((done) => scene.on("close", done));

async function rejection(promise) {
    try {
        await promise;
    } catch (error) {
        return error;
    }
    return assert.fail("an error passes for an answer");
}

/** An error that a client throws for each failure, after which it is not asked again. */
async function failures(url, ask, check) {
    for (const [said, status, attempts] of FAILURES) {
        const before = await givenUp(url);
        const error = await rejection(ask(said));
        check(error, said, status, attempts);
        assert.equal((await givenUp(url)) - before, 1, `${said}: the client has asked again`);
    }
}

async function givenUp(url) {
    const status = await (await fetch(`${url}/status.json`)).json();
    return status.requests.given_up;
}

/** What the headers of a failure say. */
function told(headers, said, attempts) {
    assert.equal(headers.get("x-should-retry"), "false", said);
    assert.equal(headers.get("x-unfazed-attempts"), String(attempts), said);
    assert.equal(headers.get("retry-after"), said === "slow down" ? "7" : null, said);
}

async function judgeChat(OpenAI, url, model) {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
    const ask = (content, more = {}) =>
        client.chat.completions.create({ model, messages: [{ role: "user", content }], ...more });
    const { data, response } = await ask(atFirst()).withResponse();
    assert.equal(data.choices[0].message.content, "hello at last");
    assert.equal(response.headers.get("x-unfazed-attempts"), "3");
    let text = "";
    for await (const chunk of await ask(atFirst(), { stream: true })) text += chunk.choices[0]?.delta.content ?? "";
    assert.equal(text, "hello at last");

    const rounds = [];
    const runner = client.chat.completions.runTools({
        model,
        messages: [{ role: "user", content: "look at the lamp" }],
        tools: [
            {
                type: "function",
                function: { name: "look", parameters: LOOK, parse: JSON.parse, function: ({ item }) => (rounds.push(item), "42") },
            },
        ],
    });
    assert.equal(await runner.finalContent(), "found 42");
    assert.deepEqual(rounds, ["lamp"]);
    assert.equal((await runner.totalUsage()).total_tokens, 17);

    const parsed = await client.chat.completions.parse({
        model,
        messages: [{ role: "user", content: "the weather as JSON" }],
        response_format: { type: "json_schema", json_schema: { name: "weather", schema: SCHEMA, strict: true } },
    });
    assert.deepEqual(JSON.parse(parsed.choices[0].message.content), OSLO);
    const image = { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } };
    const seen = await ask([{ type: "text", text: "what is in the picture" }, image]).withResponse();
    assert.equal(seen.data.choices[0].message.content, "a dot");
    assert.equal(seen.response.headers.get("x-unfazed-left-out"), null);

    const types = { 401: OpenAI.AuthenticationError, 429: OpenAI.RateLimitError, 500: OpenAI.InternalServerError, 529: OpenAI.InternalServerError };
    await failures(url, ask, (error, said, status, attempts) => {
        assert.ok(error instanceof types[status], `${said}: ${error}`);
        assert.equal(error.status, status);
        assert.ok(error.message.length > 4, error.message);
        told(error.headers, said, attempts);
    });
    const cut = await rejection((async () => {
        for await (const chunk of await ask("break off", { stream: true })) assert.notEqual(chunk.choices[0]?.finish_reason, "stop");
    })());
    assert.ok(cut instanceof OpenAI.APIError, cut);
}

async function judgeResponses(OpenAI, url, model) {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
    const ask = (input, more = {}) => client.responses.create({ model, input, ...more });
    assert.equal((await ask(atFirst())).output_text, "hello at last");
    const tools = [{ type: "function", name: "look", parameters: LOOK, strict: true }];
    const stream = client.responses.stream({ model, input: "look at the lamp", tools });
    const first = await stream.finalResponse();
    const call = first.output.find((item) => item.type === "function_call");
    assert.deepEqual(JSON.parse(call.arguments), { item: "lamp" });
    const result = { type: "function_call_output", call_id: call.call_id, output: "42" };
    const second = await ask([{ role: "user", content: "look at the lamp" }, ...first.output, result], { tools });
    assert.equal(second.output_text, "found 42");
    assert.equal(second.usage.total_tokens, 12);
    const parsed = await client.responses.parse({
        model,
        input: "the weather as JSON",
        text: { format: { type: "json_schema", name: "weather", schema: SCHEMA, strict: true } },
    });
    assert.deepEqual(JSON.parse(parsed.output_text), OSLO);
    const image = { type: "input_image", image_url: `data:image/png;base64,${PIXEL}`, detail: "auto" };
    const picture = [{ role: "user", content: [{ type: "input_text", text: "what is in the picture" }, image] }];
    assert.equal((await ask(picture)).output_text, "a dot");
    await failures(url, ask, (error, said, status, attempts) => {
        assert.ok(error instanceof OpenAI.APIError, `${said}: ${error}`);
        assert.equal(error.status, status);
        told(error.headers, said, attempts);
    });
    const cut = await rejection(client.responses.stream({ model, input: "break off" }).finalResponse());
    assert.ok(cut instanceof OpenAI.OpenAIError, cut);
}

async function judgeMessages(Anthropic, url, model) {
    const client = new Anthropic({ baseURL: url, apiKey: "none" });
    const ask = (content, more = {}) =>
        client.messages.create({ model, max_tokens: 99, messages: [{ role: "user", content }], ...more });
    const { data, response } = await ask(atFirst()).withResponse();
    assert.equal(data.content[0].text, "hello at last");
    assert.equal(response.headers.get("x-unfazed-attempts"), "3");
    const tools = [{ name: "look", input_schema: LOOK }];
    const said = [{ role: "user", content: "look at the lamp" }];
    const first = await client.messages.stream({ model, max_tokens: 99, messages: said, tools }).finalMessage();
    assert.equal(first.stop_reason, "tool_use");
    const call = first.content.find((block) => block.type === "tool_use");
    assert.deepEqual(call.input, { item: "lamp" });
    said.push({ role: "assistant", content: first.content });
    said.push({ role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "42" }] });
    const second = await client.messages.create({ model, max_tokens: 99, messages: said, tools });
    assert.equal(second.content[0].text, "found 42");
    assert.deepEqual([second.usage.input_tokens, second.usage.output_tokens], [9, 3]);
    const parsed = await ask("the weather as JSON", { output_config: { format: { type: "json_schema", schema: SCHEMA } } });
    assert.deepEqual(JSON.parse(parsed.content[0].text), OSLO);
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PIXEL } };
    assert.equal((await ask([image, { type: "text", text: "what is in the picture" }])).content[0].text, "a dot");
    const types = { 401: Anthropic.AuthenticationError, 429: Anthropic.RateLimitError, 500: Anthropic.InternalServerError, 529: Anthropic.InternalServerError };
    await failures(url, ask, (error, what, status, attempts) => {
        assert.ok(error instanceof types[status], `${what}: ${error}`);
        assert.equal(error.status, status);
        assert.equal(error.error.type, "error");
        told(error.headers, what, attempts);
    });
    const broken = client.messages.stream({ model, max_tokens: 99, messages: [{ role: "user", content: "break off" }] });
    const cut = await rejection(broken.finalMessage());
    assert.ok(cut instanceof Anthropic.AnthropicError, cut);
}

async function judgeGemini({ GoogleGenAI, ApiError, Type }, url, model) {
    const client = new GoogleGenAI({ apiKey: "none", httpOptions: { baseUrl: url } });
    const ask = (contents, config) => client.models.generateContent({ model, contents, config });
    assert.equal((await ask(atFirst())).text, "hello at last");
    const declared = { name: "look", parameters: { type: Type.OBJECT, properties: { item: { type: Type.STRING } } } };
    const config = { tools: [{ functionDeclarations: [declared] }] };
    const said = [{ role: "user", parts: [{ text: "look at the lamp" }] }];
    const parts = [];
    for await (const chunk of await client.models.generateContentStream({ model, contents: said, config })) {
        parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
    }
    const call = parts.find((part) => part.functionCall).functionCall;
    assert.deepEqual(call.args, { item: "lamp" });
    said.push({ role: "model", parts });
    said.push({ role: "user", parts: [{ functionResponse: { id: call.id, name: "look", response: { output: "42" } } }] });
    const second = await ask(said, config);
    assert.equal(second.text, "found 42");
    assert.equal(second.usageMetadata.totalTokenCount, 12);
    const parsed = await ask("the weather as JSON", { responseMimeType: "application/json", responseJsonSchema: SCHEMA });
    assert.deepEqual(JSON.parse(parsed.text), OSLO);
    const image = { inlineData: { mimeType: "image/png", data: PIXEL } };
    assert.equal((await ask([{ role: "user", parts: [image, { text: "what is in the picture" }] }])).text, "a dot");
    await failures(url, ask, (error, what, status) => {
        assert.ok(error instanceof ApiError, `${what}: ${error}`);
        assert.equal(error.status, status);
    });
    const cut = await rejection((async () => {
        const chunks = await client.models.generateContentStream({ model, contents: "break off" });
        for await (const chunk of chunks) assert.equal(chunk.candidates?.[0]?.finishReason, undefined);
    })());
    assert.ok(cut instanceof Error, cut);
}

async function judgeVercel(ai, z, url, model) {
    const picture = { type: "file", data: Buffer.from(PIXEL, "base64"), mediaType: "image/png" };
    // Otherwise it refers to what OpenAI alone would have kept.
    const common = { model, maxRetries: 0, providerOptions: { openai: { store: false } } };
    const ask = (prompt, more = {}) => ai.generateText({ ...common, prompt, ...more });
    assert.equal((await ask(atFirst())).text, "hello at last");
    const streamed = ai.streamText({ ...common, prompt: atFirst() });
    let text = "";
    for await (const piece of streamed.textStream) text += piece;
    assert.equal(text, "hello at last");
    const look = ai.tool({ inputSchema: z.object({ item: z.string() }), execute: async ({ item }) => `a ${item}: 42` });
    for (const answer of [
        await ask("look at the lamp", { tools: { look }, stopWhen: ai.stepCountIs(3) }),
        ai.streamText({ ...common, prompt: "look at the lamp", tools: { look }, stopWhen: ai.stepCountIs(3) }),
    ]) {
        const steps = await answer.steps;
        assert.deepEqual(steps[0].toolCalls.map((call) => call.input), [{ item: "lamp" }]);
        assert.equal(await answer.text, "found 42");
    }
    const weather = z.object({ city: z.string(), degrees: z.number().int() });
    const parsed = await ask("the weather as JSON", { output: ai.Output.object({ schema: weather }) });
    assert.deepEqual(parsed.output, OSLO);
    const seen = await ask(undefined, { messages: [{ role: "user", content: [{ type: "text", text: "what is in the picture" }, picture] }] });
    assert.equal(seen.text, "a dot");
    await failures(url, ask, (error, what, status, attempts) => {
        assert.ok(ai.APICallError.isInstance(error), `${what}: ${error}`);
        assert.equal(error.statusCode, status);
        told(new Headers(error.responseHeaders), what, attempts);
    });
    const kinds = [];
    for await (const part of ai.streamText({ ...common, prompt: "break off", onError() {} }).fullStream) kinds.push(part.type);
    assert.ok(kinds.includes("error"), kinds);
}

try {
    const [line] = await new Promise((done) => createInterface(scene.stdout).once("line", (text) => done([text])));
    const { relayed, converted } = JSON.parse(line);
    const [openai, anthropic, google, ai, zod] = await Promise.all(["openai", "@anthropic-ai/sdk", "@google/genai", "ai", "zod"].map(load));
    const [{ createOpenAI }, { createAnthropic }, { createGoogleGenerativeAI }] = await Promise.all(
        ["@ai-sdk/openai", "@ai-sdk/anthropic", "@ai-sdk/google"].map(load),
    );
    // Each client in front of its own dialect, and of each other one.
    const scenes = (own) => [[relayed, `${own}-relayed`], ...["claude", "gpt", "codex", "gemini"].filter((name) => name !== own).map((name) => [converted, name])];
    const OpenAI = openai.default;
    const Anthropic = anthropic.default;
    const judges = {
        gpt: [
            (url, model) => judgeChat(OpenAI, url, model),
            (url, model) => judgeVercel(ai, zod.z, url, createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" }).chat(model)),
        ],
        codex: [
            (url, model) => judgeResponses(OpenAI, url, model),
            (url, model) => judgeVercel(ai, zod.z, url, createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" }).responses(model)),
        ],
        claude: [
            (url, model) => judgeMessages(Anthropic, url, model),
            (url, model) => judgeVercel(ai, zod.z, url, createAnthropic({ baseURL: `${url}/v1`, apiKey: "none" })(model)),
        ],
        gemini: [
            (url, model) => judgeGemini(google, url, model),
            (url, model) => judgeVercel(ai, zod.z, url, createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey: "none" })(model)),
        ],
    };
    for (const [own, [sdk, vercel]] of Object.entries(judges)) {
        for (const [url, model] of scenes(own)) {
            for (const [name, judge] of Object.entries({ sdk, vercel })) {
                await judge(url, model).catch((error) => {
                    throw new Error(`${name} of ${own} at ${model}`, { cause: error });
                });
            }
        }
    }
} finally {
    scene.stdin.end();
    await ended;
}
console.log("gateway: clients in Node.js are answered, by models of all other dialects too");

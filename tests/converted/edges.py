"""Conversations of clients at the edge of what their dialect has: little in them, or something that another dialect has otherwise."""

from asked import GOOGLES, REPORT

PICTURE = "https://example.org/a.png"
GO = {"role": "user", "content": "Go."}
ON = {"role": "user", "content": "And now?"}
CHAT_TOOL = {"type": "function", "function": {"name": "echo", "parameters": {"type": "object"}}}
REFERS = {"type": "object", "properties": {"x": {"$ref": "#/$defs/y"}}, "$defs": {"y": {"type": "string"}}}
MESSAGES_TOOL = {"name": "echo", "input_schema": {"type": "object"}}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "echo", "input": {}}]}
GO_PARTS = {"role": "user", "parts": [{"text": "Go."}]}


def calls(*ids):
    made = [{"id": identity, "type": "function", "function": {"name": "echo", "arguments": "{}"}} for identity in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(identity, text="done"):
    return {"role": "tool", "tool_call_id": identity, "content": text}


def chat(*messages, **more):
    return {"messages": [GO, *messages], **more}


def messages(*turns, **more):
    return {"messages": [GO, *turns], "max_tokens": 400, **more}


def used(**of_result):
    return messages(USE, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", **of_result}]}, tools=[MESSAGES_TOOL])


def responses(*items, **more):
    return {"input": [GO, *items], "store": False, **more}


def output(of_tool):
    return {"type": "function_call_output", "call_id": "c", "output": of_tool}


def gemini(*contents, **more):
    return {"contents": [GO_PARTS, *contents], **more}


def answered(response, **declared):
    call = {"role": "model", "parts": [{"functionCall": {"name": "echo"}}]}
    given = {"role": "user", "parts": [{"functionResponse": {"name": "echo", "response": response}}]}
    return gemini(call, given, tools=[{"functionDeclarations": [{"name": "echo", **declared}]}])


ITEM = {"type": "function_call", "call_id": "c", "name": "echo", "arguments": "{}"}
REFUSAL = {"type": "message", "role": "assistant", "id": "m", "status": "completed", "content": [{"type": "refusal", "refusal": "no"}]}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: x"}
EDGES = {
    "chat": [
        chat(calls("c"), result("c", ""), ON, tools=[CHAT_TOOL]), chat(calls("c"), ON, tools=[CHAT_TOOL]),
        chat(calls("a", "a"), result("a"), result("a"), tools=[CHAT_TOOL]), chat(calls("weird id ü"), result("weird id ü")),
        chat({"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "no"}]}, {**ON, "name": "bob"}),
        chat({"role": "assistant", "content": "   "}, {"role": "system", "content": "Later."}, {"role": "user", "content": ""}, ON),
        {"messages": [{"role": "assistant", "content": "I begin."}, GO]}, chat(tools=[], tool_choice="auto"),
        chat(tools=[{"type": "function", "function": {"name": "a"}}, {"type": "function", "function": {"name": "b", "description": "", "parameters": REFERS}}]),
        chat(stop=None, seed=None, response_format={"type": "text"}, temperature=2, top_p=0.0), chat(stop=["a", "b", "c", "d"], reasoning_effort="xhigh"),
        chat(response_format={"type": "json_schema", "json_schema": {"name": "answer"}}),
    ],
    "responses": [
        {"input": "Go.", "store": False}, responses(ITEM, output(""), tools=[{"type": "function", "name": "echo", "parameters": None, "strict": None}]),
        responses(REFUSAL, {"role": "developer", "content": "Later."}, ON),
        responses({"role": "assistant", "content": "Hello."}, ON, tools=[], tool_choice="auto"), responses(reasoning={"effort": "none"}, top_logprobs=3),
        responses(tools=[{"type": "custom", "name": "patch", "format": GRAMMAR}], tool_choice="required"), responses(text={"format": {"type": "text"}}),
    ],
    "messages": [
        messages({"role": "assistant", "content": [{"type": "redacted_thinking", "data": "c2Vh"}]}, ON), messages(ON, system=""),
        used(), used(content=[], is_error=True), used(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        messages({"role": "user", "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}}]}),
        messages(tools=[MESSAGES_TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True}, stop_sequences=[]), messages(output_config={"effort": "max"}),
    ],
    "gemini": [
        {"contents": [{"parts": [{"text": "Go."}]}]}, answered({}), answered({"error": "bad"}, parameters=GOOGLES), answered({"a": 1, "b": [2]}),
        gemini({"role": "model", "parts": [{"text": ""}]}, {"role": "user", "parts": [{"text": ""}, {"text": "x"}]}, tools=[]),
        gemini(generationConfig={"responseMimeType": "application/json", "responseSchema": {"type": "ARRAY", "items": {"type": "STRING"}}}),
        gemini(generationConfig={"stopSequences": ["a", "b", "c", "d", "e"], "candidateCount": 1, "thinkingConfig": {"thinkingBudget": 0}}),
    ],
}
# What Bedrock has no place for.
ELSEWHERE = {
    "chat": [{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": PICTURE}}]}]}],
    "responses": [
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PICTURE, "detail": "auto"}]}], "store": False},
        responses(ITEM, output([{"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{REPORT}"}]), tools=[]),
    ],
    "messages": [
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": PICTURE}}]}], "max_tokens": 400},
        used(content=[{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": REPORT}}]),
    ],
    "gemini": [gemini({"role": "user", "parts": [{"fileData": {"mimeType": "image/png", "fileUri": PICTURE}}]})],
}

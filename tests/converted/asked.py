"""Requests of clients in each dialect: a conversation with all that it may have, and options."""

import base64
import copy

PHOTO = base64.b64encode(b"\x89PNG\r\n\x1a\nphoto").decode()
REPORT = base64.b64encode(b"%PDF-1.7 report").decode()
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}
GOOGLES = {"type": "OBJECT", "properties": {"text": {"type": "STRING", "nullable": True}}, "required": ["text"]}
URL = f"data:image/png;base64,{PHOTO}"
TASK = "Say hello."


def function(number, name="echo"):
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": f'{{"text":"hello {number}"}}'}}


def chat():
    tool = {"type": "function", "function": {"name": "echo", "description": "Repeats.", "parameters": SCHEMA, "strict": True}}
    bare = {"type": "function", "function": {"name": "stop.it" * 10}}
    shown = [{"type": "text", "text": TASK}, {"type": "image_url", "image_url": {"url": URL, "detail": "high"}}]
    said = {"role": "assistant", "content": "Let me try.", "tool_calls": [function(1), function(2)]}
    results = [{"role": "tool", "tool_call_id": "call_1", "content": "hello 1"}, {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "hello 2"}]}]
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": shown}, said, *results, {"role": "user", "content": "And now?"}]
    return {"messages": messages, "tools": [tool, bare], "max_completion_tokens": 400}


def responses():
    tools = [{"type": "function", "name": "echo", "description": "Repeats.", "parameters": SCHEMA, "strict": True}, {"type": "custom", "name": "apply", "description": "Applies."}]
    shown = [{"type": "input_text", "text": TASK}, {"type": "input_image", "image_url": URL, "detail": "auto"}]
    calls = [{"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "echo", "arguments": f'{{"text":"hello {number}"}}'} for number in (1, 2)]
    output = [{"type": "input_text", "text": "hello 2"}, {"type": "input_image", "image_url": URL, "detail": "auto"}]
    results = [{"type": "function_call_output", "call_id": "call_1", "output": "hello 1"}, {"type": "function_call_output", "call_id": "call_2", "output": output}]
    applied = [{"type": "custom_tool_call", "call_id": "call_3", "name": "apply", "input": "x"}, {"type": "custom_tool_call_output", "call_id": "call_3", "output": "done"}]
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Let me try.", "annotations": []}]}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "c2VhbGVk"}
    items = [{"role": "user", "content": shown}, thought, said, *calls, *results, *applied, {"role": "user", "content": "And now?"}]
    return {"instructions": "Be brief.", "input": items, "tools": tools, "store": False}


def messages():
    tool = {"name": "echo", "description": "Repeats.", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PHOTO}}
    calls = [{"type": "tool_use", "id": f"toolu_{number}", "name": "echo", "input": {"text": f"hello {number}"}} for number in (1, 2)]
    said = [{"type": "thinking", "thinking": "hm", "signature": "c2ln1"}, {"type": "text", "text": "Let me try."}, *calls]
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "hello 1"}, picture]},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "hello 2", "is_error": True}, {"type": "text", "text": "And now?"},
    ]
    turns = [{"role": "user", "content": [{"type": "text", "text": TASK}, picture]}, {"role": "assistant", "content": said}, {"role": "user", "content": results}]
    return {"system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}], "messages": turns, "tools": [tool], "max_tokens": 400}


def gemini():
    declared = [{"name": "echo", "description": "Repeats.", "parameters": GOOGLES}, {"name": "look", "description": "Looks.", "parametersJsonSchema": SCHEMA}]
    picture = {"inlineData": {"mimeType": "image/png", "data": PHOTO}}
    said = [{"text": "hm", "thought": True}, {"text": "Let me try."}]
    said += [{"functionCall": {"name": "echo", "args": {"text": f"hello {number}"}}, "thoughtSignature": "c2ln"} for number in (1, 2)]
    results = [{"functionResponse": {"name": "echo", "response": {"output": f"hello {number}"}}} for number in (1, 2)]
    contents = [{"role": "user", "parts": [{"text": TASK}, picture]}, {"role": "model", "parts": said}, {"role": "user", "parts": [*results, {"text": "And now?"}]}]
    return {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": contents, "tools": [{"functionDeclarations": declared}]}


def settings(**more):
    return {"generationConfig": more}


ANSWER = {"name": "answer", "schema": SCHEMA, "strict": True}
# What a client says beside, each for itself.
OPTIONS = {
    "chat": [
        {}, {"temperature": 1.7, "top_p": 0.9}, {"stop": ["END"]}, {"stop": "END", "seed": 7}, {"presence_penalty": 0.5, "frequency_penalty": -0.5},
        {"tool_choice": "required"}, {"tool_choice": "none"}, {"tool_choice": {"type": "function", "function": {"name": "echo"}}},
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "echo"}}]}}},
        {"parallel_tool_calls": False}, {"response_format": {"type": "json_schema", "json_schema": ANSWER}}, {"response_format": {"type": "json_object"}},
        {"reasoning_effort": "low"}, {"reasoning_effort": "none"}, {"verbosity": "low"}, {"user": "u-1", "metadata": {"a": "b"}, "store": False},
        {"service_tier": "auto", "prompt_cache_key": "k", "safety_identifier": "s"}, {"logprobs": True, "top_logprobs": 2, "logit_bias": {"5": 1}},
    ],
    "responses": [
        {}, {"temperature": 1.7, "top_p": 0.9}, {"max_output_tokens": 400}, {"tool_choice": "required"}, {"tool_choice": "none"},
        {"tool_choice": {"type": "function", "name": "echo"}}, {"tool_choice": {"type": "custom", "name": "apply"}},
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "echo"}]}}, {"parallel_tool_calls": False},
        {"text": {"format": {"type": "json_schema", **ANSWER}, "verbosity": "low"}}, {"text": {"format": {"type": "json_object"}}},
        {"reasoning": {"effort": "high", "summary": "auto"}}, {"reasoning": {"effort": "minimal"}}, {"user": "u-1", "metadata": {"a": "b"}},
        {"include": ["reasoning.encrypted_content"], "truncation": "auto", "service_tier": "flex", "prompt_cache_key": "k"},
    ],
    "messages": [
        {}, {"temperature": 0.7, "top_p": 0.9, "top_k": 5}, {"stop_sequences": ["END"]}, {"tool_choice": {"type": "any"}}, {"tool_choice": {"type": "none"}},
        {"tool_choice": {"type": "tool", "name": "echo", "disable_parallel_tool_use": True}}, {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4000},
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"metadata": {"user_id": "u-1"}}, {"service_tier": "auto"},
    ],
    "gemini": [
        {}, settings(temperature=1.7, topP=0.9, topK=5, maxOutputTokens=400, stopSequences=["END"], seed=7), settings(presencePenalty=0.5, frequencyPenalty=0.5),
        settings(responseMimeType="application/json", responseSchema=GOOGLES), settings(responseMimeType="application/json", responseJsonSchema=SCHEMA),
        settings(responseMimeType="application/json"), settings(thinkingConfig={"thinkingLevel": "LOW", "includeThoughts": True}),
        settings(thinkingConfig={"thinkingBudget": 1024}), {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
        {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}}}, {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        {"safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]},
    ],
}
BODIES = {"chat": chat, "responses": responses, "messages": messages, "gemini": gemini}
# A document in the first thing that the user says.
DOCUMENTS = {
    "chat": ("messages", 1, "content", {"type": "file", "file": {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{REPORT}"}}),
    "responses": ("input", 0, "content", {"type": "input_file", "filename": "report.pdf", "file_data": f"data:application/pdf;base64,{REPORT}"}),
    "messages": ("messages", 0, "content", {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": REPORT}, "title": "report.pdf"}),
    "gemini": ("contents", 0, "parts", {"inlineData": {"mimeType": "application/pdf", "data": REPORT}}),
}


def asked(dialect, documents):
    """All requests of a client of that dialect."""
    for number, options in enumerate(OPTIONS[dialect]):
        body = copy.deepcopy(BODIES[dialect]())
        if number == 0 and documents:
            of, at, field, part = DOCUMENTS[dialect]
            body[of][at][field].append(part)
        yield options, {**body, **options}

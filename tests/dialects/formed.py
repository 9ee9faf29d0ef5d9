"""What the types of the SDKs leave open, and the documentation of the APIs does not: the form of ids, names, arguments, files."""

import base64
import json
import re

WORD = re.compile(r"[a-zA-Z0-9_-]{1,64}")
DATA = re.compile(r"data:(image/(?:png|jpeg|gif|webp)|application/pdf);base64,(.+)")
# Fields whose values are ids of calls. Compatible servers of chat completions give ids of any form, and take them.
WORDS = {"call_id", "tool_use_id"}
URLS = {"image_url", "url", "file_data"}
MIMES = {"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"}
# Schemas of arguments, arguments and results are the user's own.
FREE = {"parameters", "input_schema", "input", "parametersJsonSchema", "args", "response", "json"}


def is_free(name, value):
    return name in FREE and isinstance(value, dict)


def is_base64(text):
    try:
        return bool(base64.b64decode(text, validate=True))
    except ValueError:
        return False


def is_url(text):
    """What is no data is somewhere else."""
    found = DATA.fullmatch(text)
    return is_base64(found[2]) if found else text.startswith("https://")


def is_object(text):
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def is_named(value):
    """Whether it is a tool or a call of one: then `name` is that of a tool, and `id` that of a call."""
    return bool({"arguments", "parameters", "input_schema", "args", "parametersJsonSchema"} & value.keys()) or value.get("type") in ("tool_use", "function")


def right(name, value, around):
    """Whether a text in a mapping has its form; `around`: the mapping."""
    if name == "arguments":
        return is_object(value)
    if name in URLS:
        return is_url(value)
    if name == "data" and (around.get("type") == "base64" or "mimeType" in around):
        return is_base64(value)
    if name == "mimeType":
        return value in MIMES
    of_call = name in WORDS or (name == "name" and is_named(around)) or (name == "id" and around.get("type") == "tool_use")
    return not of_call or bool(WORD.fullmatch(value))


def malformed(value, at=""):
    """The texts of a request that do not have their form."""
    if isinstance(value, dict):
        for name, member in value.items():
            if isinstance(member, str) and not right(name, member, value):
                yield f"{at}.{name}: it has not the form of one: {member[:80]}"
            if not is_free(name, member):
                yield from malformed(member, f"{at}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from malformed(item, f"{at}.{index}")


def broken(value):
    """A request with a field that nobody knows, in each of its mappings in turn, and with another type of each value."""
    if isinstance(value, dict):
        yield ": a field more", {**value, "unheard_of": 1}
        for name, member in value.items():
            if not is_free(name, member):
                yield from ((f".{name}{at}", {**value, name: worse}) for at, worse in broken(member))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from ((f".{index}{at}", [*value[:index], worse, *value[index + 1 :]]) for at, worse in broken(item))
    else:
        yield "", {"unheard_of": 1}

"""The tokens that replies report, as events have them: those of a cache are among the `input`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from unfazed._turn import ReplyUsage


def usage_of(reply: Any) -> ReplyUsage | None:
    """The tokens of a reply that is whole; of a stream they are not known yet."""
    return counted(_of(reply, "usage") or _of(_raw(reply), "usage"))


def _raw(reply: Any) -> Any:
    """What the answer says that `with_raw_response` gives; `None`: it has not been read, and is the caller's to read."""
    try:
        return json.loads(reply.http_response.content)
    except Exception:
        return None


def counted(usage: Any) -> ReplyUsage | None:
    """The tokens in the words of a provider; `None`: there are none."""
    given = _count(usage, "input_tokens", "prompt_tokens")
    output = _count(usage, "output_tokens", "completion_tokens")
    if given is None or output is None:
        return None
    details = next(
        (found for name in ("input_tokens_details", "prompt_tokens_details") if (found := _of(usage, name))), None
    )
    read = _count(details, "cached_tokens") or _count(usage, "cache_read_input_tokens", "cache_read_tokens") or 0
    written = _count(usage, "cache_creation_input_tokens", "cache_write_tokens") or 0
    # Anthropic counts them beside the input: its usage has no details of it.
    is_beside = _has(usage, "cache_read_input_tokens") and not _has(usage, "prompt_tokens")
    found = {"input": given + read + written if is_beside else given, "output": output}
    found.update({name: count for name, count in (("cache_read", read), ("cache_write", written)) if count})
    return found


def _count(usage: Any, *names: str) -> int | None:
    return next((count for name in names if isinstance(count := _of(usage, name), int)), None)


def _of(said: Any, name: str) -> Any:
    """A field of an object of an SDK, or of the JSON it was made of."""
    return said.get(name) if isinstance(said, Mapping) else getattr(said, name, None)


def _has(said: Any, name: str) -> bool:
    return name in said if isinstance(said, Mapping) else hasattr(said, name)

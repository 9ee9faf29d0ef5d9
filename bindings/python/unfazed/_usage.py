"""The tokens that replies report, as events have them: those of a cache are among the `input`."""

from __future__ import annotations

from typing import Any

from unfazed._turn import ReplyUsage


def usage_of(reply: Any) -> ReplyUsage | None:
    """The tokens of a reply that is whole; of a stream they are not known yet."""
    return counted(getattr(reply, "usage", None))


def counted(usage: Any) -> ReplyUsage | None:
    """The tokens in the words of a provider; `None`: there are none."""
    given = _count(usage, "input_tokens", "prompt_tokens")
    output = _count(usage, "output_tokens", "completion_tokens")
    if given is None or output is None:
        return None
    details = next(
        (found for name in ("input_tokens_details", "prompt_tokens_details") if (found := getattr(usage, name, None))), None
    )
    read = _count(details, "cached_tokens") or _count(usage, "cache_read_input_tokens", "cache_read_tokens") or 0
    written = _count(usage, "cache_creation_input_tokens", "cache_write_tokens") or 0
    # Anthropic counts them beside the input: its usage has no details of it.
    is_beside = hasattr(usage, "cache_read_input_tokens") and not hasattr(usage, "prompt_tokens")
    found = {"input": given + read + written if is_beside else given, "output": output}
    found.update({name: count for name, count in (("cache_read", read), ("cache_write", written)) if count})
    return found


def _count(usage: Any, *names: str) -> int | None:
    return next((count for name in names if isinstance(count := getattr(usage, name, None), int)), None)

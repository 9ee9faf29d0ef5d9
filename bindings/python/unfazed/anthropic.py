"""The client of `anthropic` under a guard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from anthropic import Anthropic, AsyncAnthropic

from unfazed._guard import Guard
from unfazed._sdk import guarded_client

__all__ = ["wrap"]

ClientT = TypeVar("ClientT", Anthropic, AsyncAnthropic)


def wrap(client: ClientT, guard: Guard, *, models: Mapping[str, str] | None = None) -> ClientT:
    """A copy of the client whose requests for messages are turns of the guard.

    It asks the targets of the guard in order: each is the name of a model, or has one in `models`; the target `default` is
    the model of the request. Retries of the client itself are off. A stream is a turn until it begins.

    Requests raise what `TurnGuard.call` raises. What `with_options` of the copy makes is not under the guard.
    """
    return guarded_client(client, guard, models or {})

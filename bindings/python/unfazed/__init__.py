"""A declarative policy engine that keeps LLM agents going when tool calls and model turns go wrong."""

from unfazed._attempt import CallAttempt, current_attempt
from unfazed._guard import Guard, InterruptedCall
from unfazed._raised import (
    CallError,
    CallExhausted,
    CallRefused,
    PolicyError,
    RunError,
    ToolError,
    UnfazedError,
)
from unfazed._tool import ToolGuard
from unfazed._turn import ModelCall, TurnGuard
from unfazed._unfazed import Diagnostic, Engine, Policy

__all__ = [
    "CallAttempt",
    "CallError",
    "CallExhausted",
    "CallRefused",
    "Diagnostic",
    "Engine",
    "Guard",
    "InterruptedCall",
    "ModelCall",
    "Policy",
    "PolicyError",
    "RunError",
    "ToolError",
    "ToolGuard",
    "TurnGuard",
    "UnfazedError",
    "current_attempt",
]

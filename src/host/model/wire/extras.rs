//! The fields of an assistant message's `extra` in which a wire format keeps what its providers want to see again.

/// The field that keeps what a provider sent with single tool calls, by call id. It goes back into the calls, never on the
/// wire by this name.
pub(super) const CALL_EXTRAS: &str = "tool_calls";

/// The field that keeps the blocks of an answer that are more than text and tool calls,
/// all of them in their order. It is never sent by this name.
pub(super) const KEPT: &str = "thinking_anthropic";

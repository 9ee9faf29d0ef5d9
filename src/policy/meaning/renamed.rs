//! Keys and words that had another name before, for `unfazed check --fix`.

/// Where a key is, its name before, and its name now. A row applies to mappings that have the key of today.
pub(super) const KEYS: &[(&str, &str, &str)] = &[
    ("models.*", "cool_down", "cooldown"),
    ("models.*", "abort_on", "no_fallback_on"),
    ("tools.*", "after_effect", "on_uncertain_effect"),
    ("tools.*.result", "over", "overflow"),
    ("turn", "feedback_chars", "max_feedback_chars"),
    ("turn", "leaked_calls", "text_tool_calls"),
    ("turn", "collapse", "final_turn_after_rejection"),
    ("turn", "pending_report", "report_from_text"),
    ("turn.targets", "advance", "fallback"),
    ("turn.calls", "failed_rounds", "nudge_after_failed_rounds"),
    ("turn.calls, turn.guidance, context.reduce[]", "most", "max"),
    ("history", "argument_chars", "max_argument_chars"),
    ("context", "evict_at", "compact_at_free"),
    ("context", "gate", "min_free"),
    ("context", "target", "target_free"),
    ("context", "keep_task", "keep_last_user_message"),
    ("context", "recover", "compact_on_overflow"),
    ("agent file: tools.*", "keep", "keep_running"),
    ("script: replies[]", "finish", "finish_reason"),
    ("scenario: work", "again", "repeat_failed"),
    ("test file", "elsewhere", "tested_elsewhere"),
];

/// The key that has the word, the word before, and the word now.
pub(super) const WORDS: &[(&str, &str, &str)] = &[
    ("tools.*.loop_guard.count", "in_a_row", "consecutive"),
    ("tools.*.loop_guard.count", "in_all", "cumulative"),
    ("agent file: session.redact", "forms", "patterns"),
];

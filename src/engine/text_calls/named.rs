//! Calls as a name, and the arguments in JSON after it.

use super::WrittenCall;
use super::cursor::TextCursor;
use super::fields::WrittenArguments;

/// How a model writes a name and arguments.
pub(super) struct CallMark {
    pub(super) open: &'static str,
    /// What comes between the name and the arguments; the first one that comes next counts.
    between: &'static [&'static str],
    /// What ends the call.
    close: &'static str,
}

/// The forms that begin with tokens of their own.
pub(super) const MARKS: [CallMark; 6] = [
    // Kimi K2: `functions.search:0<|tool_call_argument_begin|>{…}`.
    CallMark {
        open: "<|tool_call_begin|>",
        between: &["<|tool_call_argument_begin|>"],
        close: "<|tool_call_end|>",
    },
    // DeepSeek V3 and R1 write the kind of call first and a code fence around the arguments; V3.1 neither.
    CallMark {
        open: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
        between: &["\n```json"],
        close: "<｜tool▁call▁end｜>",
    },
    CallMark {
        open: "<｜tool▁call▁begin｜>", between: &["<｜tool▁sep｜>"], close: "<｜tool▁call▁end｜>"
    },
    // Mistral since 2025: `[TOOL_CALLS]search[ARGS]{…}`, with an id before the arguments in some models.
    CallMark { open: "[TOOL_CALLS]", between: &["[ARGS]", "[CALL_ID]", ""], close: "</s>" },
    // gpt-oss, in the format named Harmony.
    CallMark {
        open: "<|start|>assistant<|channel|>commentary to=functions.",
        between: HARMONY,
        close: "<|call|>",
    },
    CallMark { open: "<|channel|>commentary to=functions.", between: HARMONY, close: "<|call|>" },
];
const HARMONY: &[&str] = &["<|constrain|>json<|message|>", "json<|message|>", "<|message|>"];

/// Reads a call that begins with one of [`MARKS`].
pub(super) fn call(cursor: &mut TextCursor<'_>) -> Option<WrittenCall> {
    let mark = MARKS.iter().find(|mark| cursor.rest().starts_with(mark.open))?;
    let mut ahead = *cursor;
    ahead.take(mark.open);
    ahead.skip_space();
    let name = name(ahead.name()?);
    // The index of Kimi K2.
    if ahead.take(":") {
        ahead.name()?;
    }
    let mut spaced = ahead;
    spaced.skip_space();
    let between = mark.between.iter().find(|between| {
        if ahead.take(between) {
            return true;
        }
        if spaced.take(between) {
            ahead = spaced;
            return true;
        }
        false
    })?;
    if *between == "[CALL_ID]" {
        ahead.until("[ARGS]")?;
    }
    let arguments = arguments(&mut ahead, mark.close)?;
    *cursor = ahead;
    Some(WrittenCall { name: name.to_owned(), arguments })
}

/// Reads the content of a tag that has the name and the arguments without marks: `search\n{"q": "a"}`.
pub(super) fn after_tag(cursor: &mut TextCursor<'_>) -> Option<WrittenCall> {
    let mut ahead = *cursor;
    ahead.skip_space();
    let name = ahead.name()?;
    let arguments = WrittenArguments::Json(ahead.json()?.to_owned());
    *cursor = ahead;
    Some(WrittenCall { name: name.to_owned(), arguments })
}

/// Arguments up to `close`, which may be missing after JSON that is whole.
pub(super) fn arguments(cursor: &mut TextCursor<'_>, close: &str) -> Option<WrittenArguments> {
    let mut ahead = *cursor;
    if let Some(json) = ahead.json() {
        ahead.skip_space();
        ahead.take("```");
        ahead.skip_space();
        if ahead.take(close) || ahead.rest().is_empty() || close == "</s>" {
            *cursor = ahead;
            return Some(WrittenArguments::Json(json.to_owned()));
        }
    }
    // The repair of arguments follows, by the schema of the tool; here only their end counts.
    let text = cursor.until(close)?.trim();
    Some(WrittenArguments::Json(text.strip_suffix("```").unwrap_or(text).trim().to_owned()))
}

/// The name of a tool without the namespace that Kimi K2 and gpt-oss know it by.
fn name(written: &str) -> &str {
    written.strip_prefix("functions.").unwrap_or(written)
}

//! Finds tool calls that a model wrote into its text because the server did not parse them. The forms come from the
//! chat templates of open models and from the tool-call parsers of vLLM and `SGLang`, as of 2026.

mod cursor;
mod fields;
mod json;
mod markup;
mod named;
mod opening;
#[cfg(test)]
mod tests;

use crate::session::ToolCall;
use crate::text::Schema;

use cursor::TextCursor;
use fields::WrittenArguments;
use opening::Opening;

/// The namespace of `MiniMax` M3.
const M3: &str = "]<]minimax[>[";

/// The calls in a text, and the text without them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TextToolCalls {
    pub(super) text: String,
    pub(super) calls: Vec<ToolCall>,
}

/// A call as the model wrote it.
struct WrittenCall {
    name: String,
    arguments: WrittenArguments,
}

/// Finds calls of tools that `known` accepts. If one call cannot be read or its tool is unknown, `None`: the text
/// stays text. `schema` decides which of the arguments without a type are numbers, objects and lists.
pub(super) fn find<'s>(
    text: &str,
    ids: &str,
    known: impl Fn(&str) -> bool,
    schema: impl Fn(&str) -> Option<&'s Schema>,
) -> Option<TextToolCalls> {
    let (outside, written) = read(text)?;
    let mut found = TextToolCalls { text: outside.trim().to_owned(), calls: Vec::new() };
    for call in written {
        // An unknown name rejects all calls, since half of a list would change the order of side effects.
        if !known(&call.name) {
            return None;
        }
        let arguments = call.arguments.into_json(schema(&call.name));
        found.calls.push(ToolCall { id: format!("{ids}_{}", found.calls.len()), name: call.name, arguments });
    }
    (!found.calls.is_empty()).then_some(found)
}

/// The text outside of the calls, and the calls.
fn read(text: &str) -> Option<(String, Vec<WrittenCall>)> {
    if let Some(call) = json::bare(text) {
        return Some((String::new(), vec![call]));
    }
    // MiniMax M3 writes it before each tag, so that no value can be taken for one.
    let without = text.contains(M3).then(|| text.replace(M3, ""));
    let mut cursor = TextCursor::new(without.as_deref().unwrap_or(text));
    let (mut outside, mut calls) = (String::new(), Vec::new());
    while let Some(opening) = Opening::first(cursor.rest()) {
        let before = cursor.skip(opening.at)?;
        // Inside of backticks, a call is quoted.
        if before.ends_with('`') {
            return None;
        }
        outside.push_str(before);
        calls.append(&mut block(&mut cursor, opening)?);
    }
    outside.push_str(cursor.rest());
    Some((outside, calls))
}

/// The calls that begin with `opening`, up to where they are closed.
fn block(cursor: &mut TextCursor<'_>, mut opening: Opening) -> Option<Vec<WrittenCall>> {
    let mut calls = Vec::new();
    while opening.surrounds {
        cursor.skip(opening.length)?;
        let mut inside = *cursor;
        inside.skip_space();
        let Some(inner) = Opening::here(inside.rest()) else {
            calls.append(&mut content(cursor, &opening)?);
            opening::skip_closings(cursor);
            return Some(calls);
        };
        *cursor = inside;
        opening = inner;
    }
    // Several calls of one block follow each other.
    loop {
        calls.push(one(cursor)?);
        let mut after = *cursor;
        after.skip_space();
        if Opening::here(after.rest()).is_none_or(|next| next.surrounds) {
            opening::skip_closings(cursor);
            return Some(calls);
        }
        *cursor = after;
    }
}

/// The content of a block in which calls have no marks of their own.
fn content(cursor: &mut TextCursor<'_>, opening: &Opening) -> Option<Vec<WrittenCall>> {
    // Markup comes first, since JSON in one of its values may look like a call.
    if let Some(call) = markup::keys_and_values(cursor) {
        return Some(vec![call]);
    }
    json::calls(cursor, &opening.closing).or_else(|| named::after_tag(cursor).map(|call| vec![call]))
}

/// One call that begins with a mark of its own.
fn one(cursor: &mut TextCursor<'_>) -> Option<WrittenCall> {
    named::call(cursor).or_else(|| markup::call(cursor))
}

//! Calls in markup, with an element for each argument.

use super::WrittenCall;
use super::cursor::TextCursor;
use super::fields::{FieldType, WrittenArguments, WrittenField};
use super::named;
use super::opening::{Tag, tag};

/// Reads a call of Qwen3-Coder (`<function=search><parameter=q>`), of `MiniMax` M2, Claude and `DeepSeek` V3.2 and later
/// (`<invoke name="search"><parameter name="q">`), or of Kimi K3. Its content may be JSON, as Llama 3.1 writes it.
pub(super) fn call(cursor: &mut TextCursor<'_>) -> Option<WrittenCall> {
    let mut ahead = *cursor;
    let opened = tag(&mut ahead)?;
    let name = opened.calls()?.to_owned();
    ahead.skip_space();
    let arguments = if ahead.rest().starts_with('{') {
        named::arguments(&mut ahead, &opened.closing())?
    } else {
        elements(&mut ahead, &opened)?
    };
    *cursor = ahead;
    Some(WrittenCall { name, arguments })
}

/// Reads the content of GLM's tag: `search<arg_key>q</arg_key><arg_value>a</arg_value>`.
pub(super) fn keys_and_values(cursor: &mut TextCursor<'_>) -> Option<WrittenCall> {
    let mut ahead = *cursor;
    ahead.skip_space();
    let name = ahead.name()?.to_owned();
    ahead.skip_space();
    let mut fields = Vec::new();
    while ahead.take("<arg_key>") {
        let key = ahead.until("</arg_key>")?.trim().to_owned();
        ahead.skip_space();
        if !ahead.take("<arg_value>") {
            return None;
        }
        let follows = |tag: &Tag<'_>| tag.closes || tag.name == "arg_key";
        let text = value(&mut ahead, "</arg_value>", follows)?;
        fields.push(WrittenField { name: key, text, kind: FieldType::BySchema });
        ahead.skip_space();
    }
    // A name alone is a word, unless its tag ends after it.
    if fields.is_empty() && !ahead.rest().starts_with("</") {
        return None;
    }
    *cursor = ahead;
    Some(WrittenCall { name, arguments: WrittenArguments::of_fields(fields)? })
}

/// Reads the elements in `call`, and its end.
fn elements(cursor: &mut TextCursor<'_>, call: &Tag<'_>) -> Option<WrittenArguments> {
    let mut fields = Vec::new();
    loop {
        cursor.skip_space();
        let mut ahead = *cursor;
        let Some(next) = tag(&mut ahead) else {
            // Servers that stop at the end token drop the tags after it. Without any argument, some may be missing.
            let whole = cursor.rest().is_empty() && !fields.is_empty();
            return whole.then(|| WrittenArguments::of_fields(fields)).flatten();
        };
        if next.ends(call) {
            if next.name == call.name {
                *cursor = ahead;
            }
            return WrittenArguments::of_fields(fields);
        }
        fields.push(element(&mut ahead, &next, call)?);
        *cursor = ahead;
    }
}

/// Reads the argument that `opened` begins.
fn element(cursor: &mut TextCursor<'_>, opened: &Tag<'_>, call: &Tag<'_>) -> Option<WrittenField> {
    let name = match opened.name {
        "parameter" | "param" => opened.named()?,
        "argument" => opened.attribute("key")?,
        // MiniMax M3.
        own if opened.attributes.is_empty() && !opened.closes => own,
        _ => return None,
    };
    let text = value(cursor, &opened.closing(), |tag| !tag.closes || tag.ends(call))?;
    // In the form of M3 lists and objects are elements too, and only the template of the model knows them.
    if name == opened.name && text.contains("</") {
        return None;
    }
    let kind = match (opened.attribute("string"), opened.attribute("type")) {
        (Some("true"), _) | (_, Some("string")) => FieldType::Text,
        (Some(_), _) | (_, Some(_)) => FieldType::Json,
        (None, None) => FieldType::BySchema,
    };
    Some(WrittenField { name: name.to_owned(), text, kind })
}

/// Reads a value up to the first `closing` that `follows` may come after: a file that a model writes may have the same
/// tag in it.
fn value(cursor: &mut TextCursor<'_>, closing: &str, follows: impl Fn(&Tag<'_>) -> bool) -> Option<String> {
    let (text, after) = cursor.rest().match_indices(closing).find_map(|(at, _)| {
        let mut ahead = *cursor;
        let text = ahead.skip(at)?;
        ahead.take(closing);
        let mut next = ahead;
        next.skip_space();
        let ends = next.rest().is_empty() || tag(&mut next).is_some_and(|tag| follows(&tag));
        ends.then_some((text, ahead))
    })?;
    *cursor = after;
    // Templates put a value on lines of its own.
    let text = text.strip_prefix('\n').unwrap_or(text);
    Some(text.strip_suffix('\n').unwrap_or(text).to_owned())
}

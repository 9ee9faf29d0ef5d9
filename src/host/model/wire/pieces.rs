//! Parts of an answer of which a message has the text already: only how long each is is kept, and what else came with it.

use serde_json::Value;

/// Of a kept text: how many characters of the message's text it has.
pub(super) const LENGTH: &str = "chars";

/// The text cut into the pieces it came in, which are in `kept`; `None`: it is another text.
pub(super) fn pieces<'t, 'k>(text: &'t str, kept: impl Iterator<Item = &'k Value>) -> Option<Vec<&'t str>> {
    let mut rest = text;
    let mut pieces = Vec::new();
    for length in kept.filter_map(|place| place.get(LENGTH)?.as_u64()) {
        let length = usize::try_from(length).ok()?;
        let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]).nth(length)?;
        let (piece, more) = rest.split_at(ends);
        pieces.push(piece);
        rest = more;
    }
    rest.is_empty().then_some(pieces)
}

/// A part with what else came with it.
pub(super) fn with_rest(mut part: Value, place: &Value) -> Value {
    if let (Value::Object(part), Value::Object(place)) = (&mut part, place) {
        for (field, value) in place.iter().filter(|(field, _)| *field != LENGTH) {
            part.entry(field).or_insert_with(|| value.clone());
        }
    }
    part
}

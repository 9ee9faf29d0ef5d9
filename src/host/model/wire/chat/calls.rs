//! The calls of a streamed answer, put together piece by piece: which of them a piece belongs to.

use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::message::{WireCall, WireFunction};
use crate::engine::Failure;
use crate::host::model::failure::unreadable;
use crate::host::model::wire::answer_fields::join;
use crate::host::model::wire::kept::{EACH, weight};

/// The calls that have begun.
#[derive(Debug, Default)]
pub(super) struct StreamedCalls {
    calls: Vec<WireCall>,
    /// Where the call with that `index` is.
    places: HashMap<u64, usize>,
    /// How many calls without an `index` the last event has begun that began any.
    together: usize,
}

/// Where a piece stands in the list of its event.
#[derive(Clone, Copy)]
struct PiecePlace {
    at: usize,
    /// How many pieces the list has.
    of: usize,
    /// How many calls the events before this one have begun.
    begun: usize,
}

impl StreamedCalls {
    pub(super) const fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether all of them came in the field of old.
    pub(super) fn are_legacy(&self) -> bool {
        self.calls.iter().all(WireCall::is_legacy)
    }

    /// Whether arguments of one stop in the middle.
    pub(super) fn has_half(&self) -> bool {
        self.calls.iter().any(WireCall::is_half)
    }

    pub(super) fn into_whole(self) -> Vec<WireCall> {
        self.calls
    }

    /// Adds the pieces of an event. Returns how much is kept afterwards if it was `kept` before.
    ///
    /// # Errors
    /// A piece is one of a call that has not begun, or of one among several: what tells is lost or is still to come.
    pub(super) fn add(&mut self, pieces: Vec<WireCall>, mut kept: usize) -> Result<usize, Failure> {
        if pieces.is_empty() {
            return Ok(kept);
        }
        let (of, begun) = (pieces.len(), self.calls.len());
        let unnumbered = pieces.iter().filter(|piece| piece.index.is_none()).count();
        for (at, piece) in pieces.into_iter().enumerate() {
            kept = self.add_piece(piece, PiecePlace { at, of, begun }, kept)?;
        }
        if self.calls.len() > begun {
            self.together = unnumbered.min(self.calls.len() - begun);
        }
        Ok(kept)
    }

    fn add_piece(&mut self, piece: WireCall, place: PiecePlace, kept: usize) -> Result<usize, Failure> {
        let Some(at) = self.begun(&piece, place)? else { return self.begin(piece, kept) };
        let call = &mut self.calls[at];
        let before = size(call);
        // Later pieces of a call repeat its id, leave it out, or send an empty one.
        call.id = call.id.take().filter(|id| !id.is_empty()).or(piece.id);
        call.function.name = match (call.function.name.take(), piece.function.name) {
            // Servers repeat the name with every piece, or send it in pieces as `OpenAI`'s SDK reads it.
            (Some(name), Some(more)) if name != more && !says(call.function.arguments.as_ref()) => {
                Some(name + &more)
            }
            (name, more) => name.filter(|name| !name.is_empty()).or(more),
        };
        match (&mut call.function.arguments, piece.function.arguments) {
            (Some(arguments), Some(more)) => arguments.push_str(&more),
            (arguments, more) => *arguments = arguments.take().or(more),
        }
        let kept = (kept + size(call)).saturating_sub(before);
        let kept = join(&mut call.function.more, piece.function.more, false, kept);
        Ok(merge(&mut call.extra, piece.extra, kept))
    }

    fn begin(&mut self, piece: WireCall, kept: usize) -> Result<usize, Failure> {
        if is_bare(&piece) {
            return Err(unreadable("the stream of the answer continues with a call that it has not begun"));
        }
        if let Some(index) = piece.index {
            self.places.insert(index, self.calls.len());
        }
        let mut call = WireCall { index: None, ..piece };
        let extra = std::mem::take(&mut call.extra);
        let more = std::mem::take(&mut call.function.more);
        let kept = kept + size(&call);
        let kept = join(&mut call.function.more, more, false, kept);
        let kept = merge(&mut call.extra, extra, kept);
        self.calls.push(call);
        Ok(kept)
    }

    /// Where the call is that a piece continues; `None`: it begins one.
    fn begun(&self, piece: &WireCall, place: PiecePlace) -> Result<Option<usize>, Failure> {
        let same = match piece.index {
            Some(index) => self.places.get(&index).copied(),
            // Moonshot numbers no call: what continues several stands in the same order.
            None if is_bare(piece) && self.together > 1 => {
                if place.of == 1
                    && let Some(open) = self.only_open()
                {
                    return Ok(Some(open));
                }
                if place.of != self.together {
                    let what = "the stream of the answer continues with one of several calls, and does not say which";
                    return Err(unreadable(what));
                }
                return Ok(Some(self.calls.len() - place.of + place.at));
            }
            None => self.calls.len().checked_sub(1),
        };
        Ok(same.filter(|&at| !self.is_other(at, piece, place.begun)))
    }

    /// The only one of the calls that began together which is not whole.
    fn only_open(&self) -> Option<usize> {
        let first = self.calls.len().saturating_sub(self.together);
        let is_open = |at: &usize| !is_json(self.calls[*at].function.arguments.as_ref());
        let mut open = (first..self.calls.len()).filter(is_open);
        open.next().filter(|_| open.next().is_none())
    }

    /// Whether a piece that may continue the call at that place begins another one. Some servers number all calls alike, or not at
    /// all: another id together with a name is another call, and where there are no ids, another name.
    fn is_other(&self, at: usize, piece: &WireCall, begun: usize) -> bool {
        let open = &self.calls[at];
        let is_other = match (says(piece.id.as_ref()), says(open.id.as_ref())) {
            (true, _) => open.id != piece.id,
            (false, false) => {
                let more = says(piece.function.name.as_ref()) && says(piece.function.arguments.as_ref());
                let is_whole = more && is_json(open.function.arguments.as_ref());
                says(open.function.name.as_ref()) && (is_whole || open.function.name != piece.function.name)
            }
            // A name may come in pieces, but before the arguments.
            (false, true) => {
                says(open.function.arguments.as_ref()) && open.function.name != piece.function.name
            }
        };
        // One event begins a call once: servers of Gemini's models write all of them at once, with index 0 and no id.
        let is_second = at >= begun && !says(piece.id.as_ref());
        (is_other || is_second) && says(piece.function.name.as_ref())
    }
}

/// Whether a piece has arguments, and nothing that says of which call.
fn is_bare(piece: &WireCall) -> bool {
    says(piece.function.arguments.as_ref()) && !says(piece.id.as_ref()) && !says(piece.function.name.as_ref())
}

fn says(text: Option<&String>) -> bool {
    text.is_some_and(|text| !text.is_empty())
}

/// Whether arguments are whole: nothing may follow them.
fn is_json(arguments: Option<&String>) -> bool {
    arguments.is_some_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// What a call takes, without what came with it.
fn size(call: &WireCall) -> usize {
    let WireFunction { name, arguments, .. } = &call.function;
    let texts = [&call.id, &call.kind, name, arguments].into_iter().flatten();
    EACH + texts.map(String::len).sum::<usize>()
}

/// Texts and lists grow, anything else is replaced. Returns how much is kept afterwards if it was `kept` before.
pub(super) fn merge(into: &mut Map<String, Value>, from: Map<String, Value>, mut kept: usize) -> usize {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            // What an audio model says comes in pieces of each field.
            (Some(Value::Object(audio)), Value::Object(more)) if key == "audio" => {
                kept = merge(audio, more, kept);
            }
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more)) => {
                kept += more.len();
                text.push_str(&more);
            }
            (Some(Value::Array(list)), Value::Array(more)) => {
                kept += more.iter().map(weight).sum::<usize>();
                list.extend(more);
            }
            (Some(old), value) => {
                kept = (kept + weight(&value)).saturating_sub(weight(old));
                *old = value;
            }
            (None, value) => {
                kept += key.len() + weight(&value);
                into.insert(key, value);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn added(events: &[Value]) -> Result<Vec<(String, String)>, Failure> {
        let mut calls = StreamedCalls::default();
        for event in events {
            calls.add(serde_json::from_value(event.clone()).unwrap(), 0)?;
        }
        let whole = calls.into_whole().into_iter();
        Ok(whole
            .map(|call| (call.id.unwrap_or_default(), call.function.arguments.unwrap_or_default()))
            .collect())
    }

    #[test]
    fn pieces_without_an_index_stand_in_the_order_of_the_calls() {
        let begun =
            |id: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": ""}});
        let more = |piece: &str| json!({"function": {"arguments": piece}});
        let whole = [
            json!([begun("a"), begun("b")]),
            json!([more("{\"x\""), more("{\"y\"")]),
            json!([more(": 1}"), more(": 2}")]),
        ];
        let expected =
            [("a", r#"{"x": 1}"#), ("b", r#"{"y": 2}"#)].map(|(id, text)| (id.into(), text.into()));
        assert_eq!(added(&whole).unwrap(), expected);
        // One piece may be of any of them.
        let failure = added(&[json!([begun("a"), begun("b")]), json!([more("{}")])]).unwrap_err();
        assert!(failure.message.ends_with("does not say which"), "{}", failure.message);
        // Unless the others are whole.
        let whole = json!({"id": "a", "function": {"name": "look", "arguments": "{}"}});
        let expected = [("a", "{}"), ("b", "[]")].map(|(id, text)| (id.into(), text.into()));
        assert_eq!(added(&[json!([whole, begun("b")]), json!([more("[]")])]).unwrap(), expected);
        // Calls that begin one after the other are continued one after the other.
        let apart = [json!([begun("a")]), json!([more("{}")]), json!([begun("b")]), json!([more("[]")])];
        let expected = [("a", "{}"), ("b", "[]")].map(|(id, text)| (id.into(), text.into()));
        assert_eq!(added(&apart).unwrap(), expected);
    }
}

//! Which message of a request a changed one was made of.

use std::collections::{HashMap, VecDeque};

use super::{HistoryPiece, RequestHistory, calls};
use crate::session::Message;

impl RequestHistory {
    /// The number of the message that each piece was, or was made of.
    pub(super) fn sources(&self, pieces: &[HistoryPiece]) -> Vec<Option<usize>> {
        let mut free = vec![true; self.items.len()];
        let kept = |piece: &HistoryPiece| match piece {
            HistoryPiece::Kept(at) => Some(*at),
            HistoryPiece::New(_) => None,
        };
        for at in pieces.iter().filter_map(kept) {
            free.get_mut(at).into_iter().for_each(|free| *free = false);
        }
        let mut sources: Vec<Option<usize>> = pieces.iter().map(kept).collect();
        self.of_calls(pieces, &mut sources, &free);
        for at in sources.iter().copied().flatten() {
            free.get_mut(at).into_iter().for_each(|free| *free = false);
        }
        self.of_texts(pieces, &mut sources, &free);
        sources
    }

    /// What was moved, and what a model says with fewer calls.
    fn of_calls(&self, pieces: &[HistoryPiece], sources: &mut [Option<usize>], free: &[bool]) {
        let message = |at: usize| self.items.get(at).map(|item| &item.message);
        let (mut results, mut said) = (HashMap::<&str, VecDeque<usize>>::new(), VecDeque::new());
        for (at, item) in self.items.iter().enumerate().filter(|(at, _)| free.get(*at) == Some(&true)) {
            match &item.message {
                Message::Tool { call, .. } => results.entry(call).or_default().push_back(at),
                Message::Assistant { .. } => said.push_back(at),
                Message::System { .. } | Message::User { .. } => {}
            }
        }
        for (piece, source) in pieces.iter().zip(sources) {
            let HistoryPiece::New(new) = piece else { continue };
            *source = match new {
                Message::Tool { call, .. } => results.get_mut(call.as_str()).and_then(|of_call| {
                    let same = of_call.iter().position(|at| message(*at) == Some(new));
                    same.and_then(|same| of_call.remove(same))
                }),
                Message::Assistant { text, .. } => {
                    let is_it = |at: &usize| {
                        message(*at).is_some_and(|old| old.text() == text && has_calls(old, new))
                    };
                    let same = said.iter().position(is_it);
                    same.and_then(|same| said.drain(..=same).next_back())
                }
                Message::System { .. } | Message::User { .. } => None,
            };
        }
    }

    /// Texts that were cut. What is left out is older than what is cut of one kind, so they are found from the end.
    fn of_texts(&self, pieces: &[HistoryPiece], sources: &mut [Option<usize>], free: &[bool]) {
        let mut end = self.items.len();
        for (piece, source) in pieces.iter().zip(sources).rev() {
            if let (HistoryPiece::New(new), None) = (piece, *source) {
                let before = self.items.iter().zip(free).enumerate().take(end);
                let mut before = before.rev().filter(|(_, (_, free))| **free);
                *source = before.find(|(_, (item, _))| is_cut_of(new, &item.message)).map(|(at, _)| at);
            }
            end = source.map_or(end, |at| end.min(at));
        }
    }
}

/// Whether a message of a model has the calls of another one.
fn has_calls(message: &Message, other: &Message) -> bool {
    let mut all = calls(message).iter();
    calls(other).iter().all(|call| all.any(|known| known.id == call.id))
}

/// Whether a message may be another one with a shorter text. What is put in is guidance or an error, and none.
fn is_cut_of(new: &Message, old: &Message) -> bool {
    match (new, old) {
        (Message::System { .. }, Message::System { .. })
        | (Message::User { guidance: None, .. }, Message::User { .. }) => true,
        (Message::Tool { call: new, error: false, .. }, Message::Tool { call: old, .. }) => new == old,
        (Message::Assistant { .. }, Message::Assistant { .. }) => has_calls(old, new),
        _ => false,
    }
}

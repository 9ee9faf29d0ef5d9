//! Which message of a request a changed one was made of.

use std::collections::{HashMap, VecDeque};

use super::{HistoryPiece, RequestHistory, calls};
use crate::session::Message;

/// The messages that no piece was made of, by their kind, in order.
#[derive(Default)]
struct FreeMessages<'a> {
    system: Vec<usize>,
    user: Vec<usize>,
    said: Vec<usize>,
    /// The results, by their calls.
    results: HashMap<&'a str, Vec<usize>>,
}

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
        // By their texts, too: a conversation may be a hundred thousand messages, of which each is looked for.
        let mut results = HashMap::<(&str, &str, &str), VecDeque<usize>>::new();
        let mut said = HashMap::<&str, VecDeque<usize>>::new();
        for (at, item) in self.items.iter().enumerate().filter(|(at, _)| free.get(*at) == Some(&true)) {
            match &item.message {
                Message::Tool { call, tool, text, .. } => {
                    let same = results.entry((call.as_str(), tool.as_str(), text.as_str()));
                    same.or_default().push_back(at);
                }
                Message::Assistant { text, .. } => said.entry(text).or_default().push_back(at),
                Message::System { .. } | Message::User { .. } => {}
            }
        }
        let mut next = 0;
        for (piece, source) in pieces.iter().zip(sources) {
            let HistoryPiece::New(new) = piece else { continue };
            let new = &**new;
            *source = match new {
                // What is moved is the same in all. An error was put in: clients have none.
                Message::Tool { call, tool, text, error: false, .. } => results
                    .get_mut(&(call.as_str(), tool.as_str(), text.as_str()))
                    .and_then(VecDeque::pop_front),
                Message::Assistant { text, .. } => said.get_mut(text.as_str()).and_then(|said| {
                    while said.front().is_some_and(|at| *at < next) {
                        said.pop_front();
                    }
                    let same = said.iter().position(|at| message(*at).is_some_and(|old| has_calls(old, new)));
                    let same = said.drain(..=same?).next_back()?;
                    next = same.saturating_add(1);
                    Some(same)
                }),
                Message::Tool { .. } | Message::System { .. } | Message::User { .. } => None,
            };
        }
    }

    /// Texts that were cut. What is left out is older than what is cut of one kind, so they are found from the end.
    fn of_texts(&self, pieces: &[HistoryPiece], sources: &mut [Option<usize>], free: &[bool]) {
        let mut end = self.items.len();
        let mut free = self.free(free);
        for (piece, source) in pieces.iter().zip(sources).rev() {
            if let (HistoryPiece::New(new), None) = (piece, *source)
                && let Some(alike) = free.like(new)
            {
                while alike.pop_if(|at| *at >= end).is_some() {}
                let has_calls =
                    |at: &usize| self.items.get(*at).is_some_and(|old| has_calls(&old.message, new));
                *source = alike.iter().copied().rfind(has_calls);
            }
            end = source.map_or(end, |at| end.min(at));
        }
    }

    fn free(&self, is_free: &[bool]) -> FreeMessages<'_> {
        let mut free = FreeMessages::default();
        for (at, item) in self.items.iter().enumerate().filter(|(at, _)| is_free.get(*at) == Some(&true)) {
            match &item.message {
                Message::System { .. } => free.system.push(at),
                Message::User { .. } => free.user.push(at),
                Message::Assistant { .. } => free.said.push(at),
                Message::Tool { call, .. } => free.results.entry(call).or_default().push(at),
            }
        }
        free
    }
}

impl FreeMessages<'_> {
    /// Those of which a message may be one with a shorter text. What is put in is guidance or an error, and none.
    fn like(&mut self, new: &Message) -> Option<&mut Vec<usize>> {
        match new {
            Message::System { .. } => Some(&mut self.system),
            Message::User { guidance: None, .. } => Some(&mut self.user),
            Message::Tool { call, error: false, .. } => self.results.get_mut(call.as_str()),
            Message::Assistant { .. } => Some(&mut self.said),
            Message::User { .. } | Message::Tool { .. } => None,
        }
    }
}

/// Whether a message of a model has the calls of another one.
fn has_calls(message: &Message, other: &Message) -> bool {
    let mut all = calls(message).iter();
    calls(other).iter().all(|call| all.any(|known| known.id == call.id))
}

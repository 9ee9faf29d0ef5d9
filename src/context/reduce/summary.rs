//! Drops messages for a summary, and builds the request for it.

use std::collections::VecDeque;

use serde_json::json;

use super::draft::{ReducedDraft, told};
use super::truncate::{TRIES, part};
use super::{cut_notice, number, say};
use crate::context::counter::TokenCounter;
use crate::context::tokens::message_tokens;
use crate::engine::head_of;
use crate::policy::{SizeUnit, TextSize};
use crate::session::{Message, SummaryRequest};

/// The divisor for the maximum share of a summary in the tokens of all messages.
const SHARE: u64 = 4;
/// The maximum part of a message, and of a result, in the request.
const MOST: TextSize = TextSize { count: 4000, unit: SizeUnit::Chars };
const MOST_OF_RESULT: TextSize = TextSize { count: 1000, unit: SizeUnit::Chars };
/// The minimum useful part of a message, in bytes.
const LEAST: usize = 24;

impl ReducedDraft<'_> {
    /// Drops the oldest messages until the target is reached with space for a summary, and requests the summary.
    pub(super) fn summarize(&mut self, most: TextSize) {
        // A long summary would use up the tokens that it frees.
        let share = self.plan.most / SHARE;
        let room = if most.unit == SizeUnit::Tokens { most.count.min(share) } else { share };
        let heading = say(&self.texts().summary, json!({ "count": 0 }));
        let taken = room.saturating_add(message_tokens(self.counter, &told(heading)));
        let held = self.note.map_or(0, |note| self.weight(note));
        let left = self.leave_out_oldest(self.plan.aim.saturating_add(held).saturating_sub(taken));
        let Some(first) = left.first().map(|unit| unit.start) else { return };
        let count = number(left.iter().map(ExactSizeIterator::len).fold(0, usize::saturating_add));
        let mut prompt = say(&self.texts().summarize, json!({ "count": count }));
        for line in self.earlier() {
            prompt.push('\n');
            prompt.push_str(line);
        }
        let fixed = self.counter.count(&prompt);
        let most = self.plan.input.unwrap_or(u64::MAX);
        let (mut tokens, mut cut) = (fixed, 0_u64);
        let mut lines = VecDeque::new();
        // The newest messages are closest to the kept ones, so the oldest are left out if not all fit.
        for message in
            left.iter().rev().flat_map(|unit| unit.clone().rev()).filter_map(|at| self.messages.get(at))
        {
            let Some(line) = line_of(message) else { continue };
            if cut == 0 {
                let shown = self.line_with_kept(line.clone(), message);
                let sum = tokens.saturating_add(self.counter.count(&shown)).saturating_add(1);
                if sum <= most {
                    tokens = sum;
                    lines.push_front(shown);
                    continue;
                }
            }
            let mut not_shown = self.counter.count(&line).saturating_add(1);
            if lines.is_empty() && cut == 0 {
                // Not even the newest message fits. Its start is better than nothing.
                let notice = self.counter.count(&cut_notice(self.policy, not_shown)).saturating_add(2);
                let room = most.saturating_sub(tokens).saturating_sub(notice);
                if let Some(shown) = beginning(&line, room, self.counter) {
                    not_shown = not_shown.saturating_sub(self.counter.count(&shown)).max(1);
                    lines.push_front(shown);
                }
            }
            cut = cut.saturating_add(not_shown);
        }
        if lines.is_empty() {
            return self.tell(&left);
        }
        if cut > 0 {
            lines.push_front(cut_notice(self.policy, cut));
        }
        prompt.push('\n');
        for line in lines {
            prompt.push('\n');
            prompt.push_str(&line);
        }
        let heading = say(&self.texts().summary, json!({ "count": count }));
        match self.note {
            Some(note) => self.replace(note, told(heading)),
            None => self.put_in_before(first, told(heading)),
        }
        self.ask(SummaryRequest { tokens: self.counter.count(&prompt), prompt, cut });
    }
}

/// A message in the form for the request; `None`: it is left out.
fn line_of(message: &Message) -> Option<String> {
    match message {
        // Guidance of the policy was meant for its own turn.
        Message::System { .. } | Message::User { guidance: Some(_), .. } => None,
        Message::User { text, guidance: None } => Some(format!("user: {}", head(text, MOST))),
        Message::Assistant { text, calls, .. } => {
            let mut said =
                if text.is_empty() { String::new() } else { format!("assistant: {}", head(text, MOST)) };
            for call in calls {
                let between = if said.is_empty() { "" } else { "\n" };
                let arguments = head(&call.arguments, MOST_OF_RESULT);
                said = format!("{said}{between}assistant calls {}({arguments})", call.name);
            }
            (!said.is_empty()).then_some(said)
        }
        Message::Tool { tool, text, error, .. } => {
            let how = if *error { "failed" } else { "returned" };
            Some(format!("{tool} {how}: {}", head(text, MOST_OF_RESULT)))
        }
    }
}

/// The start of a line with at most `room` tokens; `None`: too little is left.
fn beginning(line: &str, room: u64, counter: &dyn TokenCounter) -> Option<String> {
    let mut bytes = part(line.len(), room, counter.count(line));
    // Tokens are not spread evenly over a text, so a cut by their average may still be too long.
    for _ in 0..TRIES {
        if bytes < LEAST {
            return None;
        }
        let shown = head(line, TextSize { count: number(bytes), unit: SizeUnit::Bytes });
        if counter.count(&shown) <= room {
            return Some(shown);
        }
        bytes = bytes.saturating_mul(3) / 4;
    }
    None
}

fn head(text: &str, most: TextSize) -> String {
    let shown = head_of(text, most);
    if shown.len() < text.len() { format!("{shown}…") } else { shown.to_owned() }
}

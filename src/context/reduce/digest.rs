//! Replaces dropped messages by one line each.

use std::collections::VecDeque;

use serde_json::json;

use super::draft::{ReducedDraft, told};
use super::{number, say};
use crate::context::tokens::message_tokens;
use crate::engine::head_of;
use crate::policy::{SizeUnit, TextSize};
use crate::session::Message;

/// The start of each line of a digest.
const BULLET: &str = "- ";
/// The line that replaces lines left out.
const MORE: &str = "- …";
/// The divisor for the maximum share of a digest in the tokens of all messages.
const SHARE: u64 = 4;

impl ReducedDraft<'_> {
    /// Drops the oldest messages until the target is reached, and puts lines about them into one message, after the
    /// lines of earlier digests.
    pub(super) fn digest(&mut self, most: TextSize, line: TextSize, result_line: TextSize) {
        // A digest that grew with every reduction would use up the tokens that the next one frees.
        let share = self.plan.most / SHARE;
        let room = match most.unit {
            SizeUnit::Tokens => most.count.min(share),
            SizeUnit::Chars | SizeUnit::Bytes => share,
        };
        let heading = say(&self.texts().digest, json!({ "count": 0 }));
        let held = self.note.map_or(0, |note| self.weight(note));
        let fixed = message_tokens(self.counter, &told(heading));
        let taken = room.saturating_add(fixed);
        let aim = self.plan.aim.saturating_add(held).saturating_sub(taken);
        let left = self.leave_out_oldest(aim);
        let Some(first) = left.first().map(|unit| unit.start) else { return };
        let mut lines = DigestLines { most, room, bytes: 0, tokens: 0, kept: VecDeque::new(), full: false };
        // The newest lines matter most, so the oldest are left out first.
        let newest_first = left.iter().rev().flat_map(|unit| unit.clone().rev());
        for message in newest_first.filter_map(|at| self.messages.get(at)) {
            let Some(text) = line_of(message, line, result_line) else { continue };
            let text = self.line_with_kept(text, message);
            // Each line also takes a line end.
            let tokens = self.counter.count(&text).saturating_add(1);
            if !lines.add(text, tokens) {
                break;
            }
        }
        let count = left.iter().map(ExactSizeIterator::len).fold(0, usize::saturating_add);
        // Lines of an earlier digest are older than all of these.
        for old in self.earlier().into_iter().rev() {
            if lines.full {
                break;
            }
            let tokens = self.counter.count(old).saturating_add(1);
            lines.add(old.to_owned(), tokens);
        }
        let heading = say(&self.texts().digest, json!({ "count": number(count) }));
        let body: Vec<&str> = lines.kept.iter().map(String::as_str).collect();
        let text = format!("{}\n{}", heading.trim_end(), body.join("\n"));
        match self.note {
            Some(note) => self.replace(note, told(text)),
            None => self.put_in_before(first, told(text)),
        }
    }
}

/// Lines collected from the newest to the oldest, up to a limit.
struct DigestLines {
    most: TextSize,
    /// The maximum tokens.
    room: u64,
    bytes: u64,
    tokens: u64,
    kept: VecDeque<String>,
    full: bool,
}

impl DigestLines {
    /// Adds a line before all others, or the marker for lines left out. `false`: the limit is reached.
    fn add(&mut self, line: String, tokens: u64) -> bool {
        let size = match self.most.unit {
            SizeUnit::Chars => number(line.chars().count()),
            SizeUnit::Bytes => number(line.len()),
            SizeUnit::Tokens => tokens,
        };
        let bytes = self.bytes.saturating_add(size).saturating_add(1);
        let sum = self.tokens.saturating_add(tokens);
        self.full = self.full || line == MORE || bytes > self.most.count || sum > self.room;
        if self.full {
            self.kept.push_front(MORE.to_owned());
            return false;
        }
        (self.bytes, self.tokens) = (bytes, sum);
        self.kept.push_front(line);
        true
    }
}

/// The line about a message; `None`: the message gets no line.
fn line_of(message: &Message, line: TextSize, result_line: TextSize) -> Option<String> {
    match message {
        // Guidance of the policy was meant for its own turn.
        Message::System { .. } | Message::User { guidance: Some(_), .. } => None,
        Message::User { text, guidance: None } => Some(format!("{BULLET}user: {}", short(text, line))),
        Message::Assistant { text, calls, .. } => {
            let mut said = short(text, line);
            let mut names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).take(8).collect();
            let arguments = match calls.as_slice() {
                [call] => format!("({})", short(&call.arguments, result_line)),
                _ => String::new(),
            };
            names.dedup();
            if !names.is_empty() {
                let between = if said.is_empty() { "" } else { " " };
                said = format!("{said}{between}[calls {}{arguments}]", names.join(", "));
            }
            (!said.is_empty()).then(|| format!("{BULLET}assistant: {said}"))
        }
        Message::Tool { tool, text, error, .. } => {
            let how = if *error { "failed" } else { "returned" };
            Some(format!("{BULLET}{tool} {how}: {}", short(text, result_line)))
        }
    }
}

/// The start of a text, on one line.
fn short(text: &str, size: TextSize) -> String {
    let size = size.of_prose();
    // Runs of white space become one space, so four times the size is enough to examine.
    let wide = TextSize { count: size.count.saturating_mul(4), unit: size.unit };
    let looked_at = head_of(text, wide);
    let words: Vec<&str> = looked_at.split_whitespace().collect();
    let line = words.join(" ");
    let head = head_of(&line, size);
    if head.len() < line.len() || looked_at.len() < text.trim_end().len() {
        format!("{head}…")
    } else {
        line
    }
}

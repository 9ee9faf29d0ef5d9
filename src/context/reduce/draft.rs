//! A conversation during a reduction: dropped messages, replacements, and the present size.

use core::ops::Range;

use serde_json::json;

use super::units::units;
use super::{number, say};
use crate::context::counter::TokenCounter;
use crate::context::history::{faults, scan};
use crate::context::tokens::message_tokens;
use crate::engine::ReducePlan;
use crate::policy::{ContextMessages, Policy};
use crate::session::{ContextReduction, HistorySplice, LEFT_OUT, Message, SummaryRequest};

/// A conversation during a reduction.
pub(super) struct ReducedDraft<'a> {
    pub(super) policy: &'a Policy,
    pub(super) plan: &'a ReducePlan,
    pub(super) messages: &'a [Message],
    pub(super) counter: &'a dyn TokenCounter,
    /// The present content of each message's place.
    now: Vec<DraftSlot>,
    before: u64,
    /// The faults of the history before the reduction.
    faults: u64,
    tokens: u64,
    /// The messages that may be dropped, in units that stay together, oldest first.
    pub(super) old: Vec<Range<usize>>,
    /// The index of the first message kept at the end.
    pub(super) tail: usize,
    /// The number of instruction messages at the head.
    pub(super) head: usize,
    /// The message about messages dropped earlier.
    pub(super) note: Option<usize>,
    /// The last message of the user, if it is kept.
    pub(super) task: Option<usize>,
    /// A message to insert before another one.
    put_in: Option<(usize, Message)>,
    shortened: u64,
    dropped: u64,
    lacking: Option<String>,
    summarize: Option<SummaryRequest>,
}

/// The present content of a message's place, and its tokens.
enum DraftSlot {
    Same(u64),
    Other(Box<Message>, u64),
    Nothing,
}

impl DraftSlot {
    const fn tokens(&self) -> u64 {
        match self {
            Self::Same(tokens) | Self::Other(_, tokens) => *tokens,
            Self::Nothing => 0,
        }
    }
}

impl<'a> ReducedDraft<'a> {
    pub(super) fn new(
        policy: &'a Policy,
        plan: &'a ReducePlan,
        messages: &'a [Message],
        weights: &[u64],
        counter: &'a dyn TokenCounter,
    ) -> Self {
        let known = weights.iter().copied().map(Some).chain(core::iter::repeat(None));
        let count = |(message, known): (&Message, Option<u64>)| {
            DraftSlot::Same(known.unwrap_or_else(|| message_tokens(counter, message)))
        };
        let now: Vec<DraftSlot> = messages.iter().zip(known).map(count).collect();
        let head = messages.iter().take_while(|message| matches!(message, Message::System { .. })).count();
        // One note is kept and rewritten. A note per reduction would fill the window itself.
        let is_note = |message: &Message| matches!(message, Message::User { guidance: Some(slug), .. } if slug == LEFT_OUT);
        let is_task = |message: &Message| matches!(message, Message::User { guidance: None, .. });
        let note = messages.iter().position(is_note);
        let task = messages.iter().rposition(is_task).filter(|_| plan.keep_task);
        let keep = usize::try_from(plan.step.keep_last()).unwrap_or(usize::MAX);
        let kept_from = messages.len().saturating_sub(keep);
        let scan = scan(messages);
        let faults = scan.faults();
        let mut old = units(messages, scan);
        // The kept part begins with a whole unit, because a call must not be separated from its results.
        let tail = old.iter().find(|unit| unit.end > kept_from).map_or(messages.len(), |unit| unit.start);
        let holds = |unit: &Range<usize>, at: Option<usize>| at.is_some_and(|at| unit.contains(&at));
        // Instructions, the note about earlier reductions and the task are never dropped.
        old.retain(|unit| {
            unit.start >= head && unit.start < tail && !holds(unit, note) && !holds(unit, task)
        });
        let tokens = now.iter().map(DraftSlot::tokens).fold(0, u64::saturating_add);
        Self {
            policy,
            plan,
            messages,
            counter,
            now,
            before: tokens,
            faults,
            tokens,
            old,
            tail,
            head,
            note,
            task,
            put_in: None,
            shortened: 0,
            dropped: 0,
            lacking: None,
            summarize: None,
        }
    }

    pub(super) fn texts(&self) -> &'a ContextMessages {
        &self.policy.context().messages
    }

    /// How the model can read the whole of a shortened result; `None`: it is not stored.
    pub(super) fn kept(&self, message: &Message) -> Option<String> {
        let Message::Tool { tool, handle: Some(handle), .. } = message else { return None };
        let reader = &self.policy.tool(tool).result.reader.value;
        let text = say(&self.texts().kept, json!({ "handle": handle, "reader": reader }));
        (!text.is_empty()).then_some(text)
    }

    /// A line about a dropped message, and how the whole can be read if it is stored.
    pub(super) fn line_with_kept(&self, line: String, message: &Message) -> String {
        let kept = self.kept(message).unwrap_or_default();
        kept.split_whitespace().fold(line, |line, word| line + " " + word)
    }

    /// The tokens of the present conversation.
    pub(super) const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The tokens of the present content of a message's place.
    pub(super) fn weight(&self, at: usize) -> u64 {
        self.now.get(at).map_or(0, DraftSlot::tokens)
    }

    /// The present content of a message's place.
    pub(super) fn message(&self, at: usize) -> Option<&Message> {
        match self.now.get(at)? {
            DraftSlot::Same(_) => self.messages.get(at),
            DraftSlot::Other(message, _) => Some(message),
            DraftSlot::Nothing => None,
        }
    }

    /// Replaces a message.
    pub(super) fn replace(&mut self, at: usize, message: Message) {
        let tokens = message_tokens(self.counter, &message);
        self.set(at, DraftSlot::Other(Box::new(message), tokens));
    }

    fn set(&mut self, at: usize, now: DraftSlot) {
        let Some(place) = self.now.get_mut(at) else { return };
        self.tokens = self.tokens.saturating_sub(place.tokens()).saturating_add(now.tokens());
        *place = now;
    }

    /// Replaces the text of a message, if this makes it smaller.
    pub(super) fn shorten(&mut self, at: usize, text: String) {
        let Some(message) = self.message(at) else { return };
        let shorter = with_text(message, text);
        let tokens = message_tokens(self.counter, &shorter).saturating_add(self.beside(at, message));
        // A notice may be longer than the text it replaces.
        if tokens < self.weight(at) {
            if matches!(self.now.get(at), Some(DraftSlot::Same(_))) {
                self.shortened = self.shortened.saturating_add(1);
            }
            self.set(at, DraftSlot::Other(Box::new(shorter), tokens));
        }
    }

    /// The tokens of what a message has besides its text and calls, such as images. With the text of a result they go.
    fn beside(&self, at: usize, message: &Message) -> u64 {
        match message {
            Message::Tool { .. } => 0,
            _ => self.weight(at).saturating_sub(message_tokens(self.counter, message)),
        }
    }

    /// Drops a unit.
    pub(super) fn leave_out(&mut self, unit: Range<usize>) {
        for at in unit {
            match self.now.get(at) {
                Some(DraftSlot::Nothing) | None => continue,
                // A message that was shortened before only counts as dropped.
                Some(DraftSlot::Other(..)) => self.shortened = self.shortened.saturating_sub(1),
                Some(DraftSlot::Same(_)) => {}
            }
            self.dropped = self.dropped.saturating_add(1);
            self.set(at, DraftSlot::Nothing);
        }
    }

    /// Drops the oldest units until at most `most` tokens are left. Returns the dropped units, in order.
    pub(super) fn leave_out_oldest(&mut self, most: u64) -> Vec<Range<usize>> {
        let mut left = Vec::new();
        for unit in core::mem::take(&mut self.old) {
            if self.tokens <= most {
                self.old.push(unit);
            } else {
                self.leave_out(unit.clone());
                left.push(unit);
            }
        }
        left
    }

    /// Drops the oldest units until the target is reached, with one message about them.
    pub(super) fn drop_oldest(&mut self) {
        // The note takes tokens too, so that many more must be freed.
        let left = self.leave_out_oldest(self.plan.aim.saturating_sub(self.room_to_tell()));
        self.tell(&left);
    }

    /// The tokens of the note about dropped messages.
    pub(super) fn room_to_tell(&self) -> u64 {
        if self.note.is_some() || self.put_in.is_some() {
            return 0;
        }
        message_tokens(self.counter, &told(say(&self.texts().dropped, json!({ "count": 0 }))))
    }

    /// Adds a note about dropped messages, unless there is one.
    pub(super) fn tell(&mut self, left: &[Range<usize>]) {
        let Some(first) = left.first().filter(|_| self.note.is_none() && self.put_in.is_none()) else {
            return;
        };
        let count: usize = left.iter().map(ExactSizeIterator::len).fold(0, usize::saturating_add);
        let text = say(&self.texts().dropped, json!({ "count": count }));
        self.put_in_before(first.start, told(text));
    }

    /// Inserts a message before another.
    pub(super) fn put_in_before(&mut self, at: usize, message: Message) {
        self.tokens = self.tokens.saturating_add(message_tokens(self.counter, &message));
        self.put_in = Some((at, message));
    }

    /// The lines of the note about messages dropped earlier.
    pub(super) fn earlier(&self) -> Vec<&'a str> {
        let text = self.note.and_then(|note| self.messages.get(note)).map_or("", Message::text);
        let (texts, none) = (self.texts(), json!({ "count": 0 }));
        let headings = [&texts.dropped, &texts.digest, &texts.summary].map(|text| say(text, none.clone()));
        let is_heading =
            |line: &str| headings.iter().any(|heading| heading.lines().any(|known| known == line));
        text.lines().filter(|line| !line.trim().is_empty() && !is_heading(line)).collect()
    }

    /// Requests a summary of the dropped messages.
    pub(super) fn ask(&mut self, request: SummaryRequest) {
        self.summarize = Some(request);
    }

    /// Records why the conversation is still too large.
    pub(super) fn lacks(&mut self, why: String) {
        self.lacking = Some(why);
    }

    /// The result of the reduction; empty if no tokens were freed.
    pub(super) fn finish(self) -> ContextReduction {
        let Self {
            messages,
            now,
            before,
            faults: known,
            tokens,
            put_in,
            shortened,
            dropped,
            lacking,
            summarize,
            ..
        } = self;
        // Nothing was gained. Without splices the interpreter counts the reduction as such and does not repeat it.
        if tokens >= before {
            let (messages, history_faults) = (number(messages.len()), known);
            let reduction = ContextReduction {
                messages,
                message_tokens: before,
                history_faults,
                ..ContextReduction::default()
            };
            return ContextReduction { lacking, ..reduction };
        }
        // A message with another text keeps its calls and results, so the number of faults is unchanged.
        let (left, history_faults) = if dropped == 0 && put_in.is_none() {
            (number(messages.len()), known)
        } else {
            let mut after: Vec<&Message> = Vec::with_capacity(messages.len());
            for ((at, message), now) in messages.iter().enumerate().zip(&now) {
                after.extend(put_in.iter().filter(|(place, _)| *place == at).map(|(_, message)| message));
                match now {
                    DraftSlot::Same(_) => after.push(message),
                    DraftSlot::Other(message, _) => after.push(message),
                    DraftSlot::Nothing => {}
                }
            }
            (number(after.len()), faults(after))
        };
        let mut splices: Vec<HistorySplice> = Vec::new();
        let put_at = put_in.as_ref().map(|(at, _)| *at);
        let mut put_in = put_in.map(|(_, message)| message);
        for (at, now) in now.into_iter().enumerate() {
            if put_at == Some(at)
                && let Some(splice) = open(&mut splices, at)
            {
                splice.insert.extend(put_in.take());
            }
            let other = match now {
                DraftSlot::Same(_) => continue,
                DraftSlot::Other(message, _) => Some(*message),
                DraftSlot::Nothing => None,
            };
            if let Some(splice) = open(&mut splices, at) {
                splice.remove = splice.remove.saturating_add(1);
                splice.insert.extend(other);
            }
        }
        ContextReduction {
            splices,
            shortened,
            dropped,
            messages: left,
            message_tokens: tokens,
            history_faults,
            summarize,
            lacking,
        }
    }
}

/// The replacement at a place: the last one if it ends there, or a new one.
fn open(splices: &mut Vec<HistorySplice>, at: usize) -> Option<&mut HistorySplice> {
    let end = splices.last().map(|last| last.at.saturating_add(last.remove));
    if end != Some(at) {
        // Most splices contain one message, and a growing vector would reserve space for four.
        splices.push(HistorySplice { at, remove: 0, insert: Vec::with_capacity(1) });
    }
    splices.last_mut()
}

/// A shortened text, and how the whole can be read if it is stored.
pub(super) fn with_kept(mut text: String, kept: Option<&str>) -> String {
    if let Some(kept) = kept {
        text.push('\n');
        text.push_str(kept);
    }
    text
}

/// The note about dropped messages.
pub(super) fn told(text: String) -> Message {
    Message::User { text, guidance: Some(LEFT_OUT.to_owned()) }
}

/// The message with another text.
pub(super) fn with_text(message: &Message, text: String) -> Message {
    match message {
        Message::System { .. } => Message::System { text },
        Message::User { guidance, .. } => Message::User { text, guidance: guidance.clone() },
        Message::Assistant { calls, extra, .. } => {
            Message::Assistant { text, calls: calls.clone(), extra: extra.clone() }
        }
        Message::Tool { call, tool, error, handle, .. } => {
            let (call, tool, handle) = (call.clone(), tool.clone(), handle.clone());
            Message::Tool { call, tool, text, error: *error, handle }
        }
    }
}

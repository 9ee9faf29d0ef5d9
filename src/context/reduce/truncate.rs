//! The last resort: texts are cut in their middle, then messages are left out, then what was kept until then is cut and left
//! out, and the instructions are cut last.

use super::draft::{ReducedDraft, with_kept};
use super::units::units;
use super::{cut_notice, number};
use crate::context::counter::TokenCounter;
use crate::context::history::scan;
use crate::engine::{head_of, tail_of};
use crate::policy::{SizeUnit, TextSize};
use crate::session::Message;

/// No text is cut to fewer tokens.
const FLOOR: u64 = 40;
/// So often a text is cut again if it has more tokens than it should.
pub(super) const TRIES: u32 = 8;

/// A text that may be cut, and its tokens.
#[derive(Clone, Copy)]
struct CuttableText {
    at: usize,
    tokens: u64,
    /// Instructions, or what tells of messages that were left out: cut only if nothing else is enough.
    dear: bool,
}

impl ReducedDraft<'_> {
    /// Does what it takes, in this order, and no more: cuts old texts that are larger than `over` down to `head` and `tail`,
    /// leaves out old messages, cuts what is kept, leaves out what is kept but for the last piece. The instructions, and
    /// what tells of messages that were left out, stay; they are cut if that is enough, or if nothing else is left.
    pub(super) fn truncate(&mut self, over: TextSize, head: TextSize, tail: TextSize) {
        self.cut_old(over, head, tail);
        if self.tokens() > self.plan.aim {
            self.drop_oldest();
        }
        if self.tokens() > self.plan.most {
            self.cut_kept(CutPinned::IfEnough);
        }
        if self.tokens() > self.plan.most {
            self.leave_out_kept();
        }
        if self.tokens() > self.plan.most {
            self.cut_kept(CutPinned::Anyway);
        }
        if self.tokens() > self.plan.most {
            let (tokens, most) = (self.tokens(), self.plan.most);
            self.lacks(format!(
                "what cannot be cut or left out has {tokens} tokens, and there is room for {most}"
            ));
        }
    }

    fn cut_old(&mut self, over: TextSize, head: TextSize, tail: TextSize) {
        for at in self.old.clone().into_iter().flatten() {
            if self.tokens() <= self.plan.aim {
                return;
            }
            let Some(message) = self.messages.get(at) else { continue };
            let text = message.text();
            if over.holds(text) {
                continue;
            }
            let head = head_of(text, head.of_prose());
            let rest = text.get(head.len()..).unwrap_or_default();
            let tail = tail_of(rest, tail.of_prose());
            let cut = rest.len().saturating_sub(tail.len());
            let tokens = share(self.weight(at), cut, text.len());
            let notice = with_kept(cut_notice(self.policy, tokens), self.kept(message).as_deref());
            let shorter = format!("{head}\n{notice}\n{tail}");
            self.shorten(at, shorter);
        }
    }

    /// Cuts the texts that are left, the largest most: all to the same size, and the dear ones only if that is not enough.
    fn cut_kept(&mut self, dear: CutPinned) {
        let mut texts: Vec<CuttableText> = (0..self.messages.len()).filter_map(|at| self.text(at)).collect();
        // Instructions are cut only if cutting all else is not enough.
        for with_dear in [false, true] {
            texts.sort_unstable_by_key(|text| text.tokens);
            let some: Vec<CuttableText> =
                texts.iter().filter(|text| with_dear || !text.dear).copied().collect();
            let sum =
                |tokens: &dyn Fn(&CuttableText) -> u64| some.iter().map(tokens).fold(0, u64::saturating_add);
            let fixed = self.tokens().saturating_sub(sum(&|text| text.tokens));
            let room = self.plan.most.saturating_sub(fixed);
            // Cutting instructions gains nothing if the rest must be left out anyway.
            if with_dear && dear == CutPinned::IfEnough && sum(&|text| text.tokens.min(FLOOR)) > room {
                return;
            }
            let most = level(&some, room).max(FLOOR);
            for text in some.iter().rev().take_while(|text| text.tokens > most) {
                self.cut_to(text.at, most);
            }
            if self.tokens() <= self.plan.most {
                return;
            }
            texts = texts.iter().filter_map(|text| self.text(text.at)).collect();
        }
    }

    fn text(&self, at: usize) -> Option<CuttableText> {
        let message = self.message(at)?;
        let dear = matches!(message, Message::System { .. }) || self.note == Some(at);
        Some(CuttableText { at, tokens: self.counter.count(message.text()), dear })
    }

    /// Cuts the text of a message in its middle, so that it has no more than so many tokens.
    fn cut_to(&mut self, at: usize, most: u64) {
        let Some(message) = self.message(at) else { return };
        let text = message.text();
        let kept = self.kept(message);
        let notice = |tokens| with_kept(cut_notice(self.policy, tokens), kept.as_deref());
        let shorter = cut_middle(text, most, self.counter, &notice);
        self.shorten(at, shorter);
    }

    /// Leaves out what was kept, the oldest first, but for the last piece of all, what the user said last, and what is dear.
    fn leave_out_kept(&mut self) {
        let dear = |at: usize| at < self.head || self.note == Some(at) || self.task == Some(at);
        let kept: Vec<_> = units(self.messages, scan(self.messages))
            .into_iter()
            .filter(|unit| unit.start >= self.tail && unit.end < self.messages.len())
            .filter(|unit| !unit.clone().any(dear))
            .collect();
        let most = self.plan.most.saturating_sub(self.room_to_tell());
        let mut left = Vec::new();
        for unit in kept {
            if self.tokens() <= most {
                break;
            }
            self.leave_out(unit.clone());
            left.push(unit);
        }
        self.tell(&left);
    }
}

/// When the texts are cut that are cut last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CutPinned {
    /// If it is enough then, and nothing need be left out.
    IfEnough,
    /// In any case.
    Anyway,
}

/// The most tokens that each text may have, so that all have no more than `room` together. `texts` are in the order of
/// their size.
// A text below its equal part leaves the rest of it to the larger ones.
fn level(texts: &[CuttableText], room: u64) -> u64 {
    let mut room = room;
    for (before, text) in texts.iter().enumerate() {
        let left = number(texts.len().saturating_sub(before));
        let each = room.checked_div(left).unwrap_or(0);
        if text.tokens > each {
            return each;
        }
        room = room.saturating_sub(text.tokens);
    }
    u64::MAX
}

/// Head and tail of a text with a notice between them, of no more than so many tokens together; the notice alone, if there is
/// no room for more.
fn cut_middle(text: &str, most: u64, counter: &dyn TokenCounter, notice: &dyn Fn(u64) -> String) -> String {
    let all = counter.count(text);
    // The notice says how much is cut. It is longest if that is all, so this much room is enough for any.
    let mut room = most.saturating_sub(counter.count(&notice(all)));
    for _ in 0..TRIES {
        let bytes = part(text.len(), room, all);
        // Two thirds for the beginning, which says what a text is, and one for the end, which says how it came out.
        let for_head = bytes.saturating_sub(bytes / 3);
        let head = head_of(text, TextSize { count: number(for_head), unit: SizeUnit::Bytes });
        let rest = text.get(head.len()..).unwrap_or_default();
        let tail =
            tail_of(rest, TextSize { count: number(bytes.saturating_sub(for_head)), unit: SizeUnit::Bytes });
        let cut = rest.len().saturating_sub(tail.len());
        let shorter = format!("{head}\n{}\n{tail}", notice(share(all, cut, text.len())));
        if counter.count(&shorter) <= most {
            return shorter;
        }
        // Tokens are not spread evenly, so the next try keeps a quarter less.
        room = room.saturating_mul(3) / 4;
    }
    notice(all)
}

/// So many of `tokens` as `bytes` are of `all`.
fn share(tokens: u64, bytes: usize, all: usize) -> u64 {
    let product = u128::from(tokens).saturating_mul(number(bytes).into());
    u64::try_from(product.checked_div(number(all).into()).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// So many of `bytes` as `tokens` are of `all`.
pub(super) fn part(bytes: usize, tokens: u64, all: u64) -> usize {
    let product = u128::from(number(bytes)).saturating_mul(tokens.into());
    usize::try_from(product.checked_div(all.into()).unwrap_or(0)).unwrap_or(usize::MAX)
}

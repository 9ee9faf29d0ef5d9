//! The last resort: texts are cut in the middle, then messages are dropped, then the kept messages are cut and
//! dropped, and the instructions are cut last.

use super::draft::{ReducedDraft, with_kept};
use super::units::units;
use super::{cut_notice, number};
use crate::context::counter::TokenCounter;
use crate::context::history::scan;
use crate::engine::{head_of, tail_of};
use crate::policy::{SizeUnit, TextSize};
use crate::session::Message;

/// The minimum tokens of a cut text.
const FLOOR: u64 = 40;
/// The maximum number of further cuts of a text that is still too long.
pub(super) const TRIES: u32 = 8;

/// A text that may be cut, with its tokens.
#[derive(Clone, Copy)]
struct CuttableText {
    at: usize,
    tokens: u64,
    /// Whether the text is an instruction or the note about dropped messages: cut only if nothing else is enough.
    dear: bool,
}

impl ReducedDraft<'_> {
    /// Applies these steps in order, as far as needed: cuts old texts larger than `over` to `head` and `tail`, drops
    /// old messages, cuts kept messages, drops kept messages but for the last unit. The instructions and the note
    /// about dropped messages stay; they are cut if that is enough, or if nothing else is left.
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

    /// Cuts the remaining texts to a common size, the instructions only if cutting the others is not enough.
    fn cut_kept(&mut self, dear: CutPinned) {
        let mut texts: Vec<CuttableText> = (0..self.messages.len()).filter_map(|at| self.text(at)).collect();
        // Instructions are cut only if cutting the others is not enough.
        for with_dear in [false, true] {
            texts.sort_unstable_by_key(|text| text.tokens);
            let some: Vec<CuttableText> =
                texts.iter().filter(|text| with_dear || !text.dear).copied().collect();
            let sum =
                |tokens: &dyn Fn(&CuttableText) -> u64| some.iter().map(tokens).fold(0, u64::saturating_add);
            let fixed = self.tokens().saturating_sub(sum(&|text| text.tokens));
            let room = self.plan.most.saturating_sub(fixed);
            // Cutting instructions gains nothing if the rest must be dropped anyway.
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

    /// Cuts the text of a message in its middle to at most `most` tokens.
    fn cut_to(&mut self, at: usize, most: u64) {
        let Some(message) = self.message(at) else { return };
        let text = message.text();
        let kept = self.kept(message);
        let notice = |tokens| with_kept(cut_notice(self.policy, tokens), kept.as_deref());
        let shorter = cut_middle(text, most, self.counter, &notice);
        self.shorten(at, shorter);
    }

    /// Drops kept units, oldest first, except the last unit, the last message of the user, the instructions and the
    /// note.
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

/// When instructions and the note are cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CutPinned {
    /// Only if this is enough, so that nothing must be dropped.
    IfEnough,
    /// In any case.
    Anyway,
}

/// The maximum tokens of each text so that all together have at most `room`. `texts` are sorted by size.
// A text below its equal share leaves the rest of the share to the larger ones.
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

/// Head and tail of a text with a notice between them, at most `most` tokens together; only the notice if no more
/// fits.
fn cut_middle(text: &str, most: u64, counter: &dyn TokenCounter, notice: &dyn Fn(u64) -> String) -> String {
    let all = counter.count(text);
    // The notice includes the size of the cut. It is longest for the whole text, so this estimate is always enough.
    let mut room = most.saturating_sub(counter.count(&notice(all)));
    for _ in 0..TRIES {
        let bytes = part(text.len(), room, all);
        // Two thirds for the start, which shows the kind of text, and one third for the end, which shows the outcome.
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

/// The share of `tokens` that corresponds to `bytes` of `all`.
fn share(tokens: u64, bytes: usize, all: usize) -> u64 {
    let product = u128::from(tokens).saturating_mul(number(bytes).into());
    u64::try_from(product.checked_div(number(all).into()).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// The share of `bytes` that corresponds to `tokens` of `all`.
pub(super) fn part(bytes: usize, tokens: u64, all: u64) -> usize {
    let product = u128::from(number(bytes)).saturating_mul(tokens.into());
    usize::try_from(product.checked_div(all.into()).unwrap_or(0)).unwrap_or(usize::MAX)
}

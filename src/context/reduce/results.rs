//! Shortens tool results to their start.

use serde_json::json;

use super::draft::{ReducedDraft, with_kept};
use super::plain::PlainTemplate;
use super::say;
use crate::engine::head_of;
use crate::policy::TextSize;
use crate::session::Message;

impl ReducedDraft<'_> {
    /// Shortens results that are larger than `over`, oldest first, until the target is reached.
    pub(super) fn shorten_results(&mut self, over: TextSize, show: TextSize) {
        let template = &self.texts().shortened;
        let plain = PlainTemplate::of(template.value.as_str());
        for unit in self.old.clone() {
            for at in unit {
                if self.tokens() <= self.plan.aim {
                    return;
                }
                let Some(message) = self.messages.get(at) else { continue };
                let Message::Tool { tool, text, .. } = message else { continue };
                // The notice takes tokens too, so a result that is only slightly larger stays unchanged.
                if over.holds(text) || show.holds(text) {
                    continue;
                }
                let tokens = self.weight(at);
                let shown = head_of(text, show.of_prose());
                let number = tokens.to_string();
                let values = [("tool", tool.as_str()), ("tokens", &*number), ("shown", shown)];
                let shorter = plain.as_ref().and_then(|plain| plain.write(&values)).unwrap_or_else(|| {
                    say(template, json!({ "tool": tool, "tokens": tokens, "shown": shown }))
                });
                let shorter = with_kept(shorter, self.kept(message).as_deref());
                // Saving less than a quarter is not worth the loss for the model.
                if shorter.len() <= text.len().saturating_sub(text.len() / 4) {
                    self.shorten(at, shorter);
                }
            }
        }
    }
}

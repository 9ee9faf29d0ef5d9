//! Results of tools, shortened to their beginning.

use serde_json::json;

use super::draft::{Draft, with_kept};
use super::plain::Plain;
use super::say;
use crate::engine::head_of;
use crate::policy::Size;
use crate::session::Message;

impl Draft<'_> {
    /// Shortens results that are larger than `over`, the oldest first, until the aim is reached.
    pub(super) fn shorten_results(&mut self, over: Size, show: Size) {
        let template = &self.texts().shortened;
        let plain = Plain::of(template.value.as_str());
        for unit in self.old.clone() {
            for at in unit {
                if self.tokens() <= self.plan.aim {
                    return;
                }
                let Some(message) = self.messages.get(at) else { continue };
                let Message::Tool { tool, text, .. } = message else { continue };
                // The notice takes its room, too: what is hardly larger is left as it is.
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
                if shorter.len() <= text.len().saturating_sub(text.len() / 4) {
                    self.shorten(at, shorter);
                }
            }
        }
    }
}

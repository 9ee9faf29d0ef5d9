//! How many tokens a conversation has, and what a step of its reduction comes to.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::json::{RawFields, items, text};
use super::{HistoryItem, HistoryPiece, RequestBody, RequestHistory};
use crate::context::{
    TokenCounter, TokenEstimator, ToolForm, history_faults, message_tokens, part_tokens, reduce,
};
use crate::engine::{ReducePlan, TurnMeasure};
use crate::host::model::front::GatewayDialect;
use crate::policy::{Policy, ReduceStep};
use crate::session::{ContextReduction, Message, splice};

/// The fields that have instructions, in one dialect or another.
pub(in crate::host::gateway) const INSTRUCTIONS: [&str; 4] =
    ["system", "instructions", "systemInstruction", "system_instruction"];
/// Those that have tools, or a schema for the answer.
pub(in crate::host::gateway) const DECLARED: [&str; 8] = [
    "tools",
    "functions",
    "response_format",
    "text",
    "output_config",
    "output_format",
    "generationConfig",
    "generation_config",
];

/// The tokens of what a request has beside its conversation: of the instructions, and of what it declares.
pub(super) fn beside(body: &RequestBody, whole: &str, counter: &TokenEstimator) -> (u64, u64) {
    let values = |names: &'static [&str]| {
        let places = names.iter().flat_map(|name| body.fields(name));
        places.filter_map(|at| serde_json::from_str::<&RawValue>(whole.get(at)?).ok())
    };
    let instructions = values(&INSTRUCTIONS).map(|value| counter.count(&instruction(value)));
    let declared = values(&DECLARED).map(|value| counter.count(value.get()));
    (instructions.fold(0, u64::saturating_add), declared.fold(0, u64::saturating_add))
}

/// The text of instructions: it is one, or parts.
fn instruction(value: &RawValue) -> String {
    let value = RawFields::of(value).get("parts").unwrap_or(value);
    match items(value) {
        Some(parts) => {
            let texts = parts.into_iter().filter_map(|part| RawFields::of(part).text("text"));
            texts.collect::<Vec<_>>().join("\n\n")
        }
        None => text(value).unwrap_or_default().into_owned(),
    }
}

impl RequestHistory {
    /// Whether messages of it may be left out.
    pub(in crate::host::gateway) const fn can_shrink(&self) -> bool {
        !self.unknown
    }

    /// What the interpreter has to know of it before the turn. `drops`: calls that cannot be read are to be taken out.
    pub(in crate::host::gateway) fn measure(&self, drops: bool) -> TurnMeasure {
        let pieces = self.pieces();
        let messages = self.items.iter().map(|item| &item.message);
        let measure = TurnMeasure {
            messages: u64::try_from(messages.len()).unwrap_or(u64::MAX),
            history_faults: history_faults(messages, drops),
            reply_tokens: self.reply,
            ..TurnMeasure::default()
        };
        if self.unknown {
            // Of what is not reduced no size is known.
            return measure;
        }
        let message_tokens = self.weights(&pieces).into_iter().fold(self.instructions, u64::saturating_add);
        TurnMeasure { message_tokens, tool_tokens: self.declared, ..measure }
    }

    /// What a step of a reduction comes to. The instructions stay as they are.
    pub(in crate::host::gateway) fn reduced(
        &self,
        policy: &Policy,
        plan: &ReducePlan,
        pieces: &[HistoryPiece],
    ) -> ContextReduction {
        // No model is asked for a summary: the next step is made.
        if matches!(plan.step, ReduceStep::Summary { .. }) {
            return ContextReduction::default();
        }
        let (messages, weights) = (self.messages(pieces), self.weights(pieces));
        let head = messages.iter().take_while(|message| matches!(message, Message::System { .. })).count();
        let (first, rest) = weights.split_at_checked(head).unwrap_or((&[], &weights));
        let fixed = first.iter().copied().fold(self.instructions, u64::saturating_add);
        let tokens = rest.iter().copied().fold(fixed, u64::saturating_add);
        let (aim, most) = (steady_aim(plan, tokens), plan.most);
        let plan =
            ReducePlan { aim: aim.saturating_sub(fixed), most: most.saturating_sub(fixed), ..plan.clone() };
        let messages = messages.get(head..).unwrap_or_default();
        let mut made = reduce(policy, &plan, messages, rest, &self.counter);
        for splice in &mut made.splices {
            splice.at = splice.at.saturating_add(head);
        }
        made.messages = made.messages.saturating_add(u64::try_from(head).unwrap_or(u64::MAX));
        made.message_tokens = made.message_tokens.saturating_add(fixed);
        made.lacking =
            made.lacking.map(|lacking| format!("{lacking}; the instructions have {fixed} besides"));
        let mut after = pieces.to_vec();
        splice(&mut after, &made.splices);
        if self.with(&after).is_none() {
            // What cannot be written is not done.
            return ContextReduction { lacking: made.lacking, ..ContextReduction::default() };
        }
        made
    }

    /// The tokens of these pieces.
    fn weights(&self, pieces: &[HistoryPiece]) -> Vec<u64> {
        let weight = |written: super::WrittenItem<'_>| {
            // The images of a result go with its text.
            let is_shorter = !written.is_kept && matches!(written.message, Message::Tool { .. });
            let from = written.from.filter(|_| !is_shorter).and_then(|from| self.items.get(from));
            let others = from.map_or(0, |item| self.others(item));
            message_tokens(&self.counter, written.message).saturating_add(others)
        };
        self.written(pieces).into_iter().map(weight).collect()
    }

    /// The tokens of parts that are no text.
    fn others(&self, item: &HistoryItem) -> u64 {
        let form = match self.dialect {
            GatewayDialect::Chat => ToolForm::Chat,
            GatewayDialect::Messages => ToolForm::Messages,
            GatewayDialect::Responses => ToolForm::Responses,
            GatewayDialect::Gemini => ToolForm::Gemini,
        };
        let tokens = |part: &str| match serde_json::from_str(part) {
            Ok(part) => part_tokens(&self.counter, form, &known(part)),
            Err(_) => self.counter.count(part),
        };
        let parts = item.others.iter().filter_map(|at| self.text(at.clone()));
        parts.map(tokens).fold(0, u64::saturating_add)
    }
}

/// A part as others write it: Gemini's images and files have fields of their own.
fn known(part: Value) -> Value {
    let of = |names: [&str; 2]| names.into_iter().find_map(|name| part.get(name));
    let said = |file: &Value, names: [&str; 2]| {
        names.into_iter().find_map(|name| file.get(name)).cloned().unwrap_or_default()
    };
    let kind = |mime: &Value| {
        let is_image = mime.as_str().is_some_and(|mime| mime.starts_with("image/"));
        if is_image { "image" } else { "document" }
    };
    if let Some(file) = of(["inlineData", "inline_data"]) {
        let mime = said(file, ["mimeType", "mime_type"]);
        let source = json!({"type": "base64", "media_type": mime, "data": said(file, ["data", "data"])});
        return json!({"type": kind(&mime), "source": source});
    }
    if let Some(file) = of(["fileData", "file_data"]) {
        let mime = said(file, ["mimeType", "mime_type"]);
        return json!({"type": kind(&mime), "source": {"type": "url", "url": said(file, ["fileUri", "file_uri"])}});
    }
    part
}

/// How many tokens the messages are to have after a step.
///
/// A client sends all of its conversation again with each request, without what was done about it before. So what is
/// taken away is a whole number of blocks: as long as it is the same number, it is the same messages, and the caches of
/// providers know what begins alike. A block is a power of two, as what a provider counts moves the numbers of a plan a little.
fn steady_aim(plan: &ReducePlan, tokens: u64) -> u64 {
    let Some(block) =
        plan.most.saturating_sub(plan.aim).checked_ilog2().and_then(|bits| 1_u64.checked_shl(bits))
    else {
        return plan.aim;
    };
    let over = tokens.saturating_sub(plan.most);
    let freed = over.div_ceil(block).saturating_mul(block);
    tokens.saturating_sub(freed).max(plan.aim)
}

//! Tool results: the part shown to the model.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::history_repairs::count;
use super::super::run_parts::RunParts;
use super::ToolSeries;
use crate::engine::because::{ShownValue, because};
use crate::engine::directive::{DecisionReason, Note};
use crate::engine::result::{ResultSpill, ShownResult as ResultShown, ToolResult, show};
use crate::engine::results_room::RoomForResults;
use crate::policy::{ErrorClass, OverMax, ResultForm, ResultPolicy, SizeCap, TextSize, ToolPolicy};
use crate::session::Message;

/// The maximum number of cuts of a result to satisfy two limits in different units.
// Each try approaches the limit by the ratio of the two sizes, so few are needed; the maximum is for texts where the
// ratio is misleading.
const MOST_TRIES: u32 = 8;

/// The tokens that the results of a batch share; `None`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::engine) struct ResultRoom(pub(in crate::engine) Option<RoomForResults>);

impl ResultRoom {
    /// Whether the results are unlimited.
    pub(in crate::engine) const fn is_unlimited(&self) -> bool {
        self.0.is_none()
    }

    /// Subtracts the result of one more call.
    pub(in crate::engine) fn take(&mut self, result: &Message) {
        if let Some(room) = &mut self.0 {
            room.take(result);
        }
    }

    /// The part of a tool's result shown to the model.
    pub(in crate::engine) fn show_result(
        self,
        slot: &ToolSeries,
        policy: &ToolPolicy,
        data: &Value,
        run: &mut RunParts<'_>,
    ) -> String {
        let rules = &policy.result;
        // In the full form the envelope counts, too, or a result of exactly the limit would exceed it.
        let value = ToolResult::in_form(rules.form.value, &slot.tool, data, &slot.ran);
        value.map_or_else(String::new, |value| self.capped(slot, rules, &value, run))
    }

    /// The part of a failure shown to the model: `told` in the policy's words, or the failure as JSON. Both contain
    /// text of the tool, so the limit applies to both.
    pub(in crate::engine) fn show_failure(
        self,
        slot: &ToolSeries,
        class: ErrorClass,
        error: &str,
        told: String,
        run: &mut RunParts<'_>,
    ) -> String {
        let policy = run.tool_policy(&slot.tool, &slot.arguments, slot.planner.as_ref());
        let result = || ToolResult::failed(&slot.tool, error.to_owned(), class, &slot.ran);
        let value = match policy.result.form.value {
            ResultForm::Text => Value::String(told),
            ResultForm::Json => result().failure(),
            ResultForm::Full => result().full(),
        };
        // The limit has no exception, as ai-agent learned in 2025: all text of a tool passes here, failures included.
        self.capped(slot, &policy.result, &value, run)
    }

    /// Where the host stores a result that is too large, named by batch number and index.
    pub(in crate::engine) fn spill(
        self,
        (batch, index): (u64, usize),
        tool: &str,
        rules: &ResultPolicy,
        run: &RunParts<'_>,
    ) -> Option<ResultSpill> {
        let most = rules.max.value.size().filter(|_| rules.overflow.value == OverMax::Spill)?;
        let reader = &rules.reader.value;
        // The shares of later calls only grow, so the present limit is never too large.
        let over = self.share().map_or(most, |share| share.and(most));
        // The handle is useful only if a tool reads it, and results of the reader itself are already stored.
        (tool != reader && run.out.rules.tools.get(reader).is_some())
            .then(|| ResultSpill { handle: format!("r{batch}-{index}"), over })
    }

    /// As much of the result as the policy allows and as fits.
    fn capped(
        self,
        slot: &ToolSeries,
        rules: &ResultPolicy,
        value: &Value,
        run: &mut RunParts<'_>,
    ) -> String {
        let shown = cut(slot, rules, value, run);
        let share = self.share().filter(|share| !share.holds(&shown.text));
        let (shown, max, why) = match share {
            // The tighter of two limits: the policy's, and the batch's share of the window.
            Some(share) => (cut_to(share, slot, rules, value, shown, run), Some(share), self.why_shared(run)),
            None => (shown, rules.max.value.size(), Vec::new()),
        };
        if let (Some((shown, total)), Some(max)) = (shown.of, max) {
            let unit = max.unit.name();
            let why = if why.is_empty() {
                let fact = format!("the result has {total} {unit}");
                vec![because(run.policy(), "result.max", &rules.max, [fact])]
            } else {
                why
            };
            let (call, tool, handle) = (slot.call.clone(), slot.tool.clone(), handle_of(slot, rules));
            run.out.note(Note::ResultCut { call, tool, unit: max.unit, shown, total, handle }, why);
        }
        shown.text
    }

    /// The share of the next result; `None`: unlimited.
    fn share(self) -> Option<TextSize> {
        self.0.map(RoomForResults::share)
    }

    /// The reasons why a result is cut to its share.
    fn why_shared(self, run: &RunParts<'_>) -> Vec<DecisionReason> {
        let Some(RoomForResults { left, calls }) = self.0 else {
            return Vec::new();
        };
        let rule = &run.policy().context().results;
        let fact = format!("{} left for the results of {}", count(left, "token"), count(calls, "call"));
        vec![because(run.policy(), "context.results", &rule.map(ShownValue), [fact])]
    }
}

/// As much of the result as fits its share. `capped` is as much as the policy allows: if both limits cannot be
/// satisfied, because they count tokens and characters, the policy's limit decides.
fn cut_to(
    mut share: TextSize,
    slot: &ToolSeries,
    rules: &ResultPolicy,
    value: &Value,
    capped: ResultShown,
    run: &mut RunParts<'_>,
) -> ResultShown {
    let mut shared = rules.clone();
    for _ in 0..MOST_TRIES {
        shared.max.value = SizeCap::Most(share);
        let shown = cut(slot, &shared, value, run);
        // The ratio of characters to tokens varies, so the share is reduced by the excess of the last try until both
        // limits hold.
        let Some(max) = rules.max.value.size().filter(|max| !max.holds(&shown.text)) else {
            return shown;
        };
        let size = max.unit.measure(&shown.text);
        let smaller = share.count.saturating_mul(max.count).checked_div(size).unwrap_or_default();
        // Reduced by at least one, so that the loop ends.
        share.count = smaller.min(share.count.saturating_sub(1));
        if share.count == 0 {
            break;
        }
    }
    // The policy's limit is exact, the share an estimate: the exact one decides.
    capped
}

/// As much of the result as the policy allows.
fn cut(slot: &ToolSeries, rules: &ResultPolicy, value: &Value, run: &mut RunParts<'_>) -> ResultShown {
    let handle = handle_of(slot, rules);
    let unit = rules.max.value.size().map_or("", |size| size.unit.name());
    let mut notice = |shown: u64, total: u64| {
        let mut vars = json!({ "tool": slot.tool, "shown": shown, "total": total, "unit": unit });
        let Some(handle) = &handle else { return run.out.say(&rules.notice, vars) };
        if let Value::Object(vars) = &mut vars {
            vars.insert("handle".into(), json!(handle));
            vars.insert("reader".into(), json!(rules.reader.value));
        }
        run.out.say(&rules.kept_notice, vars)
    };
    show(value, rules, handle.is_some(), &mut notice)
}

/// The handle of the stored whole result.
fn handle_of(slot: &ToolSeries, rules: &ResultPolicy) -> Option<String> {
    slot.ran.handle.clone().filter(|_| rules.overflow.value == OverMax::Spill)
}

//! How much of a result a guard shows.

use serde_json::{Value, json};

use super::{ToolGuard, without_tools};
use crate::engine::ToolResult;

impl ToolGuard {
    /// What a model is shown of the answer of a call with these arguments, if they are known: as much as `result` of the policy
    /// allows, in its form. [`call_text`](Self::call_text) does so by itself, and there the answer counts for the loop guard's
    /// `same_result`.
    ///
    /// A guard keeps nothing: with `overflow: spill` too the rest is cut.
    pub fn show(&self, args: Option<&Value>, answer: &Value) -> String {
        let policy = self.policy();
        let rules = match args {
            Some(args) => policy.call(self.name(), args, self.planner()).policy,
            None => policy.tool(self.name()),
        };
        let rules = &rules.result;
        let unit = rules.max.value.size().map_or("", |size| size.unit.name());
        let interpreter = without_tools(policy);
        ToolResult::shown(self.name(), answer, rules, &mut |shown, total| {
            let vars = json!({ "tool": self.name(), "shown": shown, "total": total, "unit": unit });
            self.inner().run.read(|state| interpreter.say(state, &rules.notice.value, vars))
        })
    }
}

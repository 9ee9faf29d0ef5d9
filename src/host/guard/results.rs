//! How much of a result a guard shows.

use serde_json::{Value, json};

use super::ToolGuard;
use crate::engine::{RunFacts, ToolResult, show};
use crate::policy::{ResultForm, ResultPolicy};

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
        match rules.form.value {
            ResultForm::Full => {
                let full = ToolResult::succeeded(self.name(), answer.clone(), &RunFacts::default()).full();
                self.capped(rules, &full)
            }
            ResultForm::Json | ResultForm::Text if answer.is_null() => String::new(),
            ResultForm::Json | ResultForm::Text => self.capped(rules, answer),
        }
    }

    fn capped(&self, rules: &ResultPolicy, value: &Value) -> String {
        let unit = rules.max.value.size().map_or("", |size| size.unit.name());
        let mut notice = |shown: u64, total: u64| {
            let vars = json!({ "tool": self.name(), "shown": shown, "total": total, "unit": unit });
            self.inner()
                .say(&self.policy(), &rules.notice.value, &vars)
                .unwrap_or_else(|error| error.to_string())
        };
        show(value, rules, false, &mut notice).text
    }
}

//! A reply held against the tools and the form of the answer that its own request has: for hosts that pass on the requests of
//! others. What is wrong is decided and said as in a run.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::because::because;
use super::catalogue::ToolCatalogue;
use super::depth::{MOST_LEVELS, levels};
use super::directive::{DecisionReason, Directive, DirectiveKind, Note};
use super::event::{FinishReason, ModelReply};
use super::failure::Failure;
use super::machine::{StepOutput, StepRules, not_found, repair_calls, say_problems};
use super::problems::{join_problems, parse, refused_arguments};
use super::tracked::TrackedPart;
use crate::policy::{ErrorClass, Policy};
use crate::session::{Message, SessionSlices, ToolCall};
use crate::text::repair::repair_for;
use crate::text::{Schema, SchemaProblem};
use crate::time::Instant;

/// How many replies to one request are asked for because they do not hold.
const MOST_REPLIES: u32 = 2;

/// What a request asks of its reply.
#[derive(Clone, Debug, Default)]
pub struct ReplyContract {
    tools: ToolCatalogue,
    unchecked: BTreeSet<String>,
    open: bool,
    form: Option<Schema>,
}

/// A reply that was held against its contract.
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckedReply {
    /// With its calls and its text repaired.
    pub reply: ModelReply,
    /// What was repaired, and why.
    pub repairs: Vec<Directive>,
    /// What of it does not hold; `None`: all of it does.
    pub refused: Option<RefusedReply>,
}

/// A reply that does not hold.
#[derive(Debug)]
#[non_exhaustive]
pub struct RefusedReply {
    /// What is wrong with it.
    pub failure: Failure,
    /// Whether the rules of the model want another reply, and it is the first one. Otherwise it is taken as it is.
    pub asks_again: bool,
    /// The rule that says so.
    pub because: DecisionReason,
    /// What the model is sent after its conversation to correct it: the reply, and what is wrong with it.
    pub correction: Vec<Message>,
}

/// What is wrong with a call, and what its model reads.
struct RefusedCall {
    tool: String,
    class: ErrorClass,
    message: String,
    text: String,
}

impl ReplyContract {
    /// The contract of a request with these tools.
    pub fn new(tools: ToolCatalogue) -> Self {
        Self { tools, ..Self::default() }
    }

    /// There are also tools of these names, whose arguments are not looked at.
    #[must_use]
    pub fn with_unchecked(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.unchecked.extend(names);
        self
    }

    /// There may be tools of other names.
    #[must_use]
    pub const fn with_unknown(mut self) -> Self {
        self.open = true;
        self
    }

    /// A reply without calls is JSON of that schema.
    #[must_use]
    pub fn with_form(mut self, form: Schema) -> Self {
        self.form = Some(form);
        self
    }

    /// Holds a reply against the contract; `attempt` is the number of replies to the request, this one among them, of
    /// which the last alone may hold. A reply that was cut, or refused, is what it
    /// says. `repairs`: whether it can be repaired, as far as the policy says so.
    pub fn check(
        &self,
        policy: &Policy,
        (target, attempt): (&str, u32),
        mut reply: ModelReply,
        repairs: bool,
    ) -> CheckedReply {
        if matches!(
            reply.finish,
            FinishReason::Length | FinishReason::ContextWindow | FinishReason::ContentFilter
        ) {
            return CheckedReply { reply, repairs: Vec::new(), refused: None };
        }
        let (mut slices, mut directives) = (TrackedPart::new(SessionSlices::default()), Vec::new());
        let mut out = StepOutput {
            rules: StepRules { policy, tools: &self.tools },
            now: Instant::default(),
            slices: &mut slices,
            directives: &mut directives,
            of: None,
        };
        if repairs {
            let may = |call: &ToolCall| self.may_be_repaired(call) && !is_beyond_us(&call.arguments);
            repair_calls(&mut reply, may, &mut out);
        }
        let refused = if reply.calls.is_empty() {
            self.check_text(&mut reply, attempt, repairs, &mut out)
        } else {
            self.check_calls(&reply, attempt, &mut out)
        };
        let retry = &policy.model(target).retry;
        let refused = refused.map(|(class, message, correction)| {
            let rule = format!("models.{target}.retry.retry_on");
            RefusedReply {
                asks_again: attempt < MOST_REPLIES && retry.retries(class),
                because: because(policy, rule, &retry.retry_on, [class.name().to_owned()]),
                failure: Failure::of(class, message),
                correction,
            }
        });
        let is_repair = |directive: &Directive| {
            matches!(directive.order, DirectiveKind::Note(Note::Repaired { .. } | Note::Renamed { .. }))
        };
        directives.retain(is_repair);
        CheckedReply { reply, repairs: directives, refused }
    }

    /// Whether its schema is known, or its name is certainly that of no tool.
    fn may_be_repaired(&self, call: &ToolCall) -> bool {
        self.tools.get(&call.name).is_some() || !(self.open || self.unchecked.contains(&call.name))
    }

    /// The class and the message of the first call that does not hold, and what all of them are answered with.
    fn check_calls(
        &self,
        reply: &ModelReply,
        attempt: u32,
        out: &mut StepOutput<'_>,
    ) -> Option<(ErrorClass, String, Vec<Message>)> {
        let calls = || reply.calls.iter().map(|proposed| &proposed.call);
        let refused: Vec<_> = calls().map(|call| self.check_call(call, attempt, out)).collect();
        let found = || refused.iter().flatten();
        // What cannot be read at all comes first: not every dialect can say it.
        let malformed = found().find(|refused| refused.class == ErrorClass::MalformedToolCall);
        let RefusedCall { tool: beside, class, message, .. } = malformed.or_else(|| found().next())?;
        let (beside, class, message) = (beside.clone(), *class, message.clone());
        let made = calls().cloned().collect();
        let mut correction =
            vec![Message::Assistant { text: reply.text.clone(), calls: made, extra: reply.extra.clone() }];
        for (call, refused) in calls().zip(refused) {
            let (id, tool) = (call.id.clone(), call.name.clone());
            let text = if let Some(refused) = refused {
                refused.text
            } else {
                let messages = &out.rules.policy.tool(&tool).messages;
                out.say(&messages.not_started, json!({ "tool": tool, "late": false, "beside": beside }))
            };
            correction.push(Message::Tool { call: id, tool, text, error: true, handle: None });
        }
        Some((class, message, correction))
    }

    fn check_call(&self, call: &ToolCall, attempt: u32, out: &mut StepOutput<'_>) -> Option<RefusedCall> {
        let policy = out.rules.policy;
        let Some(schema) = self.tools.schema(&call.name) else {
            if self.open || self.unchecked.contains(&call.name) {
                return None;
            }
            let refusal = not_found(&call.name, out);
            let message = format!("there is no tool `{}`", call.name);
            return Some(RefusedCall {
                tool: call.name.clone(),
                class: refusal.class,
                message,
                text: refusal.text,
            });
        };
        let (class, problems) = problems_of(policy, schema, call)?;
        let vars = json!({
            "tool": call.name, "attempt": attempt, "max_attempts": MOST_REPLIES, "problems": problems,
        });
        let text = out.say(&policy.tool(&call.name).messages.invalid_args, vars);
        let message = format!("the arguments of the call of `{}`: {}", call.name, join_problems(&problems));
        Some(RefusedCall { tool: call.name.clone(), class, message, text })
    }

    /// The class and the message of a text that does not hold, and what it is answered with. It is repaired in place.
    fn check_text(
        &self,
        reply: &mut ModelReply,
        attempt: u32,
        repairs: bool,
        out: &mut StepOutput<'_>,
    ) -> Option<(ErrorClass, String, Vec<Message>)> {
        let schema = self.form.as_ref()?;
        let policy = out.rules.policy;
        if !reply.finish.is_of_a_whole_reply() || reply.text.trim().is_empty() || is_beyond_us(&reply.text) {
            return None;
        }
        let rule = &policy.turn().repair_json;
        let is_broken = serde_json::from_str::<IgnoredAny>(&reply.text).is_err();
        let holds = |value: &Value| schema.is_valid(value);
        let repaired = (repairs && is_broken && rule.value).then(|| repair_for(&reply.text, &holds).ok());
        if let Some(repaired) = repaired.flatten() {
            reply.text = repaired.value.to_string();
            let why = because(policy, "turn.repair_json", rule, []);
            let (tool, call) = (String::new(), String::new());
            out.note(Note::Repaired { tool, call, repairs: repaired.repairs }, vec![why]);
        }
        let problems = match parse(policy, &reply.text) {
            Ok(value) => schema.problems(&value),
            Err(problem) => vec![problem],
        };
        if problems.is_empty() {
            return None;
        }
        let text = say_problems(policy.report_rules(), attempt, Some(MOST_REPLIES), &problems, out);
        let (said, extra) = (reply.text.clone(), reply.extra.clone());
        let correction =
            vec![Message::Assistant { text: said, calls: Vec::new(), extra }, Message::user(text)];
        let message = format!("the answer: {}", join_problems(&problems));
        Some((ErrorClass::InvalidOutput, message, correction))
    }
}

/// What is wrong with the arguments of a call; `None`: nothing, or it cannot be known.
fn problems_of(
    policy: &Policy,
    schema: &Schema,
    call: &ToolCall,
) -> Option<(ErrorClass, Vec<SchemaProblem>)> {
    if is_beyond_us(&call.arguments) {
        return None;
    }
    let arguments = match parse(policy, &call.arguments) {
        Ok(arguments) => arguments,
        Err(problem) => return Some((ErrorClass::MalformedToolCall, vec![problem])),
    };
    let mut problems = schema.problems(&arguments);
    if problems.is_empty() {
        let rules = policy.call(&call.name, &arguments, None);
        problems = refused_arguments(&rules.policy.validate.value, (&call.name, &arguments));
    }
    (!problems.is_empty()).then_some((ErrorClass::InvalidArgs, problems))
}

/// Whether it is JSON that few readers take, such as a half of a surrogate pair, or more levels than are looked at: whoever asked for
/// it may read it.
fn is_beyond_us(json: &str) -> bool {
    if levels(json.as_bytes()) > MOST_LEVELS {
        return true;
    }
    serde_json::from_str::<IgnoredAny>(json).is_ok() && serde_json::from_str::<Value>(json).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalogue::ToolSpec;

    fn contract() -> ReplyContract {
        let parameters =
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let tool = ToolSpec { name: "look".into(), description: String::new(), parameters, effect: None };
        let form = Schema::compile(&json!({"type": "object", "required": ["total"]})).unwrap();
        ReplyContract::new(ToolCatalogue::new([tool]).unwrap())
            .with_unchecked(["free".to_owned()])
            .with_form(form)
    }

    fn called(name: &str, arguments: &str) -> ModelReply {
        let call = ToolCall { id: "a".into(), name: name.into(), arguments: arguments.into() };
        ModelReply { calls: vec![call.into()], finish: FinishReason::ToolCalls, ..ModelReply::default() }
    }

    fn said(text: &str) -> ModelReply {
        ModelReply { text: text.into(), finish: FinishReason::Stop, ..ModelReply::default() }
    }

    fn class(checked: &CheckedReply) -> Option<ErrorClass> {
        checked.refused.as_ref().and_then(|refused| refused.failure.class)
    }

    #[test]
    fn calls_and_texts_are_held_against_what_the_request_wants() {
        let (contract, policy) = (contract(), Policy::builtin());
        for (reply, expected) in [
            (called("look", r#"{"n": 1}"#), None),
            (called("look", r#"{"n": 1e400}"#), None),
            (called("look", &format!(r#"{{"n": {}1{}}}"#, "[".repeat(200), "]".repeat(200))), None),
            (said(&format!("{}1{}", "[".repeat(65), "]".repeat(65))), None),
            (called("look", r#"{"n": "one"}"#), Some(ErrorClass::InvalidArgs)),
            (called("look", "look around"), Some(ErrorClass::MalformedToolCall)),
            (called("free", "look around"), None),
            (called("seek", "{}"), Some(ErrorClass::ToolNotFound)),
            (said(r#"{"total": 1}"#), None),
            (said("{}"), Some(ErrorClass::InvalidOutput)),
            (said("I cannot."), Some(ErrorClass::InvalidOutput)),
        ] {
            let checked = contract.check(&policy, ("m", 1), reply.clone(), true);
            assert_eq!(class(&checked), expected, "{reply:?}");
            assert_eq!(checked.reply, reply, "what holds, or cannot be repaired, stays as it is");
            for finish in [FinishReason::Length, FinishReason::ContentFilter] {
                let cut = ModelReply { finish, ..reply.clone() };
                assert_eq!(class(&contract.check(&policy, ("m", 1), cut, true)), None, "{reply:?}");
            }
        }
        let open = contract.with_unknown();
        assert_eq!(class(&open.check(&policy, ("m", 1), called("seek", "{}"), true)), None);
    }

    #[test]
    fn what_the_policy_repairs_is_repaired_and_says_by_which_rule() {
        let (contract, policy) = (contract(), Policy::builtin());
        for (reply, arguments, text, rule) in [
            (called("look", "{'n': 1,}"), r#"{"n":1}"#, "", "turn.repair_json"),
            (called("look", r#"{"n": "1"}"#), r#"{"n":1}"#, "", "turn.calls.unpack_arguments"),
            (called("Look", r#"{"n": 1}"#), r#"{"n": 1}"#, "", "turn.calls.correct_names"),
            (said("```json\n{\"total\": 1}\n```"), "", r#"{"total":1}"#, "turn.repair_json"),
        ] {
            let checked = contract.check(&policy, ("m", 1), reply.clone(), true);
            assert_eq!(class(&checked), None, "{reply:?}");
            let call = checked.reply.calls.first().map(|proposed| &proposed.call);
            assert_eq!(call.map_or("", |call| &call.arguments), arguments);
            assert_eq!(call.map_or("look", |call| &call.name), "look");
            assert_eq!(checked.reply.text, text);
            let [repair] = &*checked.repairs else { panic!("{:?}", checked.repairs) };
            assert_eq!(repair.because.first().map(|because| &*because.rule), Some(rule));
            // Bytes that are out cannot be repaired any more.
            assert!(class(&contract.check(&policy, ("m", 1), reply, false)).is_some());
        }
    }

    #[test]
    fn the_rules_of_the_model_say_whether_it_is_asked_again_and_with_what() {
        let asks = "version: 1\nmodels: {m: {retry: {retry_on: {add: [invalid_args]}}}}\n";
        let policy = Policy::from_yaml("p.yaml", asks).unwrap();
        let mut reply = called("look", "{}");
        reply.calls.push(called("free", "x").calls.remove(0));
        for (policy, asks) in [(&policy, true), (&Policy::builtin(), false)] {
            let refused = contract().check(policy, ("m", 1), reply.clone(), true).refused.unwrap();
            assert_eq!(refused.asks_again, asks);
            assert_eq!(refused.because.rule, "models.m.retry.retry_on");
            let texts: Vec<&str> = refused.correction.iter().map(Message::text).collect();
            assert!(
                texts[1].contains("`n` is missing")
                    && texts[2].contains("`look`, does not hold, so `free` did not run either"),
                "{texts:?}"
            );
            let second = contract().check(policy, ("m", 2), reply.clone(), true).refused.unwrap();
            assert!(!second.asks_again, "once");
        }
        let refused = contract().check(&policy, ("m", 1), said("{}"), true).refused.unwrap();
        assert!(!refused.asks_again);
        assert!(refused.correction[1].text().contains("`total` is missing"));
    }
}

//! A script and how far it has been played.

use core::time::Duration;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::facts::RequestFacts;
use crate::session::Usage;
use crate::time::Nanos;

/// What a scripted model answers, in order or as it matches.
///
/// Scripts are written in Rust or as YAML:
///
/// ```
/// # let text = r#"
/// version: 1
/// model: scripted-1                 # the name it answers under
/// replies:                          # given in order; each once, or `times`
///   - error: {status: 429, code: rate_limit_exceeded, message: slow down, headers: {retry-after: 1}}
///   - text: Let me look.            # text and calls may stand together
///     calls:
///       - {name: lookup_price, arguments: {item: 42}}
///     usage: {input: 120, output: 20}
///   - match: {last_tool: lookup_price, contains: "12.50"}      # waits for its request
///     calls:
///       - {name: final_report, arguments: '{"broken": '}       # a string is sent as it is
///   - fault: hang                   # or close, truncate, reset, stall, bad_json
///   - error: {status: 200, code: insufficient_quota, message: no money left}   # inside an answer
///   - delay: 200ms
///     times: 3
///     text: Here is what I found.
/// repeat_last: false                # or: the last reply for ever; with `repeat: true` all of them, again and again
/// # "#;
/// # let script = unfazed::host::scripted::Script::from_yaml("demo.yaml", text.as_bytes()).unwrap();
/// # assert_eq!(script.replies.len(), 6);
/// ```
///
/// A request that no reply is left for is answered with HTTP status 500 and the code `script_exhausted`. One that
/// a real provider would refuse, with a tool call without a result or a result without a call, is refused with
/// status 400 and uses no reply up.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The file as it was named, for messages.
    pub name: String,
    /// The name the model answers under.
    pub model: String,
    /// The replies. Each is given once, or as often as it says; one whose `when` does not match is left for later.
    pub replies: Vec<ScriptEntry>,
    /// Whether the last reply is given again and again.
    pub repeat_last: bool,
    /// Whether the replies begin anew when none is left for a request. `repeat_last` means nothing then.
    pub repeat: bool,
    /// What is said when no reply is left; has a default.
    pub on_exhausted: Option<String>,
}

/// One reply of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptEntry {
    /// Which requests it is for.
    pub when: RequestMatcher,
    /// How often it is given.
    pub times: u32,
    /// How long the model thinks first.
    pub delay: Duration,
    /// What happens then.
    pub outcome: ScriptOutcome,
}

/// What a request must be like. Empty: anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestMatcher {
    /// The model that is asked for.
    pub model: Option<String>,
    /// The turn, from 1.
    pub turn: Option<u32>,
    /// The role of the last message.
    pub last_role: Option<String>,
    /// The tool whose result the last message is.
    pub last_tool: Option<String>,
    /// A text within the last message.
    pub contains: Option<String>,
}

/// What a scripted model does with a request.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptOutcome {
    /// It answers.
    Answer(ScriptAnswer),
    /// It refuses.
    Error(ErrorReply),
    /// Something goes wrong on the way; the answer is what would have come.
    Fault(ScriptFault, ScriptAnswer),
}

/// A good answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptAnswer {
    /// The text.
    pub text: String,
    /// The tool calls.
    pub calls: Vec<ScriptedCall>,
    /// Why the model stopped; `tool_calls` if there are calls, else `stop`, unless set.
    pub finish: Option<String>,
    /// The tokens that are reported.
    pub usage: Option<Usage>,
    /// Further fields of the message.
    pub extra: Map<String, Value>,
    /// Headers, such as `x-ratelimit-remaining-requests`.
    pub headers: IndexMap<String, String>,
}

/// A tool call of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedCall {
    /// The tool.
    pub name: String,
    /// The arguments as they are sent: JSON, or broken on purpose.
    pub arguments: String,
    /// The id; made from the numbers of request and call if there is none.
    pub id: Option<String>,
}

/// An error as a server reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply {
    /// The HTTP status. With 200 the error is inside an answer that looks good from outside; in a stream it
    /// comes as an event.
    pub status: u16,
    /// Headers, such as `retry-after`.
    pub headers: IndexMap<String, String>,
    /// The error's code.
    pub code: Option<String>,
    /// The error's type.
    pub kind: Option<String>,
    /// The error's message.
    pub message: String,
    /// Sent as the body instead, as it is.
    pub body: Option<String>,
}

/// What can go wrong on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptFault {
    /// The connection is closed before anything is answered.
    Close,
    /// Nothing is ever answered.
    Hang,
    /// The answer ends in the middle, as if it were whole.
    Truncate,
    /// The connection breaks in the middle of the answer.
    Reset,
    /// The answer stops in the middle and the connection stays open.
    Stall,
    /// The answer is no JSON.
    BadJson,
}

/// What a script says to one request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScriptReply {
    /// The number of the request, from 1.
    pub number: u32,
    /// How long the model thinks first.
    pub delay: Nanos,
    /// What happens then.
    pub outcome: ScriptOutcome,
}

/// A script that is being played.
#[derive(Clone, Debug)]
pub(crate) struct ScriptState {
    script: Arc<Script>,
    /// How often each reply may still be given.
    left: Vec<u32>,
    /// Which replies were ever given.
    given: Vec<bool>,
    requests: u32,
}

impl Script {
    /// A script of these replies.
    pub fn new(name: impl Into<String>, replies: impl IntoIterator<Item = ScriptEntry>) -> Self {
        Self {
            name: name.into(),
            model: "scripted".to_owned(),
            replies: replies.into_iter().collect(),
            repeat_last: false,
            repeat: false,
            on_exhausted: None,
        }
    }
}

impl ScriptEntry {
    /// A reply to any request, given once and at once.
    pub fn new(outcome: ScriptOutcome) -> Self {
        Self { when: RequestMatcher::default(), times: 1, delay: Duration::ZERO, outcome }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(ScriptOutcome::Answer(ScriptAnswer { text: text.into(), ..ScriptAnswer::default() }))
    }

    /// One tool call, the arguments as they are sent.
    pub fn call(tool: impl Into<String>, arguments: impl Into<String>) -> Self {
        let call = ScriptedCall { name: tool.into(), arguments: arguments.into(), id: None };
        Self::new(ScriptOutcome::Answer(ScriptAnswer { calls: vec![call], ..ScriptAnswer::default() }))
    }

    /// An error with that status.
    pub fn error(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ScriptOutcome::Error(ErrorReply::new(status, code, message)))
    }

    /// A fault on the way.
    pub fn fault(fault: ScriptFault) -> Self {
        Self::new(ScriptOutcome::Fault(fault, ScriptAnswer::default()))
    }

    /// The same, for some requests only.
    #[must_use]
    pub fn when(self, when: RequestMatcher) -> Self {
        Self { when, ..self }
    }

    /// The same, so many times.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    /// The same, after a while.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

impl ErrorReply {
    /// An error with that status, code and message.
    pub fn new(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status,
            headers: IndexMap::new(),
            code: Some(code.into()),
            kind: None,
            message: message.into(),
            body: None,
        }
    }

    /// What a server says to a request that breaks its rules.
    pub(in crate::host::scripted) fn invalid_request(message: impl Into<String>) -> Box<Self> {
        let kind = Some("invalid_request_error".to_owned());
        Box::new(Self { kind, code: None, ..Self::new(400, "", message) })
    }

    /// The same with a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }
}

impl ScriptAnswer {
    /// Why the model stopped, as it is sent.
    pub(super) fn finish_reason(&self) -> &str {
        let usual = if self.calls.is_empty() { "stop" } else { "tool_calls" };
        self.finish.as_deref().unwrap_or(usual)
    }
}

impl RequestMatcher {
    /// Whether the request is one of these.
    pub(crate) fn matches(&self, facts: &RequestFacts) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, found: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        is(self.model.as_ref(), &facts.model)
            && is(self.turn.as_ref(), &facts.turn)
            && is(self.last_role.as_ref(), &facts.last_role)
            && (self.last_tool.is_none() || self.last_tool == facts.last_tool)
            && self.contains.as_ref().is_none_or(|text| facts.last_text.contains(text))
    }
}

impl ScriptState {
    /// The script from its start.
    pub(crate) fn new(script: impl Into<Arc<Script>>) -> Self {
        let script = script.into();
        Self { left: all(&script), given: vec![false; script.replies.len()], script, requests: 0 }
    }

    /// The script that is played.
    pub(crate) fn script(&self) -> &Script {
        &self.script
    }

    /// The numbers of the replies that were never given, from 1.
    pub(crate) fn unused(&self) -> impl Iterator<Item = usize> {
        self.given.iter().zip(1..).filter(|(given, _)| !**given).map(|(_, number)| number)
    }

    /// The reply to the next request: the first that is left and matches.
    pub(crate) fn next(&mut self, facts: &RequestFacts) -> ScriptReply {
        self.requests = self.requests.saturating_add(1);
        let number = self.requests;
        let script = Arc::clone(&self.script);
        let mut entry = self.take(&script, facts);
        if entry.is_none() && script.repeat {
            self.left = all(&script);
            entry = self.take(&script, facts);
        }
        let repeated = || script.replies.last().filter(|last| script.repeat_last && last.when.matches(facts));
        match entry.or_else(repeated) {
            Some(entry) => ScriptReply { number, delay: entry.delay.into(), outcome: entry.outcome.clone() },
            None => ScriptReply {
                number,
                delay: Nanos::ZERO,
                outcome: ScriptOutcome::Error(self.exhausted(facts)),
            },
        }
    }

    /// The first reply that is left and matches.
    fn take<'s>(&mut self, script: &'s Script, facts: &RequestFacts) -> Option<&'s ScriptEntry> {
        let waiting = script.replies.iter().zip(&mut self.left).zip(&mut self.given);
        let mut matching = waiting.filter(|((entry, left), _)| **left > 0 && entry.when.matches(facts));
        let ((entry, left), given) = matching.next()?;
        *left -= 1;
        *given = true;
        Some(entry)
    }

    fn exhausted(&self, facts: &RequestFacts) -> ErrorReply {
        let message = self.script.on_exhausted.clone().unwrap_or_else(|| {
            let name = &self.script.name;
            match self.left.iter().filter(|left| **left > 0).count() {
                0 => {
                    let number = self.requests;
                    format!("the script {name} has run out: no reply is left for request {number}")
                }
                some => {
                    let RequestFacts { model, turn, last_role, last_tool, .. } = facts;
                    let tool =
                        last_tool.as_ref().map(|tool| format!(" of tool `{tool}`")).unwrap_or_default();
                    format!(
                        "none of the {some} replies left in the script {name} matches this request \
                         (model `{model}`, turn {turn}, last message from `{last_role}`{tool})"
                    )
                }
            }
        });
        ErrorReply::new(500, "script_exhausted", message)
    }
}

/// How often each reply of a script may be given.
fn all(script: &Script) -> Vec<u32> {
    script.replies.iter().map(|entry| entry.times).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(turn: u32, last_tool: &str, last_text: &str) -> RequestFacts {
        RequestFacts {
            model: "m".into(),
            turn,
            last_role: if last_tool.is_empty() { "user" } else { "tool" }.into(),
            last_tool: (!last_tool.is_empty()).then(|| last_tool.to_owned()),
            last_text: last_text.into(),
        }
    }

    fn play(script: Script, requests: &[RequestFacts]) -> Vec<String> {
        let mut state = ScriptState::new(script);
        let said = |reply: ScriptReply| match reply.outcome {
            ScriptOutcome::Answer(answer) => answer.text,
            ScriptOutcome::Error(error) => error.message,
            ScriptOutcome::Fault(fault, _) => format!("{fault:?}"),
        };
        requests.iter().map(|facts| said(state.next(facts))).collect()
    }

    fn any() -> RequestFacts {
        facts(1, "", "")
    }

    #[test]
    fn replies_come_in_order() {
        let script = Script::new(
            "s.yaml",
            [ScriptEntry::text("a"), ScriptEntry::fault(ScriptFault::Hang), ScriptEntry::text("b")],
        );
        assert_eq!(play(script, &[any(), any(), any()]), ["a", "Hang", "b"]);
    }

    #[test]
    fn a_reply_that_does_not_match_waits_for_its_request() {
        let when = RequestMatcher {
            last_tool: Some("look".into()),
            contains: Some("42".into()),
            ..RequestMatcher::default()
        };
        let script = Script::new(
            "s.yaml",
            [ScriptEntry::text("found").when(when), ScriptEntry::text("a"), ScriptEntry::text("b")],
        );
        let requests = [facts(1, "", "42"), facts(2, "look", "nothing"), facts(3, "look", "it is 42")];
        assert_eq!(play(script, &requests), ["a", "b", "found"]);
    }

    #[test]
    fn a_reply_may_come_several_times() {
        let script = Script::new("s.yaml", [ScriptEntry::text("a").times(2), ScriptEntry::text("b")]);
        assert_eq!(play(script, &[any(), any(), any()]), ["a", "a", "b"]);
    }

    #[test]
    fn the_last_reply_may_go_on_for_ever() {
        let script = Script {
            repeat_last: true,
            ..Script::new("s.yaml", [ScriptEntry::text("a"), ScriptEntry::text("b")])
        };
        assert_eq!(play(script, &[any(), any(), any(), any()]), ["a", "b", "b", "b"]);
    }

    #[test]
    fn all_replies_may_begin_anew() {
        let never = RequestMatcher { turn: Some(9), ..RequestMatcher::default() };
        let replies =
            [ScriptEntry::text("a").times(2), ScriptEntry::text("never").when(never), ScriptEntry::text("b")];
        let script = Script { repeat: true, ..Script::new("s.yaml", replies) };
        let mut state = ScriptState::new(script.clone());
        assert_eq!(play(script, &vec![any(); 7]), ["a", "a", "b", "a", "a", "b", "a"]);
        for _ in 0..7 {
            state.next(&any());
        }
        assert_eq!(state.unused().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_script_that_runs_out_says_so() {
        let script = Script::new("s.yaml", [ScriptEntry::text("a")]);
        let said = play(script, &[any(), any()]);
        assert_eq!(said[1], "the script s.yaml has run out: no reply is left for request 2");
        let never = RequestMatcher { turn: Some(9), ..RequestMatcher::default() };
        let said =
            play(Script::new("s.yaml", [ScriptEntry::text("a").when(never)]), &[facts(2, "look", "x")]);
        assert_eq!(
            said[0],
            "none of the 1 replies left in the script s.yaml matches this request \
             (model `m`, turn 2, last message from `tool` of tool `look`)"
        );
        let own = Script { on_exhausted: Some("enough".into()), ..Script::new("s.yaml", []) };
        assert_eq!(play(own, &[any()]), ["enough"]);
    }
}

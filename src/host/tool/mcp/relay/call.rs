//! A call of a tool under the policy: the calls drive decides, and the server runs what it is asked to.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use indexmap::IndexMap;
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ErrorData};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::ask;
use super::link::RelayLink;
use super::message::{self, INVALID_PARAMS, RpcAnswer, RpcMessage};
use super::order::RequestTurn;
use super::params::CallParams;
use super::result::{CallRecord, RelayedResult};
use super::rounds::{CallRound, InputRequired, PastRounds};
use super::tools::KnownTool;
use super::upstream::RelayServer;
use super::{RelayApproval, RelayParts};
use crate::engine::{
    ApprovalAnswer, ApprovalQuestion, AskPerson, Directive, EffectState, ProposalRef, ProposedCall, RunFacts,
    RunTool, SettledProposal, ToolOutcome, WaitWork,
};
use crate::host::surrogates::without_halves;
use crate::host::tool::mcp::{content, failure};
use crate::host::{BoxFuture, ProgressReporter, ProposalError, RunHost, ToolError};
use crate::policy::ErrorClass;
use crate::session::ToolCall;
use crate::text::visible;
use crate::time::Nanos;

/// The error by which a server says that the person must open an address first (the specification of 2025-11-25).
const URL_REQUIRED: i64 = -32042;

/// A call under the policy.
struct RelayedCall<'a> {
    relay: &'a Arc<RelayParts>,
    /// What the policy knows the tool by.
    name: String,
    params: &'a CallParams,
    /// The id of the client's request, which is JSON.
    id: &'a str,
    /// What is known from its earlier rounds, and whether it may run; `None`: it is the first.
    past: Option<(PastRounds, ApprovalAnswer)>,
    /// What the result is to ask the person.
    question: Mutex<Option<ResultQuestion>>,
    /// The key of its attempts, once there was one.
    key: Mutex<Option<String>>,
    /// What the server answered last.
    answer: Mutex<Option<RelayedResult>>,
    record: Mutex<CallRecord>,
    /// Its turn to be sent, until it has been, or has to wait.
    sending: Mutex<Option<RequestTurn>>,
}

/// The place of a call among those of its server, in the order in which the client sent them.
pub(super) struct CallTurns {
    proposing: RequestTurn,
    sending: RequestTurn,
}

/// A question to the person in the place of a result.
struct ResultQuestion {
    about: ApprovalQuestion,
    message: String,
    until: Option<tokio::time::Instant>,
    past: PastRounds,
}

/// Makes a call under the policy: what answers the request.
/// `id` is that of the request, which is JSON.
pub(super) async fn make(
    relay: &Arc<RelayParts>,
    id: &str,
    mut params: CallParams,
    turns: Option<CallTurns>,
) -> RpcAnswer {
    let round = relay.rounds().of(&mut params);
    let past = match round {
        CallRound::First => None,
        CallRound::Further(past, answer) => Some((past, answer)),
        CallRound::Refused(result) => return Ok(result),
        CallRound::Unknown => {
            let why = "`requestState` was not given out for this call, or has been answered";
            return Err(message::failure(INVALID_PARAMS, why));
        }
    };
    let params = &params;
    let name = match known_name(relay, params).await {
        Ok(name) => past.as_ref().map_or(name, |(past, _)| past.tool.clone()),
        Err(refused) => return Ok(refused),
    };
    let proposed =
        ToolCall { id: relay.next_call(), name: name.clone(), arguments: params.arguments().into_owned() };
    // The first round was checked, and counted.
    let proposed = ProposedCall { call: proposed, policy: None, opaque: past.is_some() };
    let (answer, record) = (Mutex::default(), Mutex::default());
    let (question, key) = (Mutex::default(), Mutex::default());
    let (proposing, sending) = turns.map(|CallTurns { proposing, sending }| (proposing, sending)).unzip();
    if let Some(turn) = &proposing {
        turn.comes().await;
    }
    let sending = Mutex::new(sending);
    let call = RelayedCall { relay, name, params, id, past, question, key, answer, record, sending };
    // No one closes the semaphore.
    let _place = relay.places.acquire().await.ok();
    relay.look_at_policy();
    let _active = match relay.begin_activity() {
        Ok(active) => active,
        Err(error) => {
            let refused = CallRecord::refused(ErrorClass::Cancelled, error.to_string());
            return Ok(refused.failed(params.is_complete()));
        }
    };
    let settled = {
        let mut deciding = pin!(relay.run.tools(vec![proposed], None, &call));
        // It is proposed when it is first looked at.
        let first = futures_util::poll!(deciding.as_mut());
        drop(proposing);
        match first {
            Poll::Ready(settled) => settled,
            Poll::Pending => deciding.await,
        }
    };
    call.result(settled)
}

/// The same within the deadline of the policy: a server that does not list its tools is not waited for longer.
async fn known_name(relay: &Arc<RelayParts>, params: &CallParams) -> Result<String, String> {
    let name = relay.server_meant(params.name()).map_or_else(|| params.name().to_owned(), |(_, name)| name);
    let Some(within) = relay.policy.current().tool(&name).retry.deadline.value.length() else {
        return policy_name(relay, params).await;
    };
    let named = tokio::time::timeout(within.to_std(), policy_name(relay, params)).await;
    named.unwrap_or_else(|_| {
        let text = format!(
            "`{}` did not run: the server did not list its tools within {within}, the `deadline` of the policy",
            visible(params.name())
        );
        let policy = relay.policy.current();
        let place = policy.place(policy.tool(&name).retry.deadline.origin).to_string();
        let refused = CallRecord::refused(ErrorClass::Timeout, text).because("retry.deadline", place);
        Err(refused.failed(params.is_complete()))
    })
}

/// What the policy knows the tool by. Sees to it that the tools of its server are known; otherwise the call is refused.
async fn policy_name(relay: &Arc<RelayParts>, params: &CallParams) -> Result<String, String> {
    let unavailable = |text: String| {
        Err(CallRecord::refused(ErrorClass::ToolUnavailable, text).failed(params.is_complete()))
    };
    let meta = params.protocol_meta();
    let mut found = relay.server_meant(params.name());
    if found.is_none() {
        // A server need not say that it has others now.
        relay.servers.iter().for_each(|server| server.tools.outdate());
        relay.list_all_tools(&meta).await;
        found = relay.server_meant(params.name());
    }
    let Some((server, name)) = found else {
        let known = relay.names_of(params.name());
        if !known.is_empty() {
            let (tool, names) = (visible(params.name()), known.join("`, `"));
            let text =
                format!("`{tool}` may be a tool of several servers. Call it by its whole name: `{names}`.");
            return Err(CallRecord::refused(ErrorClass::ToolNotFound, text).failed(params.is_complete()));
        }
        // None of the servers that are there has it.
        let down: Vec<&str> = relay.failed_servers();
        if down.is_empty() {
            return Ok(params.name().to_owned());
        }
        let tool = visible(params.name());
        return unavailable(format!(
            "no server has a tool `{tool}`, and not started are: {}",
            down.join(", ")
        ));
    };
    let listed = match relay.link(&server).await {
        Ok(upstream) => relay.list_tools_for(&name, &server, &upstream, &meta).await,
        Err(error) => Err(error),
    };
    match listed {
        Err(error) if server.tools.get(&name).is_none() => {
            unavailable(format!("the tools of the server are not known: {}", error.why))
        }
        // Its tools are known from before, and the policy decides about a server that is down.
        _ => Ok(name),
    }
}

impl RelayParts {
    /// The server whose tool the client means, and what the policy knows the tool by; `None`: none is known.
    fn server_meant(&self, shown: &str) -> Option<(Arc<RelayServer>, String)> {
        if let Some(server) = self.only_server() {
            return Some((Arc::clone(server), server.tools.name_of(shown)));
        }
        let shared = self.shared();
        let (at, name) = shared.tools.find(shown)?;
        let server = self.servers.get(at)?;
        Some((Arc::clone(server), server.tools.name_of(name)))
    }

    /// What the client sees a tool as that the policy knows by that name; `None`: as that, since no server has such a prefix.
    pub(super) fn shown_tool(&self, name: &str) -> Option<String> {
        let mut servers = self.servers.iter().enumerate();
        servers.find_map(|(at, server)| {
            let prefix = &server.config.prefix;
            let remote = name.strip_prefix(prefix.as_str()).filter(|_| !prefix.is_empty())?;
            let is_only = self.only_server().is_some();
            Some(if is_only { remote.to_owned() } else { self.shared().tools.shown(at, remote) })
        })
    }

    /// A text of the policy with the tools called as the client sees them. They stand in backquotes.
    fn as_shown(&self, text: &str) -> String {
        let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, behind)) = rest.split_once('`') {
            let Some((name, after)) = behind.split_once('`') else { break };
            let known = self.shown_tool(name);
            shown.push_str(before);
            shown.push('`');
            shown.push_str(known.as_deref().unwrap_or(name));
            // Without a tool in it this backquote may be the beginning of the next word.
            rest = if known.is_some() {
                shown.push('`');
                after
            } else {
                behind.split_at(name.len()).1
            };
        }
        shown.push_str(rest);
        shown
    }

    /// What the client sees those tools as that servers call by that name.
    fn names_of(&self, remote: &str) -> Vec<String> {
        let shared = self.shared();
        let servers = self.servers.iter().enumerate();
        let have = servers.filter(|(_, server)| server.tools.get(&server.tools.name_of(remote)).is_some());
        have.map(|(at, _)| shared.tools.shown(at, remote)).collect()
    }

    /// The place of a call of that tool; `None`: whose it is, is not known yet.
    pub(super) fn turns_of(&self, shown: &str) -> Option<CallTurns> {
        let (server, _) = self.server_meant(shown)?;
        Some(CallTurns { proposing: server.proposing.enter(), sending: server.sending.enter() })
    }

    /// The server with the tool that the policy knows by that name.
    fn server_of(&self, name: &str) -> Option<(&Arc<RelayServer>, KnownTool)> {
        self.servers.iter().find_map(|server| Some((server, server.tools.get(name)?)))
    }

    fn failed_servers(&self) -> Vec<&str> {
        let failed = self.servers.iter().filter(|server| server.is_missing());
        failed.map(|server| server.config.name.as_str()).collect()
    }
}

impl RelayedCall<'_> {
    /// It does not begin now: others may.
    fn step_aside(&self) {
        let turn = self.sending.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(turn);
    }

    /// What the client is answered.
    fn result(self, settled: Result<SettledProposal, ProposalError>) -> RpcAnswer {
        let is_complete = self.params.is_complete();
        let cut = (&self.relay.kept, self.relay.client().knows_links());
        let question = self.question.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut record = self.record.into_inner().unwrap_or_else(PoisonError::into_inner);
        let answer = self.answer.into_inner().unwrap_or_else(PoisonError::into_inner);
        match settled {
            Ok(settled) => {
                record.guidance.extend(settled.guidance);
                record.rename(|text| self.relay.as_shown(text));
            }
            Err(error) => {
                let refused = CallRecord::refused(ErrorClass::Cancelled, error.to_string());
                return Ok(refused.failed(is_complete));
            }
        }
        if let Some(ResultQuestion { about, message, until, past }) = question {
            // Whether it runs for the first time is decided again with the answer, and so is the text of a refusal.
            let otherwise = (about == ApprovalQuestion::RunAgain)
                .then(|| record.failed_with(answer.as_ref(), is_complete, cut));
            return Ok(self.relay.rounds().ask(self.params, past, (&message, until), otherwise));
        }
        match answer {
            Some(answer) if record.class.is_none() && !answer.is_failure() => answer.shown(&record, cut),
            // Another tool, or a person, says that it has acted.
            _ if record.class.is_none() && !record.is_empty() => Ok(record.failed(is_complete)),
            answer => Ok(record.failed_with(answer.as_ref(), is_complete, cut)),
        }
    }

    /// One attempt.
    async fn attempt(&self, run: &RunTool) -> ToolOutcome {
        let is_own = self.is_own(&run.tool);
        let Some((server, tool)) = self.relay.server_of(&run.tool) else {
            let message = format!("the server has no tool `{}` any more", run.tool);
            return ToolError::new(ErrorClass::ToolNotFound, message).effect(EffectState::NotStarted).into();
        };
        if is_own && run.attempt > 1 {
            self.relay.again(self.params.progress_token());
        }
        if is_own {
            // What an earlier attempt was answered says nothing of this one.
            *self.answer() = None;
        }
        let asked = self.ask(server, &tool, run, is_own).await;
        match asked {
            Ok(answer) => {
                let outcome = answer.outcome.clone();
                if let (true, Some(asked)) = (is_own, answer.asks()) {
                    let past = self.past(&run.tool, &run.arguments);
                    self.relay.rounds().server_asks(asked.request_state, self.params, past);
                }
                if is_own {
                    *self.answer() = Some(answer);
                }
                outcome
            }
            Err(error) => error.into(),
        }
    }

    /// Asks the server to run a tool: what it answers, unless that is an error.
    async fn ask(
        &self,
        server: &Arc<RelayServer>,
        tool: &KnownTool,
        run: &RunTool,
        is_own: bool,
    ) -> Result<RelayedResult, ToolError> {
        let upstream = self.relay.link(server).await.map_err(|error| ToolError::unavailable(error.why))?;
        // Only the first attempt has one; held until it is sent.
        let turn = self.sending.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(turn) = &turn {
            turn.comes().await;
        }
        let params = if is_own {
            let past = self.past.as_ref().map(|(past, _)| past);
            let key = past.and_then(|past| past.key.as_ref()).unwrap_or(&run.idempotency_key);
            *self.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
            let arguments = past.map_or(&run.arguments, |past| &past.arguments);
            self.params.of_attempt(&tool.remote, arguments, key)
        } else {
            // A tool that the policy has run to look what another one has done.
            let params = serde_json::json!({ "name": tool.remote, "arguments": run.arguments });
            serde_json::to_string(&params)
        };
        let params = params.map_err(|error| ToolError::invalid_args(error.to_string()))?;
        let asked = upstream.ask(Some(self.id), |number| message::request(number, "tools/call", &params));
        drop(turn);
        let asked = match asked {
            Ok(asked) => asked,
            Err(unsent) => return Err(ToolError::unavailable(upstream.why_unsent(unsent).await)),
        };
        let line = asked.answer().await?;
        read(&line, tool, &upstream).await
    }

    /// The call as a further round of it continues. `arguments`: those that were checked, if it is the first.
    fn past(&self, tool: &str, arguments: &Value) -> PastRounds {
        let arguments = self.past.as_ref().map_or(arguments, |(past, _)| &past.arguments);
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner).clone();
        PastRounds { tool: tool.to_owned(), arguments: arguments.clone(), key }
    }

    /// The answer to a question about a call of several rounds, or of a client that is asked by a result; `None`: a request asks it.
    fn answer_by_rounds(&self, ask: &AskPerson) -> Option<ApprovalAnswer> {
        if let (ApprovalQuestion::Run, Some((_, answer))) = (ask.question, &self.past) {
            return Some(ask::of_person(*answer, self.relay, ask));
        }
        // Without a handshake there is no way to send a request to the client.
        let by_result = self.params.is_complete() && self.relay.client().initialize.is_none();
        if !by_result || self.relay.approve != RelayApproval::Ask || !self.params.can_elicit() {
            return None;
        }
        let until = ask.timeout.and_then(|within| tokio::time::Instant::now().checked_add(within.to_std()));
        let (about, message) = (ask.question, ask::question(ask, self.relay));
        let question = ResultQuestion { about, message, until, past: self.past(&ask.tool, &ask.arguments) };
        *self.question.lock().unwrap_or_else(PoisonError::into_inner) = Some(question);
        // Until the person has agreed it does not run.
        Some(ApprovalAnswer::Refuse)
    }

    /// Whether a run is of the tool that is called, and not of one that looks what it has done.
    fn is_own(&self, tool: &str) -> bool {
        match &self.record().resolved {
            Some(resolved) => tool == resolved,
            None => tool == self.name,
        }
    }

    fn answer(&self) -> MutexGuard<'_, Option<RelayedResult>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self) -> MutexGuard<'_, CallRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the server answered.
async fn read(line: &str, tool: &KnownTool, upstream: &RelayLink) -> Result<RelayedResult, ToolError> {
    /// The most bytes of a result that the policy, and the log, get to see.
    const MOST: usize = 1024 * 1024;
    let unreadable = || {
        let message = format!("the server's answer cannot be read{}", upstream.complaints());
        ToolError::failed(message).effect(EffectState::Unknown)
    };
    let result = match RpcMessage::parse(line).map_err(|_| unreadable())? {
        RpcMessage::Answer { outcome: Ok(result), .. } => result,
        RpcMessage::Answer { outcome: Err(error), .. } if asks_for_url(error) => {
            return Ok(RelayedResult::unseen_error(error));
        }
        RpcMessage::Answer { outcome: Err(error), .. } => {
            let error: ErrorData = serde_json::from_str(error.get()).unwrap_or_else(|_| {
                ErrorData::new(ErrorCode::INTERNAL_ERROR, "the server's error cannot be read", None)
            });
            return Err(failure::of_protocol(&error));
        }
        _ => return Err(unreadable()),
    };
    let fields: IndexMap<String, &RawValue> = serde_json::from_str(result.get()).map_err(|_| unreadable())?;
    // A task that continues elsewhere, or a question to the person, is for the client.
    if fields.contains_key("task") || InputRequired::of(result).is_some() {
        return Ok(RelayedResult::unseen(result));
    }
    // What is left out is empty, as in the official kits.
    let text = if fields.contains_key("content") {
        Cow::Borrowed(result.get())
    } else {
        Cow::Owned(with_content(&fields).map_err(|_| unreadable())?)
    };
    // What has a kind of content that is not known here is passed on; the policy sees it as the JSON that it is.
    let parsed = serde_json::from_str::<CallToolResult>(&text)
        .or_else(|_| serde_json::from_str(&without_halves(&text)));
    let data = match parsed {
        Ok(parsed) => match content::read(&parsed, usize::MAX, &ProgressReporter::default()).await {
            Ok(data) => plain(data, &parsed),
            Err(error) => return Ok(RelayedResult::failure(result, error)),
        },
        Err(_) => Value::String(result.get().to_owned()),
    };
    Ok(RelayedResult::new(result, tool.structured, data, MOST))
}

/// A result that left its content out.
fn with_content(fields: &IndexMap<String, &RawValue>) -> serde_json::Result<String> {
    let none = serde_json::value::to_raw_value::<[(); 0]>(&[])?;
    let mut fields = fields.clone();
    fields.insert("content".to_owned(), &none);
    serde_json::to_string(&fields)
}

/// Whether an error asks the client to let the person open addresses first (the specification of 2025-11-25,
/// "URL Elicitation Required Error"): the client does that, and calls again.
fn asks_for_url(error: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct UrlError {
        code: i64,
        data: UrlQuestions,
    }
    #[derive(Deserialize)]
    struct UrlQuestions {
        elicitations: Vec<IgnoredAny>,
    }
    let read = serde_json::from_str(error.get());
    read.is_ok_and(|UrlError { code, data: UrlQuestions { elicitations } }| {
        code == URL_REQUIRED && !elicitations.is_empty()
    })
}

/// The text of a result whose structured content is only a wrapper of it: the kit in Python makes `{"result": TEXT}` of a
/// function that returns text, the server of files `{"content": TEXT}`.
fn plain(data: Value, result: &CallToolResult) -> Value {
    let wrapped = match &data {
        Value::Object(fields) if fields.len() == 1 => fields.values().next().and_then(Value::as_str),
        _ => None,
    };
    let text = match (wrapped, result.content.as_slice()) {
        (Some(wrapped), [ContentBlock::Text(text)]) if text.text == wrapped => Some(text.text.clone()),
        _ => None,
    };
    text.map_or(data, Value::String)
}

impl RunHost for RelayedCall<'_> {
    fn run_tool<'a>(&'a self, _of: ProposalRef, run: &'a RunTool) -> BoxFuture<'a, (ToolOutcome, RunFacts)> {
        Box::pin(async move {
            let began = tokio::time::Instant::now();
            let outcome = self.attempt(run).await;
            let duration = Some(Nanos::from_std(began.elapsed()));
            (outcome, RunFacts { duration, ..RunFacts::default() })
        })
    }

    fn answer<'a>(&'a self, ask: &'a AskPerson) -> BoxFuture<'a, ApprovalAnswer> {
        self.step_aside();
        Box::pin(async move {
            match self.answer_by_rounds(ask) {
                Some(answer) => answer,
                None => ask::answer(self.relay, ask).await,
            }
        })
    }

    fn waits(&self, wait: &WaitWork) {
        self.step_aside();
        let most = wait.max_attempts.map(|most| format!(" of {most}")).unwrap_or_default();
        let WaitWork { attempt, error_type, message, .. } = wait;
        let delay = wait.delay.rounded();
        let text = match wait.pool {
            Some(_) => format!("its turn in {delay}: {message}"),
            None => format!("attempt {attempt}{most} in {delay}, after {error_type}"),
        };
        self.relay.waits(self.params.progress_token(), &text);
    }

    fn queued(&self) {
        self.step_aside();
        self.relay.waits(self.params.progress_token(), "waits for other calls of the tool");
    }

    fn noted(&self, directive: &Directive) {
        self.record().note(directive);
    }
}

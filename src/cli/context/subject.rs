//! What is looked at: a session, an agent, or the body of a request, with the policy and the window that go with it.

use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::context::{RequestTokens, TokenCounter, ToolForm, message_tokens, overhead};
use crate::engine::{
    ContextBudget, DirectiveKind, Event, KnownWindow, Record, RunStarted, SessionFold, TokenCalibration,
    TurnMeasure, WindowSource, Work, WorkId,
};
use crate::host::agent_file::{AgentFile, ModelEntry, NamedAgent};
use crate::host::{counter_by, known_window, read_file};
use crate::policy::{ContextWindow, Loader, Policy};
use crate::session::{Message, Usage};
use crate::store::read_log;
use serde_json::Value;

use super::body;
use super::observations::SessionObservations;
use super::parts::TokenParts;
use crate::cli::exit::CommandFailure;
use crate::cli::named::{self, FileKind};
use crate::cli::policies::reported;
use crate::cli::run::ToolInventory;
use crate::cli::settings::CliSettings;
use crate::cli::{files, policies, runtime, sessions};

/// The largest body that is read.
const MOST: u64 = 256 << 20;

/// What a request is, for who gave something else.
const HINT: &str = "a request to a model is a JSON object with a list of `messages`";

/// What the command line says besides the source.
pub(super) struct ContextQuery<'a> {
    pub(super) loader: Loader,
    /// Whether a profile is chosen: that of a session is not asked then.
    pub(super) profile: bool,
    pub(super) policy: &'a [PathBuf],
    pub(super) model: Option<&'a str>,
    pub(super) settings: &'a CliSettings,
}

/// A conversation, and what it is held against.
pub(super) struct ContextSubject {
    /// What it is, for people.
    pub(super) title: String,
    /// The model, by the name that policies have for it.
    pub(super) model: String,
    pub(super) policy: Policy,
    pub(super) counter: Arc<dyn TokenCounter>,
    pub(super) window: Option<KnownWindow>,
    pub(super) room: Option<ContextBudget>,
    pub(super) parts: TokenParts,
    pub(super) messages: Vec<Message>,
    /// The tokens of each message by the count here.
    pub(super) weights: Vec<u64>,
    /// How many tokens its provider counts, learned in the session. `parts` and `room` are by its count.
    pub(super) calibration: TokenCalibration,
    /// What a provider counted for the last request of a session.
    pub(super) reported: Option<Usage>,
    /// Servers that could not be asked for their tools.
    pub(super) failed: Vec<String>,
}

/// What is known of a conversation before it is counted.
struct FoundConversation {
    title: String,
    model: String,
    policy: Policy,
    window: Option<KnownWindow>,
    form: ToolForm,
    /// Its name at its server.
    served: String,
    counter: Arc<dyn TokenCounter>,
    calibration: TokenCalibration,
}

/// A session as its log has it.
#[derive(Default)]
struct LoggedSession {
    fold: SessionFold,
    agent: Option<(PathBuf, Option<String>)>,
    started: RunStarted,
    target: Option<String>,
    observations: SessionObservations,
    /// The tokens of all tools before the final turn.
    tools: u64,
    reported: Option<Usage>,
}

impl ContextSubject {
    /// Reads what the name stands for.
    pub(super) fn find(source: &str, asked: &ContextQuery<'_>) -> Result<Self, CommandFailure> {
        if source == "-" {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes);
            read.map_err(|error| CommandFailure::io("cannot read standard input", error))?;
            let body = body_of("standard input", &bytes)?;
            return Self::request("standard input", &body, asked);
        }
        let path = Path::new(source);
        if !path.is_file() {
            let (id, records) = sessions::records(asked.settings, source)?;
            let records = records.map(|record| record.map_err(|error| sessions::failed(&error)));
            return Self::session(format!("session {id}"), records, asked);
        }
        if path.extension().is_some_and(|end| end == "jsonl") {
            let title = format!("session {}", path.file_stem().unwrap_or_default().to_string_lossy());
            return Self::session(title, records_of(path)?, asked);
        }
        let bytes = read_file(path, MOST + 1)
            .map_err(|error| CommandFailure::io(format!("cannot read {source}"), error))?;
        match body_of(source, &bytes) {
            // An agent file may be written as JSON, too.
            Ok(body) if body.get("messages").is_some() => Self::request(source, &body, asked),
            _ if named::kind(&bytes) == FileKind::Agent => Self::agent(path, &bytes, asked),
            body => match named::other_kind(path, &bytes) {
                Some(what) => Err(CommandFailure::Usage(format!(
                    "{source} is {what}; `unfazed context` takes a session, an agent file, or the JSON body of a request \
                     to a model"
                ))),
                None => Self::request(source, &body?, asked),
            },
        }
    }

    fn request(name: &str, body: &Value, asked: &ContextQuery<'_>) -> Result<Self, CommandFailure> {
        let (policy, _) = policies::load(asked.policy, &asked.loader)?;
        let named = body.get("model").and_then(Value::as_str).unwrap_or("main");
        let model = asked.model.unwrap_or(named).to_owned();
        let found = FoundConversation::named(format!("the request of {name}"), model, policy);
        let counted = RequestTokens::of(&*found.counter, body)
            .ok_or_else(|| CommandFailure::Stopped(format!("{name} has no `messages`; {HINT}")))?;
        let weights = body::weights(&*found.counter, body, &counted);
        let mut subject = found.subject(TokenParts::of_request(&counted), body::conversation(body));
        subject.weights = weights;
        if let Some(output) = counted.output {
            subject.room = subject.room.map(|room| ContextBudget { reply: output, ..room });
        }
        Ok(subject)
    }

    fn agent(path: &Path, bytes: &[u8], asked: &ContextQuery<'_>) -> Result<Self, CommandFailure> {
        let named = read_agent(path, bytes, &asked.loader)?;
        let title = format!("the agent of {}", path.display());
        let file = &named.file.value;
        let system = Some(&file.system).filter(|system| !system.is_empty());
        let mut messages: Vec<Message> =
            system.map(|text| Message::System { text: text.clone() }).into_iter().collect();
        messages.extend(file.task.as_ref().map(|task| Message::user(&task.value)));
        let model = model_of(file, asked.model, None)?;
        let policy = policy_of(&named, asked)?;
        let found = FoundConversation::of_agent(title, model, policy, &named);
        let inventory = runtime::block_on(ToolInventory::take(path, &asked.loader))?;
        let tools = tools(&found, &inventory);
        let parts = found.added(TokenParts::of(&*found.counter, &messages, tools));
        Ok(Self { failed: inventory.failed, ..found.subject(parts, messages) })
    }

    fn session(
        title: String,
        records: impl Iterator<Item = Result<Record, CommandFailure>>,
        asked: &ContextQuery<'_>,
    ) -> Result<Self, CommandFailure> {
        let logged = LoggedSession::of(records)?;
        let agent = logged.agent.clone().filter(|(path, _)| path.is_file());
        let named = match agent {
            Some((path, profile)) => {
                let loader =
                    if asked.profile { asked.loader.clone() } else { named::loader(profile.as_deref()) };
                let read = read_agent(&path, &files::read(&path)?, &loader)?;
                Some((path, loader, read))
            }
            None => None,
        };
        let last = logged.target.as_ref().or_else(|| logged.started.targets.first());
        let (found, tools, failed) = if let Some((path, loader, named)) = &named {
            let model = model_of(&named.file.value, asked.model, last)?;
            let found = FoundConversation::of_agent(title, model, policy_of(named, asked)?, named);
            let inventory = runtime::block_on(ToolInventory::take(path, loader))?;
            let tools = tools(&found, &inventory);
            (found, tools, inventory.failed)
        } else {
            let (policy, _) = policies::load(asked.policy, &asked.loader)?;
            let model = asked.model.or(last.map(String::as_str)).unwrap_or("main").to_owned();
            (FoundConversation::named(title, model, policy), logged.all_tools(), Vec::new())
        };
        let messages = logged.fold.messages().to_vec();
        let reported = logged.reported;
        let found = found.with_log(logged);
        let parts = found.added(TokenParts::of(&*found.counter, &messages, tools));
        Ok(Self { reported, failed, ..found.subject(parts, messages) })
    }
}

impl FoundConversation {
    /// A model of which only the name is known.
    fn named(title: String, model: String, policy: Policy) -> Self {
        let rules = policy.model(&model);
        let window = known_window(&rules, None, None, &model);
        let counter = counter_by(&rules.tokens, &model);
        let (form, served) = (ToolForm::Chat, model.clone());
        Self { title, model, policy, window, form, served, counter, calibration: TokenCalibration::default() }
    }

    /// A model of an agent file.
    fn of_agent(title: String, model: String, policy: Policy, named: &NamedAgent) -> Self {
        let entry = named.file.value.models.get(&model);
        let served = entry.map_or_else(|| model.clone(), |entry| entry.facts(&model).model);
        let rules = policy.model(&model);
        let window = known_window(&rules, None, named.models.as_ref(), &served);
        let counter = counter_by(&rules.tokens, &served);
        let form = entry.map_or(ToolForm::Chat, ModelEntry::tool_form);
        Self { title, model, policy, window, form, served, counter, calibration: TokenCalibration::default() }
    }

    /// What its provider is known to add to a request of these parts.
    fn added(&self, parts: TokenParts) -> TokenParts {
        let overhead = overhead(&self.served, parts.system > 0).unwrap_or_default();
        TokenParts { fixed: overhead.of(parts.all_tools() > 0), ..parts }
    }

    /// What the session knows of the window holds, if the policy does not say it; and what its provider counts.
    fn with_log(mut self, logged: LoggedSession) -> Self {
        let told = logged.started.windows.get(&self.model).copied();
        let said = self.window.is_some_and(|known| known.source == WindowSource::Policy);
        if let Some(told) = told.filter(|told| !said && told.source != WindowSource::Policy) {
            self.window = Some(told);
        }
        let (calibration, refused) = logged.observations.learned(&self.policy);
        self.calibration = calibration;
        let refused = refused.of(&self.model, &self.policy.model(&self.model));
        if let (ContextWindow::Tokens(tokens), Some(WindowSource::Refusal)) = (refused.window, refused.source)
            && self.window.is_none_or(|known| tokens < known.tokens)
        {
            let output = self.window.and_then(|known| known.output);
            self.window = Some(KnownWindow { tokens, source: WindowSource::Refusal, output });
        }
        self
    }

    fn subject(self, parts: TokenParts, messages: Vec<Message>) -> ContextSubject {
        let Self { title, model, policy, window, counter, calibration, .. } = self;
        let parts = parts.each(&|tokens| calibration.part(&model, tokens));
        let fixed = parts.all_tools().saturating_add(parts.fixed);
        let measure = TurnMeasure {
            message_tokens: parts.messages(),
            tool_tokens: fixed.saturating_add_signed(calibration.offset(&model).unwrap_or(0)),
            ..TurnMeasure::default()
        };
        let room = window.map(|known| {
            let room =
                ContextBudget::of(policy.context(), &policy.model(&model), known.tokens.get(), measure);
            let fitted = known.source == WindowSource::Policy;
            if fitted { room } else { room.with_half_for_the_reply() }
        });
        let weights = messages.iter().map(|message| message_tokens(&*counter, message)).collect();
        let (reported, failed) = (None, Vec::new());
        ContextSubject {
            title,
            model,
            policy,
            counter,
            window,
            room,
            parts,
            messages,
            weights,
            calibration,
            reported,
            failed,
        }
    }
}

/// The body of a request.
fn body_of(name: &str, bytes: &[u8]) -> Result<Value, CommandFailure> {
    if bytes.len() as u64 > MOST {
        return Err(CommandFailure::Stopped(format!("{name} has more than {} MiB", MOST >> 20)));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| CommandFailure::Stopped(format!("{name} is no JSON: {error}; {HINT}")))
}

/// The records of a log.
fn records_of(path: &Path) -> Result<impl Iterator<Item = Result<Record, CommandFailure>>, CommandFailure> {
    let shown = path.display().to_string();
    let file = std::fs::File::open(path)
        .map_err(|error| CommandFailure::io(format!("cannot read {shown}"), error))?;
    let damaged = move |error| CommandFailure::Stopped(format!("{shown}: {error}"));
    Ok(read_log(BufReader::new(file)).map(move |record| record.map_err(&damaged)))
}

impl LoggedSession {
    fn of(records: impl Iterator<Item = Result<Record, CommandFailure>>) -> Result<Self, CommandFailure> {
        let mut logged = Self::default();
        for record in records {
            logged.take(record?);
        }
        Ok(logged)
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Session(header) => {
                self.agent = header.agent.map(|agent| (PathBuf::from(agent.file), agent.profile));
            }
            Record::Event(envelope) => {
                match &envelope.event {
                    Event::RunStarted(started) => self.started = started.clone(),
                    Event::TurnPrepared { measure, .. } => self.tools = measure.tool_tokens,
                    Event::ModelResponded { work, reply } if self.called(*work) => {
                        self.reported = reply.usage.or(self.reported);
                    }
                    _ => {}
                }
                self.observations.happened(&envelope);
                self.fold.happened(&envelope);
            }
            Record::Directives { list, .. } => {
                for directive in &list.0 {
                    self.observations.decided(&directive.order);
                    if let DirectiveKind::Work(Work::CallModel(call)) = &directive.order {
                        self.target = Some(call.target.clone());
                    }
                }
                self.fold.decided(list);
            }
            Record::State { .. } => {}
        }
    }

    /// Whether that was the work of a model that was called with the conversation.
    fn called(&self, work: WorkId) -> bool {
        self.fold.open().any(|open| open.id() == work && matches!(open, Work::CallModel(_)))
    }

    /// All tools together, as they were counted before the final turn.
    fn all_tools(&self) -> Vec<(String, u64)> {
        let count = self.fold.tools().len();
        let name = if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") };
        (self.tools > 0).then_some((name, self.tools)).into_iter().collect()
    }
}

fn read_agent(path: &Path, bytes: &[u8], loader: &Loader) -> Result<NamedAgent, CommandFailure> {
    let (named, reports) = NamedAgent::read(path, bytes, loader);
    named.ok_or_else(|| reported(&named::once(reports)))
}

/// The policy of the command line or, without one, that of the agent.
fn policy_of(named: &NamedAgent, asked: &ContextQuery<'_>) -> Result<Policy, CommandFailure> {
    if asked.policy.is_empty() {
        return Ok(named.policy.clone());
    }
    Ok(policies::load(asked.policy, &asked.loader)?.0)
}

/// The model that is meant: the one that is named, the one that was called last, or the first of the file.
fn model_of(file: &AgentFile, wanted: Option<&str>, last: Option<&String>) -> Result<String, CommandFailure> {
    let names = || file.models.keys().map(String::as_str).collect::<Vec<_>>();
    match wanted {
        Some(name) if file.models.contains_key(name) => Ok(name.to_owned()),
        Some(name) => {
            let known = names().join(", ");
            Err(CommandFailure::Usage(format!("the agent has no model `{name}`; it has {known}")))
        }
        None => {
            let last = last.filter(|name| file.models.contains_key(*name)).cloned();
            Ok(last.or_else(|| names().first().map(|name| (*name).to_owned())).unwrap_or_default())
        }
    }
}

/// Each tool in the form in which the model is shown it.
fn tools(found: &FoundConversation, inventory: &ToolInventory) -> Vec<(String, u64)> {
    let tools = inventory.tools.iter();
    let tokens = |spec| found.form.tokens(&*found.counter, &found.served, spec);
    tools.map(|tool| (tool.spec.name.clone(), tokens(&tool.spec))).collect()
}

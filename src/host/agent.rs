//! The reference host: a loop of named steps around the interpreter. It holds no policy logic.
//!
//! Take the next event, write it down, step, write down what was decided, set the work going, wait for the first
//! piece of it to end. Everything that decides is in the interpreter; everything that acts is behind a port.

mod blocking;
mod build;
#[cfg(all(test, feature = "scripted"))]
mod once;
mod recordable;
mod redact;
mod resume;
mod sharing;
mod work;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use self::sharing::SharedReach;
use super::approver::{Approver, DenyAll};
use super::aside::{ProgressChannel, ToolProgress};
use super::attached::with_attachments;
use super::clock::Clock;
use super::observer::{Journal, JournalError, NoopObserver, Observer, Planner, TellModel};
use super::policy_watch::FileComplaint;
use super::port::{BoxFuture, Model, StreamSink, ToolSource};
use super::redact::SecretRedactor;
use super::results::with_readers;
use super::shared::SharedState;
use super::task::{RunError, RunReport, RunTask};
use super::telemetry::{Telemetry, spans};
use super::tool::Tools;
use super::under_way::UnderWay;
use super::{
    LivePolicy, Metrics, ModelAttempt, ModelFacts, PolicyFilesError, PolicyWatch, StopSwitch, trace,
};
use crate::context::{ConversationMeasure, TokenCounter};
use crate::engine::{
    DirectiveKind, Directives, DriveMode, Envelope, Event, FinishReason, Interpreter, KnownWindow,
    ModelReply, Note, Outcome, RunStarted, State, ToolFacts, ToolSpec, WorkId,
};
use crate::host::checkpoint::SessionCheckpoint;
use crate::host::result_files::ResultFiles;
use crate::policy::ErrorClass;
use crate::session::{Message, splice};

/// Why a run that was stopped from outside ended.
const STOPPED: &str = "stopped by the user";

/// An agent: a policy, models, tools, and whoever listens.
pub struct Agent {
    policy: LivePolicy,
    watch: Option<Mutex<PolicyWatch>>,
    models: Vec<(String, Arc<dyn Model>)>,
    facts: BTreeMap<String, ModelFacts>,
    metrics: Option<Arc<Metrics>>,
    tools: Tools,
    sources: Vec<Arc<dyn ToolSource>>,
    planner: Arc<dyn Planner>,
    approver: Arc<dyn Approver>,
    counter: Option<Arc<dyn TokenCounter>>,
    windows: BTreeMap<String, KnownWindow>,
    clock: Option<Clock>,
    redactor: Arc<SecretRedactor>,
    drain: Duration,
    results: Option<PathBuf>,
    shared: Option<Arc<dyn SharedState>>,
}

// The names of its models and the digest of its policy; no configuration, which has keys.
crate::debug_parts!(|this: Agent|
    policy: this.policy.current().digest(),
    models: this.models.iter().map(|(name, _)| name).collect::<Vec<_>>()
);

impl Agent {
    /// An agent under `policy`, without models and tools. If it is a [`LivePolicy`] that is replaced, the run continues
    /// under the new one from its next turn on.
    pub fn new(policy: impl Into<LivePolicy>) -> Self {
        Self {
            policy: policy.into(),
            watch: None,
            models: Vec::new(),
            facts: BTreeMap::new(),
            metrics: None,
            tools: Tools::default(),
            sources: Vec::new(),
            planner: Arc::new(TellModel),
            approver: Arc::new(DenyAll),
            counter: None,
            windows: BTreeMap::new(),
            clock: None,
            redactor: Arc::new(SecretRedactor::default().with_forms(true)),
            drain: Duration::from_secs(5),
            results: None,
            shared: None,
        }
    }

    /// An agent under the policy of files that are looked at before every turn. What is broken is said and does not
    /// takes effect.
    pub fn watching(watch: PolicyWatch) -> Self {
        let mut agent = Self::new(watch.live().clone());
        agent.watch = Some(Mutex::new(watch));
        agent
    }

    /// Runs the agent to its end, telling nobody and writing nothing down.
    ///
    /// # Errors
    /// See [`Agent::run_with`].
    pub async fn run(&self, task: RunTask) -> Result<RunReport, RunError> {
        self.run_with(task, &mut NoopObserver, None, StopSwitch::new()).await
    }

    /// Runs the agent to its end, or until `stop` fires: a [`StopSwitch`], or a [`CancellationToken`] that ends it now.
    ///
    /// # Errors
    /// A task without an id of its run, tools that cannot be used, or a session that cannot be written. A model or a tool that
    /// fails is no error: it is part of the outcome.
    pub async fn run_with(
        &self,
        task: RunTask,
        observer: &mut dyn Observer,
        journal: Option<&mut dyn Journal>,
        stop: impl Into<StopSwitch>,
    ) -> Result<RunReport, RunError> {
        // A run is large; who awaits it need not be.
        Box::pin(self.live(SessionCheckpoint::default(), Some(task), observer, journal, stop.into())).await
    }

    async fn live(
        &self,
        past: SessionCheckpoint,
        task: Option<RunTask>,
        observer: &mut dyn Observer,
        journal: Option<&mut dyn Journal>,
        outside: StopSwitch,
    ) -> Result<RunReport, RunError> {
        if task.as_ref().is_some_and(|task| task.run.is_empty()) {
            return Err(RunError::NoRunId);
        }
        let mut unwritten = NoopObserver;
        let journal = journal.unwrap_or(&mut unwritten);
        let (generation, policy) = self.policy.numbered();
        let results = Arc::new(ResultFiles::new(self.results.clone()));
        let task = match task {
            Some(mut task) if !task.attachments.is_empty() => {
                let attachments = core::mem::take(&mut task.attachments);
                task.task = with_attachments(task.task, attachments, &results).await?;
                Some(task)
            }
            task => task,
        };
        let versions = self.versions();
        let tools = with_readers(&self.all_tools(), &policy, &results);
        let catalogue = tools.catalogue()?;
        catalogue.fits(&policy)?;
        self.prices_for(&policy)?;
        let form = self.models.first().map(|(_, model)| model.tool_form()).unwrap_or_default();
        let measure = ConversationMeasure::new(self.counter_under(&policy), form, self.first_model());
        let facts = self.facts_under(&policy);
        let interpreter = Interpreter::new(policy, catalogue);
        let policy = interpreter.policy().digest();
        let run = task.as_ref().map_or(&*past.state.run, |task| &*task.run);
        let (within, span) = (spans::agent(run), tracing::info_span!("run", correlation_id = %run, policy));
        let metrics = self.metrics.clone().unwrap_or_default();
        let run = AgentRun {
            agent: self,
            results,
            generation,
            told: 0,
            versions,
            offered: offered(&interpreter),
            tools,
            interpreter,
            measure,
            clock: self.clock.unwrap_or_else(Clock::system),
            state: State::new(),
            messages: Arc::default(),
            telemetry: Telemetry::new(Arc::clone(&metrics), facts).within(within.clone()),
            attempts: Vec::new(),
            long_reply: false,
            metrics,
            stop: outside.now.child_token(),
            streamed: None,
            asides: None,
            held: String::new(),
            cut: None,
            dropped: BTreeSet::new(),
            under_way: UnderWay::default(),
            reach: SharedReach::default(),
            observer,
            journal,
        };
        // A run is large; whoever awaits it would be as large.
        Box::pin(run.live(past, task, outside)).instrument(span).instrument(within).await
    }
}

/// Work in flight.
type UnderWayWork = FuturesUnordered<BoxFuture<'static, Event>>;

/// The text of a reply that is an answer and was cut at a limit of tokens.
fn cut_text(reply: &ModelReply) -> Option<&str> {
    // A reply with calls is no answer, whatever its end: the calls were what the model meant to say.
    let cut =
        matches!(reply.finish, FinishReason::Length | FinishReason::ContextWindow) && reply.calls.is_empty();
    cut.then_some(reply.text.as_str()).filter(|text| !text.trim().is_empty())
}

/// Whether a run failed because its last reply was cut at a limit of tokens.
fn cut_short(outcome: &Outcome) -> bool {
    let Outcome::Failed { exhausted, .. } = outcome else { return false };
    let last = exhausted.attempts.last().map(|attempt| attempt.error_type);
    matches!(last, Some(ErrorClass::TruncatedOutput | ErrorClass::ContextOverflow))
}

/// One run in flight.
struct AgentRun<'a> {
    agent: &'a Agent,
    results: Arc<ResultFiles>,
    interpreter: Interpreter,
    /// Which policy of the agent was looked at last.
    generation: u64,
    /// Which complaint about the policy's files was reported last.
    told: u64,
    /// Which tools of the agent's sources were looked at last.
    versions: Vec<u64>,
    /// The tools as they were before this turn, and the ones that read kept results.
    tools: Tools,
    /// Every tool the model may be shown, the report's included.
    offered: Arc<[ToolSpec]>,
    measure: ConversationMeasure,
    clock: Clock,
    state: State,
    messages: Arc<Vec<Message>>,
    metrics: Arc<Metrics>,
    telemetry: Telemetry,
    /// Calls of models that the last event ended.
    attempts: Vec<ModelAttempt>,
    /// Whether the last answer of a model takes long to decide.
    long_reply: bool,
    stop: CancellationToken,
    /// Where models put what they stream.
    streamed: Option<StreamSink>,
    /// Where tools say how far they are.
    asides: Option<ProgressChannel>,
    /// The end of what was streamed, which may be the beginning of a secret.
    held: String,
    /// The text of the last reply, if a limit of tokens cut it.
    cut: Option<String>,
    /// Work that need not be answered any more.
    dropped: BTreeSet<WorkId>,
    /// Calls that have begun and not ended.
    under_way: UnderWay,
    reach: SharedReach,
    observer: &'a mut dyn Observer,
    journal: &'a mut dyn Journal,
}

impl AgentRun<'_> {
    async fn live(
        mut self,
        past: SessionCheckpoint,
        task: Option<RunTask>,
        outside: StopSwitch,
    ) -> Result<RunReport, RunError> {
        let mut work: FuturesUnordered<BoxFuture<'static, Event>> = FuturesUnordered::new();
        self.measure.set_tools(&self.offered);
        let (streamed, mut pieces) = StreamSink::new();
        self.streamed = Some(streamed);
        let (asides, mut told) = ProgressChannel::new();
        self.asides = Some(asides);
        let mut next = self.take_up(past, task, &mut work).await?;
        let mut asked = false;
        loop {
            if matches!(next, Some(Event::TurnPrepared { .. })) {
                let changed = [self.reload(), self.look_at_tools(&outside).await];
                for changed in changed.into_iter().flatten() {
                    self.take(changed, &mut work).await?;
                }
                // Under the policy and with the tools of this turn.
                if let Some(changed) = self.look_at_shared(&outside).await {
                    self.take(changed, &mut work).await?;
                }
            }
            if let Some(Event::TurnPrepared { measure, .. }) = &mut next {
                measure.tool_tokens = self.measure.tool_tokens();
            }
            if let Some(event) = next.take() {
                self.take_aside(event, &mut work).await?;
            }
            if let Some(changed) = self.tell_others(&outside).await {
                self.take(changed, &mut work).await?;
            }
            if let Some(outcome) = self.state.outcome.clone() {
                self.wind_up(work, &outside.kill).await?;
                let messages = Arc::unwrap_or_clone(self.messages);
                let (cost, metrics) = (self.telemetry.cost(), self.metrics);
                let partial = self.cut.filter(|_| cut_short(&outcome));
                let limits = self.interpreter.policy().run_limits().clone();
                return Ok(RunReport {
                    outcome,
                    state: self.state,
                    messages,
                    metrics,
                    limits,
                    cost,
                    partial,
                });
            }
            let event = loop {
                let next = tokio::select! {
                    biased;
                    () = outside.kill.cancelled() => Event::Cancelled { reason: STOPPED.into() },
                    () = outside.now.cancelled() => Event::Cancelled { reason: STOPPED.into() },
                    () = outside.graceful.cancelled(), if !asked => {
                        asked = true;
                        Event::StopRequested { reason: STOPPED.into() }
                    }
                    Some(piece) = pieces.recv() => {
                        self.tell(&piece);
                        continue;
                    }
                    next = work.next() => next.ok_or(RunError::Stalled)?,
                    // Last of all, for a tool may talk without end.
                    Some(said) = told.recv() => {
                        self.pass_on(said);
                        continue;
                    }
                };
                if let Some(work) = next.work() {
                    self.under_way.ended(work);
                }
                // What came of work that was dropped is of no use to anybody.
                if !next.work().is_some_and(|work| self.dropped.remove(&work)) {
                    break next;
                }
            };
            while let Ok(piece) = pieces.try_recv() {
                self.tell(&piece);
            }
            let rest = std::mem::take(&mut self.held);
            // Of an answer that failed nothing stays, and least of all the beginning of a secret.
            if !rest.is_empty() && matches!(event, Event::ModelResponded { .. }) {
                self.observer.streamed(&self.agent.redactor.text(rest));
            }
            next = Some(event);
        }
    }

    /// After the end: tells all work to end, and writes down what came of every call in flight. Who does not end in time,
    /// or is to be killed, is dropped; its effect is unknown then.
    async fn wind_up(
        &mut self,
        mut work: FuturesUnordered<BoxFuture<'static, Event>>,
        kill: &CancellationToken,
    ) -> Result<(), JournalError> {
        self.stop.cancel();
        let mut late = std::pin::pin!(tokio::time::sleep(self.agent.drain));
        while !self.under_way.is_empty() {
            let event = tokio::select! {
                biased;
                () = kill.cancelled() => break,
                event = work.next() => event,
                () = &mut late => {
                    tracing::warn!("work in flight did not end in time and is dropped");
                    break;
                }
            };
            let Some(event) = event else { break };
            // Waits are over with the run.
            if event.work().is_some_and(|work| self.under_way.ended(work)) {
                // The interpreter is done: it takes note and asks for nothing.
                drop(self.step(event).await?);
            }
        }
        drop(work);
        for event in self.under_way.unknown() {
            drop(self.step(event).await?);
        }
        let left = self.agent.tools.iter().map(|tool| tool.settled());
        tokio::select! {
            biased;
            () = kill.cancelled() => {}
            _ = futures_util::future::join_all(left) => {}
            () = late => tracing::warn!("processes in the background did not end in time"),
        }
        Ok(())
    }

    /// Tells of a piece of an answer. What may be the beginning of a secret is held back until more of it has come.
    fn tell(&mut self, piece: &str) {
        let redactor = &self.agent.redactor;
        let mut text = std::mem::take(&mut self.held) + piece;
        let open = text.split_off(text.len().saturating_sub(redactor.open_form(&text)));
        text = redactor.text(text);
        self.held = text.split_off(text.len().saturating_sub(redactor.open_end(&text))) + &open;
        if !text.is_empty() {
            self.observer.streamed(&text);
        }
    }

    fn pass_on(&mut self, said: ToolProgress) {
        let text = self.agent.redactor.text(said.text);
        self.observer.progressed(&ToolProgress { text, ..said });
    }

    fn started(&self, task: RunTask) -> Event {
        let tools = self.interpreter.tools().iter();
        let overheads = self.agent.overheads(!task.system.is_empty());
        Event::RunStarted(RunStarted {
            run: task.run,
            policy: self.interpreter.policy().digest().to_owned(),
            seed: task.seed,
            drive: DriveMode::Turns,
            system: self.agent.redactor.text(task.system),
            history: task.history.into_iter().map(|message| self.agent.redactor.message(message)).collect(),
            task: self.agent.redactor.text(task.task),
            targets: self.agent.models.iter().map(|(name, _)| name.clone()).collect(),
            windows: self.agent.windows.clone(),
            overheads,
            prices: self.agent.prices(),
            tools: tools.map(ToolFacts::from).collect(),
            deadline: task.deadline.map(|length| self.clock.now().saturating_add(length.into())),
        })
    }

    /// Continues under another policy, if there is one. Between two turns nothing is in flight that began under the old.
    fn reload(&mut self) -> Option<Event> {
        if let Some(watch) = &self.agent.watch {
            let tools = self.interpreter.tools();
            let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
            // What went wrong is in the complaint, which every run gets once.
            let agent = self.agent;
            let _ = watch.poll_for(|policy| agent.fits(policy, tools));
            let FileComplaint { number, error } = watch.complaint().clone();
            drop(watch);
            if let Some(error) = error
                && number > self.told
            {
                self.told = number;
                self.keep_last_good(&error);
            }
        }
        if self.agent.policy.generation() == self.generation {
            return None;
        }
        let (generation, policy) = self.agent.policy.numbered();
        self.generation = generation;
        if let Err(unfit) = self.agent.fits(&policy, self.interpreter.tools()) {
            self.keep_last_good(&PolicyFilesError::Unfit(unfit));
            return None;
        }
        if policy.digest() == self.interpreter.policy().digest() {
            return None;
        }
        self.measure.count_by(self.agent.counter_under(&policy), &self.messages);
        self.interpreter = Interpreter::new(policy, self.interpreter.tools().clone());
        self.offered = offered(&self.interpreter);
        self.measure.set_tools(&self.offered);
        let policy = self.interpreter.policy().digest().to_owned();
        tracing::Span::current().record("policy", &policy);
        tracing::info!(policy, "another policy is in effect");
        Some(Event::PolicyChanged { policy })
    }

    /// Takes other tools, if there are any. Those that cannot be used together leave everything as it was.
    async fn look_at_tools(&mut self, outside: &StopSwitch) -> Option<Event> {
        let agent = self.agent;
        let looks = agent.sources.iter().map(|source| source.refresh());
        tokio::select! {
            biased;
            () = outside.kill.cancelled() => return None,
            () = outside.now.cancelled() => return None,
            _ = futures_util::future::join_all(looks) => {}
        }
        let versions = agent.versions();
        if versions == self.versions {
            return None;
        }
        self.versions = versions;
        let policy = self.interpreter.policy().clone();
        let tools = with_readers(&agent.all_tools(), &policy, &self.results);
        let fit = tools.catalogue().map_err(|error| error.to_string()).and_then(|catalogue| {
            catalogue.fits(&policy).map_err(|unfit| unfit.to_string())?;
            Ok(catalogue)
        });
        let catalogue = match fit {
            Ok(catalogue) => catalogue,
            Err(error) => {
                tracing::error!(error, "the tools have changed but cannot be used; the last good ones stay");
                return None;
            }
        };
        self.tools = tools;
        self.interpreter = Interpreter::new(policy, catalogue);
        self.offered = offered(&self.interpreter);
        self.measure.set_tools(&self.offered);
        let tools: Vec<ToolFacts> = self.interpreter.tools().iter().map(ToolFacts::from).collect();
        tracing::info!(tools = tools.len(), "the tools have changed");
        Some(Event::ToolsChanged { tools })
    }

    fn keep_last_good(&mut self, error: &PolicyFilesError) {
        tracing::error!(error = %error, "the policy cannot be reloaded; the last good one stays in effect");
        self.observer.on_reload_error(error);
    }

    /// Takes an event, and sets going what was decided.
    async fn take(
        &mut self,
        event: Event,
        work: &mut FuturesUnordered<BoxFuture<'static, Event>>,
    ) -> Result<(), JournalError> {
        let directives = self.step(event).await?;
        self.set_going(directives, work);
        Ok(())
    }

    /// Writes the event down, takes it, and writes down what was decided.
    async fn step(&mut self, event: Event) -> Result<Directives, JournalError> {
        let envelope = self.write_down(event)?;
        let directives = self.decide(envelope)?;
        self.written().await?;
        Ok(directives)
    }

    /// Nothing is acted on before it is written.
    async fn written(&mut self) -> Result<(), JournalError> {
        match self.journal.written() {
            Some(writing) => writing.await,
            None => Ok(()),
        }
    }

    fn write_down(&mut self, event: Event) -> Result<Envelope, JournalError> {
        let envelope = Envelope { seq: self.state.seq.saturating_add(1), now: self.clock.now(), event };
        self.observer.event(&envelope);
        self.journal.event(&envelope)?;
        Ok(envelope)
    }

    /// Takes an event that is written down, and writes down what was decided.
    fn decide(&mut self, envelope: Envelope) -> Result<Directives, JournalError> {
        self.telemetry.event(&envelope, self.interpreter.policy());
        if let Event::ModelResponded { reply, .. } = &envelope.event {
            self.cut = cut_text(reply).map(str::to_owned);
        }
        let directives = self.interpreter.step(&mut self.state, envelope);
        self.decided(directives)
    }

    fn decided(&mut self, directives: Directives) -> Result<Directives, JournalError> {
        let (state, policy) = (&self.state, self.interpreter.policy());
        self.attempts = self.telemetry.directives(&directives, state.now, state, policy);
        self.journal.directives(self.interpreter.policy().digest(), &directives, &self.state)?;
        Ok(directives)
    }

    /// Takes note of the notes and sets the work going, in the order given.
    fn set_going(&mut self, directives: Directives, work: &mut FuturesUnordered<BoxFuture<'static, Event>>) {
        for directive in directives.0 {
            self.observer.directive(&directive);
            trace::directive(&directive);
            match directive.order {
                DirectiveKind::Note(note) => self.take_note(note),
                DirectiveKind::Work(order) => {
                    self.under_way.begun(&order);
                    let span = self.telemetry.span(order.id());
                    let begun = self.begin(order);
                    work.push(if span.is_none() { begun } else { Box::pin(begun.instrument(span)) });
                }
            }
        }
        for attempt in std::mem::take(&mut self.attempts) {
            self.observer.attempt(&attempt);
            trace::attempt(&attempt);
        }
        self.observer.stepped(&self.state);
    }

    fn take_note(&mut self, note: Note) {
        match note {
            Note::Append { message } => {
                self.measure.append(&message);
                Arc::make_mut(&mut self.messages).push(message);
            }
            Note::Splice { splices } => {
                splice(Arc::make_mut(&mut self.messages), &splices);
                self.measure.splice(&splices);
            }
            Note::ReducerError { error } => self.observer.on_reducer_error(&error),
            Note::Dropped { work } => drop(self.dropped.insert(work)),
            // Of the others telemetry and the observer have taken note.
            _ => {}
        }
    }
}

/// The tools as they are declared to the model, and after them the one the final report is delivered by.
pub(crate) fn offered(interpreter: &Interpreter) -> Arc<[ToolSpec]> {
    interpreter.offered().into()
}

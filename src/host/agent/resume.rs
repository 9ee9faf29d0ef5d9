//! Going on with a session whose log ended somewhere, also in the middle of a run.

use std::sync::Arc;

use futures_util::stream::FuturesUnordered;

use super::{Agent, AgentRun};
use crate::engine::{
    Directive, DirectiveKind, Directives, EffectState, Event, Failure, Interpreter, RunTool, ToolFacts,
    ToolOutcome, Work,
};
use crate::host::StopSwitch;
use crate::host::checkpoint::{SessionCheckpoint, rule_changes};
use crate::host::observer::{Journal, JournalError, Observer};
use crate::host::port::BoxFuture;
use crate::host::result_files::ResultFiles;
use crate::host::results::with_readers;
use crate::host::task::{RunError, RunReport, RunTask};
use crate::policy::ErrorClass;

/// Why a run that was broken off ended, if another one follows.
const BROKEN_OFF: &str = "the run was broken off";

/// Work in flight.
type UnderWay = FuturesUnordered<BoxFuture<'static, Event>>;

impl Agent {
    /// What decides in a run that begins now: the effective policy, and the tools there are.
    ///
    /// # Errors
    /// Tools that cannot be used.
    pub fn interpreter(&self) -> Result<Interpreter, RunError> {
        let policy = self.policy.numbered().1;
        let tools = with_readers(&self.all_tools(), &policy, &Arc::new(ResultFiles::new(None)));
        Ok(Interpreter::new(policy, tools.catalogue()?))
    }

    /// Continues with a session: with the run that was broken off in it or, if there is a task, with a next run, which
    /// knows the conversation so far. `past` is what [`store::resume`](crate::store::resume) has made of its log, and
    /// `journal` writes into it. Without a past the session is new.
    ///
    /// What was waited for is waited for until then, and never longer than was planned; a model is asked again. Of a tool that had begun it is unknown what it
    /// did: that is reported to the policy, as a failure with an unknown effect.
    ///
    /// # Errors
    /// See [`Agent::run_with`]; and a session whose last run is over, or that of a host with a loop of its own, without a
    /// task.
    pub async fn go_on(
        &self,
        past: Option<SessionCheckpoint>,
        task: Option<RunTask>,
        observer: &mut dyn Observer,
        journal: Option<&mut dyn Journal>,
        stop: impl Into<StopSwitch>,
    ) -> Result<RunReport, RunError> {
        if task.is_none() && past.as_ref().is_none_or(SessionCheckpoint::is_over) {
            return Err(RunError::Over);
        }
        // Nobody here would make its calls.
        if task.is_none() && past.as_ref().is_some_and(SessionCheckpoint::is_driven) {
            return Err(RunError::Driven);
        }
        if let Some(past) = &past {
            observer.resumed(past);
        }
        let past = past.unwrap_or_default();
        // A run is large; who awaits it need not be.
        Box::pin(self.live(past, task, observer, journal, stop.into())).await
    }
}

impl AgentRun<'_> {
    /// Stands where the session stood. Returns the event that begins a run, if one begins.
    pub(super) async fn take_up(
        &mut self,
        past: SessionCheckpoint,
        task: Option<RunTask>,
        work: &mut UnderWay,
    ) -> Result<Option<Event>, JournalError> {
        let SessionCheckpoint { state, messages, open, untaken, policy, tools } = past;
        (self.state, self.messages) = (state, Arc::new(messages));
        self.telemetry.goes_on(&self.state.run);
        self.measure.take_up(&self.messages);
        if let Some(envelope) = untaken {
            if matches!(envelope.event, Event::RunStarted(_)) && self.state.is_over() {
                self.state = self.state.next_run();
            }
            self.observer.event(&envelope);
            let directives = self.decide(envelope)?;
            self.written().await?;
            self.set_going(if task.is_some() { without_work(directives) } else { directives }, work);
        }
        let Some(task) = task else {
            self.tell_changes(&policy, &tools, work).await?;
            self.take_up_work(open, work).await?;
            return Ok(None);
        };
        if !self.state.run.is_empty() && !self.state.is_over() {
            let directives = self.step(Event::Cancelled { reason: BROKEN_OFF.to_owned() }).await?;
            self.set_going(directives, work);
        }
        self.state = self.state.next_run();
        let mut task = task;
        if !self.messages.is_empty() {
            // The instructions precede the conversation already.
            task.system.clear();
        }
        Ok(Some(self.started(task)))
    }

    /// Tells the interpreter what is other than it was when the log ended.
    async fn tell_changes(
        &mut self,
        policy: &str,
        tools: &[ToolFacts],
        work: &mut UnderWay,
    ) -> Result<(), JournalError> {
        for event in rule_changes(&self.interpreter, policy, tools) {
            if !self.state.is_over() {
                let directives = self.step(event).await?;
                self.set_going(directives, work);
            }
        }
        Ok(())
    }

    /// Takes up what was begun and has no answer.
    async fn take_up_work(&mut self, open: Vec<Work>, work: &mut UnderWay) -> Result<(), JournalError> {
        let mut again = Vec::new();
        for open in open {
            match open {
                Work::RunTool(run) => {
                    let directives = self.step(unknown(run)).await?;
                    self.set_going(directives, work);
                }
                Work::Wait(mut wait) => {
                    // The clock may have been set back meanwhile: never longer than was planned.
                    wait.delay = wait.until.since(self.clock.now()).min(wait.delay);
                    again.push(Work::Wait(wait));
                }
                other => again.push(other),
            }
        }
        if self.state.is_over() {
            return Ok(());
        }
        let directive = |work| Directive { order: DirectiveKind::Work(work), because: Vec::new(), of: None };
        let directives = Directives(again.into_iter().map(directive).collect());
        let (now, policy) = (self.clock.now(), self.interpreter.policy());
        // No call of a model has ended by this.
        drop(self.telemetry.directives(&directives, now, &self.state, policy));
        self.set_going(directives, work);
        Ok(())
    }
}

/// What is reported about a tool that was running when the log ended.
fn unknown(run: RunTool) -> Event {
    let message = "the run was broken off before it ended";
    let failure = Failure::of(ErrorClass::ToolUnavailable, message);
    run.finished(ToolOutcome::Failed { failure, effect: EffectState::Unknown })
}

/// What is only to be taken note of.
fn without_work(directives: Directives) -> Directives {
    let notes =
        directives.0.into_iter().filter(|directive| matches!(directive.order, DirectiveKind::Note(_)));
    Directives(notes.collect())
}

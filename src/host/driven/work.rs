//! What a host with its own loop does, and how its answers become events.

use tokio::time::{sleep, timeout};

use crate::engine::{
    ApprovalAnswer, AskPerson, CallModel, ConsultPlanner, Directive, EffectState, Event, Failure, ModelReply,
    PlannerDecision, ProposalRef, ReduceContext, RepairHistory, RunFacts, RunTool, SummarizeMessages,
    ToolOutcome, TurnMeasure, WaitWork, Work,
};
use crate::host::port::BoxFuture;
use crate::policy::ErrorClass;
use crate::session::{ContextReduction, HistoryRepair};
use crate::time::Nanos;

/// What a host with its own loop does for its proposals. Most hosts do some of it only; what they cannot do they do not
/// propose, and do not say in [`TurnProposal::can`](crate::engine::TurnProposal::can).
pub trait RunHost: Send + Sync {
    /// Runs a tool once. It is dropped when its time is over, or when nobody needs it any more.
    fn run_tool<'a>(&'a self, of: ProposalRef, run: &'a RunTool) -> BoxFuture<'a, (ToolOutcome, RunFacts)> {
        let message = format!("no tool `{}` can be run here (proposal {})", run.tool, of.proposal);
        let failure = Failure::of(ErrorClass::ToolUnavailable, message);
        let outcome = ToolOutcome::Failed { failure, effect: EffectState::NotStarted };
        Box::pin(std::future::ready((outcome, RunFacts::default())))
    }

    /// Calls a model once.
    fn call_model<'a>(
        &'a self,
        of: ProposalRef,
        call: &'a CallModel,
    ) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        let message = format!("no model `{}` can be called here (proposal {})", call.target, of.proposal);
        Box::pin(std::future::ready(Err(Failure::of(ErrorClass::NotFound, message))))
    }

    /// Asks a person. Nobody is there to be asked, unless the host says otherwise.
    fn answer<'a>(&'a self, _ask: &'a AskPerson) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::None))
    }

    /// Decides what is done when attempts are used up and the policy says `ask_planner`.
    fn decide(&self, _consult: &ConsultPlanner) -> PlannerDecision {
        PlannerDecision::TellModel
    }

    /// Finds what it takes to make the history of a turn's request one that providers accept.
    fn repair_history(&self, _of: ProposalRef, _repair: &RepairHistory) -> HistoryRepair {
        HistoryRepair::default()
    }

    /// Finds what one step of a reduction of a turn's request comes to.
    fn reduce_context(&self, _of: ProposalRef, _reduce: &ReduceContext) -> ContextReduction {
        ContextReduction::default()
    }

    /// Asks a model for a summary.
    fn summarize<'a>(
        &'a self,
        _of: ProposalRef,
        summarize: &'a SummarizeMessages,
    ) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        let message = format!("no model `{}` can be called here", summarize.target);
        Box::pin(std::future::ready(Err(Failure::of(ErrorClass::NotFound, message))))
    }

    /// A wait begins: for people who look on.
    fn waits(&self, _wait: &WaitWork) {}

    /// Nothing of a proposal can begin yet: it waits for other calls. For people who look on.
    fn queued(&self) {}

    /// Takes note of what was decided about a proposal: messages for the conversation, repairs, breakers.
    fn noted(&self, _directive: &Directive) {}
}

/// Does a piece of work, and makes the event that answers it.
pub(super) async fn carry_out(work: Work, of: ProposalRef, host: &dyn RunHost) -> Event {
    match work {
        Work::RunTool(run) => {
            let (outcome, facts) = match within(run.timeout, host.run_tool(of, &run)).await {
                Some(ended) => ended,
                None => (late(&run), RunFacts::default()),
            };
            run.finished_with(outcome, facts)
        }
        Work::CallModel(call) => {
            let reply = within(call.timeout, host.call_model(of, &call)).await;
            match reply.unwrap_or_else(|| Err(no_answer(call.timeout))) {
                Ok(reply) => call.responded(reply),
                Err(failure) => call.failed(failure),
            }
        }
        Work::Summarize(work) => {
            let reply = within(work.timeout, host.summarize(of, &work)).await;
            match reply.unwrap_or_else(|| Err(no_answer(work.timeout))) {
                Ok(reply) => work.responded(reply),
                Err(failure) => work.failed(failure),
            }
        }
        Work::Wait(wait) => {
            host.waits(&wait);
            sleep(wait.delay.to_std()).await;
            wait.fired()
        }
        Work::Ask(ask) => {
            let answer = within(ask.timeout, host.answer(&ask)).await.unwrap_or(ApprovalAnswer::None);
            ask.answered(answer)
        }
        Work::Consult(consult) => {
            let decision = host.decide(&consult);
            consult.decided(decision)
        }
        Work::RepairHistory(work) => {
            let repair = host.repair_history(of, &work);
            work.repaired(repair)
        }
        Work::ReduceContext(work) => {
            let reduction = host.reduce_context(of, &work);
            work.reduced(reduction)
        }
        // The measure of a turn comes with its proposal.
        Work::PrepareTurn(turn) => turn.prepared(TurnMeasure::default()),
    }
}

/// What comes of it, unless its time is over before.
async fn within<T>(most: Option<Nanos>, work: BoxFuture<'_, T>) -> Option<T> {
    match most {
        Some(most) => timeout(most.to_std(), work).await.ok(),
        None => Some(work.await),
    }
}

fn late(run: &RunTool) -> ToolOutcome {
    let failure = no_answer(run.timeout);
    ToolOutcome::Failed { failure, effect: EffectState::Unknown }
}

fn no_answer(most: Option<Nanos>) -> Failure {
    Failure::of(ErrorClass::Timeout, format!("no answer within {}", most.unwrap_or_default().rounded()))
}

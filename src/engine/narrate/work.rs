//! Work in words.

use super::phrase::{action, attempt, brief, call_of, short_name, word};
use super::{Narration, Severity};
use crate::engine::ask::ApprovalQuestion;
use crate::engine::directive::AskPerson;
use crate::engine::directive::{CallModel, RunTool, WaitWork, Work};

/// The name of the work for the event that answers it.
pub(super) fn name(work: &Work) -> Option<String> {
    match work {
        Work::CallModel(call) => Some(short_name(&call.target)),
        Work::Summarize(call) => Some(format!("the summary by {}", short_name(&call.target))),
        Work::RunTool(run) => Some(short_name(&run.tool)),
        _ => None,
    }
}

pub(super) fn narrate(work: &Work) -> Narration {
    match work {
        Work::PrepareTurn(turn) => {
            let subject = format!("turn {} of {}", turn.turn, turn.max_turns);
            let verb = if turn.last { "allows only the final report" } else { "" };
            Narration::new(Severity::Debug, "─", "turn", subject, verb)
                .fact("turn", turn.turn)
                .fact("last", turn.last)
        }
        Work::RepairHistory(_) => {
            Narration::new(Severity::Debug, "✎", "history repair", "the history", "is checked").minor()
        }
        Work::ReduceContext(work) => {
            let step = work.plan.step.name();
            let verb = format!("is to be reduced for {} ({step})", short_name(&work.target));
            Narration::new(Severity::Debug, "✎", "context reduction", "the conversation", verb)
                .silent()
                .fact("target_model", &work.target)
                .fact("step", step)
        }
        Work::Summarize(work) => {
            let verb = format!("summarizes the conversation{}", at_most(work.max_output));
            Narration::new(Severity::Debug, "→", "summary", model(&work.target), verb)
                .fact("target_model", &work.target)
                .fact("turn", work.turn)
        }
        Work::CallModel(call) => call_model(call),
        Work::RunTool(run) => run_tool(run),
        Work::Wait(wait) => waits(wait),
        Work::Ask(ask) => asks(ask),
        Work::Consult(consult) => {
            Narration::new(Severity::Warn, "?", "the planner is asked", "the planner", "decides")
                .detail(brief(&consult.exhausted.to_string()))
                .fact("action", &consult.exhausted.action)
        }
    }
}

fn call_model(call: &CallModel) -> Narration {
    let attempt = attempt(call.attempt, call.max_attempts);
    let verb = format!("is called, {attempt}{}", at_most(call.max_output));
    // The answer to a first attempt is enough. A later attempt, or a shortened reply, gets its own line.
    Narration::new(Severity::Debug, "→", "model call", model(&call.target), verb)
        .only_if(call.attempt > 1 || call.max_output.is_some())
        .fact("target_model", &call.target)
        .fact("turn", call.turn)
        .fact("attempt", call.attempt)
}

fn run_tool(run: &RunTool) -> Narration {
    let verb = match run.attempt {
        1 => "runs".to_owned(),
        number => format!("runs, {}", attempt(number, run.max_attempts)),
    };
    Narration::new(Severity::Debug, "→", "tool run", call_of(&run.tool, &run.arguments), verb)
        .fact("tool", &run.tool)
        .fact("call", &run.call)
        .fact("attempt", run.attempt)
}

fn waits(wait: &WaitWork) -> Narration {
    if let Some(pool) = &wait.pool {
        let verb = format!("waits {} for its turn", wait.delay.rounded());
        return Narration::new(Severity::Info, "…", "wait for its turn", action(&wait.subject), verb)
            .detail(&wait.message)
            .fact("subject", &wait.subject)
            .fact("pool", pool)
            .fact("attempt", wait.attempt)
            .fact("delay_ms", wait.delay.millis());
    }
    let attempt = attempt(wait.attempt, wait.max_attempts);
    let verb = format!("waits {} before {attempt}", wait.delay.rounded());
    Narration::new(Severity::Warn, "…", "retry after a wait", action(&wait.subject), verb)
        .detail(wait.error_type.name())
        .fact("subject", &wait.subject)
        .fact("error_type", wait.error_type.name())
        .fact("attempt", wait.attempt)
        .fact("delay_ms", wait.delay.millis())
}

fn asks(ask: &AskPerson) -> Narration {
    let verb = match ask.question {
        ApprovalQuestion::Run => "needs approval",
        ApprovalQuestion::RunAgain => "failed and may have had side effects; another run needs approval",
    };
    Narration::new(Severity::Info, "?", "a person is asked", call_of(&ask.tool, &ask.arguments), verb)
        .fact("tool", &ask.tool)
        .fact("call", &ask.call)
        .fact("question", word(&ask.question))
}

fn model(target: &str) -> String {
    format!("model {}", short_name(target))
}

fn at_most(tokens: Option<u64>) -> String {
    tokens.map(|most| format!(", with at most {most} tokens for its reply")).unwrap_or_default()
}

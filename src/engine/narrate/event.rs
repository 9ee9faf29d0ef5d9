//! Events in words.

use super::phrase::{brief, call, count, data, failure, quoted, word};
use super::{Narration, Narrator, Severity};
use crate::engine::event::{Event, ModelReply, ProposedCall, ToolOutcome};
use crate::engine::failure::{EffectState, Failure};

/// Narrates an event. `name`: the name of the work that the event answers.
pub(super) fn narrate(narrator: &mut Narrator, event: &Event, name: Option<String>) -> Narration {
    let named = |default: &str| name.unwrap_or_else(|| default.to_owned());
    match event {
        Event::RunStarted(run) => {
            info("●", "run started", format!("run {}", brief(&run.run)), "begins").silent()
        }
        Event::TurnPrepared { measure, .. } => {
            let detail =
                format!("{}, {}", count(measure.messages, "message"), count(measure.tokens(), "token"));
            info("─", "turn prepared", "the conversation", "is measured").silent().detail(detail)
        }
        Event::HistoryRepaired { .. } => info("✎", "history checked", "the history", "was checked").silent(),
        Event::ContextReduced { .. } => {
            info("✎", "reduction found", "a reduction of the conversation", "was looked for").silent()
        }
        Event::ModelResponded { reply, .. } => responds(named("the model"), reply),
        Event::ModelFailed { failure, .. } => fails(narrator, named("the model"), failure, "failed"),
        Event::ToolFinished { outcome, .. } => {
            let name = named("the tool");
            match outcome {
                ToolOutcome::Ok { data: result } => {
                    info("✓", "tool finished", name, "returns").good().detail(data(result))
                }
                ToolOutcome::Done => info("✓", "tool finished", name, "has run").good(),
                ToolOutcome::Failed { failure, effect } => fails(narrator, name, failure, failed(*effect)),
            }
        }
        Event::ToolsProposed { calls, .. } => {
            info("→", "tools proposed", "the host", format!("calls {}", list(calls)))
        }
        Event::TurnProposed(_) => info("→", "turn proposed", "the host", "proposes a turn"),
        Event::OutputProposed { output } => {
            info("→", "report proposed", "the host", "proposes a report").detail(brief(output))
        }
        Event::ProposalWithdrawn { proposal, .. } => {
            info("→", "proposal withdrawn", "the host", format!("withdraws proposal {proposal}"))
        }
        Event::TimerFired { .. } => info("…", "wait over", "the wait", "is over").silent(),
        Event::PlannerDecided { decision, .. } => {
            info("?", "planner decided", "the planner", format!("decides: {}", word(decision))).minor()
        }
        Event::Answered { answer, .. } => {
            info("?", "person answered", "the person", format!("answers: {}", word(answer))).minor()
        }
        Event::PolicyChanged { policy } => {
            let digest = policy.get(..12).unwrap_or(policy);
            warn("↻", "policy changed", format!("policy {}", brief(digest)), "takes effect")
        }
        Event::ToolsChanged { tools } => {
            let number = u64::try_from(tools.len()).unwrap_or(u64::MAX);
            warn("↻", "tools changed", "the tools", "have changed")
                .detail(format!("{} now", count(number, "tool")))
        }
        Event::SharedChanged(_) => {
            info("⇄", "shared state changed", "shared breakers and budgets", "have changed").silent()
        }
        Event::StopRequested { reason } => {
            warn("■", "stop requested", "the run", "is to end").detail(brief(reason))
        }
        Event::Cancelled { reason } => {
            warn("■", "cancelled", "the run", "is cancelled").detail(brief(reason))
        }
    }
}

fn info(
    sign: &'static str,
    title: &'static str,
    subject: impl Into<String>,
    verb: impl Into<String>,
) -> Narration {
    Narration::new(Severity::Info, sign, title, subject, verb)
}

fn warn(sign: &'static str, title: &'static str, subject: impl Into<String>, verb: &str) -> Narration {
    Narration::new(Severity::Warn, sign, title, subject, verb)
}

fn responds(name: String, reply: &ModelReply) -> Narration {
    let told = info("✓", "model replied", name, "says").good();
    match reply.calls.as_slice() {
        [] => told.detail(quoted(&reply.text)),
        calls => Narration { verb: format!("calls {}", list(calls)), ..told },
    }
}

fn list(calls: &[ProposedCall]) -> String {
    calls.iter().map(|proposal| call(&proposal.call)).collect::<Vec<_>>().join(", ")
}

fn fails(narrator: &mut Narrator, name: String, failed: &Failure, verb: &str) -> Narration {
    narrator.is_new_failure(&failed.message);
    Narration::new(Severity::Error, "✗", "failed", name, verb).detail(failure(failed))
}

/// The words for a failed run, depending on its effect.
const fn failed(effect: EffectState) -> &'static str {
    match effect {
        EffectState::NotStarted => "failed before it started",
        EffectState::Started => "failed",
        EffectState::Committed => "failed after its side effects",
        EffectState::Unknown => "failed, effect unknown",
    }
}

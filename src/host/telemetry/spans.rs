//! Spans as OpenTelemetry's conventions for generative AI want them: runs, proposals of a host, calls of models, runs of tools.
//!
//! They are spans of `tracing`, at level `debug` and under one target, and cost nothing as long as nobody subscribes to it. No prompt,
//! argument, reply or message of a server is in them. The names are those of
//! <https://github.com/open-telemetry/semantic-conventions-genai>; `unfazed.*` is our own.

use std::collections::BTreeMap;

use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Span};

use super::attempt::{AttemptStatus, ModelAttempt};
use crate::engine::{
    Directive, DirectiveKind, Event, Note, ProposalId, ProposalRef, ProposalResult, RunTool,
};
use crate::policy::ErrorClass;

/// What subscribers ask for.
pub(in crate::host) const TARGET: &str = "unfazed::gen_ai";

/// The spans of one run that others are within.
#[derive(Debug)]
pub(super) struct RunSpans {
    /// That of the run, if the interpreter drives it.
    run: Span,
    /// Those of what a host has proposed and is not settled.
    proposals: BTreeMap<ProposalId, Span>,
}

/// Which call of a model begins.
pub(super) struct BegunCall<'a> {
    pub(super) turn: u32,
    pub(super) attempt: u32,
    pub(super) target: &'a str,
    pub(super) provider: &'a str,
    pub(super) model: &'a str,
}

/// Whether anybody subscribes to spans.
pub(in crate::host) fn are_read() -> bool {
    tracing::span_enabled!(target: TARGET, Level::DEBUG)
}

/// Whether anybody may: it costs nothing to ask.
#[inline]
pub(in crate::host) fn may_be_read() -> bool {
    LevelFilter::current() >= LevelFilter::DEBUG
}

/// A run that the interpreter drives.
pub(in crate::host) fn agent(run: &str) -> Span {
    tracing::debug_span!(
        target: TARGET,
        "invoke_agent",
        "otel.kind" = "internal",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "invoke_agent",
        "gen_ai.conversation.id" = run,
        "error.type" = Empty,
    )
}

/// A request of a client of the gateway. `route` is the address without what is variable in it.
#[cfg(feature = "serve")]
pub(in crate::host) fn request(route: &str, client: &str) -> Span {
    tracing::debug_span!(
        target: TARGET,
        "request",
        "otel.name" = format!("POST {route}"),
        "otel.kind" = "server",
        "otel.status_code" = Empty,
        "http.request.method" = "POST",
        "http.route" = route,
        "http.response.status_code" = Empty,
        "unfazed.client" = client,
        "error.type" = Empty,
    )
}

/// A request of a client of MCP for a call of a tool.
#[cfg(feature = "mcp")]
pub(in crate::host) fn mcp_call(tool: &str) -> Span {
    tracing::debug_span!(
        target: TARGET,
        "tools/call",
        "otel.name" = format!("tools/call {tool}"),
        "otel.kind" = "server",
        "mcp.method.name" = "tools/call",
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.name" = tool,
    )
}

/// The request failed with that status of HTTP, or was answered with it.
#[cfg(feature = "serve")]
pub(in crate::host) fn responded(span: &Span, status: u16) {
    span.record("http.response.status_code", i64::from(status));
    if status >= 500 {
        failed(span, &status.to_string());
    }
}

/// What the span is about ends here. Who exports it takes the last time that it was left for its end.
#[cfg(feature = "serve")]
pub(in crate::host) fn ends(span: &Span) {
    span.in_scope(|| {});
}

/// What the span is about has failed.
pub(in crate::host) fn failed(span: &Span, error: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", error);
}

/// A call of a model is over.
pub(super) fn called(span: &Span, attempt: &ModelAttempt) {
    if span.is_disabled() {
        return;
    }
    span.record("unfazed.status", attempt.status.name());
    let class = attempt.error_type.map(ErrorClass::name);
    match (attempt.status, class) {
        // The conventions know errors of the call only: a reply that is not what was due is none.
        (AttemptStatus::Success | AttemptStatus::Rejected, class) => {
            class.map(|class| span.record("unfazed.rejected_for", class));
        }
        (AttemptStatus::Failed | AttemptStatus::Cancelled, class) => {
            failed(span, class.unwrap_or("_OTHER"));
        }
    }
    if let Some(status) = attempt.http_status {
        span.record("http.response.status_code", i64::from(status));
    }
    for (name, tokens) in [
        ("gen_ai.usage.input_tokens", attempt.input_tokens),
        ("gen_ai.usage.output_tokens", attempt.output_tokens),
        ("gen_ai.usage.cache_read.input_tokens", attempt.cache_read_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", attempt.cache_write_tokens),
        ("gen_ai.usage.reasoning.output_tokens", attempt.reasoning_tokens),
    ] {
        if let Some(tokens) = tokens {
            // The attributes of OpenTelemetry have a sign.
            span.record(name, i64::try_from(tokens).unwrap_or(i64::MAX));
        }
    }
}

impl RunSpans {
    /// Within that of the run; none: the host drives it.
    pub(super) const fn new(run: Span) -> Self {
        Self { run, proposals: BTreeMap::new() }
    }

    /// An event is about to be taken in the run of that id.
    pub(super) fn event(&mut self, seq: u64, event: &Event, run: &str) {
        let span = match event {
            Event::TurnProposed(_) => proposed("turn", run, || "turn".to_owned()),
            Event::ToolsProposed { calls, .. } => proposed("calls", run, || match calls.as_slice() {
                [only] => format!("call {}", only.call.name),
                several => format!("{} calls", several.len()),
            }),
            Event::OutputProposed { .. } => proposed("report", run, || "report".to_owned()),
            Event::ProposalWithdrawn { proposal, call: None } => {
                if let Some(span) = self.proposals.remove(proposal) {
                    failed(&span, ErrorClass::Cancelled.name());
                }
                return;
            }
            _ => return,
        };
        if !span.is_disabled() {
            self.proposals.insert(ProposalId(seq), span);
        }
    }

    /// A call of a model begins.
    pub(super) fn call(&self, of: Option<ProposalRef>, call: &BegunCall<'_>) -> Span {
        let model = if call.model.is_empty() { call.target } else { call.model };
        tracing::debug_span!(
            target: TARGET,
            parent: self.of(of),
            "chat",
            "otel.name" = format!("chat {model}"),
            "otel.kind" = "client",
            "otel.status_code" = Empty,
            "gen_ai.operation.name" = "chat",
            "gen_ai.provider.name" = Some(call.provider).filter(|provider| !provider.is_empty()),
            "gen_ai.request.model" = model,
            "gen_ai.usage.input_tokens" = Empty,
            "gen_ai.usage.output_tokens" = Empty,
            "gen_ai.usage.cache_read.input_tokens" = Empty,
            "gen_ai.usage.cache_creation.input_tokens" = Empty,
            "gen_ai.usage.reasoning.output_tokens" = Empty,
            "http.response.status_code" = Empty,
            "error.type" = Empty,
            "unfazed.target" = call.target,
            "unfazed.turn" = i64::from(call.turn),
            "unfazed.attempt" = i64::from(call.attempt),
            "unfazed.status" = Empty,
            "unfazed.rejected_for" = Empty,
        )
    }

    /// A run of a tool begins.
    pub(super) fn tool(&self, of: Option<ProposalRef>, run: &RunTool) -> Span {
        tracing::debug_span!(
            target: TARGET,
            parent: self.of(of),
            "execute_tool",
            "otel.name" = format!("execute_tool {}", run.tool),
            "otel.kind" = "internal",
            "otel.status_code" = Empty,
            "gen_ai.operation.name" = "execute_tool",
            "gen_ai.tool.name" = run.tool,
            "gen_ai.tool.call.id" = run.call,
            "error.type" = Empty,
            "unfazed.attempt" = i64::from(run.attempt),
        )
    }

    /// This was decided.
    pub(super) fn decided(&mut self, directive: &Directive) {
        #[cfg(feature = "otlp")]
        if may_be_read() {
            super::otel::decided(&self.of(directive.of), directive);
        }
        match &directive.order {
            DirectiveKind::Note(Note::Settled(settled)) => {
                if let Some(span) = self.proposals.remove(&settled.proposal)
                    && !matches!(
                        settled.result,
                        ProposalResult::Tools | ProposalResult::Reply { .. } | ProposalResult::Accepted
                    )
                {
                    failed(&span, settled.result.name());
                }
            }
            DirectiveKind::Note(Note::ProposalRefused { proposal, .. }) => {
                if let Some(span) = self.proposals.remove(proposal) {
                    failed(&span, "refused");
                }
            }
            _ => {}
        }
    }

    /// The run is over; it failed for that reason, if it did.
    pub(super) fn finished(&self, error: Option<&str>) {
        if let Some(error) = error {
            failed(&self.run, error);
        }
    }

    /// What is about that proposal, or about the run as a whole, is within this one.
    fn of(&self, of: Option<ProposalRef>) -> Span {
        let known = of.and_then(|of| self.proposals.get(&of.proposal));
        match known {
            Some(span) => span.clone(),
            None if self.run.is_none() => Span::current(),
            None => self.run.clone(),
        }
    }
}

/// A host proposes something: within what it does.
fn proposed(kind: &'static str, run: &str, name: impl FnOnce() -> String) -> Span {
    tracing::debug_span!(
        target: TARGET,
        "proposal",
        "otel.name" = name(),
        "otel.kind" = "internal",
        "otel.status_code" = Empty,
        "gen_ai.conversation.id" = run,
        "unfazed.proposal" = kind,
        "error.type" = Empty,
    )
}

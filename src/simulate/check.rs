//! Detects contradictions in a scenario whose single values are valid.

use super::document::{ModelFile, ScenarioFile, WindowFile};
use super::limits::{LimitWindow, RefusalHint};
use crate::cases::is_answer;
use crate::policy::decode::Spanned;
use crate::policy::{ErrorClass, OpenFraction, PerClass};
use crate::text::{Code, Diagnostic, Span};

/// Faults that no service has: the policy or the user causes them.
const OF_NOBODY: [ErrorClass; 4] =
    [ErrorClass::ReducerError, ErrorClass::CircuitOpen, ErrorClass::RepeatedCall, ErrorClass::Cancelled];
/// Faults that only tools have.
const OF_TOOLS: [ErrorClass; 2] = [ErrorClass::ToolUnavailable, ErrorClass::ExecutionError];
/// Faults that only models have.
const OF_MODELS: [ErrorClass; 12] = [
    ErrorClass::ToolNotFound,
    ErrorClass::MalformedToolCall,
    ErrorClass::InvalidOutput,
    ErrorClass::TruncatedOutput,
    ErrorClass::EmptyResponse,
    ErrorClass::TextOnly,
    ErrorClass::ReasoningOnly,
    ErrorClass::ContentFilter,
    ErrorClass::ContextOverflow,
    ErrorClass::OrphanToolCall,
    ErrorClass::ModelError,
    ErrorClass::QuotaExceeded,
];

/// The kind of service that has a fault.
#[derive(Clone, Copy)]
enum FaultOwner {
    Model,
    Tool,
}

/// All contradictions in the file.
pub(super) fn check(file: &ScenarioFile) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    if file.models.value.is_empty() {
        let problem = Diagnostic::error(Code::MISSING_FIELD, file.models.span, "there is no model to call");
        problems.push(problem.help("add one, such as `main: {latency: 2s}`"));
    }
    for model in file.models.value.values() {
        rates(model.faults.as_ref(), FaultOwner::Model, &mut problems);
        windows(&model.trace, FaultOwner::Model, &mut problems);
        provider(model, &mut problems);
    }
    for tool in file.tools.values() {
        rates(tool.faults.as_ref(), FaultOwner::Tool, &mut problems);
        windows(&tool.trace, FaultOwner::Tool, &mut problems);
    }
    problems
}

fn rates(
    faults: Option<&Spanned<PerClass<OpenFraction>>>,
    whose: FaultOwner,
    problems: &mut Vec<Diagnostic>,
) {
    let Some(Spanned { value: PerClass(rates), span }) = faults else { return };
    let all: u64 = rates.iter().map(|(_, rate)| u64::from(rate.0)).sum();
    if all > 1_000_000 {
        let problem =
            Diagnostic::error(Code::OUT_OF_RANGE, *span, "together these happen more often than always");
        problems.push(problem.help("they are fractions of all calls; let them sum up to 1 at most"));
    }
    problems.extend(rates.iter().filter_map(|(class, _)| impossible(*class, whose, *span)));
}

fn windows(trace: &[Spanned<WindowFile>], whose: FaultOwner, problems: &mut Vec<Diagnostic>) {
    for Spanned { value: window, span } in trace {
        let to = window.to.value;
        if to <= window.from {
            let message = format!("this ends at {to}, but begins at {}", window.from);
            problems.push(Diagnostic::error(Code::CONTRADICTION, window.to.span, message));
        } else if let Some(every) = window.every.filter(|every| every.value <= to.saturating_sub(window.from))
        {
            let message = format!("this comes back after {}, before it has ended", every.value);
            let problem = Diagnostic::error(Code::CONTRADICTION, every.span, message);
            problems.push(problem.help("let it come back later, or leave out `every` and let it last"));
        }
        if window.fault.is_none() && window.latency.is_none() && window.capacity.is_none() {
            let problem = Diagnostic::error(Code::MISSING_FIELD, *span, "nothing happens then");
            problems.push(problem.help("add `fault`, `latency` or `capacity`"));
        }
        let of_faults = [
            ("rate", window.rate.map(|rate| rate.span)),
            ("retry_after", window.retry_after.map(|wait| wait.span)),
        ];
        for (name, span) in of_faults.into_iter().filter(|_| window.fault.is_none()) {
            problems.extend(span.map(|span| {
                Diagnostic::error(
                    Code::CONTRADICTION,
                    span,
                    format!("`{name}` is of a `fault`, and there is none"),
                )
            }));
        }
        problems.extend(window.fault.and_then(|fault| impossible(fault.value, whose, fault.span)));
    }
}

/// What a model says of its limits and of its load.
fn provider(model: &ModelFile, problems: &mut Vec<Diagnostic>) {
    let mut contradiction = |span: Span, message: String, help: &'static str| {
        problems.push(Diagnostic::error(Code::CONTRADICTION, span, message).help(help));
    };
    let windows = || model.trace.iter().map(|window| &window.value);
    let capacities = || model.capacity.iter().chain(windows().filter_map(|window| window.capacity.as_ref()));
    let is_limited = capacities().next().is_some() || model.limits.all().next().is_some();
    for (unit, limit) in model.limits.all() {
        if let Some(burst) = limit.value.burst.filter(|_| limit.value.window == LimitWindow::Fixed) {
            contradiction(
                burst.span,
                "nothing is saved up in a fixed window".into(),
                "leave `burst` out, or let the window be `continuous`",
            );
        }
        if limit.value.headers && unit.stated().is_none() {
            contradiction(
                limit.span,
                "no header that is read states such a limit".into(),
                "leave `headers` out, or limit `requests` or `tokens`",
            );
        }
    }
    let of_limits = [
        ("hint", model.hint.map(|hint| hint.span)),
        ("hint_factor", model.hint_factor.map(|factor| factor.span)),
        ("foreign", model.foreign.map(|foreign| foreign.span)),
    ];
    for (name, span) in of_limits.into_iter().filter(|_| !is_limited) {
        if let Some(span) = span {
            let message = format!("`{name}` is of limits, and there are none");
            contradiction(span, message, "add `limits` or a `capacity`, or leave it out");
        }
    }
    let is_silent = capacities().any(|capacity| !capacity.retry_after) && model.limits.all().next().is_none();
    if let Some(hint) = model.hint.filter(|hint| is_silent && hint.value != RefusalHint::None) {
        let message = "this is a hint, but `retry_after: false` of the capacity says that no refusal has one";
        contradiction(hint.span, message.into(), "leave one of them out");
    }
    if let (Some(factor), true) =
        (model.hint_factor, model.hint.is_some_and(|hint| hint.value == RefusalHint::None))
    {
        contradiction(factor.span, "there is no hint to multiply".into(), "leave one of them out");
    }
    if let Some(load) = model.shedding.filter(|load| load.all.value.get() <= load.above) {
        let message = format!("all calls fail with {}, but none up to {}", load.all.value, load.above);
        contradiction(load.all.span, message, "let `all` be more than `above`");
    }
    let answers = model.faults.iter().flat_map(|faults| faults.value.0.iter().map(|(class, _)| *class));
    let answers = answers.chain(windows().filter_map(|window| window.fault.map(|fault| fault.value)));
    if let Some(sticky) = model.sticky.filter(|_| !answers.into_iter().any(is_answer)) {
        let message = "no answer is bad, so none is given again".into();
        contradiction(sticky.span, message, "add one to `faults`, such as `truncated_output: 0.05`");
    }
}

fn impossible(class: ErrorClass, whose: FaultOwner, span: Span) -> Option<Diagnostic> {
    let why = match whose {
        _ if OF_NOBODY.contains(&class) => "comes from the policy or from the user, not from a service",
        FaultOwner::Model if OF_TOOLS.contains(&class) => "is of tools, not of models",
        FaultOwner::Tool if OF_MODELS.contains(&class) => "is of models, not of tools",
        FaultOwner::Model | FaultOwner::Tool => return None,
    };
    Some(Diagnostic::error(Code::CONTRADICTION, span, format!("`{class}` {why}")))
}

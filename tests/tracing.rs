//! What is logged: every line of a run carries its correlation id.
//!
//! Alone in its file: `tracing` remembers for the whole process what nobody listened to.

use std::fmt;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use unfazed::host::scripted::{Script, ScriptEntry, ScriptOutcome, ScriptedModel};
use unfazed::host::{Agent, Guard, GuardConfig, ModelFacts, Price, RunTask, ToolError, Tools, builtin};
use unfazed::policy::Policy;
use unfazed::session::{Message, Usage};

/// Collects the fields of every log line, those of the spans around it included.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write;
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> tracing_subscriber::Layer<S> for Lines {
    fn on_new_span(
        &self,
        attrs: &tracing::span::Attributes<'_>,
        id: &tracing::span::Id,
        ctx: Context<'_, S>,
    ) {
        let mut fields = Fields(String::new());
        attrs.record(&mut fields);
        if let Some(span) = ctx.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &tracing::Event<'_>, ctx: Context<'_, S>) {
        let mut fields = Fields(event.metadata().target().to_owned());
        event.record(&mut fields);
        for span in ctx.event_scope(event).into_iter().flatten() {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.0.push_str(&of_span.0);
            }
        }
        self.0.lock().unwrap().push(fields.0);
    }
}

/// A result that nobody called for.
fn orphan() -> Message {
    Message::Tool { call: "c1".into(), tool: "fetch".into(), text: "12".into(), error: false, handle: None }
}

#[tokio::test(start_paused = true)]
async fn every_log_line_carries_the_correlation_id() {
    let lines = Lines::default();
    let logs = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines.clone()));
    let mut last = ScriptEntry::text("no");
    if let ScriptOutcome::Answer(answer) = &mut last.outcome {
        answer.usage = Some(Usage { input: 120, output: 6, ..Usage::default() });
    }
    let script = Script::new("script", [ScriptEntry::call("calc", "{}"), last]);
    let price = Price { input: 10_000_000, output: 20_000_000, ..Price::default() };
    let facts = ModelFacts { provider: "house".into(), model: "m-1".into(), price: Some(price) };
    let tools: Tools = builtin("calc").into_iter().collect();
    let agent = Agent::new(Policy::builtin())
        .model("main", ScriptedModel::new(script))
        .facts("main", facts)
        .tools(tools);
    agent.run(RunTask { run: "run-1".into(), ..RunTask::default() }).await.unwrap();
    let guard = Guard::new(GuardConfig::new(Policy::builtin()).run("run-1"));
    guard.tool("fetch").call((), |(), _| async { Err::<(), _>(ToolError::failed("no")) }).await.unwrap_err();
    let turn = guard.turn(vec![Message::user("hello"), orphan()]).history(|request| request);
    turn.call(|_, request| async move { Ok::<_, ToolError>(request.len()) }).await.unwrap();
    drop(logs);
    let lines = lines.0.lock().unwrap();
    assert!(
        lines.iter().any(|line| line.contains("error_type=\"invalid_args\"") && line.contains("attempt=1"))
    );
    let calls: Vec<_> = lines.iter().filter(|line| line.starts_with("unfazed::attempt")).collect();
    assert_eq!(calls.len(), 3, "one line for each call of a model, by the run and by the guard");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("orphan tool calls pruned") && line.contains("dropped_count=1"))
    );
    for field in ["target_model=\"main\"", "provider=\"house\"", "model=\"m-1\"", "turn=2", "attempt=1"] {
        assert!(calls[1].contains(field), "{field}: {}", calls[1]);
    }
    for field in ["status=\"success\"", "latency_ms=0", "input_tokens=120", "cost_usd=0.00132", "delay_ms=0"]
    {
        assert!(calls[1].contains(field), "{field}: {}", calls[1]);
    }
    assert!(lines.iter().any(|line| line.contains("status=\"answered\"")));
    for line in lines.iter() {
        assert!(line.replace('"', "").contains("correlation_id=run-1"), "{line}");
    }
}

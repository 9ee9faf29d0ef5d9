//! What is logged: every line of a run carries its correlation id.
//!
//! Alone in its file: `tracing` remembers for the whole process what nobody listened to.

use std::fmt;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use unfazed::host::scripted::{Entry, Script, ScriptedModel};
use unfazed::host::{Agent, Guard, Task, ToolError, Tools, builtin};
use unfazed::policy::Policy;

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
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        for span in ctx.event_scope(event).into_iter().flatten() {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.0.push_str(&of_span.0);
            }
        }
        self.0.lock().unwrap().push(fields.0);
    }
}

#[tokio::test(start_paused = true)]
async fn every_log_line_carries_the_correlation_id() {
    let lines = Lines::default();
    let logs = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines.clone()));
    let script = Script::new("script", [Entry::call("calc", "{}"), Entry::text("no")]);
    let tools: Tools = builtin("calc").into_iter().collect();
    let agent = Agent::new(Policy::builtin()).model("main", ScriptedModel::new(script)).tools(tools);
    agent.run(Task { run: "run-1".into(), ..Task::default() }).await.unwrap();
    let guard = Guard::builder(Policy::builtin()).run("run-1").build();
    guard.tool("fetch").call((), |(), _| async { Err::<(), _>(ToolError::failed("no")) }).await.unwrap_err();
    drop(logs);
    let lines = lines.0.lock().unwrap();
    assert!(
        lines.iter().any(|line| line.contains("error_type=\"invalid_args\"") && line.contains("attempt=1"))
    );
    for line in lines.iter() {
        assert!(line.replace('"', "").contains("correlation_id=run-1"), "{line}");
    }
}

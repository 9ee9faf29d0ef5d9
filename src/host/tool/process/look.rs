//! The built-in tools that look at commands in the background and stop them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::background::{BackgroundProcesses, ProcessEntry};
use crate::engine::ToolSpec;
use crate::host::Tool;
use crate::host::tool::{FunctionTool, ToolError};
use crate::policy::Effect;
use crate::time::Nanos;

/// The names of the built-in tools for commands in the background.
pub(crate) const PROCESS_TOOLS: &[&str] = &["process_status", "process_stop"];

/// The longest a look may wait for the end, in seconds.
const MOST_SECONDS: u64 = 600;
/// How much of its own time a look may spend waiting, in millionths.
const MOST_OF_TIME: u32 = 900_000;

impl BackgroundProcesses {
    /// The built-in tool of that name: `process_status` or `process_stop`.
    pub fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let processes = self.clone();
        match name {
            "process_status" => {
                Some(Arc::new(FunctionTool::new(status_spec(), move |arguments, context| {
                    let processes = processes.clone();
                    async move { status(&processes, &arguments, context.timeout.map(Into::into)).await }
                })))
            }
            "process_stop" => Some(Arc::new(FunctionTool::new(stop_spec(), move |arguments, _| {
                let processes = processes.clone();
                async move {
                    let (handle, entry) = named(&processes, &arguments)?;
                    entry.stop();
                    entry.over().await;
                    Ok(entry.shown(handle))
                }
            }))),
            _ => None,
        }
    }
}

async fn status(
    processes: &BackgroundProcesses,
    arguments: &Value,
    time: Option<Nanos>,
) -> Result<Value, ToolError> {
    if arguments.get("handle").is_none_or(Value::is_null) {
        let all = processes.handles().into_iter();
        let shown = all.filter_map(|handle| {
            let mut shown = processes.get(&handle)?.shown(&handle);
            // What each has printed is reported where one is asked for.
            if let Some(shown) = shown.as_object_mut() {
                shown.shift_remove("output");
                shown.shift_remove("errors");
            }
            Some(shown)
        });
        return Ok(shown.collect());
    }
    let (handle, entry) = named(processes, arguments)?;
    if let Some(seconds) = arguments.get("wait_seconds").and_then(Value::as_u64) {
        // The answer comes before the time of this call is up.
        let most = time.map_or(Nanos::from_secs(MOST_SECONDS), |time| time.share(MOST_OF_TIME));
        let longest = Nanos::from_secs(seconds).min(most);
        let _ = tokio::time::timeout(longest.to_std(), entry.over()).await;
    }
    Ok(entry.shown(handle))
}

fn named<'a>(
    processes: &BackgroundProcesses,
    arguments: &'a Value,
) -> Result<(&'a str, ProcessEntry), ToolError> {
    let handle = arguments.get("handle").and_then(Value::as_str).unwrap_or_default();
    if let Some(entry) = processes.get(handle) {
        return Ok((handle, entry));
    }
    let known = processes.handles();
    let known =
        if known.is_empty() { "there is none".to_owned() } else { format!("there are {}", known.join(", ")) };
    let problem = if processes.gave(handle) {
        "nothing is known any more of the background process of that handle"
    } else {
        "that handle of a background process is not of this run"
    };
    Err(ToolError::invalid_args(format!("{problem}; {known}")))
}

fn status_spec() -> ToolSpec {
    ToolSpec {
        name: "process_status".to_owned(),
        description: "Tells how a process in the background is and what it printed last; of all of them without a handle."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "The handle its tool gave it"},
                "wait_seconds": {
                    "type": "integer", "minimum": 0, "maximum": MOST_SECONDS,
                    "description": "Waits so long for it to end",
                },
            },
            "additionalProperties": false,
        }),
        effect: Some(Effect::ReadOnly),
    }
}

fn stop_spec() -> ToolSpec {
    ToolSpec {
        name: "process_stop".to_owned(),
        description: "Ends a process in the background and tells what it printed last.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"handle": {"type": "string", "description": "The handle its tool gave it"}},
            "required": ["handle"],
            "additionalProperties": false,
        }),
        effect: Some(Effect::Idempotent),
    }
}

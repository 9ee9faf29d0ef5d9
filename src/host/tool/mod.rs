//! The tools of the host: Rust functions, processes, and a few that are built in.

mod builtin;
mod calc;
mod error;
mod function;
#[cfg(feature = "mcp")]
mod mcp;
mod process;
mod registry;

pub(crate) use builtin::BUILTINS;
pub use builtin::builtin;
pub use error::ToolError;
pub use function::{FunctionTool, ToolContext};
#[cfg(feature = "mcp")]
pub use mcp::{
    McpConfig, McpError, McpIssueReason, McpReach, McpRelay, McpServer, McpServers, McpToolIssue,
    RelayApproval, RelayConfig, RelayError,
};
pub use process::{
    BackgroundProcesses, CommandArgument, OnTimeout, OutputFormat, ProcessConfig, ProcessTool, StdinMode,
};
pub(crate) use process::{DEFAULT_ENV, PROCESS_TOOLS};
pub use registry::Tools;

use core::time::Duration;

use crate::time::Nanos;

/// Ends after `timeout`; never, if there is none.
async fn expiry(timeout: Option<Duration>) {
    match timeout {
        Some(after) => tokio::time::sleep(after).await,
        None => std::future::pending().await,
    }
}

/// The time a run had, as it is shown: what is left of a deadline is no round number.
fn allowed(timeout: Option<Duration>) -> Nanos {
    const MILLI: u64 = 1_000_000;
    let timeout = Nanos::from(timeout.unwrap_or_default());
    if timeout.0 < MILLI { timeout } else { Nanos::from_millis(timeout.0.div_ceil(MILLI)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_deadline_is_told_in_whole_milliseconds() {
        let told = |nanos| allowed(Some(Duration::from_nanos(nanos))).to_string();
        assert_eq!([told(2_999_976_986), told(3_000_000_000), told(1_500)], ["3s", "3s", "1500ns"]);
    }
}

#[cfg(test)]
mod test_support {
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;

    use crate::engine::{EffectState, ToolOutcome, ToolSpec};
    use crate::host::{ProgressReporter, ToolInput};
    use crate::policy::ErrorClass;

    pub(super) fn spec(name: &str) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({"type": "object"}),
            effect: None,
        }
    }

    pub(super) fn input(arguments: &Value) -> ToolInput<'_> {
        ToolInput {
            arguments,
            attempt: 1,
            idempotency_key: "key",
            timeout: None,
            cancel: CancellationToken::new(),
            aside: ProgressReporter::default(),
        }
    }

    pub(super) fn failure(outcome: ToolOutcome) -> (ErrorClass, EffectState, String) {
        match outcome {
            ToolOutcome::Failed { failure, effect } => (failure.class.unwrap(), effect, failure.message),
            ToolOutcome::Ok { data } => panic!("it went well: {data}"),
            ToolOutcome::Done => panic!("it went well"),
        }
    }
}

//! The reference host: the tokio driver and its ports.

mod agent;
pub mod agent_file;
mod approver;
mod aside;
mod clock;
mod driven;
mod file_error;
pub mod guard;
mod live;
mod measure;
mod metrics;
mod model;
mod observer;
mod policy_files;
mod policy_watch;
mod port;
mod reduce;
mod results;
pub mod scripted;
mod shared;
mod similar_file;
mod stop;
mod task;
mod telemetry;
mod tokenizer;
mod tool;
pub mod tools_file;
mod trace;
mod under_way;
mod windows;

pub use crate::policy::{Cost, Price};
pub use agent::Agent;
pub(crate) use agent::offered;
pub use approver::{Approver, Nobody};
pub use aside::{Aside, Progress};
pub use clock::Clock;
pub(crate) use clock::new_uuid;
pub use driven::{DrivenRun, Interrupted, ProposalError, RunHost};
pub use file_error::file_error;
use file_error::without_number;
pub use guard::Guard;
pub use live::{LivePolicy, ReloadStatus};
pub use metrics::{
    Bucket, CounterSnapshot, GaugeSnapshot, HistogramSnapshot, Labels, Meter, Metrics, MetricsSnapshot, Unit,
};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use model::fuzzed;
pub use model::{
    Anthropic, AnthropicConfig, ConfigError, EventTooLarge, OpenAi, OpenAiConfig, SseEvent, SseParser,
    WindowPages, WindowQuestion, chat_messages, check_header,
};
pub use observer::{Journal, JournalError, Observer, Planner, Silent, TellModel};
pub use policy_files::{PolicyFiles, PolicyFilesError};
pub use policy_watch::PolicyWatch;
pub use port::{BoxFuture, Model, ModelRequest, Streamed, Tool, ToolInput, ToolSource, Traffic};
pub use shared::{InProcess, Shared, SharedState, SharedStateError};
pub use similar_file::similar_file;
pub use stop::Stop;
pub use task::{Past, RunError, RunReport, Task};
pub use telemetry::{AttemptStatus, ModelAttempt, ModelFacts};
pub use tokenizer::{Tiktoken, counter_by, counter_for};
pub use tool::{
    Argument, BUILTINS, DEFAULT_ENV, FunctionTool, OnTimeout, OutputFormat, PROCESS_TOOLS, ProcessConfig,
    ProcessTool, Processes, Stdin, ToolContext, ToolError, Tools, builtin,
};
#[cfg(feature = "mcp")]
pub use tool::{McpConfig, McpError, McpIssueReason, McpReach, McpServer, McpServers, McpToolIssue};
pub use windows::known_window;

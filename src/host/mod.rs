//! The reference host: the tokio driver and its ports.

mod agent;
pub mod agent_file;
mod approver;
mod aside;
mod attached;
mod checkpoint;
mod clock;
mod driven;
mod file_error;
#[cfg(feature = "serve")]
pub(crate) mod gateway;
pub mod guard;
mod header_entry;
mod key_source;
mod key_supply;
mod live;
mod metrics;
mod model;
mod observer;
mod off_thread;
#[cfg(feature = "otlp")]
pub mod otlp;
mod plain_path;
mod policy_files;
mod policy_watch;
mod port;
#[cfg(feature = "serve")]
pub(crate) mod reached;
mod read_file;
#[allow(unnameable_types, reason = "what an agent and a model of this crate hand to each other")]
mod redact;
mod reduce;
mod result_files;
mod result_length;
mod results;
pub mod scripted;
#[cfg(feature = "serve")]
pub(crate) mod server_certificate;
mod shared;
mod similar_file;
mod spelling;
mod stop;
mod surrogates;
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
pub use approver::{Approver, DenyAll};
pub use aside::{ProgressReporter, ToolProgress};
pub use attached::{AttachedFiles, AttachmentError, TaskAttachment};
pub use checkpoint::SessionCheckpoint;
pub(crate) use checkpoint::{rule_changes, same_tools};
pub use clock::Clock;
pub(crate) use clock::new_uuid;
pub use driven::{DrivenRun, InterruptedCall, ProposalError, RunHost};
pub(crate) use file_error::file_error;
use file_error::without_number;
pub use guard::{Guard, GuardConfig};
pub use key_supply::{CommandKey, FileKey};
pub use live::{LivePolicy, ReloadStatus};
pub use metrics::{
    CounterSnapshot, GaugeSnapshot, HistogramBucket, HistogramSnapshot, LabelSet, MetricId, MetricUnit,
    Metrics, MetricsSnapshot,
};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use model::fuzzed;
pub use model::{
    ConfigError, EventTooLarge, HttpModel, KeySupplier, ModelConfig, Provider, RenewedKey, SseEvent,
    SseParser, SuppliedKey, WindowPages, WindowQuestion,
};
pub(crate) use model::{chat_messages, check_header};
pub use observer::{Journal, JournalError, NoopObserver, Observer, Planner};
pub(crate) use off_thread::off_thread;
pub use policy_files::{PolicyFiles, PolicyFilesError};
pub use policy_watch::PolicyWatch;
pub use port::{BoxFuture, ByteTraffic, Model, ModelRequest, StreamSink, Tool, ToolInput, ToolSource};
pub(crate) use read_file::read_file;
pub use shared::{InProcess, SharedState, SharedStateError, SharedValue};
pub(crate) use similar_file::similar_file;
pub use stop::StopSwitch;
pub use task::{RunError, RunReport, RunTask};
pub use telemetry::{AttemptStatus, ModelAttempt, ModelFacts};
pub(crate) use tokenizer::counter_for;
pub use tokenizer::{TiktokenCounter, counter_by};
pub(crate) use tool::{BUILTINS, PROCESS_TOOLS};
pub use tool::{
    BackgroundProcesses, CommandArgument, FunctionTool, OnTimeout, OutputFormat, ProcessConfig, ProcessTool,
    StdinMode, ToolContext, ToolError, Tools, builtin,
};
#[cfg(feature = "mcp")]
pub use tool::{
    McpConfig, McpError, McpIssueReason, McpReach, McpRelay, McpServer, McpServers, McpToolIssue,
    RelayApproval, RelayConfig, RelayError,
};
pub(crate) use windows::known_window;

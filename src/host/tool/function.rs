//! Tools that are Rust functions.

use core::time::Duration;
use std::future::Future;
use std::sync::Arc;

use serde_json::Value;
use tokio::task::{AbortHandle, JoinError};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;

use super::ToolError;
use crate::engine::{EffectState, ToolOutcome, ToolSpec};
use crate::host::{BoxFuture, ProgressReporter, Tool, ToolInput};
use crate::policy::ErrorClass;

/// What a function learns about the run in addition to its arguments.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The same for every attempt of this call.
    pub idempotency_key: String,
    /// The longest the run may take.
    pub timeout: Option<Duration>,
    /// Receives progress of the run.
    pub aside: ProgressReporter,
    /// Fires when the run is stopped, has taken too long, or nobody waits for it any more. The function's
    /// future is dropped then; work it handed to a thread must look at this.
    pub cancel: CancellationToken,
}

/// A tool that is an async Rust function.
///
/// ```
/// use serde_json::json;
/// use unfazed::engine::ToolSpec;
/// use unfazed::host::{FunctionTool, ToolError};
///
/// let spec = ToolSpec {
///     name: "shout".into(),
///     description: "Says it louder.".into(),
///     parameters: json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
///     effect: None,
/// };
/// let tool = FunctionTool::new(spec, |arguments, _context| async move {
///     let text = arguments["text"].as_str().ok_or_else(|| ToolError::invalid_args("`text` is missing"))?;
///     Ok(text.to_uppercase().into())
/// });
/// # let _ = tool;
/// ```
pub struct FunctionTool {
    spec: ToolSpec,
    function: Arc<BoxedFunction>,
}

type BoxedFunction = dyn Fn(Value, ToolContext) -> BoxFuture<'static, Result<Value, ToolError>> + Send + Sync;

impl FunctionTool {
    /// The tool that runs `function`.
    pub fn new<F, Fut>(spec: ToolSpec, function: F) -> Self
    where
        F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, ToolError>> + Send + 'static,
    {
        Self { spec, function: Arc::new(move |arguments, context| Box::pin(function(arguments, context))) }
    }

    async fn run_once(&self, input: ToolInput<'_>) -> Result<Value, ToolError> {
        if input.cancel.is_cancelled() {
            return Err(stopped(&self.spec.name).effect(EffectState::NotStarted));
        }
        let cancel = input.cancel.child_token();
        let context = ToolContext {
            attempt: input.attempt,
            idempotency_key: input.idempotency_key.to_owned(),
            timeout: input.timeout,
            aside: input.aside.clone(),
            cancel: cancel.clone(),
        };
        let (function, arguments) = (Arc::clone(&self.function), input.arguments.clone());
        // A task of its own: a panic ends there, and a function that never yields cannot hold up the timeout.
        let task = async move { function(arguments, context).await };
        let mut task = tokio::spawn(task.in_current_span());
        let _leash = AbortOnDrop { task: task.abort_handle(), _cancel: cancel.drop_guard() };
        tokio::select! {
            biased;
            ended = &mut task => {
                let answer = ended.unwrap_or_else(|error| Err(broken(&self.spec.name, error)))?;
                self.readable(answer)
            }
            () = input.cancel.cancelled() => Err(stopped(&self.spec.name)),
            () = super::expiry(input.timeout) => {
                let after = super::allowed(input.timeout);
                Err(ToolError::timeout(format!("`{}` gave no answer within {after}", self.spec.name)))
            }
        }
    }
}

impl FunctionTool {
    /// What is nested too deep cannot be read back from a session.
    fn readable(&self, answer: Value) -> Result<Value, ToolError> {
        let Some(problem) = ToolOutcome::too_deep(&answer) else { return Ok(answer) };
        take_apart(answer);
        let message = format!("`{}` did its work, but its answer is {problem}", self.spec.name);
        Err(ToolError::failed(message).effect(EffectState::Committed))
    }
}

/// Drops a value level by level: dropping one inside the other would take a stack as deep as it is.
fn take_apart(value: Value) {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(fields) => left.extend(fields.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

impl Tool for FunctionTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, input: ToolInput<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move { self.run_once(input).await.into() })
    }
}

crate::debug_parts!(|this: FunctionTool| spec: this.spec);

/// Ends the task when the run is over, however it ends.
struct AbortOnDrop {
    task: AbortHandle,
    _cancel: DropGuard,
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn stopped(name: &str) -> ToolError {
    ToolError::cancelled(format!("`{name}` was stopped"))
}

fn broken(name: &str, error: JoinError) -> ToolError {
    let Ok(panic) = error.try_into_panic() else { return stopped(name) };
    let said = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it gave no message".to_owned());
    ToolError::new(ErrorClass::ExecutionError, format!("`{name}` panicked: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tool::test_support::{failure, input, spec};
    use serde_json::json;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[tokio::test]
    async fn the_function_gets_the_arguments_and_the_context() {
        let tool = FunctionTool::new(spec("add"), |arguments, context| async move {
            Ok(json!([arguments["a"], context.attempt, context.idempotency_key]))
        });
        let outcome = tool.run(input(&json!({"a": 1}))).await;
        assert_eq!(outcome, ToolOutcome::Ok { data: json!([1, 1, "key"]) });
    }

    #[tokio::test]
    async fn an_answer_nested_too_deep_is_a_failure_of_work_that_was_done() {
        let deep = |levels| (0..levels).fold(json!(1), |inside, _| Value::Array(vec![inside]));
        let tool = FunctionTool::new(spec("dig"), move |arguments, _| async move {
            Ok(deep(arguments["levels"].as_u64().unwrap()))
        });
        assert!(matches!(tool.run(input(&json!({"levels": 63}))).await, ToolOutcome::Ok { .. }));
        for levels in [64, 100_000] {
            let said = failure(tool.run(input(&json!({"levels": levels}))).await);
            let message = "`dig` did its work, but its answer is nested deeper than 64 levels".to_owned();
            assert_eq!(said, (ErrorClass::ExecutionError, EffectState::Committed, message));
        }
    }

    #[tokio::test]
    async fn an_error_keeps_its_class_and_effect() {
        let tool = FunctionTool::new(spec("book"), |_, _| async {
            Err(ToolError::unavailable("closed").retry_after(Duration::from_secs(3)))
        });
        let ToolOutcome::Failed { failure, effect } = tool.run(input(&json!({}))).await else {
            panic!("failed")
        };
        assert_eq!((failure.class, effect), (Some(ErrorClass::ToolUnavailable), EffectState::NotStarted));
        assert_eq!(failure.retry_after, crate::engine::WaitHint::Wait(crate::time::Nanos::from_secs(3)));
    }

    #[tokio::test]
    async fn a_panic_is_an_execution_error_of_unknown_effect() {
        let tool = FunctionTool::new(spec("boom"), |arguments, _| async move {
            assert!(arguments.is_null(), "no {}", 42);
            Ok(Value::Null)
        });
        let said = failure(tool.run(input(&json!({}))).await);
        assert_eq!(said, (ErrorClass::ExecutionError, EffectState::Unknown, "`boom` panicked: no 42".into()));
    }

    #[tokio::test]
    async fn a_panic_before_the_future_exists_is_caught_too() {
        fn never(_: Value, _: ToolContext) -> std::future::Ready<Result<Value, ToolError>> {
            panic!("early")
        }
        let said = failure(FunctionTool::new(spec("boom"), never).run(input(&json!({}))).await);
        assert_eq!(said.2, "`boom` panicked: early");
    }

    #[tokio::test(start_paused = true)]
    async fn the_timeout_ends_the_function() {
        let dropped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&dropped);
        let tool = FunctionTool::new(spec("slow"), move |_, _| {
            let guard = DoneFlag(Arc::clone(&flag));
            async move {
                let _guard = guard;
                std::future::pending().await
            }
        });
        let arguments = json!({});
        let run = ToolInput { timeout: Some(Duration::from_secs(2)), ..input(&arguments) };
        let said = failure(tool.run(run).await);
        assert_eq!(
            said,
            (ErrorClass::Timeout, EffectState::Unknown, "`slow` gave no answer within 2s".into())
        );
        tokio::task::yield_now().await;
        assert!(dropped.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_stop_ends_the_function() {
        let tool = FunctionTool::new(spec("slow"), |_, _| std::future::pending());
        let arguments = json!({});
        let run = input(&arguments);
        let cancel = run.cancel.clone();
        let (said, ()) = tokio::join!(tool.run(run), async { cancel.cancel() });
        assert_eq!(failure(said), (ErrorClass::Cancelled, EffectState::Unknown, "`slow` was stopped".into()));
    }

    #[tokio::test]
    async fn a_run_that_was_stopped_before_it_began_did_not_start() {
        let tool = FunctionTool::new(spec("any"), |_, _| async { Ok(Value::Null) });
        let arguments = json!({});
        let run = input(&arguments);
        run.cancel.cancel();
        assert_eq!(failure(tool.run(run).await).1, EffectState::NotStarted);
    }

    struct DoneFlag(Arc<AtomicBool>);

    impl Drop for DoneFlag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

//! The guard around a tool of rig's: its arguments are checked before it runs, and it is run again as the policy says.

use std::sync::Arc;

use rig_core::tool::{PortableTool, ToolErrorKind, ToolExecutionError};
use serde::Deserialize;
use serde_json::Value;
use unfazed::host::ToolError;
use unfazed::host::guard::{CallContext, CallError, Guard, ToolGuard};

/// A tool under the policy. To rig it is the tool itself.
pub(crate) struct Guarded<T> {
    tool: T,
    guard: ToolGuard,
}

impl<T: PortableTool> Guarded<T> {
    pub(crate) fn new(guard: &Guard, tool: T) -> Self {
        Self { guard: guard.tool(T::NAME), tool }
    }
}

impl<T: PortableTool> PortableTool for Guarded<T> {
    const NAME: &'static str = T::NAME;
    // As they came: the guard holds them against the schema and the checks of the policy.
    type Args = Value;
    type Output = T::Output;
    type Error = ToolExecutionError;

    fn description(&self) -> String {
        self.tool.description()
    }

    fn parameters(&self) -> Value {
        self.tool.parameters()
    }

    async fn call(&self, arguments: Value) -> Result<T::Output, ToolExecutionError> {
        let run = |arguments: Arc<Value>, _: CallContext<'_>| async move {
            let arguments = T::Args::deserialize(&*arguments)
                .map_err(|error| ToolError::invalid_args(error.to_string()))?;
            self.tool.call(arguments).await.map_err(|error| ToolError::failed(error.to_string()))
        };
        self.guard.call(Arc::new(arguments), run).await.map_err(told)
    }
}

/// What rig passes on to the model is the text that the policy makes of it.
fn told(error: CallError<ToolError>) -> ToolExecutionError {
    match error {
        CallError::Refused(refusal) => ToolExecutionError::refused(refusal.message),
        CallError::Run(error) => ToolExecutionError::new(ToolErrorKind::Other, error.to_string()),
        CallError::Exhausted(given_up) => {
            let why = given_up.exhausted.to_string();
            ToolExecutionError::new(ToolErrorKind::Other, why).with_model_feedback(given_up.message)
        }
    }
}

//! The table of the keys whose values the layers of a policy make.

use crate::policy::document::{
    ContextPolicy, HistoryPolicy, ModelPolicy, OutputPolicy, RetryPolicy, ToolPolicy, TurnPolicy,
};
use crate::policy::form::{self, NoForm};
use crate::policy::key::Key;

/// Every key whose values are merged over the layers, with its path: `retry.max_attempts`, `tools.*.breaker.failures`. Those
/// of `retry` stand under every tool, every model and the report, too.
pub fn keys() -> Vec<(String, &'static Key)> {
    let mut keys = form::keys::<RetryPolicy<NoForm>>("retry");
    let blocks = [
        form::keys::<ToolPolicy<NoForm>>("tools.*"),
        form::keys::<ModelPolicy<NoForm>>("models.*"),
        form::keys::<TurnPolicy<NoForm>>("turn"),
        form::keys::<OutputPolicy<NoForm>>("output"),
        form::keys::<HistoryPolicy<NoForm>>("history"),
        form::keys::<ContextPolicy<NoForm>>("context"),
    ];
    let own = blocks.into_iter().flatten().filter(|(path, _)| !path.contains(".retry."));
    keys.extend(own);
    keys
}

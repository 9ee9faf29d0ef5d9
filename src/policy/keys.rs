//! The table of the keys whose values the layers of a policy make.

use super::document::{
    ContextPolicy, HistoryPolicy, ModelPolicy, OutputPolicy, RetryPolicy, ToolPolicy, TurnPolicy,
};
use super::form::{self, Key, Nothing};

/// Every key whose values are merged over the layers, with its path: `retry.max_attempts`, `tools.*.breaker.failures`. Those
/// of `retry` stand under every tool, every model and the report, too.
pub fn keys() -> Vec<(String, &'static Key)> {
    let mut keys = form::keys::<RetryPolicy<Nothing>>("retry");
    let blocks = [
        form::keys::<ToolPolicy<Nothing>>("tools.*"),
        form::keys::<ModelPolicy<Nothing>>("models.*"),
        form::keys::<TurnPolicy<Nothing>>("turn"),
        form::keys::<OutputPolicy<Nothing>>("output"),
        form::keys::<HistoryPolicy<Nothing>>("history"),
        form::keys::<ContextPolicy<Nothing>>("context"),
    ];
    let own = blocks.into_iter().flatten().filter(|(path, _)| !path.contains(".retry."));
    keys.extend(own);
    keys
}

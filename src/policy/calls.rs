//! What is done about a run that failed and may have had side effects.

use std::sync::Arc;

use crate::text::Expr;

/// What is done about a run that failed and may have had side effects, where another attempt would follow otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum AfterEffect {
    /// The model is informed.
    Tell,
    /// A person is asked whether it may run again.
    Ask,
    /// Another tool is asked whether it acted.
    Verify(Arc<EffectVerification>),
}

/// How it is found out whether a run acted.
#[derive(Clone, Debug)]
pub struct EffectVerification {
    /// The tool that is run; it must be `read_only`.
    pub tool: String,
    /// Its arguments, each an expression over `args` and `tool`.
    pub arguments: Box<[(String, Expr)]>,
    /// Whether the run acted, over `args`, `tool` and `result`.
    pub acted: Expr,
}

impl PartialEq for EffectVerification {
    fn eq(&self, other: &Self) -> bool {
        let arguments = |of: &Self| -> Vec<(String, String)> {
            of.arguments.iter().map(|(name, value)| (name.clone(), value.as_str().to_owned())).collect()
        };
        self.tool == other.tool
            && arguments(self) == arguments(other)
            && self.acted.as_str() == other.acted.as_str()
    }
}

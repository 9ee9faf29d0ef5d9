//! Classes that are retried but never raised.

use super::LintFindings;
use crate::policy::decode::{Patch, list};
use crate::policy::document::{ClassList, PolicyBlocks, RetryPolicy};
use crate::policy::form::Document;
use crate::policy::part::{PartKind, PolicyPart};
use crate::policy::{ClassSet, ErrorClass};
use crate::text::{Code, Diagnostic};

/// What tools never fail with, unless an error row says so.
const NOT_OF_TOOLS: &[ErrorClass] = &[
    ErrorClass::ToolNotFound,
    ErrorClass::InvalidOutput,
    ErrorClass::TruncatedOutput,
    ErrorClass::EmptyResponse,
    ErrorClass::TextOnly,
    ErrorClass::ReasoningOnly,
    ErrorClass::ReducerError,
    ErrorClass::CircuitOpen,
    ErrorClass::RepeatedCall,
    ErrorClass::Cancelled,
];
/// What models never fail with, unless an error row says so.
const NOT_OF_MODELS: &[ErrorClass] = &[
    ErrorClass::InvalidArgs,
    ErrorClass::ToolNotFound,
    ErrorClass::ToolUnavailable,
    ErrorClass::ExecutionError,
    ErrorClass::ReducerError,
    ErrorClass::CircuitOpen,
    ErrorClass::RepeatedCall,
    ErrorClass::Cancelled,
];
/// All that a report is refused with.
const OF_REPORTS: &[ErrorClass] = &[
    ErrorClass::InvalidOutput,
    ErrorClass::TextOnly,
    ErrorClass::EmptyResponse,
    ErrorClass::TruncatedOutput,
    ErrorClass::MalformedToolCall,
];

/// Looks at every `retry_on` of the files.
pub(super) fn check(parts: &[PolicyPart], found: &mut LintFindings<'_>) {
    let raised = RaisedClasses::of(parts);
    for part in parts.iter().filter(|part| part.kind != PartKind::Builtin) {
        raised.blocks(&part.blocks, found);
    }
}

/// What each kind of work fails with.
pub(super) struct RaisedClasses {
    pub(super) tools: ClassSet,
    pub(super) models: ClassSet,
    pub(super) reports: ClassSet,
}

impl RaisedClasses {
    /// By the rows of these files. The built-in rows say nothing that the lists do not say, and are not read.
    pub(super) fn of(parts: &[PolicyPart]) -> Self {
        let rows = parts.iter().flat_map(|part| &part.blocks.errors).map(|row| row.class.value);
        Self::new(rows.collect())
    }

    fn new(rows: ClassSet) -> Self {
        let without = |never: &[ErrorClass]| {
            let all = ErrorClass::ALL.iter().copied();
            all.filter(|class| rows.contains(*class) || !never.contains(class)).collect()
        };
        Self {
            tools: without(NOT_OF_TOOLS),
            models: without(NOT_OF_MODELS),
            reports: OF_REPORTS.iter().copied().collect(),
        }
    }

    fn blocks(&self, blocks: &PolicyBlocks, found: &mut LintFindings<'_>) {
        let any = self.tools.union(self.models).union(self.reports);
        retry(&blocks.retry, any, "no tool, model or report", found);
        for (_, tool) in &blocks.tools.0 {
            retry(&tool.retry, self.tools, "no tool", found);
            for call in &tool.calls {
                retry(&call.retry, self.tools, "no tool", found);
            }
        }
        for (_, model) in &blocks.models.0 {
            retry(&model.retry, self.models, "no model", found);
        }
        if let Patch::Set(output, _) = &blocks.output {
            retry(&output.retry, self.reports, "no report", found);
        }
    }
}

fn retry(layer: &RetryPolicy<Document>, raised: ClassSet, nobody: &str, found: &mut LintFindings<'_>) {
    let Patch::Set(classes, span) = &layer.retry_on else { return };
    let named = match classes {
        ClassList::Replace(classes) => *classes,
        ClassList::Edit { add, .. } => *add,
    };
    let idle: Vec<&str> =
        named.iter().filter(|class| !raised.contains(*class)).map(ErrorClass::name).collect();
    if !idle.is_empty() {
        let message = format!("`retry_on` names {}, which never occurs: {nobody} fails with it", list(&idle));
        let problem = Diagnostic::warning(Code::UNRAISED_CLASS, *span, message);
        found.push(problem.help("remove it, or name the class that is meant"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    #[test]
    fn no_built_in_row_raises_what_the_lists_leave_out() {
        for row in Policy::builtin().errors().rows() {
            let is_left_out = [NOT_OF_TOOLS, NOT_OF_MODELS].iter().any(|list| list.contains(&row.class));
            assert!(!is_left_out, "{}", row.class);
        }
    }
}

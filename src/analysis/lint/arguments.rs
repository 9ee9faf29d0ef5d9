//! Expressions about arguments that a tool does not have, where the host says which it has.

use indexmap::IndexMap;

use super::LintFindings;
use super::view::{CheckedName, subject};
use crate::policy::ToolPolicy;
use crate::policy::document::CallRule;
use crate::text::did_you_mean::closest;
use crate::text::{Code, Diagnostic, Expr, Span};

/// The arguments that expressions speak of, and whether a tool they hold for has them.
#[derive(Default)]
pub(super) struct SpokenArguments {
    spoken: IndexMap<(Span, String), SpokenArgument>,
}

struct SpokenArgument {
    had: bool,
    /// The first tool without it, and the argument that may be meant.
    tool: String,
    meant: Option<String>,
}

impl SpokenArguments {
    /// Observes the checks of a tool, and the conditions of its rules for single calls.
    pub(super) fn observe<'r>(
        &mut self,
        named: CheckedName<'_>,
        policy: &ToolPolicy,
        calls: impl Iterator<Item = &'r CallRule>,
    ) {
        let Some(arguments) = named.known.and_then(|known| known.arguments.as_deref()) else { return };
        for check in &*policy.validate.value {
            self.expression(named.name, arguments, &check.check, check.span);
        }
        for call in calls {
            self.expression(named.name, arguments, &call.when.value.expr, call.when.span);
        }
    }

    fn expression(&mut self, tool: &str, arguments: &[String], expression: &Expr, span: Span) {
        for name in expression.fields_of("args") {
            let had = arguments.iter().any(|argument| argument == name);
            let spoken = self.spoken.entry((span, name.to_owned())).or_insert_with(|| SpokenArgument {
                had: false,
                tool: subject("tool", tool),
                meant: closest(name, arguments.iter().map(String::as_str)).map(str::to_owned),
            });
            spoken.had |= had;
        }
    }

    /// Says which no tool has.
    pub(super) fn finish(self, found: &mut LintFindings<'_>) {
        for ((span, name), SpokenArgument { had, tool, meant }) in self.spoken {
            if had {
                continue;
            }
            let message = format!("{tool} has no argument `{name}` according to the host");
            let problem = Diagnostic::warning(Code::UNKNOWN_ARGUMENT, span, message);
            found.push(match meant {
                Some(meant) => problem.help(format!("did you mean `args.{meant}`?")),
                None => problem.help("look at the tool's schema, or remove the expression"),
            });
        }
    }
}

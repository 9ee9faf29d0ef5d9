//! The values that the files of a policy write, and the same policy without one of them: what a value decides is what
//! comes out otherwise without it.

use crate::policy::decode::{Patch, Spanned};
use crate::policy::document::{
    CallRule, LimitsRule, OutputLayer, PolicyBlocks, RunLimitsRule, ToolLayer, TopLimits,
};
use crate::policy::form::{Block, Document, OptionalBlock, retain};
use crate::policy::part::{PartKind, PolicyPart, ReadPolicy};
use crate::policy::{Findings, Policy};
use crate::text::Span;

/// Decides about a value, by its path and place, whether it stays.
type KeepValue<'k> = &'k mut dyn FnMut(&str, Span) -> bool;

impl Policy {
    /// Every value that the files write, with its path: those of all profiles, too.
    pub(crate) fn written_values(&self) -> Vec<(String, Span)> {
        let mut found = Vec::new();
        for part in self.parts().iter().filter(|part| part.kind != PartKind::Builtin) {
            walk_part(part, &mut |path, span| {
                found.push((path.to_owned(), span));
                true
            });
        }
        found
    }

    /// The same policy, as if that value were not written; `None`: it is not, or there is no policy without it.
    pub(crate) fn without_value(&self, at: Span) -> Option<Self> {
        let mut found = false;
        let parts = self.parts().iter().map(|part| {
            if part.kind == PartKind::Builtin || part.source != at.source {
                return part.clone();
            }
            let mut removed = false;
            let blocks = walk_part(part, &mut |_, span| {
                let is_it = span.start == at.start;
                removed |= is_it;
                !is_it
            });
            found |= removed;
            if removed { PolicyPart { blocks: blocks.into(), ..part.clone() } } else { part.clone() }
        });
        let parts: Vec<PolicyPart> = parts.collect();
        if !found {
            return None;
        }
        let read = ReadPolicy {
            sources: self.sources().clone(),
            digest: self.digest().to_owned(),
            parts,
            profiles: self.profiles().to_vec(),
            profile: self.profile().map(str::to_owned),
        };
        let mut findings = Findings::default();
        Self::of_parts(read, &mut findings).filter(|_| !findings.has_errors())
    }
}

fn walk_part(part: &PolicyPart, keep: KeepValue<'_>) -> PolicyBlocks {
    let prefix = match &part.kind {
        PartKind::Profile(name) => format!("profiles.{name}."),
        PartKind::Builtin | PartKind::File => String::new(),
    };
    walk(&part.blocks, &mut |path, span| keep(&format!("{prefix}{path}"), span))
}

/// The same blocks with what is kept of them.
fn walk(blocks: &PolicyBlocks, keep: KeepValue<'_>) -> PolicyBlocks {
    let mut kept = blocks.clone();
    if let Some(limits) = &mut kept.limits {
        walk_top_limits(limits, keep);
    }
    walk_block(&mut kept.retry, "retry", keep);
    for (name, tool) in &mut kept.tools.0 {
        let path = format!("tools.{}", name.value.as_str());
        *tool = walk_tool(tool, &path, keep).into();
    }
    for (name, model) in &mut kept.models.0 {
        let path = format!("models.{}", name.value.as_str());
        let mut layer = (**model).clone();
        layer.rules = retain(&layer.rules, &path, keep);
        walk_patch(&mut layer.priority, &format!("{path}.priority"), keep);
        walk_limits(layer.limits.as_mut(), &path, keep);
        *model = layer.into();
    }
    walk_block(&mut kept.turn, "turn", keep);
    if let Patch::Set(output, _) = &mut kept.output {
        walk_output(output, keep);
    }
    walk_block(&mut kept.history, "history", keep);
    walk_block(&mut kept.context, "context", keep);
    if let Some(session) = &mut kept.session {
        session.reducers.0.retain(|(name, _)| keep(&format!("session.reducers.{}", name.value), name.span));
    }
    let mut number = 0_usize;
    kept.errors.retain_mut(|row| {
        let path = format!("errors[{number}]");
        number = number.saturating_add(1);
        walk_spanned(&mut row.wait, &path, "wait", keep);
        keep(&format!("{path}.class"), row.class.span)
    });
    kept
}

fn walk_block<B>(block: &mut OptionalBlock<B>, path: &str, keep: KeepValue<'_>)
where
    B: Block<Form = Document, As<Document> = B>,
{
    *block = block.map_written(|written| retain(written, path, keep));
}

fn walk_tool(tool: &ToolLayer, path: &str, keep: KeepValue<'_>) -> ToolLayer {
    let mut layer = tool.clone();
    layer.rules = retain(&layer.rules, path, keep);
    walk_patch(&mut layer.priority, &format!("{path}.priority"), keep);
    walk_limits(layer.limits.as_mut(), path, keep);
    for (number, CallRule { retry, approval, limits, .. }) in layer.calls.iter_mut().enumerate() {
        let path = format!("{path}.calls[{number}]");
        walk_block(retry, &format!("{path}.retry"), keep);
        walk_patch(approval, &format!("{path}.approval"), keep);
        walk_limits(limits.as_mut(), &path, keep);
    }
    layer
}

fn walk_output(output: &mut OutputLayer, keep: KeepValue<'_>) {
    output.rules = retain(&output.rules, "output", keep);
    walk_limits(output.limits.as_mut(), "output", keep);
}

fn walk_patch<T>(value: &mut Patch<T>, path: &str, keep: KeepValue<'_>) {
    if value.span().is_some_and(|span| !keep(path, span)) {
        *value = Patch::Absent;
    }
}

fn walk_spanned<T>(value: &mut Option<Spanned<T>>, path: &str, name: &str, keep: KeepValue<'_>) {
    if value.as_ref().is_some_and(|value| !keep(&format!("{path}.{name}"), value.span)) {
        *value = None;
    }
}

fn walk_limits(limits: Option<&mut LimitsRule>, path: &str, keep: KeepValue<'_>) {
    let Some(limits) = limits else { return };
    let LimitsRule { max_attempts, deadline, total_delay, attempt_timeout, never_retry } = limits;
    let path = format!("{path}.limits");
    walk_spanned(max_attempts, &path, "max_attempts", keep);
    walk_spanned(deadline, &path, "deadline", keep);
    walk_spanned(total_delay, &path, "total_delay", keep);
    walk_spanned(attempt_timeout, &path, "attempt_timeout", keep);
    walk_spanned(never_retry, &path, "never_retry", keep);
}

fn walk_top_limits(limits: &mut TopLimits, keep: KeepValue<'_>) {
    let TopLimits { max_attempts, deadline, total_delay, attempt_timeout, never_retry, max_turns, run } =
        limits;
    walk_spanned(max_attempts, "limits", "max_attempts", keep);
    walk_spanned(deadline, "limits", "deadline", keep);
    walk_spanned(total_delay, "limits", "total_delay", keep);
    walk_spanned(attempt_timeout, "limits", "attempt_timeout", keep);
    walk_spanned(never_retry, "limits", "never_retry", keep);
    walk_spanned(max_turns, "limits", "max_turns", keep);
    let Some(RunLimitsRule { time, tokens, cost, model_calls, tool_calls }) = run else { return };
    walk_spanned(time, "limits.run", "time", keep);
    walk_spanned(tokens, "limits.run", "tokens", keep);
    walk_spanned(cost, "limits.run", "cost", keep);
    walk_spanned(model_calls, "limits.run", "model_calls", keep);
    walk_spanned(tool_calls, "limits.run", "tool_calls", keep);
}

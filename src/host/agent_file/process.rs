//! What an agent file says about a tool that is a program.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::{AgentFile, ToolEntry};
use crate::host::{CommandArgument, OnTimeout, OutputFormat, StdinMode};
use crate::policy::decode::{Decode, DecodedDocument, NodeReader, Spanned, choice_of};
use crate::text::yaml::{YamlData, YamlNode};
use crate::text::{Code, Diagnostic, Template};
use crate::time::Nanos;

choice_of! {
    /// What a program gets on standard input.
    StdinMode {
        /// The arguments of the call as JSON.
        Json = "json",
        /// Nothing.
        Nothing = "none"
    }
}

choice_of! {
    /// What a program's standard output holds.
    OutputFormat {
        /// JSON if it is JSON, else text.
        Auto = "auto",
        /// JSON; anything else is a failure.
        Json = "json",
        /// Text.
        Text = "text"
    }
}

choice_of! {
    /// What is done with a run whose time is up.
    OnTimeout {
        /// It is ended, with all its processes.
        Kill = "kill",
        /// It is waited for as long as the policy allows; the log tells that it takes long.
        Wait = "wait",
        /// It continues, and the call is answered with its handle.
        Background = "background"
    }
}

/// A template of one argument, or a list of templates that are left out together.
#[derive(Clone, Debug)]
pub(crate) struct ArgumentEntry(pub CommandArgument);

impl Decode for ArgumentEntry {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let templates = match &node.data {
            YamlData::List(nodes) => {
                // All are read before any failure counts.
                let read: Vec<_> = nodes.iter().map(|node| template(node, reader)).collect();
                read.into_iter().collect::<Option<Vec<_>>>()?
            }
            _ => vec![template(node, reader)?],
        };
        Some(Self(CommandArgument(templates)))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let template = "A template over `args`, the arguments of the call; one argument of the program.";
        json_schema!({"oneOf": [
            {"type": "string", "description": template},
            {"type": "array", "items": {"type": "string"}, "description": "Templates that are left out together."},
        ]})
    }
}

fn template(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Template> {
    let text = String::decode(node, reader)?;
    match CommandArgument::template(&text) {
        Ok(template) => Some(template),
        Err(error) => {
            let span = reader.inside(node.span, &text, error.at);
            reader.report(Diagnostic::error(Code::TEMPLATE, span, error.message).help_if(error.help));
            None
        }
    }
}

/// Settings that say nothing without another one.
pub(super) fn problems(
    timeout: Option<&Spanned<Nanos>>,
    on_timeout: Option<&Spanned<OnTimeout>>,
    keep: Option<&Spanned<bool>>,
) -> Vec<Diagnostic> {
    let wrong = |span, message: &str| Diagnostic::error(Code::CONTRADICTION, span, message);
    let mut problems = Vec::new();
    let what = on_timeout.map(|what| what.value);
    if let Some(Spanned { value: OnTimeout::Wait, span }) = on_timeout
        && timeout.is_none()
    {
        let problem = wrong(*span, "it is not said after which time it is waited further");
        problems.push(problem.help("add `timeout: 30s`"));
    }
    if let Some(Spanned { value: Nanos::ZERO, span }) = timeout {
        let problem = Diagnostic::error(Code::DURATION, *span, "`0s` leaves no time at all");
        problems.push(problem.help("write a longer time, or leave the limit out"));
    }
    if let Some(Spanned { value: true, span }) = keep
        && what != Some(OnTimeout::Background)
    {
        let problem = wrong(*span, "only what continues in the background can be kept");
        problems.push(problem.help("add `on_timeout: background`, or remove the line"));
    }
    problems
}

/// A tool that has longer to end than the end of the run takes: it would be killed in the middle of its grace.
pub(super) fn no_time_to_end(
    document: &DecodedDocument<AgentFile>,
    name: &str,
    entry: &ToolEntry,
) -> Option<Diagnostic> {
    let ToolEntry::Process { grace, .. } = entry else { return None };
    let drain = document.value.stop.of_run();
    if *grace <= drain {
        return None;
    }
    let written = |path: &[&str]| Some(AgentFile::key(document, path)).filter(|span| span.end > 0);
    let at = written(&["tools", name, "grace"]).or_else(|| written(&["stop", "drain"]))?;
    let message =
        format!("tool `{name}` has {grace} to end, but when the run ends all is killed after {drain}");
    let help = format!("set `stop: {{drain: {grace}}}` or more, or shorten the tool's `grace`");
    Some(Diagnostic::error(Code::CONTRADICTION, at, message).help(help))
}

#[cfg(test)]
mod tests {
    use crate::host::agent_file::AgentFile;

    fn mistakes(tool: &str) -> String {
        let start =
            "version: 1\nmodels: {m: {api: scripted, script: s}}\ntools:\n  t: {kind: process, command: [x]";
        let text = format!("{start}, description: d, parameters: {{}}{tool}}}\n");
        AgentFile::read("agent.yaml", text.as_bytes())
            .map_or_else(|report| report.to_string(), |_| String::new())
    }

    #[test]
    fn what_a_program_may_be_told_is_read() {
        let all = ", arguments: [-v, ['--city', '{{ args.city }}']], stdin: json, output: text, timeout: 5s, \
                   on_timeout: background, keep_running: true, grace: 0s, linger: 10ms";
        assert_eq!(mistakes(all), "");
    }

    #[test]
    fn a_tool_has_no_longer_to_end_than_the_run() {
        insta::assert_snapshot!(
            mistakes(", grace: 6s"),
            @"agent.yaml:4:68: error[P0202]: tool `t` has 6s to end, but when the run ends all is killed after 5s"
        );
        assert_eq!(mistakes(", grace: 5s}\nstop: {drain: 5s"), "");
        insta::assert_snapshot!(
            mistakes("}\nstop: {drain: 1500ms"),
            @"agent.yaml:5:8: error[P0202]: tool `t` has 2s to end, but when the run ends all is killed after 1.5s"
        );
    }

    #[test]
    fn mistakes_are_told_with_their_places() {
        insta::assert_snapshot!(mistakes(", arguments: ['{{ arg.x }}', ['{{ args.x']]"), @r"
        agent.yaml:4:84: error[P0108]: `arg` is not known here
        agent.yaml:4:97: error[P0108]: the tag that begins here has no end
        ");
        insta::assert_snapshot!(mistakes(", timeout: 0s, on_timeout: backgrond"), @r"
        agent.yaml:4:77: error[P0106]: `0s` leaves no time at all
        agent.yaml:4:93: error[P0104]: unknown value `backgrond` (did you mean `background`?)
        ");
        insta::assert_snapshot!(mistakes(", on_timeout: wait, keep_running: true"), @r"
        agent.yaml:4:80: error[P0202]: it is not said after which time it is waited further
        agent.yaml:4:100: error[P0202]: only what continues in the background can be kept
        ");
    }
}

//! Tools of MCP servers that are left out or cut: what people and machines learn about them.

use crate::host::McpToolIssue;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::cli::out;
use crate::cli::text::one_line;

/// So many tools are named in a line.
const MOST_NAMED: usize = 5;

/// A tool that is left out or cut, as `unfazed tools --format json` prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ToolIssue {
    server: String,
    tool: String,
    left_out: bool,
    reason: String,
    message: String,
}

/// What is wrong with the tools of a server.
pub(super) fn of(server: &str, issues: &[McpToolIssue]) -> Vec<ToolIssue> {
    let issue = |issue: &McpToolIssue| ToolIssue {
        server: server.to_owned(),
        tool: issue.tool.clone(),
        left_out: issue.reason.leaves_out(),
        reason: issue.reason.name().to_owned(),
        message: issue.message.clone(),
    };
    issues.iter().map(issue).collect()
}

/// Prints one line for each server and reason.
pub(crate) fn tell(issues: &[ToolIssue]) {
    let mut groups = IndexMap::<(&str, &str, bool), Vec<&str>>::new();
    for issue in issues {
        let group = (issue.server.as_str(), issue.reason.as_str(), issue.left_out);
        groups.entry(group).or_default().push(&issue.tool);
    }
    for ((server, reason, left_out), tools) in groups {
        let mut names: Vec<String> =
            tools.iter().take(MOST_NAMED).map(|tool| format!("`{}`", one_line(tool))).collect();
        if tools.len() > MOST_NAMED {
            names.push(format!("{} more", tools.len() - MOST_NAMED));
        }
        let (what, why) = (if left_out { "left out" } else { "cut" }, one_line(&reason.replace('_', " ")));
        let (server, names) = (one_line(server), names.join(", "));
        out::say(&format!("warning: MCP server `{server}`: {what} {names}: {why}\n"));
    }
}

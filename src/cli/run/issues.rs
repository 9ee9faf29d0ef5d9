//! Tools of MCP servers that are left out or cut: what people and machines are told of them.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use unfazed::host::McpServer;

use crate::cli::out;
use crate::cli::text::one_line;

/// So many tools are named in a line.
const MOST_NAMED: usize = 5;

/// A tool that is left out or cut, as `unfazed tools --format json` prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Issue {
    server: String,
    tool: String,
    left_out: bool,
    reason: String,
    message: String,
}

/// What is wrong with the tools of the servers.
pub(super) fn of(servers: &[McpServer]) -> Vec<Issue> {
    let of_server = |server: &McpServer| {
        let server_name = server.name().to_owned();
        server.issues().into_iter().map(move |issue| Issue {
            server: server_name.clone(),
            tool: issue.tool,
            left_out: issue.reason.leaves_out(),
            reason: issue.reason.name().to_owned(),
            message: issue.message,
        })
    };
    servers.iter().flat_map(of_server).collect()
}

/// Prints one line for each server and reason.
pub(crate) fn tell(issues: &[Issue]) {
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

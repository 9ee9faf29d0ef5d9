//! The servers of an agent file, which are one to the client.

use std::path::{Path, PathBuf};

use crate::analysis::{KnownNames, LintOptions};
use crate::cli::exit::CommandFailure;
use crate::cli::policies::{self, reported};
use crate::cli::{files, named};
use crate::engine::AgentFacts;
use crate::host::McpConfig;
use crate::host::agent_file::{McpServers, NamedAgent};
use crate::policy::{Loader, Policy};
use crate::text::{Code, Diagnostic, Report};

/// What is served.
pub(super) struct ServedFile {
    pub(super) policy: Policy,
    /// The files of the policy.
    pub(super) paths: Vec<PathBuf>,
    pub(super) servers: Vec<McpConfig>,
    /// By what its sessions find it again; `None`: there is no file of servers.
    pub(super) agent: Option<AgentFacts>,
}

impl ServedFile {
    /// Reads an agent file. No more of it than its policy and its MCP servers is used.
    ///
    /// # Errors
    /// Mistakes in the file and in its policies, keys that are missing, and servers whose tools could not be told apart.
    pub(super) fn read(path: &Path, loader: &Loader) -> Result<Self, CommandFailure> {
        let bytes = files::read(path)?;
        if is_of_client(&bytes) {
            return Err(CommandFailure::Usage(format!(
                "{} is the configuration of a client; write its servers into an agent file, under `mcp`, or put \
                 `unfazed mcp --policy FILE --` in it before the command of a server",
                path.display()
            )));
        }
        let (named, reports) = NamedAgent::read(path, &bytes, loader);
        if named.is_none() {
            named::is_agent(path, &bytes, "mcp")?;
        }
        let named = named.ok_or_else(|| reported(&named::once(reports)))?;
        let servers = named.server_configs().map_err(|report| reported(&[report]))?;
        let shown = path.display();
        if servers.is_empty() {
            return Err(CommandFailure::Usage(format!("{shown} names no server; write one under `mcp`")));
        }
        if let Some(report) = unlike(&named) {
            return Err(reported(&[report]));
        }
        say_unused(&named);
        let agent = Some(named.file.value.facts(path, &named.policy));
        Ok(Self { paths: named.policy_paths(), policy: named.policy, servers, agent })
    }
}

/// Whether the file is one that lists the servers of a client, such as `.mcp.json`.
fn is_of_client(bytes: &[u8]) -> bool {
    let read: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_slice(bytes).ok();
    read.is_some_and(|fields| fields.contains_key("mcpServers") || fields.contains_key("servers"))
}

/// The mistake that the tools of two servers cannot be told apart.
fn unlike(named: &NamedAgent) -> Option<Report> {
    let prefixes = named.server_prefixes();
    let (one, other) = alike(&prefixes)?;
    let message = format!("the tools of `{one}` and `{other}` cannot be told apart by their prefixes");
    let at = McpServers::place(&named.file, &[other]);
    let problem = Diagnostic::error(Code::CONTRADICTION, at, message);
    Some(named.file.report(vec![problem.help("choose another name or `prefix` for one of them")]))
}

/// Warns of rules that no tool of the servers can ever have: an approval that is never asked for would pass unnoticed.
fn say_unused(named: &NamedAgent) {
    // What has no models is no agent.
    let known = KnownNames { owner: "file of servers", ..named.known_names() };
    let options = LintOptions { names: Some(known), ..LintOptions::default() };
    let unused = named.policy.lint(&options).only(Code::DEAD_SELECTOR);
    if !unused.is_empty() {
        policies::say(&[unused]);
    }
}

/// Two servers of which the prefix of one begins that of the other.
fn alike(prefixes: &[(String, String)]) -> Option<(&str, &str)> {
    let pairs = prefixes.iter().flat_map(|one| prefixes.iter().map(move |other| (one, other)));
    let mut alike = pairs
        .filter(|((name, prefix), (other, longer))| name != other && longer.starts_with(prefix.as_str()));
    alike.next().map(|((one, _), (other, _))| (one.as_str(), other.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_that_begin_each_other_cannot_be_told_apart() {
        let of = |prefixes: &[(&str, &str)]| {
            let prefixes: Vec<_> =
                prefixes.iter().map(|(name, prefix)| ((*name).to_owned(), (*prefix).to_owned())).collect();
            alike(&prefixes).map(|(one, other)| format!("{one} {other}"))
        };
        assert_eq!(of(&[("a", "a__"), ("b", "b__")]), None);
        assert_eq!(of(&[("a__b", "a__b__"), ("a", "a__")]).as_deref(), Some("a a__b"));
        assert_eq!(of(&[("a", "x"), ("b", "x")]).as_deref(), Some("a b"));
        assert_eq!(of(&[("a", "")]), None, "the tools of one server need no prefix");
    }
}

//! What is checked of an agent before anything of it is started.

use std::collections::HashSet;
use std::fmt;

use super::named::NamedAgent;
use super::{AgentFile, no_model};
use crate::analysis::{KnownNames, NameCompleteness, ShortBudget};
use crate::host::Agent;
#[cfg(feature = "mcp")]
use crate::host::McpToolIssue;
use crate::policy::Policy;
use crate::text::Report;

/// An agent whose policy goes with its tools and models, as far as they are known before its servers are started.
#[derive(Debug)]
pub(crate) struct CheckedAgent {
    pub(super) named: NamedAgent,
    pub(super) names: KnownNames,
    /// A budget is known to be too small, also without the tools of servers.
    #[cfg(feature = "mcp")]
    pub(super) is_short: bool,
    /// What may be a mistake, in the order in which it was found. What is found while the agent is started follows, also if it
    /// cannot be started; of an agent that can, [`FileAgent`](super::FileAgent) has it all.
    pub warnings: Vec<AgentWarning>,
}

/// What may be a mistake in an agent that can be run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AgentWarning {
    /// Warnings about the files; names in the policy that are of no tool and no model of the agent.
    Report(Report),
    /// The first turn is the final one, because a budget of the run is too small for two.
    ShortBudget(ShortBudget),
    /// Tools of an MCP server that are left out or cut.
    #[cfg(feature = "mcp")]
    ServerTools {
        /// The server.
        server: String,
        /// The tools.
        issues: Vec<McpToolIssue>,
    },
}

impl fmt::Display for AgentWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Report(report) => report.fmt(f),
            Self::ShortBudget(ShortBudget { path, why }) => {
                write!(f, "{path} is too small for one turn before the final one (W0256): {why}")
            }
            #[cfg(feature = "mcp")]
            Self::ServerTools { server, issues } => {
                write!(f, "MCP server `{server}`")?;
                for (at, issue) in issues.iter().enumerate() {
                    write!(f, "{} {}", if at == 0 { ":" } else { ";" }, issue.message)?;
                }
                Ok(())
            }
        }
    }
}

impl CheckedAgent {
    /// The agent file.
    pub(crate) const fn file(&self) -> &AgentFile {
        &self.named.file.value
    }
}

impl NamedAgent {
    /// Holds the policy against the tools and models of the agent. Nothing is started.
    ///
    /// # Errors
    /// Names in the policy that are of nothing the agent has.
    pub(crate) fn check(self) -> Result<CheckedAgent, Report> {
        #[cfg(not(feature = "mcp"))]
        without_servers(&self.file)?;
        if self.file.value.models.is_empty() {
            return Err(self.file.report(vec![no_model(self.file.value.version.span)]));
        }
        let names = self.known_names();
        let mut warnings = Vec::new();
        if names.completeness == NameCompleteness::All {
            warnings.extend(unknown_names(&self.policy, names.clone())?);
        }
        // Of servers nothing is known yet; a budget that is too small without their tools is too small with them.
        let short = self.short_budget();
        #[cfg(feature = "mcp")]
        let is_short = short.is_some();
        warnings.extend(short.map(AgentWarning::ShortBudget));
        Ok(CheckedAgent {
            named: self,
            names,
            #[cfg(feature = "mcp")]
            is_short,
            warnings,
        })
    }

    /// The names of its tools and models, for its policy to be held against. Those of its servers' tools are not among them.
    pub fn known_names(&self) -> KnownNames {
        let file = &self.file.value;
        let mut seen = HashSet::new();
        let prefixes = file.mcp.iter().map(|(name, entry)| entry.prefix_for(name));
        let all = file.mcp.is_empty();
        KnownNames {
            owner: "agent",
            tools: Some(self.offered()),
            // Without any it is no agent but servers of tools, and what the policy says of models is for others.
            models: (!file.models.is_empty()).then(|| file.models.keys().cloned().collect()),
            completeness: if all { NameCompleteness::All } else { NameCompleteness::More },
            shared: Vec::new(),
            unasked: prefixes.filter(|prefix| seen.insert(prefix.clone())).collect(),
        }
    }

    /// The tools that a model may be shown, those of servers aside: the agent's own, the one for the final report, and those
    /// that read kept results.
    fn offered(&self) -> Vec<String> {
        let agent = Agent::new(self.policy.clone()).tools(self.tools());
        match agent.offered() {
            Ok(tools) => tools.into_iter().map(|tool| tool.name).collect(),
            Err(_) => self.file.value.tools.keys().cloned().collect(),
        }
    }
}

/// Which names in the policy are of no tool and no model of the agent. With names that only a server could have told, there
/// is a warning at most, because the rules for the others hold.
pub(super) fn unknown_names(policy: &Policy, names: KnownNames) -> Result<Option<AgentWarning>, Report> {
    let report = policy.hold_against(names);
    if report.has_errors() {
        return Err(report);
    }
    Ok((!report.is_empty()).then_some(AgentWarning::Report(report)))
}

/// Refuses servers that nothing here can speak to.
#[cfg(not(feature = "mcp"))]
fn without_servers(file: &crate::policy::decode::DecodedDocument<AgentFile>) -> Result<(), Report> {
    use super::McpServers;
    use crate::text::{Code, Diagnostic};
    let Some(name) = file.value.mcp.keys().next() else { return Ok(()) };
    let message = "this program was built without the feature `mcp`, which speaks to MCP servers";
    let problem = Diagnostic::error(Code::BAD_VALUE, McpServers::place(file, &[name]), message);
    Err(file.report(vec![problem.help("build it with the feature, or remove the servers")]))
}

//! Which names the agents have that are checked together: a policy that several of them name is held against the names
//! of all, and one that other files extend is nobody's alone.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use unfazed::host::Agent;
use unfazed::host::agent_file::AgentFile;
use unfazed::policy::yaml::{self, Data};
use unfazed::policy::{Completeness, Findings, KnownNames, Sources};

use crate::cli::files;
use crate::cli::named::{self, Kind, Named};

/// The agents and the policies among the files that are checked.
#[derive(Default)]
pub(super) struct Agents {
    members: Vec<Member>,
    /// The files that other files extend.
    extended: HashSet<PathBuf>,
}

/// What one agent names.
struct Member {
    policies: Vec<PathBuf>,
    tools: Vec<String>,
    models: Vec<String>,
    /// How the names of the tools begin that its servers bring.
    unasked: Vec<String>,
    all_known: bool,
}

impl Agents {
    /// Reads what tells of the agents in those files. What is wrong with them is told elsewhere.
    pub(super) fn among(paths: &[PathBuf]) -> Self {
        let mut agents = Self::default();
        for path in paths {
            let Ok(bytes) = files::read(path) else { continue };
            let folder = path.parent().unwrap_or(Path::new(""));
            match named::kind(&bytes) {
                Kind::Agent => agents.members.extend(member(path, folder, &bytes)),
                Kind::Policy => {
                    agents.extended.extend(extends(&bytes).iter().map(|to| files::one(&folder.join(to))));
                }
                _ => {}
            }
        }
        agents
    }

    /// The names that the policy of an agent is held against.
    pub(super) fn names(&self, named: &Named, path: &Path) -> KnownNames {
        let folder = path.parent().unwrap_or(Path::new(""));
        let file = &named.file.value;
        let own = policies(file, folder);
        let others =
            || self.members.iter().filter(|member| member.policies.iter().any(|one| own.contains(one)));
        let mut tools = offered(named, folder);
        tools.extend(others().flat_map(|member| member.tools.iter().cloned()));
        let mut models: Vec<String> = file.models.keys().cloned().collect();
        models.extend(others().flat_map(|member| member.models.iter().cloned()));
        let mut unasked = prefixes(file);
        unasked.extend(others().flat_map(|member| member.unasked.iter().cloned()));
        for names in [&mut tools, &mut models, &mut unasked] {
            let mut seen = HashSet::new();
            names.retain(|name| seen.insert(name.clone()));
        }
        let all_known = file.mcp.is_empty() && others().all(|member| member.all_known);
        let paths = file.policy.0.iter().map(|path| folder.join(&path.value));
        let shared = paths.filter(|path| self.extended.contains(&files::one(path)));
        KnownNames {
            owner: "agent",
            tools: Some(tools),
            models: Some(models),
            completeness: if all_known { Completeness::All } else { Completeness::More },
            shared: shared.map(|path| path.display().to_string()).collect(),
            unasked,
        }
    }
}

/// The names that the policy of an agent is held against where no other file is looked at.
pub(in crate::cli) fn alone(named: &Named, path: &Path) -> KnownNames {
    Agents::default().names(named, path)
}

/// The names in an agent file, of which a policy with mistakes may have slips.
pub(super) fn own(file: &AgentFile) -> KnownNames {
    KnownNames {
        owner: "agent",
        tools: Some(file.tools.keys().cloned().collect()),
        models: Some(file.models.keys().cloned().collect()),
        completeness: Completeness::Few,
        shared: Vec::new(),
        unasked: prefixes(file),
    }
}

fn member(path: &Path, folder: &Path, bytes: &[u8]) -> Option<Member> {
    let (file, report) = AgentFile::read_rest(&path.display().to_string(), bytes);
    let file = file?.value;
    Some(Member {
        policies: policies(&file, folder),
        tools: file.tools.keys().cloned().collect(),
        models: file.models.keys().cloned().collect(),
        unasked: prefixes(&file),
        // What could not be read may be a tool.
        all_known: file.mcp.is_empty() && report.is_none(),
    })
}

fn prefixes(file: &AgentFile) -> Vec<String> {
    file.mcp.iter().map(|(name, entry)| entry.prefix_for(name)).collect()
}

fn policies(file: &AgentFile, folder: &Path) -> Vec<PathBuf> {
    file.policy.0.iter().map(|path| files::one(&folder.join(&path.value))).collect()
}

/// The tools that the agent may show a model, those of its servers aside: its own, the one for the final report, and
/// those that read kept results.
fn offered(named: &Named, folder: &Path) -> Vec<String> {
    let file = &named.file.value;
    let agent = Agent::new(named.policy.clone()).tools(crate::cli::run::tools(file, folder));
    match agent.offered() {
        Ok(tools) => tools.into_iter().map(|tool| tool.name).collect(),
        Err(_) => file.tools.keys().cloned().collect(),
    }
}

/// The paths that a policy file extends, as they are written there.
fn extends(bytes: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"extends";
    if !bytes.windows(KEY.len()).any(|part| part == KEY) {
        return Vec::new();
    }
    let root = yaml::load(&mut Sources::new(), &mut Findings::default(), "", bytes).1;
    let Some(parents) = root.as_ref().and_then(|root| root.get("extends")) else { return Vec::new() };
    let nodes = match &parents.data {
        Data::List(nodes) => &nodes[..],
        _ => std::slice::from_ref(parents),
    };
    let text = |node: &yaml::Node| match &node.data {
        Data::Text(text) => Some(text.to_string()),
        _ => None,
    };
    nodes.iter().filter_map(text).collect()
}

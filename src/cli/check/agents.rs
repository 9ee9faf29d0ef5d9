//! Which names the agents have that are checked together: a policy that several of them name is held against the names
//! of all, and one that other files extend is nobody's alone.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::analysis::{KnownNames, NameCompleteness};
use crate::host::agent_file::{AgentFile, NamedAgent};
use crate::text::yaml::{self, YamlData};
use crate::text::{Problems, Sources};

use crate::cli::files;
use crate::cli::named::{self, FileKind};

/// The agents and the policies among the files that are checked.
#[derive(Default)]
pub(super) struct CheckedAgents {
    members: Vec<AgentMember>,
    /// The files that other files extend.
    extended: HashSet<PathBuf>,
}

/// What one agent names.
struct AgentMember {
    policies: Vec<PathBuf>,
    tools: Vec<String>,
    models: Vec<String>,
    /// How the names of the tools begin that its servers bring.
    unasked: Vec<String>,
    all_known: bool,
}

impl CheckedAgents {
    /// Reads what tells of the agents in those files. What is wrong with them is reported elsewhere.
    pub(super) fn among(paths: &[PathBuf]) -> Self {
        let mut agents = Self::default();
        for path in paths {
            let Ok(bytes) = files::read(path) else { continue };
            let folder = path.parent().unwrap_or(Path::new(""));
            match named::kind(&bytes) {
                FileKind::Agent => agents.members.extend(member(path, folder, &bytes)),
                FileKind::Policy => {
                    agents.extended.extend(extends(&bytes).iter().map(|to| files::one(&folder.join(to))));
                }
                _ => {}
            }
        }
        agents
    }

    /// The names that the policy of an agent is held against.
    pub(super) fn names(&self, named: &NamedAgent) -> KnownNames {
        let folder = named.path.parent().unwrap_or(Path::new(""));
        let file = &named.file.value;
        let own = policies(file, folder);
        let others =
            || self.members.iter().filter(|member| member.policies.iter().any(|one| own.contains(one)));
        let alone = named.known_names();
        let (mut tools, mut models) = (alone.tools.unwrap_or_default(), alone.models.unwrap_or_default());
        tools.extend(others().flat_map(|member| member.tools.iter().cloned()));
        models.extend(others().flat_map(|member| member.models.iter().cloned()));
        let mut unasked = alone.unasked;
        unasked.extend(others().flat_map(|member| member.unasked.iter().cloned()));
        for names in [&mut tools, &mut models, &mut unasked] {
            let mut seen = HashSet::new();
            names.retain(|name| seen.insert(name.clone()));
        }
        let all_known = file.mcp.is_empty() && others().all(|member| member.all_known);
        let paths = file.policy.0.iter().map(|path| folder.join(&path.value));
        let shared = paths.filter(|path| self.extended.contains(&files::one(path)));
        KnownNames {
            owner: alone.owner,
            tools: Some(tools),
            models: Some(models),
            completeness: if all_known { NameCompleteness::All } else { NameCompleteness::More },
            shared: shared.map(|path| path.display().to_string()).collect(),
            unasked,
        }
    }
}

/// The names in an agent file, of which a policy with mistakes may have slips.
pub(super) fn own(file: &AgentFile) -> KnownNames {
    KnownNames {
        owner: "agent",
        tools: Some(file.tools.keys().cloned().collect()),
        models: Some(file.models.keys().cloned().collect()),
        completeness: NameCompleteness::Few,
        shared: Vec::new(),
        unasked: prefixes(file),
    }
}

fn member(path: &Path, folder: &Path, bytes: &[u8]) -> Option<AgentMember> {
    let (file, report) = AgentFile::read_rest(&path.display().to_string(), bytes);
    let file = file?.value;
    Some(AgentMember {
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

/// The paths that a policy file extends, as they are written there.
fn extends(bytes: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"extends";
    if !bytes.windows(KEY.len()).any(|part| part == KEY) {
        return Vec::new();
    }
    let root = yaml::load(&mut Sources::new(), &mut Problems::default(), "", bytes).1;
    let Some(parents) = root.as_ref().and_then(|root| root.get("extends")) else { return Vec::new() };
    let nodes = match &parents.data {
        YamlData::List(nodes) => &nodes[..],
        _ => std::slice::from_ref(parents),
    };
    let text = |node: &yaml::YamlNode| match &node.data {
        YamlData::Text(text) => Some(text.to_string()),
        _ => None,
    };
    nodes.iter().filter_map(text).collect()
}

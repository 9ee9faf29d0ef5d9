//! The policy that decides about a session now: the one that is named, or the one of its agent file.

use std::collections::HashMap;
use std::path::PathBuf;

use unfazed::policy::Policy;

use super::meant::Meant;
use crate::cli::exit::Failed;
use crate::cli::{named, policies};

/// Where the policies of sessions come from. Each is loaded once.
pub(super) struct Rules {
    /// The files that are named.
    named: Vec<PathBuf>,
    profile: Option<String>,
    /// `None`: it has mistakes, which have been printed.
    loaded: HashMap<(Vec<PathBuf>, Option<String>), Option<Policy>>,
}

impl Rules {
    pub(super) fn new(named: &[PathBuf], profile: Option<&str>) -> Result<Self, Failed> {
        let mut rules =
            Self { named: named.to_vec(), profile: profile.map(str::to_owned), loaded: HashMap::new() };
        // What is wrong with files that are named is told before anything is read.
        if !rules.named.is_empty() {
            rules.load(rules.named.clone(), rules.profile.clone())?;
        }
        Ok(rules)
    }

    /// The policy that decides about that session now.
    pub(super) fn of(&mut self, session: &Meant) -> Result<Policy, Failed> {
        let header = session.header()?;
        let profile = self.profile.clone();
        let profile = profile.or_else(|| header.agent.as_ref().and_then(|agent| agent.profile.clone()));
        if !self.named.is_empty() {
            return self.load(self.named.clone(), profile);
        }
        match header.agent {
            Some(agent) => {
                let file = PathBuf::from(agent.file);
                if !file.is_file() {
                    let (id, file) = (&session.id, file.display());
                    return Err(Failed::Usage(format!(
                        "the agent file of session {id} is gone: {file}; name a policy: --policy FILE"
                    )));
                }
                self.load(vec![file], profile)
            }
            None if header.policy == Policy::builtin().digest() => Ok(Policy::builtin()),
            None => {
                let id = &session.id;
                Err(Failed::Usage(format!(
                    "session {id} was recorded by a host that names no agent file; name its policy: --policy FILE"
                )))
            }
        }
    }

    fn load(&mut self, files: Vec<PathBuf>, profile: Option<String>) -> Result<Policy, Failed> {
        let key = (files, profile);
        if let Some(policy) = self.loaded.get(&key) {
            return policy.clone().ok_or_else(|| Failed::Report(String::new()));
        }
        let loaded = policies::load(&key.0, &named::loader(key.1.as_deref())).map(|(policy, _)| policy);
        self.loaded.insert(key, loaded.as_ref().ok().cloned());
        loaded
    }
}

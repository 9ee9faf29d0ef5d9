//! The policy that decides about a session now: the one that is named, or the one of its agent file.

use std::collections::HashMap;
use std::path::PathBuf;

use unfazed::policy::Policy;
use unfazed::replay::Replayed;

use super::meant::Meant;
use crate::cli::exit::Failed;
use crate::cli::{named, policies};

/// Where the policies of sessions come from. Each is loaded once.
pub(super) struct Rules {
    /// The files that are named.
    named: Vec<PathBuf>,
    /// A file for each policy that was in force earlier.
    earlier: Vec<PathBuf>,
    profile: Option<String>,
    /// `None`: it has mistakes, which have been printed.
    loaded: HashMap<(Vec<PathBuf>, Option<String>), Option<Policy>>,
}

impl Rules {
    pub(super) fn new(named: &[PathBuf], earlier: &[PathBuf], profile: Option<&str>) -> Result<Self, Failed> {
        let profile = profile.map(str::to_owned);
        let (named, all) = (named.to_vec(), earlier.to_vec());
        let mut rules = Self { named, earlier: all, profile, loaded: HashMap::new() };
        // What is wrong with files that are named is told before anything is read.
        if !rules.named.is_empty() {
            rules.load(rules.named.clone(), rules.profile.clone())?;
        }
        for file in earlier {
            rules.load(vec![file.clone()], rules.profile.clone())?;
        }
        Ok(rules)
    }

    /// The policies that were in force earlier.
    pub(super) fn earlier(&mut self, session: &Meant) -> Result<Vec<Policy>, Failed> {
        let profile = self.profile_of(session)?;
        let files = self.earlier.clone();
        files.into_iter().map(|file| self.load(vec![file], profile.clone())).collect()
    }

    /// The files among these whose policies decided nothing in that session.
    pub(super) fn idle(&mut self, session: &Meant, found: &Replayed) -> Result<Vec<PathBuf>, Failed> {
        let policies = self.earlier(session)?;
        let idle = |policy: &Policy| found.by.iter().all(|(digest, _)| digest != policy.digest());
        let files = self.earlier.iter().zip(&policies).filter(|(_, policy)| idle(policy));
        Ok(files.map(|(file, _)| file.clone()).collect())
    }

    /// The policy that decides about that session now.
    pub(super) fn of(&mut self, session: &Meant) -> Result<Policy, Failed> {
        let (header, profile) = (session.header()?, self.profile_of(session)?);
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

    fn profile_of(&self, session: &Meant) -> Result<Option<String>, Failed> {
        let header = session.header()?;
        Ok(self.profile.clone().or_else(|| header.agent.and_then(|agent| agent.profile)))
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

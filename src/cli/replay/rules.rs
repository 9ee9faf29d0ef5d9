//! The policy that decides about a session now: the one that is named, or the one of its agent file.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::engine::LogHeader;
use crate::policy::Policy;

use super::meant::NamedSession;
use crate::cli::exit::CommandFailure;
use crate::cli::settings::CliSettings;
use crate::cli::{named, policies};

/// Where the policies of sessions come from. Each is loaded once.
pub(super) struct PolicyCache<'a> {
    /// The files that are named.
    named: &'a [PathBuf],
    /// A file for each policy that was in effect earlier.
    earlier: &'a [PathBuf],
    /// The profile of the command line.
    flag: Option<&'a str>,
    settings: &'a CliSettings,
    /// `None`: it has mistakes, which have been printed.
    loaded: HashMap<(Vec<PathBuf>, Option<String>), Option<Policy>>,
}

/// What decides about a session.
pub(super) struct DecidingPolicy {
    pub(super) policy: Policy,
    /// The policies that were in effect earlier, in the order of their files.
    pub(super) earlier: Vec<Policy>,
}

impl<'a> PolicyCache<'a> {
    pub(super) fn new(
        named: &'a [PathBuf],
        earlier: &'a [PathBuf],
        flag: Option<&'a str>,
        settings: &'a CliSettings,
    ) -> Result<Self, CommandFailure> {
        let mut rules = Self { named, earlier, flag, settings, loaded: HashMap::new() };
        // What is wrong with files that are named is reported before anything is read.
        if !named.is_empty() {
            rules.load(named.to_vec(), None)?;
        }
        rules.earlier(None)?;
        Ok(rules)
    }

    /// What decides about that session now.
    pub(super) fn of(&mut self, session: &NamedSession) -> Result<DecidingPolicy, CommandFailure> {
        let header = session.header()?;
        let profile = header.agent.as_ref().and_then(|agent| agent.profile.clone());
        let earlier = self.earlier(profile.as_deref())?;
        let policy = self.policy(session, header, profile.as_deref())?;
        Ok(DecidingPolicy { policy, earlier })
    }

    fn policy(
        &mut self,
        session: &NamedSession,
        header: LogHeader,
        profile: Option<&str>,
    ) -> Result<Policy, CommandFailure> {
        if !self.named.is_empty() {
            return self.load(self.named.to_vec(), profile);
        }
        let id = &session.id;
        match header.agent {
            Some(agent) => {
                let file = PathBuf::from(agent.file);
                if !file.is_file() {
                    let file = file.display();
                    return Err(CommandFailure::Usage(format!(
                        "the agent file of session {id} is gone: {file}; name a policy: --policy FILE"
                    )));
                }
                self.load(vec![file], profile)
            }
            None if header.policy == Policy::builtin().digest() => Ok(Policy::builtin()),
            None => Err(CommandFailure::Usage(format!(
                "session {id} was recorded by a host that names no agent file; name its policy: --policy FILE"
            ))),
        }
    }

    fn earlier(&mut self, profile: Option<&str>) -> Result<Vec<Policy>, CommandFailure> {
        let files = self.earlier;
        files.iter().map(|file| self.load(vec![file.clone()], profile)).collect()
    }

    /// Under the profile that was chosen or, without one, that of the session.
    fn load(&mut self, files: Vec<PathBuf>, profile: Option<&str>) -> Result<Policy, CommandFailure> {
        let (chosen, own) = (self.flag.or(self.settings.profile.as_deref()), profile);
        let key = (files, chosen.or(own).map(str::to_owned));
        if let Some(policy) = self.loaded.get(&key) {
            return policy.clone().ok_or_else(|| CommandFailure::Report(String::new()));
        }
        let loader = match chosen {
            Some(_) => named::chosen(self.flag, self.settings),
            None => named::loader(own).profile_from("the session"),
        };
        let found = policies::load(&key.0, &loader).map(|(policy, _)| policy);
        self.loaded.insert(key, found.as_ref().ok().cloned());
        found
    }
}

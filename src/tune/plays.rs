//! Plays of candidates, on all cores, each kept so that it is played once.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::TuneError;
use super::measure::PlayMeasure;
use crate::policy::Policy;
use crate::simulate::Scenario;

/// A scenario that policies are tuned by.
#[derive(Clone, Debug)]
pub(crate) struct TuneScenario {
    pub(crate) scenario: Scenario,
    digest: u64,
}

/// What tells a play from all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct PlayKey {
    policy: String,
    scenario: u64,
    seed: u64,
}

/// A play as it is kept, in a line of JSON.
#[derive(Serialize, Deserialize)]
struct PlayLine {
    #[serde(flatten)]
    key: PlayKey,
    measure: PlayMeasure,
}

/// All plays so far.
pub(crate) struct PlayLedger<'a> {
    known: HashMap<PlayKey, PlayMeasure>,
    /// Where each play is kept as soon as it is over.
    kept: Option<Box<dyn Write + Send + 'a>>,
    tell: Box<dyn FnMut(usize) + Send + 'a>,
    /// The plays that were looked at, played now or before.
    done: usize,
}

/// What is written while plays run.
struct OpenLedger<'l, 'a> {
    ledger: &'l mut PlayLedger<'a>,
    failed: Option<TuneError>,
}

impl TuneScenario {
    /// The scenario of a file.
    pub(crate) fn new(scenario: Scenario, bytes: &[u8]) -> Self {
        Self { scenario, digest: xxh3_64(bytes) }
    }
}

impl<'a> PlayLedger<'a> {
    /// An empty ledger. `tell` gets the number of plays that are over.
    pub(crate) fn new(tell: impl FnMut(usize) + Send + 'a) -> Self {
        Self { known: HashMap::new(), kept: None, tell: Box::new(tell), done: 0 }
    }

    /// Keeps each play in `file` too, behind those that `text`, its content, has already. A last line that was cut off is
    /// played again.
    pub(crate) fn kept_in(mut self, text: &str, file: impl Write + Send + 'a) -> Self {
        let lines = text.lines().filter_map(|line| serde_json::from_str::<PlayLine>(line).ok());
        self.known.extend(lines.map(|line| (line.key, line.measure)));
        self.kept = Some(Box::new(file));
        self
    }

    /// The measures of all policies in all scenarios with these seeds: by policy, then by scenario, then by seed.
    pub(crate) fn play(
        &mut self,
        policies: &[&Policy],
        scenarios: &[TuneScenario],
        seeds: &[u64],
    ) -> Result<Vec<Vec<Vec<PlayMeasure>>>, TuneError> {
        let keys = |policy: &Policy| -> Vec<(usize, PlayKey)> {
            let each = scenarios.iter().enumerate();
            let each =
                each.flat_map(|(at, scenario)| seeds.iter().map(move |seed| (at, scenario.digest, *seed)));
            let policy = policy.digest();
            each.map(|(at, scenario, seed)| (at, PlayKey { policy: policy.to_owned(), scenario, seed }))
                .collect()
        };
        let all: Vec<(&Policy, Vec<(usize, PlayKey)>)> =
            policies.iter().map(|policy| (*policy, keys(policy))).collect();
        let mut open: Vec<(&Policy, &Scenario, &PlayKey)> = Vec::new();
        for (policy, keys) in &all {
            let new = keys.iter().filter(|(_, key)| !self.known.contains_key(key));
            open.extend(new.map(|(at, key)| (*policy, &scenarios[*at].scenario, key)));
        }
        // Two candidates may come to the same policy.
        let mut seen = std::collections::HashSet::new();
        open.retain(|(_, _, key)| seen.insert((*key).clone()));
        self.done += all.iter().map(|(_, keys)| keys.len()).sum::<usize>() - open.len();
        self.play_open(&open)?;
        let measured = |keys: &[(usize, PlayKey)]| -> Vec<Vec<PlayMeasure>> {
            let known = |(_, key): &(usize, PlayKey)| self.known.get(key).copied().unwrap_or_default();
            keys.chunks(seeds.len().max(1)).map(|of_one| of_one.iter().map(known).collect()).collect()
        };
        Ok(all.iter().map(|(_, keys)| measured(keys)).collect())
    }

    fn play_open(&mut self, open: &[(&Policy, &Scenario, &PlayKey)]) -> Result<(), TuneError> {
        let next = AtomicUsize::new(0);
        let cores = thread::available_parallelism().map_or(1, Into::into).min(open.len());
        let shared = Mutex::new(OpenLedger { ledger: self, failed: None });
        let work = || {
            while let Some((policy, scenario, key)) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                let played = (*scenario).clone().with_seed(key.seed).play(policy);
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match played {
                    Ok(figures) => shared.over(key, PlayMeasure::from(&figures)),
                    Err(error) => shared.failed = Some(TuneError::Clash(error)),
                }
                if shared.failed.is_some() {
                    return;
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..cores {
                scope.spawn(work);
            }
        });
        match shared.into_inner().unwrap_or_else(PoisonError::into_inner).failed {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl OpenLedger<'_, '_> {
    fn over(&mut self, key: &PlayKey, measure: PlayMeasure) {
        let ledger = &mut *self.ledger;
        ledger.known.insert(key.clone(), measure);
        ledger.done += 1;
        (ledger.tell)(ledger.done);
        let Some(kept) = &mut ledger.kept else { return };
        let line = serde_json::to_string(&PlayLine { key: key.clone(), measure }).map_err(io::Error::other);
        if let Err(error) = line.and_then(|line| writeln!(kept, "{line}")) {
            self.failed = Some(TuneError::Kept(error));
        }
    }
}

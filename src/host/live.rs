//! A policy that is replaced while work continues.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::policy::Policy;

/// A policy that may be replaced while work continues. Cheap to clone; clones share it.
///
/// Work in flight keeps the policy it began with; what begins later has the new one.
///
/// ```
/// use unfazed::host::{Guard, LivePolicy};
/// use unfazed::policy::Policy;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # let _inside = runtime.enter();
/// let live = LivePolicy::new(Policy::from_yaml("policy.yaml", "version: 1\nretry: {max_attempts: 2}\n")?);
/// let guard = Guard::new(live.clone());
///
/// // Later, when the file has changed:
/// let edited = "version: 1\nretry: {max_attempts: many}\n";
/// let failed = live.reload(|| Policy::from_yaml("policy.yaml", edited));
/// assert!(failed.is_err(), "what is broken never takes effect");
/// assert!(live.status().last_error.is_some());
/// # Ok::<(), unfazed::text::Report>(())
/// ```
#[derive(Clone)]
pub struct LivePolicy(Arc<SharedPolicy>);

struct SharedPolicy {
    current: RwLock<CurrentPolicy>,
    /// Grows with every replacement; written under the lock only.
    generation: AtomicU64,
    /// Reloads go one after the other: an older load never undoes a newer one.
    reload: Mutex<()>,
}

struct CurrentPolicy {
    policy: Policy,
    last_error: Option<String>,
}

/// How the last reload went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadStatus {
    /// Digest of the effective policy.
    pub digest: String,
    /// How often it was replaced.
    pub reloads: u64,
    /// Why the last reload failed; `None`: it did not. A gauge of this belongs on a dashboard.
    pub last_error: Option<String>,
}

impl LivePolicy {
    /// Begins with that policy.
    pub fn new(policy: Policy) -> Self {
        let current = RwLock::new(CurrentPolicy { policy, last_error: None });
        Self(Arc::new(SharedPolicy { current, generation: AtomicU64::new(0), reload: Mutex::default() }))
    }

    /// The effective policy.
    pub fn current(&self) -> Policy {
        self.read().policy.clone()
    }

    /// Grows with every replacement: a cheap way to see that there was one.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// The effective policy and its generation, of the same moment.
    pub(crate) fn numbered(&self) -> (u64, Policy) {
        let current = self.read();
        (self.generation(), current.policy.clone())
    }

    /// Puts another effective policy. `false`: it is the effective one already, by its digest.
    pub fn replace(&self, policy: Policy) -> bool {
        let mut current = self.write();
        current.last_error = None;
        let other = current.policy.digest() != policy.digest();
        if other {
            current.policy = policy;
            self.0.generation.fetch_add(1, Ordering::Release);
        }
        other
    }

    /// Loads a policy and puts it into effect. Returns whether it is another one. Of several at the same time, each
    /// waits for the one before, so `load` must not reload the same policy.
    ///
    /// # Errors
    /// Those of `load`; the effective policy stays.
    pub fn reload<E: fmt::Display>(&self, load: impl FnOnce() -> Result<Policy, E>) -> Result<bool, E> {
        let _one_after_the_other = self.0.reload.lock().unwrap_or_else(PoisonError::into_inner);
        match load() {
            Ok(policy) => Ok(self.replace(policy)),
            Err(error) => {
                self.write().last_error = Some(error.to_string());
                Err(error)
            }
        }
    }

    /// How the last reload went.
    pub fn status(&self) -> ReloadStatus {
        let current = self.read();
        ReloadStatus {
            digest: current.policy.digest().to_owned(),
            reloads: self.generation(),
            last_error: current.last_error.clone(),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, CurrentPolicy> {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, CurrentPolicy> {
        self.0.current.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Policy> for LivePolicy {
    fn from(policy: Policy) -> Self {
        Self::new(policy)
    }
}

impl fmt::Debug for LivePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LivePolicy").field(&self.status()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(attempts: u32) -> Policy {
        Policy::from_yaml("p.yaml", &format!("version: 1\nretry: {{max_attempts: {attempts}}}\n")).unwrap()
    }

    #[test]
    fn another_policy_gets_in_force_and_the_same_does_not_count() {
        let live = LivePolicy::new(policy(2));
        assert!(live.replace(policy(3)));
        assert!(!live.replace(policy(3)));
        let status = live.status();
        assert_eq!((status.reloads, status.digest), (1, policy(3).digest().to_owned()));
    }

    #[test]
    fn the_last_good_one_stays_in_force() {
        let live = LivePolicy::new(policy(2));
        live.reload(|| Policy::from_yaml("p.yaml", "version: 2\n")).unwrap_err();
        assert_eq!(live.status().digest, policy(2).digest());
        assert!(live.status().last_error.unwrap().contains("version 2"));
        live.reload(|| Ok::<_, String>(policy(3))).unwrap();
        assert_eq!(live.status().last_error, None, "a good one takes the blame away");
    }
}

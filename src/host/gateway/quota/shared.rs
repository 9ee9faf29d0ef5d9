//! What keys use, counted in one place for all gateways.
//!
//! A request waits until it is counted there. Those of one key that come while others of it are counted are counted together, so the
//! place is asked once at a time for each key. While it is away, each gateway counts by itself, and tells the others later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant as Moment;

use super::key_use::KeyUse;
use super::known_use::{KnownUse, UnsharedKey, UnsharedUse, WrittenUse, new_name};
use super::{KeyLedger, KeyRefusal, SpentRecord};
use crate::host::clock::Clock;
use crate::host::reached::ReachedState;
use crate::host::{SharedState, SharedStateError, SharedValue};
use crate::policy::Cost;
use crate::time::Instant;

/// So long it is tried to count a request, if others count all the time.
const PATIENCE: Duration = Duration::from_millis(250);

/// What keys use, as all gateways of one name know it.
pub(in crate::host::gateway) struct SharedQuota {
    port: Arc<ReachedState>,
    name: String,
    ledger: Arc<Mutex<KeyLedger>>,
    clock: Clock,
    /// This gateway, among those that write.
    gateway: OnceLock<u64>,
    /// The requests that wait, of the keys that are being counted.
    waiting: Mutex<BTreeMap<String, Vec<WaitingRequest>>>,
    /// What all knew last.
    known: Mutex<BTreeMap<String, KnownUse>>,
    /// The keys of which the others have to learn before what survives the process is dropped; `None`: nothing is written there.
    unshared: Mutex<Option<BTreeSet<String>>>,
}

/// A request that waits to be counted.
struct WaitingRequest {
    tokens: u64,
    answer: oneshot::Sender<KeyAnswer>,
}

/// The period of its budget; `None`: the key has no limit.
type KeyAnswer = Result<Option<Instant>, KeyRefusal>;

/// Requests of a key that are counted.
struct CountedUse {
    /// What was used before.
    own: KeyUse,
    /// What is used with them.
    used: KeyUse,
    answers: Vec<KeyAnswer>,
    /// Whether the others have to know.
    is_news: bool,
}

impl SharedQuota {
    /// Gateways count together if they have the same `name`.
    pub(in crate::host::gateway) fn new(
        port: &Arc<ReachedState>,
        name: &str,
        ledger: &Arc<Mutex<KeyLedger>>,
        clock: Clock,
    ) -> Arc<Self> {
        Arc::new(Self {
            port: Arc::clone(port),
            name: name.to_owned(),
            ledger: Arc::clone(ledger),
            clock,
            gateway: OnceLock::new(),
            waiting: Mutex::default(),
            known: Mutex::default(),
            unshared: Mutex::default(),
        })
    }

    /// Takes what a process before has used that the others may not know, before anything is used here.
    pub(in crate::host::gateway) fn restore(&self, record: SpentRecord) {
        let Some(UnsharedUse { gateway, keys }) = record.unshared else { return };
        let _ = self.gateway.set(gateway);
        *lock(&self.unshared) = Some(keys.keys().cloned().collect());
        let (mut known, mut ledger) = (lock(&self.known), lock(&self.ledger));
        for (key, unshared) in keys {
            known.insert(key.clone(), unshared.known.kept(unshared.used.clone()));
            ledger.restore_untold(key, unshared.used);
        }
    }

    /// What has to survive the process, if that has changed: while the others cannot learn of it, what they do not know, and then
    /// nothing.
    pub(in crate::host::gateway) fn unshared(&self) -> Option<SpentRecord> {
        let (known, mut ledger) = (lock(&self.known), lock(&self.ledger));
        let mut unshared = lock(&self.unshared);
        if !self.port.is_away() {
            // Of a key without limits nobody has to know.
            let is_told = unshared.as_ref()?.iter().all(|key| ledger.of(key).is_none());
            return is_told.then(|| {
                *unshared = None;
                SpentRecord::default()
            });
        }
        if !ledger.take_change() {
            return None;
        }
        let of_key = |key: &String| {
            let (rule, used) = ledger.of(key)?;
            rule.budget.as_ref()?;
            let known = known.get(key).cloned().unwrap_or_default();
            Some((key.clone(), UnsharedKey { used, known }))
        };
        let keys: BTreeMap<_, _> = ledger.untold().filter_map(of_key).collect();
        *unshared = Some(keys.keys().cloned().collect());
        Some(SpentRecord::of_unshared(UnsharedUse { gateway: self.gateway(), keys }))
    }

    /// A request of that key begins, which is estimated at so many tokens.
    pub(in crate::host::gateway) async fn begin(self: &Arc<Self>, key: &str, tokens: u64) -> KeyAnswer {
        let alone = || lock(&self.ledger).begin(key, tokens, self.clock.now());
        if self.port.is_away() || lock(&self.ledger).of(key).is_none() {
            return alone();
        }
        let (answer, answered) = oneshot::channel();
        if self.enter(key, Some(WaitingRequest { tokens, answer })) {
            // It is counted even if the client goes away meanwhile.
            tokio::spawn(Arc::clone(self).count(key.to_owned()));
        }
        answered.await.unwrap_or_else(|_| alone())
    }

    /// Looks at what the others have used, and tells them what was used here.
    pub(in crate::host::gateway) async fn tell(self: &Arc<Self>) {
        let keys: Vec<String> = lock(&self.ledger).limited().cloned().collect();
        if keys.is_empty() {
            return;
        }
        let names = keys.iter().map(|key| self.name_of(key)).collect();
        let Ok(found) = self.port.get(names).await else { return };
        for (key, found) in keys.iter().zip(found) {
            // Of those that are being counted it was asked too early.
            let waiting = lock(&self.waiting);
            if !waiting.contains_key(key) {
                self.look(key, found.as_ref());
            }
        }
        let untold: Vec<String> = lock(&self.ledger).untold().cloned().collect();
        for key in untold {
            if self.enter(&key, None) {
                Arc::clone(self).count(key).await;
            }
        }
    }

    /// A request waits to be counted. Returns whether nobody counts those of its key.
    fn enter(&self, key: &str, request: Option<WaitingRequest>) -> bool {
        let mut waiting = lock(&self.waiting);
        let leads = !waiting.contains_key(key);
        if leads || request.is_some() {
            waiting.entry(key.to_owned()).or_default().extend(request);
        }
        leads
    }

    /// Counts the requests of a key until none waits.
    async fn count(self: Arc<Self>, key: String) {
        loop {
            let requests = lock(&self.waiting).get_mut(&key).map(core::mem::take).unwrap_or_default();
            self.count_together(&key, requests).await;
            let mut waiting = lock(&self.waiting);
            if waiting.get(&key).is_none_or(Vec::is_empty) {
                waiting.remove(&key);
                return;
            }
        }
    }

    async fn count_together(&self, key: &str, requests: Vec<WaitingRequest>) {
        let began = Moment::now();
        loop {
            let Some(counted) = self.counted(key, &requests) else {
                return self.answer(key, requests.into_iter().map(|request| (request, Ok(None))));
            };
            let CountedUse { own, used, answers, is_news } = counted;
            // Those that come while one waits without an answer do not wait, too.
            let is_away = self.port.is_away();
            let write = new_name();
            let replaced = match (is_news, is_away) {
                (false, _) => Ok(true),
                (true, true) => Ok(false),
                (true, false) => self.write(key, &used, write).await,
            };
            if replaced == Ok(false) && !is_away && began.elapsed() < PATIENCE {
                let found = self.port.get(vec![self.name_of(key)]).await;
                if let Ok(found) = found {
                    self.look(key, found.first().and_then(Option::as_ref));
                    continue;
                }
            }
            let mut known = lock(&self.known);
            lock(&self.ledger).replace(key, (&own, &used), replaced == Ok(true), self.clock.now());
            if is_news && replaced == Ok(true) {
                known.entry(key.to_owned()).or_default().answered(used, self.gateway(), write);
                if let Some(unshared) = &mut *lock(&self.unshared) {
                    unshared.remove(key);
                }
            }
            drop(known);
            return self.answer(key, requests.into_iter().zip(answers));
        }
    }

    /// Writes what was used of a key, unless others have meanwhile.
    async fn write(&self, key: &str, used: &KeyUse, write: u64) -> Result<bool, SharedStateError> {
        let (version, value) = {
            let mut known = lock(&self.known);
            let known = known.entry(key.to_owned()).or_default();
            (known.version, known.write(used, self.gateway(), write))
        };
        self.port.replace(self.name_of(key), version, value).await
    }

    /// What all know if these requests begin now; `None`: the key has no limit any more.
    fn counted(&self, key: &str, requests: &[WaitingRequest]) -> Option<CountedUse> {
        let ledger = lock(&self.ledger);
        let (rule, own) = ledger.of(key)?;
        let mut all = own.clone();
        let now = self.clock.now().max(all.latest());
        let begin = |request: &WaitingRequest| all.begin(rule, request.tokens, now).map(Some);
        let answers: Vec<KeyAnswer> = requests.iter().map(begin).collect();
        // A client that asks on and on is refused by what was known a moment ago.
        let is_news = ledger.untold().any(|untold| untold == key) || answers.iter().any(Result::is_ok);
        Some(CountedUse { own, used: all, answers, is_news })
    }

    /// Takes what all know of a key by now; `None`: nothing.
    fn look(&self, key: &str, found: Option<&SharedValue>) {
        let version = found.map_or(0, |found| found.version);
        // What cannot be read is nothing: it is counted anew.
        let found = found.and_then(|found| WrittenUse::read(&found.value)).unwrap_or_default();
        let mut all = lock(&self.known);
        let known = all.entry(key.to_owned()).or_default();
        if version == known.version {
            return;
        }
        let now = self.clock.now().max(found.used.latest());
        lock(&self.ledger).join(key, known.before(&found, self.gateway()), &found.used, now);
        *known = KnownUse::new(version, found);
    }

    fn answer(&self, key: &str, answers: impl Iterator<Item = (WaitingRequest, KeyAnswer)>) {
        for (WaitingRequest { tokens, answer }, said) in answers {
            // Whoever has gone away meanwhile has used nothing.
            if let Err(Ok(Some(since))) = answer.send(said) {
                lock(&self.ledger).end(key, (since, tokens), (0, Cost::default()), self.clock.now());
            }
        }
    }

    fn gateway(&self) -> u64 {
        *self.gateway.get_or_init(new_name)
    }

    fn name_of(&self, key: &str) -> String {
        format!("gateway {} key {key}", self.name)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use serde_json::Value;

    use super::super::{KeyBudget, KeyRule, Placed};
    use super::*;
    use crate::host::{BoxFuture, InProcess};
    use crate::time::Nanos;

    /// A place that can go away, with the value it was given last or without.
    #[derive(Default)]
    struct Place {
        kept: InProcess,
        is_away: AtomicBool,
        loses_answers: AtomicBool,
    }

    fn away<T>() -> Result<T, SharedStateError> {
        Err(SharedStateError(crate::ErrorCause::new("it is away".to_owned())))
    }

    impl SharedState for Place {
        fn get(
            &self,
            names: Vec<String>,
        ) -> BoxFuture<'_, Result<Vec<Option<SharedValue>>, SharedStateError>> {
            Box::pin(async move {
                tokio::task::yield_now().await;
                if self.is_away.load(Ordering::Relaxed) {
                    return away();
                }
                self.kept.get(names).await
            })
        }

        fn replace(
            &self,
            name: String,
            known: u64,
            value: Value,
        ) -> BoxFuture<'_, Result<bool, SharedStateError>> {
            Box::pin(async move {
                tokio::task::yield_now().await;
                if self.is_away.load(Ordering::Relaxed) {
                    return away();
                }
                let replaced = self.kept.replace(name, known, value).await;
                if self.loses_answers.load(Ordering::Relaxed) { away() } else { replaced }
            })
        }
    }

    /// A gateway at that place, whose key `shop` may make so many requests a day.
    fn gateway(place: &Arc<Place>, requests: u64) -> Arc<SharedQuota> {
        let requests = Some(Placed { value: requests, place: "gateway.yaml:1:1".into() });
        let budget = KeyBudget { per: Nanos::from_secs(86_400), requests, tokens: None, cost: None };
        let rule = KeyRule { budget: Some(budget), ..KeyRule::default() };
        let ledger = Arc::<Mutex<KeyLedger>>::default();
        lock(&ledger).set_rules([("shop".to_owned(), rule)].into());
        let port = Arc::new(ReachedState::new(Arc::clone(place) as _, Box::new(|_| ())));
        SharedQuota::new(&port, "gateway", &ledger, Clock::starting_at(Instant(5)))
    }

    fn spent(gateway: &SharedQuota) -> (u64, u64) {
        let ledger = lock(&gateway.ledger);
        let (_, used) = ledger.of("shop").unwrap();
        (used.spent.requests, used.spent.tokens)
    }

    async fn begun(gateway: &Arc<SharedQuota>, times: usize) -> usize {
        let asked = (0..times).map(|_| gateway.begin("shop", 10));
        futures_util::future::join_all(asked).await.iter().filter(|begun| begun.is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn two_gateways_let_no_more_begin_than_one() {
        let place = Arc::<Place>::default();
        let (one, other) = (gateway(&place, 25), gateway(&place, 25));
        let (first, second) = tokio::join!(begun(&one, 20), begun(&other, 20));
        assert_eq!(first + second, 25);
        assert_eq!((begun(&one, 3).await, begun(&other, 3).await), (0, 0));
        // A gateway that comes later knows of them, and so does one that was told of nothing else.
        assert_eq!(begun(&gateway(&place, 25), 3).await, 0);
        lock(&one.ledger).end("shop", (Instant(0), 10), (70, Cost::default()), Instant(6));
        one.tell().await;
        other.tell().await;
        assert_eq!((spent(&one), spent(&other)), ((25, 310), (25, 310)));
        assert_eq!(begun(&one, 1).await, 0);
        assert_eq!(one.begin("other", 10).await, Ok(None), "others have no limit");
    }

    #[tokio::test(start_paused = true)]
    async fn while_it_is_away_each_counts_by_itself_and_tells_it_later() {
        let place = Arc::<Place>::default();
        let (one, other) = (gateway(&place, 25), gateway(&place, 25));
        assert_eq!((begun(&one, 5).await, begun(&other, 5).await), (5, 5));
        place.is_away.store(true, Ordering::Relaxed);
        assert_eq!((begun(&one, 9).await, begun(&other, 30).await), (9, 15));
        place.is_away.store(false, Ordering::Relaxed);
        for gateway in [&one, &other, &one] {
            gateway.tell().await;
        }
        assert_eq!((spent(&one).0, spent(&other).0), (34, 34));
        assert_eq!((begun(&one, 3).await, begun(&other, 3).await), (0, 0));
    }

    /// What it keeps, as the next process reads it.
    fn kept(gateway: &SharedQuota) -> SpentRecord {
        let written = serde_json::to_string(&gateway.unshared().unwrap()).unwrap();
        serde_json::from_str(&written).unwrap()
    }

    /// A gateway that was started where one has kept that.
    fn after(record: SpentRecord, place: &Arc<Place>, requests: u64) -> Arc<SharedQuota> {
        let gateway = gateway(place, requests);
        gateway.restore(record);
        gateway
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_used_while_it_was_away_survives_a_gateway_that_ends_meanwhile() {
        let place = Arc::<Place>::default();
        let (one, other) = (gateway(&place, 12), gateway(&place, 12));
        assert_eq!(begun(&one, 3).await, 3);
        assert_eq!(one.unshared(), None, "the others know it");
        place.loses_answers.store(true, Ordering::Relaxed);
        assert_eq!(begun(&one, 2).await, 2);
        place.is_away.store(true, Ordering::Relaxed);
        assert_eq!(begun(&one, 4).await, 4);
        let record = kept(&one);
        assert_eq!(one.unshared(), None, "nothing has changed");
        drop(one);

        let second = after(record, &place, 12);
        second.tell().await;
        assert_eq!((begun(&second, 1).await, second.unshared().is_some()), (1, true));
        assert_eq!(begun(&second, 1).await, 1);
        let record = kept(&second);
        drop(second);
        place.is_away.store(false, Ordering::Relaxed);
        place.loses_answers.store(false, Ordering::Relaxed);
        // Others write behind what was kept there without an answer.
        assert_eq!(begun(&other, 1).await, 1);
        let third = after(record, &place, 12);
        for gateway in [&third, &other] {
            gateway.tell().await;
        }
        assert_eq!((spent(&third).0, spent(&other).0), (12, 12));
        assert_eq!(begun(&third, 1).await, 0);
        assert_eq!(third.unshared(), Some(SpentRecord::default()));
        assert_eq!(third.unshared(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_told_before_it_was_dropped_is_not_added_again() {
        let place = Arc::<Place>::default();
        let (one, other) = (gateway(&place, 25), gateway(&place, 25));
        assert_eq!(begun(&other, 2).await, 2);
        place.is_away.store(true, Ordering::Relaxed);
        one.tell().await;
        assert_eq!(begun(&one, 5).await, 5);
        let record = kept(&one);
        place.is_away.store(false, Ordering::Relaxed);
        one.tell().await;
        assert_eq!(begun(&one, 3).await, 3);
        assert_eq!(begun(&other, 1).await, 1);
        // It is killed before it has dropped what it kept.
        drop(one);
        for _ in 0..2 {
            let again = after(record.clone(), &place, 25);
            again.tell().await;
            assert_eq!(spent(&again).0, 11);
        }
        // What comes after the start, while it is away once more, is not in the report.
        place.is_away.store(true, Ordering::Relaxed);
        let again = after(record, &place, 25);
        again.tell().await;
        assert_eq!(begun(&again, 4).await, 4);
        place.is_away.store(false, Ordering::Relaxed);
        again.tell().await;
        other.tell().await;
        assert_eq!((spent(&again).0, spent(&other).0), (15, 15));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_kept_without_an_answer_is_not_counted_twice_behind_others() {
        let place = Arc::<Place>::default();
        let (one, other) = (gateway(&place, 25), gateway(&place, 25));
        place.loses_answers.store(true, Ordering::Relaxed);
        assert_eq!(begun(&one, 5).await, 5);
        place.loses_answers.store(false, Ordering::Relaxed);
        assert_eq!(begun(&other, 2).await, 2);
        for gateway in [&one, &other] {
            gateway.tell().await;
        }
        assert_eq!((spent(&one).0, spent(&other).0), (7, 7));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_kept_without_an_answer_is_not_counted_twice() {
        let place = Arc::<Place>::default();
        let (one, other) = (gateway(&place, 25), gateway(&place, 25));
        place.loses_answers.store(true, Ordering::Relaxed);
        assert_eq!(begun(&one, 5).await, 5);
        assert!(one.port.is_away());
        // What was kept is unknown as often as it is tried.
        one.tell().await;
        assert_eq!(begun(&one, 2).await, 2);
        place.loses_answers.store(false, Ordering::Relaxed);
        one.tell().await;
        one.tell().await;
        other.tell().await;
        assert_eq!((spent(&one).0, spent(&other).0), (7, 7));
    }
}

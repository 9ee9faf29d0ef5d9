//! Breakers and budgets that hosts share through a database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use unfazed::engine::Outcome;
use unfazed::host::{Agent, SharedState, StopSwitch};
use unfazed::store::{PgStore, Store};

use super::server::{self, Database, Server};
use crate::flaky::{self, BREAKER, Told, task};
use crate::waiting::wait;

/// The agent of a host that shares through that database.
fn agent(store: &PgStore, policy: &str, calls: u32, does: impl Fn(u32) + Send + Sync + 'static) -> Agent {
    flaky::agent(policy, calls, does).shared(store.shared_state().unwrap())
}

/// Runs it to its end. How many failures its breaker knows of then, and what was out of reach.
fn run(agent: &Agent) -> (u32, Vec<String>) {
    let mut told = Told::default();
    let report = wait(agent.run_with(task(), &mut told, None, StopSwitch::new())).unwrap();
    assert_eq!(report.outcome, Outcome::Answered { text: "Done.".into() });
    (report.state.breaker("flaky").unwrap().failures(), told.0)
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_breaker_opens_by_what_two_hosts_have_counted() {
    let database = Database::new();
    let runs = Arc::new(AtomicU32::new(0));
    let counts = || {
        let runs = Arc::clone(&runs);
        move |_| {
            runs.fetch_add(1, Ordering::Relaxed);
        }
    };
    assert_eq!(run(&agent(&database.store(), BREAKER, 2, counts())), (2, vec![]));
    assert_eq!(run(&agent(&database.store(), BREAKER, 4, counts())), (3, vec![]));
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    assert_eq!(run(&agent(&database.store(), BREAKER, 1, counts())), (3, vec![]));
    assert_eq!(runs.load(Ordering::Relaxed), 3, "a host that comes later sees that it is open");
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn hosts_that_fail_at_the_same_time_lose_no_failure() {
    let database = Database::new();
    let policy = BREAKER
        .replace("failures: 3", "failures: 1000")
        .replace("open_for", "count: {kind: cumulative}, open_for");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (_, told) = run(&agent(&database.store(), &policy, 6, |_| ()));
                assert!(told.is_empty(), "{told:?}");
            });
        }
    });
    assert_eq!(run(&agent(&database.store(), &policy, 1, |_| ())), (25, vec![]));
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_database_that_goes_away_in_the_middle_leaves_the_run_with_what_it_knows() {
    let database = Database::on(Server::new());
    let pid = database.server.pid();
    let store = database.store();
    let kills = move |run| {
        if run == 2 {
            server::kill(pid);
        }
    };
    let (failures, told) = run(&agent(&store, BREAKER, 4, kills));
    assert_eq!((failures, told.len()), (3, 1), "{told:?}");
    assert!(told[0].contains("postgres://127.0.0.1:"), "{told:?}");
    database.server.start();
    let found = store.get(vec!["no such name".into()]);
    assert_eq!(wait(found).unwrap(), [None], "it is there again");
}

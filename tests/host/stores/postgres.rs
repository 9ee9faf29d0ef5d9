//! What a database does beyond what every place does: tables, leases, values that hosts share, passwords that are not shown.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant as Clock};

use serde_json::json;
use unfazed::engine::RecordLine;
use unfazed::store::{MigrationReport, PgConfig, PgStore, StoreError};

use super::server::{Database, PASSWORD, waited};
use super::suite::{Place, WaitedStore, header, id, read, seqs, state};
use crate::waiting::wait;

/// The database that a child writes to; without it nobody is one.
const CHILD: &str = "STORES_CHILD_URL";

fn first_version() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/postgres/migrations/0001_sessions.sql"))
}

/// A database as the first version has made it, with a session.
fn old() -> Database {
    let database = Database::empty();
    database.sql_file(first_version());
    database.sql("create table unfazed_schema (version integer primary key, applied timestamptz not null default now())");
    database.sql("insert into unfazed_schema (version) values (1)");
    database.sql(
        "insert into unfazed_session (id, records, bytes, meta_version, title, created, status, runs, turns, messages, tokens)
         values ('trip', 1, 75, 1, 'old', 7, 'answered', 1, 1, 2, '{\"input\": 5, \"output\": 6}')",
    );
    database.sql(
        r#"insert into unfazed_record values
           ('trip', 0, '{"v":1,"kind":"session","format":1,"run":"r","policy":"p","created":7}')"#,
    );
    database
}

fn refused(database: &Database) -> String {
    let error = wait(PgStore::connect(database.config())).err().unwrap();
    assert!(matches!(error, StoreError::Schema { .. }), "{error}");
    error.to_string().replace(&database.server.port.to_string(), "PORT").replace(&database.name, "NAME")
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_database_without_tables_is_refused() {
    let said = refused(&Database::empty());
    assert_eq!(
        said,
        "the database postgres://127.0.0.1:PORT/NAME has no tables for sessions; `unfazed sessions migrate` makes them"
    );
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn tables_of_an_older_version_are_refused_and_then_migrated_with_all_that_is_in_them() {
    let database = old();
    let said = refused(&database);
    assert_eq!(
        said,
        "the tables in postgres://127.0.0.1:PORT/NAME have version 1, this program needs 2; `unfazed sessions migrate` makes \
         them"
    );
    assert_eq!(wait(PgStore::migrate(&database.config())).unwrap(), MigrationReport { from: 1, to: 2 });
    let store = database.host();
    let info = store.info(&id("trip")).unwrap();
    assert_eq!((info.meta.title.as_str(), info.meta.tokens.input), ("old", 5));
    store.open(&id("trip")).unwrap().append(&[state(1)]).unwrap();
    assert_eq!(seqs(&store, "trip"), [1]);
    assert_eq!(wait(PgStore::migrate(&database.config())).unwrap(), MigrationReport { from: 2, to: 2 });
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn tables_of_a_later_version_are_refused_and_left_alone() {
    let database = Database::new();
    database.sql("insert into unfazed_schema (version) values (99)");
    let said = refused(&database);
    assert!(
        said.contains("have version 99, this program knows 2") && said.contains("update first"),
        "{said}"
    );
    assert!(matches!(wait(PgStore::migrate(&database.config())), Err(StoreError::Schema { .. })));
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn hosts_that_migrate_at_the_same_time_wait_for_one_another() {
    let database = Database::empty();
    std::thread::scope(|scope| {
        let hosts: Vec<_> =
            (0..6).map(|_| scope.spawn(|| wait(PgStore::migrate(&database.config())))).collect();
        for host in hosts {
            assert_eq!(host.join().unwrap().unwrap().to, 2);
        }
    });
    assert_eq!(
        database.sql("select string_agg(version::text, ',' order by version) from unfazed_schema"),
        "1,2"
    );
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_lease_that_has_expired_is_taken_and_its_old_holder_writes_no_more() {
    let database = Database::new();
    let (one, two) = (database.host(), database.host());
    let mut old = one.create(&id("trip"), &header()).unwrap();
    old.append(&[state(1)]).unwrap();
    assert!(matches!(two.open(&id("trip")), Err(StoreError::InUse { .. })));
    database.sql("update unfazed_session set lease_until = clock_timestamp() - interval '1 second'");
    let mut new = two.open(&id("trip")).unwrap();
    new.append(&[state(2)]).unwrap();
    let error = old.append(&[state(99)]).unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    let meta = old.meta().unwrap();
    let error = old.set_meta(&meta).unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    // That it goes does not take the session from who has it now.
    drop(old);
    new.append(&[state(3)]).unwrap();
    assert!(matches!(one.open(&id("trip")), Err(StoreError::InUse { .. })));
    assert_eq!(seqs(&one, "trip"), [1, 2, 3]);
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_lease_that_has_expired_and_that_nobody_took_is_still_its_holders() {
    let database = Database::new();
    let store = database.host();
    let mut log = store.create(&id("trip"), &header()).unwrap();
    database.sql("update unfazed_session set lease_until = clock_timestamp() - interval '1 second'");
    log.append(&[state(1)]).unwrap();
    assert!(matches!(store.open(&id("trip")), Err(StoreError::InUse { .. })));
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_lease_is_renewed_while_nothing_is_written() {
    let database = Database::new();
    let store = waited(wait(PgStore::connect(database.config().lease(Duration::from_millis(900)))).unwrap());
    let _log = store.create(&id("trip"), &header()).unwrap();
    let lease = || database.sql("select lease_until from unfazed_session");
    let (first, end) = (lease(), Clock::now() + Duration::from_secs(30));
    while lease() == first {
        assert!(Clock::now() < end, "it is not renewed");
    }
}

/// Writes until it is killed.
#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_host_that_is_killed_keeps_its_session_until_its_lease_expires() {
    if let Ok(url) = std::env::var(CHILD) {
        let store = waited(
            wait(PgStore::connect(PgConfig::parse(&url).unwrap().lease(Duration::from_secs(3)))).unwrap(),
        );
        let mut log = store.create(&id("trip"), &header()).unwrap();
        for seq in 1.. {
            log.append(&[state(seq)]).unwrap();
            println!("acknowledged {seq}");
        }
    }
    let database = Database::new();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture"])
        .arg("stores::postgres::a_host_that_is_killed_keeps_its_session_until_its_lease_expires")
        .env(CHILD, database.url())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = 0;
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        if let Some(seq) = line.strip_prefix("acknowledged ") {
            acknowledged = seq.parse().unwrap();
            if acknowledged == 20_u64 {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    let store = database.host();
    assert!(matches!(store.open(&id("trip")), Err(StoreError::InUse { .. })));
    let end = Clock::now() + Duration::from_secs(60);
    let mut log = loop {
        match store.open(&id("trip")) {
            Ok(log) => break log,
            Err(StoreError::InUse { .. }) => assert!(Clock::now() < end, "the lease does not expire"),
            Err(error) => panic!("{error}"),
        }
    };
    let written = seqs(&store, "trip");
    let last = *written.last().unwrap();
    // One more may be there whose acknowledgement was cut off.
    assert!(last == acknowledged || last == acknowledged + 1, "{last} {acknowledged}");
    assert_eq!(written, (1..=last).collect::<Vec<_>>());
    log.append(&[state(last + 1)]).unwrap();
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn of_two_that_take_a_session_at_once_one_gets_it() {
    let database = Database::new();
    drop(database.host().create(&id("trip"), &header()).unwrap());
    let barrier = std::sync::Barrier::new(6);
    let taken = std::thread::scope(|scope| {
        let host = || {
            let store = database.host();
            barrier.wait();
            let log = store.open(&id("trip"));
            barrier.wait();
            log.is_ok()
        };
        let hosts: Vec<_> = (0..6).map(|_| scope.spawn(host)).collect();
        hosts.into_iter().map(|host| u32::from(host.join().unwrap())).sum::<u32>()
    });
    assert_eq!(taken, 1);
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn an_append_whose_answer_was_lost_is_not_made_twice() {
    let database = Database::new();
    let store = database.host();
    let mut log = store.create(&id("trip"), &header()).unwrap();
    // What the first try has left, before anybody heard of it.
    let line = RecordLine::new(state(1).as_ref()).unwrap();
    database.sql(&format!("insert into unfazed_record values ('trip', 1, '{}')", line.as_str()));
    database.sql("update unfazed_session set records = 2");
    log.append(&[state(1)]).unwrap();
    log.append(&[state(2)]).unwrap();
    assert_eq!(seqs(&store, "trip"), [1, 2]);
    // But what somebody else has written is not taken for one's own.
    database
        .sql("insert into unfazed_record values ('trip', 3, '{}'); update unfazed_session set records = 4");
    assert!(matches!(log.append(&[state(3)]), Err(StoreError::Write { .. })));
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_log_that_has_lost_lines_is_written_no_further() {
    let database = Database::new();
    let store = database.host();
    let mut log = store.create(&id("trip"), &header()).unwrap();
    log.append(&[state(1)]).unwrap();
    log.append(&[state(2)]).unwrap();
    database.sql("delete from unfazed_record where seq = 2; update unfazed_session set records = 2");
    let said = log.append(&[state(3)]).unwrap_err().to_string();
    assert!(said.contains("the database has 2 of its lines, and had acknowledged 3"), "{said}");
    assert_eq!(seqs(&store, "trip"), [1]);
    database.sql("update unfazed_record set seq = 7 where seq = 1");
    let said = store.read(&id("trip")).unwrap().find_map(Result::err).unwrap().to_string();
    assert!(said.contains("line 2 is missing"), "{said}");
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_line_that_is_no_record_is_damage_at_its_place() {
    let database = Database::new();
    let store = database.host();
    let mut log = store.create(&id("trip"), &header()).unwrap();
    log.append(&[state(1), state(2)]).unwrap();
    drop(log);
    database.sql("update unfazed_record set line = '{' where seq = 1");
    let error = store.open(&id("trip")).err().unwrap();
    assert!(matches!(error, StoreError::Damaged { line: 2, .. }), "{error}");
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_value_that_hosts_share_changes_only_as_it_was_seen() {
    let database = Database::new();
    let (one, two) = (database.store(), database.store());
    assert_eq!(wait(one.shared("breaker:search")).unwrap(), None);
    assert!(wait(one.share("breaker:search", 0, &json!({"failures": 1}))).unwrap());
    assert!(!wait(two.share("breaker:search", 0, &json!({"failures": 9}))).unwrap());
    let seen = wait(two.shared("breaker:search")).unwrap().unwrap();
    assert_eq!((seen.version, seen.value), (1, json!({"failures": 1})));
    assert!(wait(two.share("breaker:search", seen.version, &json!({"failures": 2}))).unwrap());
    assert!(!wait(one.share("breaker:search", seen.version, &json!({"failures": 9}))).unwrap());
    // Nothing is counted twice, and nothing is lost.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = database.store();
                for _ in 0..10 {
                    while {
                        let seen = wait(store.shared("breaker:search")).unwrap().unwrap();
                        let failures = seen.value["failures"].as_u64().unwrap() + 1;
                        let value = json!({ "failures": failures });
                        !wait(store.share("breaker:search", seen.version, &value)).unwrap()
                    } {}
                }
            });
        }
    });
    assert_eq!(wait(one.shared("breaker:search")).unwrap().unwrap().value, json!({"failures": 42}));
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn no_error_shows_the_password() {
    let database = Database::new();
    let (url, port) = (database.url(), database.server.port);
    let wrong = [
        url.replace("unfazed:", "nobody:"),
        url.replace(&database.name, "nowhere"),
        url.replace(&port.to_string(), "1"),
        url.replace("127.0.0.1", "host.invalid"),
        url.replace(PASSWORD, &format!("{PASSWORD}-not")),
        url.replace("disable", "require"),
        format!("{url}&nonsense=1"),
        url.replace('@', "@@"),
    ];
    for url in wrong {
        let said = match PgConfig::parse(&url).and_then(|config| wait(PgStore::connect(config))) {
            Err(error) => format!("{error} {error:?}"),
            Ok(_) => panic!("it connects"),
        };
        assert!(!said.contains(PASSWORD) && !said.contains("unfazed:"), "{said}");
    }
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn large_results_on_this_host_are_deleted_with_their_session() {
    let (database, dir) = (Database::new(), tempfile::tempdir().unwrap());
    let store = waited(wait(PgStore::connect(database.config().results(dir.path()))).unwrap());
    drop(store.create(&id("trip"), &header()).unwrap());
    let results = dir.path().join("trip.results");
    std::fs::create_dir(&results).unwrap();
    std::fs::write(results.join("1.txt"), "much").unwrap();
    store.delete(&id("trip")).unwrap();
    assert!(!results.exists());
    assert!(read_nothing(&store));
}

fn read_nothing(store: &WaitedStore) -> bool {
    matches!(store.read(&id("trip")), Err(StoreError::NotFound { .. }))
        && store.list().unwrap().sessions.is_empty()
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_long_line_is_kept_whole() {
    let database = Database::new();
    let store = database.host();
    let long = unfazed::engine::Record::State { seq: 1, hash: "h".repeat(20 << 20) };
    store.create(&id("trip"), &header()).unwrap().append(std::slice::from_ref(&long)).unwrap();
    assert_eq!(read(&store, "trip")[1], long);
}

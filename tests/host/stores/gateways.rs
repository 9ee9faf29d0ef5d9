//! Gateways that share through a database what their keys use and what they find of providers.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::server::{self, Database, PASSWORD, Server};
use crate::command;
use crate::waiting::wait;

const PATIENCE: Duration = Duration::from_secs(30);
/// The key `sesame`.
const SESAME: &str = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272";
const ANSWERS: &str =
    "version: 1\nrepeat_last: true\nreplies: [{text: hello, usage: {input: 3, output: 2}}]\n";
const FAILS: &str = "version: 1\nreplies:\n  - {error: {status: 500, message: down}, times: 2}\n  - {text: hello, times: 1000}\n";
const POLICY: &str = "version: 1\nmodels: {'*': {retry: {max_attempts: 1}}}\n";

/// A gateway, and what it says.
struct Gateway {
    child: Child,
    url: String,
    said: Arc<Mutex<Vec<String>>>,
    folder: Arc<TempDir>,
}

impl Gateway {
    /// A gateway whose first model follows that script; its key has these limits.
    fn start(database: &Database, (policy, main): (&str, &str), limits: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("policy.yaml", policy);
        write("main.yaml", main);
        write("spare.yaml", ANSWERS);
        write(
            "gateway.yaml",
            &format!(
                "version: 1\npolicy: policy.yaml\nmodels:\n  main: {{api: scripted, script: main.yaml}}\n  \
                 spare: {{api: scripted, script: spare.yaml}}\nroutes: {{both: [main, spare], main: main}}\n\
                 keys: {{shop: {{sha256: {SESAME}, {limits}}}}}\n"
            ),
        );
        Self::start_in(&Arc::new(folder), database)
    }

    /// A gateway of the file in that folder.
    fn start_in(folder: &Arc<TempDir>, database: &Database) -> Self {
        let mut command =
            command::unfazed(folder.path(), &["serve", "gateway.yaml", "--addr", "127.0.0.1:0"]);
        command.env("UNFAZED_SESSIONS_URL", database.url()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let said = Arc::<Mutex<Vec<String>>>::default();
        let says = Arc::clone(&said);
        std::thread::spawn(move || lines.for_each(|line| says.lock().unwrap().push(line)));
        let url = until(|| {
            said.lock().unwrap().iter().find_map(|line| Some(line.strip_prefix("serves  ")?.to_owned()))
        });
        Self { child, url, said, folder: Arc::clone(folder) }
    }

    /// So many requests at once; the status of each, and its model.
    fn ask(&self, times: usize, model: &str) -> Vec<(u16, String)> {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let ask = || async {
            let request = http.post(format!("{}/v1/chat/completions", self.url)).bearer_auth("sesame");
            let answer =
                request.body(format!(r#"{{"model":"{model}","messages":[]}}"#)).send().await.unwrap();
            let target =
                answer.headers().get("x-unfazed-target").map(|name| name.to_str().unwrap().to_owned());
            (answer.status().as_u16(), target.unwrap_or_default())
        };
        wait(futures_util::future::join_all((0..times).map(|_| ask())))
    }

    /// How many of so many requests at once are answered; the others are refused.
    fn answered(&self, times: usize) -> usize {
        let all = self.ask(times, "main");
        assert!(all.iter().all(|(status, _)| [200, 429].contains(status)), "{all:?}");
        all.iter().filter(|(status, _)| *status == 200).count()
    }

    fn status(&self) -> Value {
        let asked =
            async { reqwest::get(format!("{}/status.json", self.url)).await.unwrap().text().await.unwrap() };
        serde_json::from_str(&wait(asked)).unwrap()
    }

    /// How many requests its key has used, as far as it knows.
    fn used(&self) -> Value {
        self.status()["keys"][0]["budget"]["limits"][0]["used"].clone()
    }

    /// Where it keeps what the others may not know.
    fn unshared(&self) -> PathBuf {
        self.folder.path().join(".unfazed/serve/gateway.unshared-1.json")
    }

    /// What it has written there.
    fn kept(&self) -> Value {
        let text = fs::read(self.unshared()).unwrap_or_default();
        let kept: Value = serde_json::from_slice(&text).unwrap_or_default();
        kept["unshared"]["keys"]["shop"]["used"]["spent"]["requests"].clone()
    }

    /// What it has said with that word in it.
    fn said(&self, word: &str) -> Vec<String> {
        let said = self.said.lock().unwrap();
        assert!(!said.iter().any(|line| line.contains(PASSWORD)), "{said:?}");
        said.iter().filter(|line| line.contains(word)).cloned().collect()
    }

    fn stop(mut self) {
        let id = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks until it is there.
fn until<T>(look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it has not come about");
        std::thread::yield_now();
    }
}

/// So many requests at both at once; how many of all are answered.
fn both(one: &Gateway, other: &Gateway, times: usize) -> usize {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| other.answered(times));
        one.answered(times) + other.join().unwrap()
    })
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_budget_of_a_key_is_one_for_two_gateways_and_survives_them() {
    let database = Database::new();
    let start =
        || Gateway::start(&database, (POLICY, ANSWERS), "budget: {per: 30d, requests: 60, tokens: 100000}");
    let (one, other) = (start(), start());
    assert_eq!(one.said("shares  postgres://").len(), 1);
    assert_eq!(both(&one, &other, 40), 60);
    assert_eq!(both(&one, &other, 5), 0);
    // Five tokens of each answer, wherever it was given.
    let tokens = |gateway: &Gateway| gateway.status()["keys"][0]["budget"]["limits"][1]["used"].clone();
    until(|| (tokens(&one) == 300 && tokens(&other) == 300).then_some(()));
    one.stop();
    drop(other);
    let later = start();
    assert_eq!(later.answered(3), 0);
    assert_eq!(later.said("warning"), [""; 0]);
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_pace_of_a_key_is_one_for_two_gateways() {
    let database = Database::new();
    let start = || Gateway::start(&database, (POLICY, ANSWERS), "pace: {requests: {limit: 30, per: 1h}}");
    let (one, other) = (start(), start());
    assert_eq!(both(&one, &other, 20), 30);
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_model_that_one_gateway_has_given_up_rests_at_the_other() {
    let database = Database::new();
    let limits = "pace: {requests: unlimited}";
    let one = Gateway::start(&database, (POLICY, FAILS), limits);
    let other = Gateway::start(&database, (POLICY, ANSWERS), limits);
    assert_eq!(other.ask(1, "both"), [(200, "main".to_owned())]);
    assert_eq!(one.ask(1, "both"), [(200, "spare".to_owned())]);
    until(|| other.status()["targets"][0]["cooldown"].is_object().then_some(()));
    assert_eq!(other.ask(1, "both"), [(200, "spare".to_owned())]);
    // Its own model answers all the same, which ends it for both.
    assert_eq!(other.ask(1, "main"), [(200, "main".to_owned())]);
    until(|| one.status()["targets"][0]["cooldown"].is_null().then_some(()));
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn an_outage_that_one_gateway_has_found_holds_the_calls_of_the_other() {
    let database = Database::new();
    let policy = "version: 1\nmodels: {'*': {retry: {max_attempts: 1}, \
                  pace: {breaker: {failures: 2, base: 2s, cap: 2s}}}}\n";
    let limits = "pace: {requests: unlimited}";
    let one = Gateway::start(&database, (policy, FAILS), limits);
    let other = Gateway::start(&database, (policy, ANSWERS), limits);
    assert!(one.ask(2, "main").iter().all(|(status, _)| *status == 500));
    let outage = |gateway: &Gateway| gateway.status()["targets"][0]["pace"]["outage"].clone();
    let found = until(|| Some(outage(&other)).filter(Value::is_string));
    assert_eq!(found, outage(&one));
    // The call is the probe, and what it finds holds for both.
    assert_eq!(other.ask(1, "main"), [(200, "main".to_owned())]);
    until(|| outage(&one).is_null().then_some(()));
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn while_the_database_is_away_each_gateway_goes_on_by_itself_and_says_so_once() {
    let database = Database::on(Server::new());
    let start = || Gateway::start(&database, (POLICY, ANSWERS), "budget: {per: 30d, requests: 60}");
    let (one, other) = (start(), start());
    assert_eq!(both(&one, &other, 10), 20);
    database.server.kill();
    assert_eq!(both(&one, &other, 10), 20);
    for gateway in [&one, &other] {
        until(|| (!gateway.said("out of reach").is_empty()).then_some(()));
    }
    // Nobody waits for it, and one that begins meanwhile serves too.
    let began = Instant::now();
    let late = start();
    assert_eq!(late.answered(5), 5);
    assert_eq!(both(&one, &other, 5), 10);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    database.server.start();
    for gateway in [&one, &other, &late] {
        until(|| (!gateway.said("within reach again").is_empty()).then_some(()));
    }
    for gateway in [&one, &other, &late] {
        until(|| (gateway.used() == 55).then_some(()));
        assert_eq!(gateway.said("out of reach").len(), 1);
        assert_eq!(gateway.said("within reach again").len(), 1);
    }
    assert_eq!(both(&one, &other, 10), 5);
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_database_that_does_not_answer_is_waited_for_once() {
    let database = Database::on(Server::new());
    let gateway = Gateway::start(&database, (POLICY, ANSWERS), "budget: {per: 30d, requests: 60}");
    assert_eq!(gateway.answered(10), 10);
    let pid = database.server.pid();
    server::signal(pid, "-STOP");
    // All that come at once wait together, and those that come later do not.
    let began = Instant::now();
    for _ in 0..8 {
        assert_eq!(gateway.answered(5), 5);
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(gateway.said("no answer within 250 ms").len(), 1);
    server::signal(pid, "-CONT");
    until(|| (!gateway.said("within reach again").is_empty()).then_some(()));
    until(|| (gateway.used() == 50).then_some(()));
    assert_eq!(gateway.answered(20), 10);
    assert_eq!(gateway.said("warning").len(), 1);
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn what_keys_use_while_the_database_is_away_is_added_once_whoever_ends_meanwhile() {
    let database = Database::on(Server::new());
    let limits = "budget: {per: 30d, requests: 60}";
    let (stopped, killed) = (
        Gateway::start(&database, (POLICY, ANSWERS), limits),
        Gateway::start(&database, (POLICY, ANSWERS), limits),
    );
    assert_eq!(both(&stopped, &killed, 5), 10);
    database.server.kill();
    assert_eq!(both(&stopped, &killed, 10), 20);
    let folders = [&stopped, &killed].map(|gateway| Arc::clone(&gateway.folder));
    until(|| (killed.kept() == killed.used()).then_some(()));
    drop(killed);
    stopped.stop();

    // While it is still away, they count from there.
    let [one, other] = folders.each_ref().map(|folder| Gateway::start_in(folder, &database));
    assert_eq!(both(&one, &other, 5), 10);
    until(|| (other.kept() == other.used()).then_some(()));
    let copied = fs::read(other.unshared()).unwrap();
    database.server.start();
    for gateway in [&one, &other] {
        until(|| (gateway.used() == 40).then_some(()));
        until(|| gateway.kept().is_null().then_some(()));
    }
    // As one leaves it that is killed between the two.
    let unshared = other.unshared();
    drop(other);
    fs::write(unshared, copied).unwrap();
    let again = Gateway::start_in(&folders[1], &database);
    assert_eq!(again.answered(3), 3);
    for gateway in [&one, &again] {
        until(|| (gateway.used() == 43).then_some(()));
    }
    until(|| again.kept().is_null().then_some(()));
    assert_eq!(both(&one, &again, 10), 17);
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_gateway_that_can_keep_nothing_says_so_and_serves() {
    let database = Database::new();
    let gateway = Gateway::start(&database, (POLICY, ANSWERS), "pace: {requests: unlimited}");
    let folder = Arc::clone(&gateway.folder);
    gateway.stop();
    let _ = fs::remove_dir_all(folder.path().join(".unfazed"));
    fs::write(folder.path().join(".unfazed"), "").unwrap();
    let file = fs::read_to_string(folder.path().join("gateway.yaml")).unwrap();
    let limited = file.replace("pace: {requests: unlimited}", "budget: {per: 30d, requests: 5}");
    fs::write(folder.path().join("gateway.yaml"), limited).unwrap();
    let gateway = Gateway::start_in(&folder, &database);
    assert_eq!(gateway.answered(9), 5);
    let said = gateway.said("is lost if this gateway ends meanwhile");
    assert!(said.len() == 1 && said[0].starts_with("warning: cannot keep what keys spend in "), "{said:?}");
}

#[test]
#[ignore = "it needs PostgreSQL: see the top of mod.rs"]
fn a_pace_of_models_and_a_budget_of_retries_are_those_of_both_gateways() {
    let database = Database::new();
    let policy = "version: 1\nmodels:\n  '*':\n    pace: {scope: shared, max_wait: 1s, requests: {limit: 4, per: 1h}}\n    \
                  retry:\n      max_attempts: 2\n      backoff: {kind: constant, delay: 1ms, jitter: none}\n      \
                  budget: {kind: tokens, capacity: 1, cost: 1, earn: 0, pool: web, scope: shared}\n";
    let limits = "pace: {requests: unlimited}";
    let (one, other) = (
        Gateway::start(&database, (policy, FAILS), limits),
        Gateway::start(&database, (policy, FAILS), limits),
    );
    // Two attempts, of which the second uses up the budget.
    assert_eq!(one.ask(1, "main")[0].0, 500);
    let free = |gateway: &Gateway| gateway.status()["targets"][0]["pace"]["rates"][0]["free"].clone();
    until(|| (free(&other) == 2).then_some(()));
    // Its model fails twice, and nothing is left for a retry.
    assert_eq!(other.ask(1, "main")[0].0, 500);
    until(|| (free(&one) == 1).then_some(()));
    assert_eq!(other.ask(1, "main")[0].0, 500);
    for gateway in [&one, &other] {
        until(|| (free(gateway) == 0).then_some(()));
        assert_eq!(gateway.ask(1, "main")[0].0, 429);
    }
}

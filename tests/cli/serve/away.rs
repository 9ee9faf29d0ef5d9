//! A gateway beside a database that takes connections and never answers.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{CHAT, Gateway, POLICY, Reply, Upstream, folder, one, said};
use crate::command;

const PATIENCE: Duration = Duration::from_secs(30);
/// The SHA-256 of `sesame`.
const SESAME: &str = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272";
const ASK: &str = r#"{"model":"main","messages":[]}"#;
const UNSHARED: &str = ".unfazed/serve/gateway.unshared-1.json";

/// A database that hangs.
struct HungDatabase(TcpListener);

impl HungDatabase {
    fn start() -> Self {
        // The system takes its connections, and nobody reads them.
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn gateway(&self, folder: TempDir) -> Gateway {
        let url = format!("postgres://me:secret@{}/agents?sslmode=disable", self.0.local_addr().unwrap());
        let mut command =
            command::unfazed(folder.path(), &["serve", "gateway.yaml", "--addr", "127.0.0.1:0"]);
        command.env("UNFAZED_SESSIONS_URL", url);
        Gateway::of_command(folder, command)
    }
}

/// So many answers, and so many refusals.
async fn asked(gateway: &Gateway, answers: usize, refusals: usize) {
    for status in [vec![200; answers], vec![429; refusals]].concat() {
        let got = gateway.post(CHAT, &[("authorization", "Bearer sesame")], ASK).await;
        assert_eq!(got.status, status, "{got:?}");
    }
}

/// Waits until the file of what the others do not know has so many requests of the key.
async fn wait_until_kept(gateway: &Gateway, requests: u64) {
    let began = Instant::now();
    let kept = || -> Option<u64> {
        let file = fs::read(gateway.folder.path().join(UNSHARED)).ok()?;
        let kept: Value = serde_json::from_slice(&file).unwrap();
        kept["unshared"]["keys"]["desk"]["used"]["spent"]["requests"].as_u64()
    };
    while kept() != Some(requests) {
        assert!(began.elapsed() < PATIENCE, "{:?}", kept());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn it_holds_neither_the_start_nor_a_request_and_what_keys_use_is_kept() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hi"))]);
    let keys = format!("keys: {{desk: {{sha256: {SESAME}, budget: {{per: 30d, requests: 6}}}}}}\n");
    let database = HungDatabase::start();
    let began = Instant::now();
    let mut gateway = database.gateway(folder(POLICY, &(one("openai", &upstream) + &keys)));
    // Who has patience waits for a database for half a minute.
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    asked(&gateway, 3, 0).await;
    wait_until_kept(&gateway, 3).await;
    for signal in ["-KILL", "-TERM"] {
        gateway.signal(signal);
        gateway.child.wait().unwrap();
        let files = std::mem::replace(&mut gateway.folder, tempfile::tempdir().unwrap());
        gateway = database.gateway(files);
        asked(&gateway, 1, 0).await;
        wait_until_kept(&gateway, if signal == "-KILL" { 4 } else { 5 }).await;
    }
    asked(&gateway, 1, 1).await;
    let said = gateway.said.lock().unwrap();
    let away: Vec<&String> = said.iter().filter(|line| line.contains("is out of reach")).collect();
    assert!(away.len() == 1 && away[0].contains("no answer within 250 ms"), "{said:?}");
    assert!(!said.iter().any(|line| line.contains("secret")), "{said:?}");
}

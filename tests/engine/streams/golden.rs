//! What is decided about two thousand fixed streams: a change that is meant to move code only must not move these.
//!
//! `golden.txt` has a line for each hundred of them: who drives, the first of them, the digest of all directives, and that
//! of the states in between. `UNFAZED_WRITE_GOLDEN=1 cargo test --test engine streams::golden` writes it anew where a decision, a
//! text of the built-in policy or the format of a record is meant to change.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use unfazed::engine::DriveMode;

use super::host::{fresh_state, interpreter};
use super::tape::Tape;
use super::{CHOICES, live};

/// How many streams a line stands for.
const A_LINE: u64 = 100;
const LINES: u64 = 10;

/// The directives of a stream, and the digests of its states, as text.
fn decided(drive: DriveMode, seed: u64) -> (String, String) {
    let mut t = Tape::from_seed(seed);
    let most = t.below(CHOICES);
    let (made, host) = live(drive, Tape::from_seed(seed).rest(most));
    let interpreter = interpreter(&made.policy);
    let (mut state, mut states) = (fresh_state(), String::new());
    for line in &host.events {
        let envelope: unfazed::engine::Envelope = serde_json::from_str(line).unwrap();
        if matches!(envelope.event, unfazed::engine::Event::RunStarted(_)) && state.is_over() {
            state = state.next_run();
        }
        drop(interpreter.step(&mut state, envelope));
        writeln!(states, "{}", state.digest()).unwrap();
    }
    (host.directives.join("\n"), states)
}

fn line(drive: DriveMode, first: u64) -> String {
    let (mut directives, mut states) = (String::new(), String::new());
    for seed in first..first + A_LINE {
        let (of_stream, between) = decided(drive, seed);
        directives.push_str(&of_stream);
        states.push_str(&between);
    }
    let digest = |text: &str| format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()));
    format!("{drive:?} {first} {} {}", digest(&directives), digest(&states)).to_lowercase()
}

#[test]
fn golden_streams_are_decided_as_ever() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/streams/golden.txt");
    let all = [DriveMode::Turns, DriveMode::Calls]
        .into_iter()
        .flat_map(|drive| (0..LINES).map(move |number| line(drive, number * A_LINE)));
    let found: Vec<String> = all.collect();
    if std::env::var_os("UNFAZED_WRITE_GOLDEN").is_some() {
        fs::write(&file, found.join("\n") + "\n").unwrap();
    }
    let known = fs::read_to_string(&file).unwrap_or_default();
    let known: Vec<&str> = known.lines().collect();
    let other = found.iter().zip(&known).find(|(found, known)| found != known);
    assert_eq!((other, known.len()), (None, found.len()), "see the head of {}", file!());
}

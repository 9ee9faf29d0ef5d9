//! Random policies and random streams of events: what always holds, whatever goes wrong.
//!
//! Each stream is a tape of choices. `UNFAZED_STREAMS=1000000` runs more of them.

mod changed;
mod changes;
pub(crate) mod cost;
pub(crate) mod count;
mod counterfactual;
mod explained;
mod failures;
mod golden;
mod host;
mod invariants;
pub(crate) mod meter;
mod orders;
mod other_values;
mod paces;
mod policies;
mod side_by_side;
pub(crate) mod tape;
mod torn;

use std::collections::BTreeSet;

use serde_json::Value;
use unfazed::engine::{DriveMode, Envelope, Event, Record, SessionFold, State};
use unfazed::replay::{Replay, ReplayEnding};
use unfazed::session::Message;

use host::{Host, fresh_state, interpreter};
use policies::{Made, POLICIES, made};
use tape::Tape;

/// More than any run of the grammar takes.
const STEPS: usize = 5_000;
/// The most choices of a stream.
const CHOICES: usize = 400;

/// A stream under one policy.
fn live(drive: DriveMode, choices: Vec<u16>) -> (&'static Made, Host) {
    played(drive, choices, |_, _| {})
}

/// A stream in which the policy, the tools and the models change, and the process is killed.
fn changing(drive: DriveMode, choices: Vec<u16>) -> Host {
    let change = |host: &mut Host, t: &mut Tape| {
        if !host.finished && t.once_in(8) {
            host.change(t);
        }
    };
    played(drive, choices, change).1
}

fn played(
    drive: DriveMode,
    choices: Vec<u16>,
    between: impl Fn(&mut Host, &mut Tape),
) -> (&'static Made, Host) {
    let mut t = Tape::new(choices);
    let made = made(t.below(POLICIES));
    let mut host = Host::start(&made.policy, drive, &mut t);
    for _ in 0..STEPS {
        between(&mut host, &mut t);
        if host.act(&mut t) {
            continue;
        }
        assert!(host.finished, "law 3: the run has ended");
        if drive == DriveMode::Turns && !host.changed {
            let bounds = made.bounds(host.targets.len());
            cost::holds(&bounds, &host.meter.cost)
                .unwrap_or_else(|error| panic!("law 14: {error}\n{}", made.text));
        }
        if t.is_over() || !t.once_in(3) {
            return (made, host);
        }
        host.run_again();
    }
    panic!("law 3: the run does not end");
}

/// Every stream is also replayed from its lines, and continues from a state that was written down in the middle.
fn replays(made: &Made, host: &Host) {
    let policy = &made.policy;
    let (elsewhere, interpreter) = (interpreter(made.elsewhere()), interpreter(policy));
    let (mut state, mut state_elsewhere) = (fresh_state(), fresh_state());
    let mut replay = Replay::new(policy.clone()).at(fresh_state());
    let mut fold = SessionFold::new().at(fresh_state());
    for (at, (line, directives)) in host.events.iter().zip(&host.directives).enumerate() {
        if at % 16 == host.events.len() % 16 {
            let text = serde_json::to_string(&state).unwrap();
            let read: State = serde_json::from_str(&text).unwrap();
            assert_eq!(read, state, "law 8: the state is read back as it was written");
            assert_eq!(
                read.digest(),
                state.digest(),
                "law 8: a digest does not depend on what was asked before"
            );
            state = read;
        }
        let envelope: Envelope = serde_json::from_str(line).unwrap();
        replay.take(Record::Event(envelope.clone())).unwrap();
        fold.take(&interpreter, envelope.clone());
        if matches!(envelope.event, Event::RunStarted(_)) && state.is_over() {
            (state, state_elsewhere) = (state.next_run(), state_elsewhere.next_run());
        }
        drop(elsewhere.step(&mut state_elsewhere, envelope.clone()));
        let again = serde_json::to_string(&interpreter.step(&mut state, envelope)).unwrap();
        assert_eq!(&again, directives, "law 8: the same events give the same directives, byte for byte");
        assert_eq!(
            String::from_utf8(state_elsewhere.to_bytes()).unwrap(),
            String::from_utf8(state.to_bytes()).unwrap(),
            "law 8: the state is the same, byte for byte, whatever the file of the policy is called"
        );
        let digest = state.digest();
        assert_eq!(
            fold.state().digest(),
            digest,
            "law 8: the fold of a log has the state of each of its events"
        );
        let (seq, list) = (state.seq, serde_json::from_str(directives).unwrap());
        replay.take(Record::Directives { seq, policy: policy.digest().to_owned(), list }).unwrap();
        replay.take(Record::State { seq, hash: digest }).unwrap();
    }
    let found = replay.end();
    assert_eq!(
        (found.ending, found.same),
        (ReplayEnding::Same, found.events),
        "law 8: a log is decided again the same"
    );
    assert_eq!(state.digest(), host.state.digest(), "law 8: the same events give the same state");
    let told: Vec<&Message> = fold.messages().iter().collect();
    let kept: Vec<&Message> = host.conversation.iter().filter(|message| !host.is_own(message)).collect();
    assert_eq!(told, kept, "law 8: the fold of a log has its conversation");
}

#[test]
fn a_run_that_the_interpreter_drives_keeps_every_law() {
    count::holds("a run that the interpreter drives keeps every law", file!(), CHOICES, |choices| {
        let (made, host) = live(DriveMode::Turns, choices);
        replays(made, &host);
        host.events.len()
    });
}

#[test]
fn a_run_that_the_host_drives_keeps_every_law() {
    count::holds("a run that the host drives keeps every law", file!(), CHOICES, |choices| {
        let (made, host) = live(DriveMode::Calls, choices);
        replays(made, &host);
        host.events.len()
    });
}

#[test]
fn a_run_whose_rules_change_has_work_or_an_end() {
    count::holds("a run whose rules change has work or an end", file!(), CHOICES, |choices| {
        changing(DriveMode::Turns, choices).events.len()
    });
}

#[test]
fn so_has_one_that_the_host_drives() {
    count::holds("so has one that the host drives", file!(), CHOICES, |choices| {
        changing(DriveMode::Calls, choices).events.len()
    });
}

#[test]
#[should_panic(expected = "held against 0 streams")]
fn a_law_that_is_held_against_nothing_does_not_pass() {
    count::holds("nothing happens", file!(), CHOICES, |_| 0);
}

/// The calls of one reply in every order in which they can end.
#[test]
fn the_order_in_which_tools_end_changes_nothing() {
    count::holds("the order in which tools end changes nothing", file!(), 40, |choices| {
        let mut most = 0;
        let (in_order, mut events) = orders::run(&choices, DriveMode::Calls, &mut |calls| {
            most = calls.iter().copied().max().unwrap_or(0).max(most);
            0
        });
        for order in orders::permutations(most) {
            let first = |calls: &[usize]| {
                (0..calls.len())
                    .min_by_key(|at| order.iter().position(|call| call + 1 == calls[*at]))
                    .unwrap()
            };
            let (other, of_stream) = orders::run(&choices, DriveMode::Calls, &mut |calls| first(calls));
            orders::same(&in_order, &other);
            events += of_stream;
        }
        events
    });
}

/// The calls of all replies of a run in orders chosen at random, also between the attempts of one call.
#[test]
fn nor_does_it_in_a_whole_run() {
    count::holds("nor does it in a whole run", file!(), CHOICES, |choices| {
        let (facts, order) = choices.split_at(choices.len() / 2);
        let (in_order, events) = orders::run(facts, DriveMode::Turns, &mut |_| 0);
        let mut order = Tape::new(order.to_vec());
        let (shuffled, more) = orders::run(facts, DriveMode::Turns, &mut |calls| order.below(calls.len()));
        orders::same(&in_order, &shuffled);
        events + more
    });
}

/// Laws about what never occurs would say nothing.
#[test]
fn every_kind_of_directive_occurs_in_some_stream() {
    let schema = Record::json_schema();
    let mut missing = directives(&schema);
    assert!(missing.len() > 30, "only {missing:?} are known");
    for seed in 0..60_000 {
        let drive = if seed % 4 == 0 { DriveMode::Calls } else { DriveMode::Turns };
        let choices = Tape::from_seed(seed).rest(CHOICES);
        let told = match seed % 4 {
            1 => side_by_side::played(choices).told,
            _ => live(drive, choices).1.directives,
        };
        for line in &told {
            let list: Vec<Value> = serde_json::from_str(line).unwrap();
            for directive in list {
                missing.remove(directive["directive"].as_str().unwrap());
            }
        }
        if missing.is_empty() {
            return;
        }
    }
    panic!("no stream has {missing:?}");
}

/// The directives that there are.
fn directives(schema: &Value) -> BTreeSet<&str> {
    let kinds = ["Work", "Note"].iter().flat_map(|kind| schema["$defs"][kind]["oneOf"].as_array().unwrap());
    kinds.map(|kind| kind["properties"]["directive"]["const"].as_str().unwrap()).collect()
}

//! Random policies and random streams of events: what always holds, whatever goes wrong.
//!
//! Each case is a tape of choices. `PROPTEST_CASES=20000` runs more of them.

mod host;
mod policies;
mod tape;

use proptest::prelude::*;
use unfazed::engine::{Drive, Envelope, Record, State};
use unfazed::policy::Policy;
use unfazed::replay::{Ending, Replay};

use host::{Host, fresh_state, interpreter};
use tape::Tape;

/// More than any run of the grammar takes.
const STEPS: usize = 5_000;

fn tape() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 0..400)
}

fn live(drive: Drive, choices: Vec<u16>) -> (&'static Policy, Host) {
    let mut t = Tape::new(choices);
    let (_, policy) = &policies::pool()[t.below(policies::pool().len())];
    let mut host = Host::start(policy, drive, &mut t);
    for _ in 0..STEPS {
        if !host.act(&mut t) {
            return (policy, host);
        }
    }
    panic!("law 3: the run does not end");
}

/// Every case is also replayed from its lines, and goes on from a state that was written down in the middle.
fn replays(policy: &Policy, host: &Host) {
    let interpreter = interpreter(policy);
    let mut state = fresh_state();
    let mut replay = Replay::new(policy.clone()).at(fresh_state());
    for (at, (line, directives)) in host.events.iter().zip(&host.directives).enumerate() {
        if at % 16 == host.events.len() % 16 {
            let text = serde_json::to_string(&state).unwrap();
            let read: State = serde_json::from_str(&text).unwrap();
            assert_eq!(read, state, "law 8: the state is read back as it was written");
            state = read;
        }
        let envelope: Envelope = serde_json::from_str(line).unwrap();
        replay.take(Record::Event(envelope.clone())).unwrap();
        let again = serde_json::to_string(&interpreter.step(&mut state, envelope)).unwrap();
        assert_eq!(&again, directives, "law 8: the same events give the same directives, byte for byte");
        let (seq, list) = (state.seq, serde_json::from_str(directives).unwrap());
        replay.take(Record::Directives { seq, policy: policy.digest().to_owned(), list }).unwrap();
        replay.take(Record::State { seq, hash: state.digest() }).unwrap();
    }
    let found = replay.end();
    assert_eq!(
        (found.ending, found.same),
        (Ending::Same, found.events),
        "law 8: a log is decided again the same"
    );
    assert_eq!(state.digest(), host.state.digest(), "law 8: the same events give the same state");
}

proptest! {
    #[test]
    fn a_run_that_the_interpreter_drives_keeps_every_law(choices in tape()) {
        let (policy, host) = live(Drive::Turns, choices);
        prop_assert!(host.finished, "law 3: the run has ended");
        replays(policy, &host);
    }

    #[test]
    fn a_run_that_the_host_drives_keeps_every_law(choices in tape()) {
        let (policy, host) = live(Drive::Calls, choices);
        replays(policy, &host);
    }

    #[test]
    fn the_order_in_which_tools_end_changes_nothing(choices in tape(), order in tape()) {
        let in_order = host::batch(&choices, &mut Tape::new(Vec::new()));
        let shuffled = host::batch(&choices, &mut Tape::new(order));
        prop_assert_eq!(in_order, shuffled, "law 9");
    }
}

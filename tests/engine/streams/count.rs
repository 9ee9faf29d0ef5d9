//! How many streams a law is held against: `UNFAZED_STREAMS=1000000` makes it more, or fewer.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

/// How many it is if nobody says.
const STREAMS: u32 = 256;

/// How many streams each law is held against.
pub(crate) fn streams() -> u32 {
    let Ok(text) = std::env::var("UNFAZED_STREAMS") else { return STREAMS };
    text.parse().unwrap_or_else(|_| panic!("UNFAZED_STREAMS is not a whole number: {text}"))
}

/// Holds a law against that many streams, each made of a tape of up to `most` choices, and says how many it was. The law
/// says how many events a stream had; none: it says nothing about that tape, which may be so of a few only.
pub(crate) fn holds(law: &str, file: &'static str, most: usize, stream: impl Fn(Vec<u16>) -> usize) {
    let (count, events) = (Cell::new(0_usize), Cell::new(0_usize));
    let config = ProptestConfig { source_file: Some(file), ..ProptestConfig::with_cases(streams()) };
    let tapes = prop::collection::vec(any::<u16>(), 0..most);
    let found = TestRunner::new(config).run(&tapes, |choices| {
        let of_stream = stream(choices);
        // What has no events is no stream.
        count.set(count.get() + usize::from(of_stream > 0));
        events.set(events.get() + of_stream);
        Ok(())
    });
    match found {
        Ok(()) => {
            let (held, least) = (count.get(), streams().div_ceil(4));
            assert!(held >= least as usize, "{law}: held against {held} streams, and {least} are the least");
            println!("law: {held} streams, {} events: {law}", events.get());
        }
        Err(TestError::Fail(why, choices)) => panic!("{law}: {why}\nchoices: {choices:?}"),
        Err(error) => panic!("{law}: {error}"),
    }
}

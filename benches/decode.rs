//! What decoding a stream of 20 chunks costs in each dialect, beside chat completions in the same run, for callgrind.
//!
//! `benches/instructions.sh` builds this and runs each dialect; without arguments nothing happens.

use std::hint::black_box;

use unfazed::fuzzing::{DIALECTS, decoded, streamed};

const CHUNKS: usize = 20;

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(_), Some(number), Some(times)) = (args.next(), args.next(), args.next()) else { return };
    let dialect = DIALECTS[number.parse::<usize>().expect("the number of a dialect")];
    let times: u32 = times.parse().expect("how many streams");
    let stream = streamed(dialect, CHUNKS);
    // What is built at the first use is not counted: the sum is divided by the streams.
    assert_eq!(decoded(dialect, &stream), Some("word ".repeat(CHUNKS)), "{dialect}");
    for _ in 0..times {
        assert!(decode_once(dialect, black_box(&stream)).is_some());
    }
}

#[inline(never)]
fn decode_once(dialect: &str, stream: &[Vec<u8>]) -> Option<String> {
    decoded(dialect, stream)
}

//! The interpreter as a WebAssembly module that imports nothing: no clock, no randomness, no memory of its host.
//!
//! Texts pass through one buffer. The host asks for it (`buffer`), writes JSON into it, calls `load`, `step` or `digest`, which
//! leave their answers in it, and reads as many bytes as they return.
//!
//! The keys of hashed maps come from `seed`: a host calls it first, with a number that nobody can guess. No decision depends on it.

use std::cell::{Cell, RefCell};

use serde::Deserialize;
use unfazed::engine::{ToolCatalogue, Interpreter, State, ToolSpec};
use unfazed::policy::Policy;

/// What is interpreted.
#[derive(Deserialize)]
struct Loaded {
    /// The name of the policy's file.
    file: String,
    policy: String,
    tools: Vec<ToolSpec>,
}

struct Run {
    interpreter: Interpreter,
    state: State,
}

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

/// Sets what the keys of hashed maps are made of.
#[unsafe(no_mangle)]
pub extern "C" fn seed(number: u64) {
    SEED.set(number);
}

/// The bytes that crates ask of `getrandom`: SplitMix64 from the seed.
///
/// # Safety
/// `getrandom` calls it with memory of its own, so many bytes long.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(to: *mut u8, length: usize) -> Result<(), getrandom::Error> {
    for at in 0..length {
        let state = SEED.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        SEED.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // SAFETY: `at` is below `length`.
        unsafe { to.add(at).write((mixed >> 56) as u8) };
    }
    Ok(())
}

/// Where the host writes so many bytes.
#[unsafe(no_mangle)]
pub extern "C" fn buffer(length: usize) -> *mut u8 {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(length, 0);
        buffer.as_mut_ptr()
    })
}

/// Reads a policy and the tools, and begins with an empty state. Leaves the digest of the policy.
#[unsafe(no_mangle)]
pub extern "C" fn load() -> usize {
    let loaded: Loaded = BUFFER.with_borrow(|text| serde_json::from_slice(text)).expect("JSON of a policy and tools");
    let policy = Policy::from_yaml(&loaded.file, &loaded.policy).expect("a policy");
    let digest = policy.digest().to_owned();
    let interpreter = Interpreter::new(policy, ToolCatalogue::new(loaded.tools).expect("tools"));
    RUN.set(Some(Run { interpreter, state: State::new() }));
    leave(digest)
}

/// Takes an envelope and leaves the directives.
#[unsafe(no_mangle)]
pub extern "C" fn step() -> usize {
    let envelope = BUFFER.with_borrow(|text| serde_json::from_slice(text)).expect("JSON of an envelope");
    let directives = with_run(|run| run.interpreter.step(&mut run.state, envelope));
    leave(serde_json::to_string(&directives).expect("directives are JSON"))
}

/// Leaves the digest of the state.
#[unsafe(no_mangle)]
pub extern "C" fn digest() -> usize {
    leave(with_run(|run| run.state.digest()))
}

fn with_run<T>(act: impl FnOnce(&mut Run) -> T) -> T {
    RUN.with_borrow_mut(|run| act(run.as_mut().expect("`load` comes first")))
}

fn leave(text: String) -> usize {
    let length = text.len();
    BUFFER.set(text.into_bytes());
    length
}

//! Every seed of every target, played as the fuzzer does.

use std::fs;
use std::path::Path;

/// Plays the seeds of a target, and what was found from them.
#[track_caller]
fn plays(target: &str, entry: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 3, "{} has too few seeds", folder.display());
    for path in paths {
        let bytes = fs::read(&path).unwrap();
        // Whole, and cut off in the middle.
        entry(&bytes);
        entry(&bytes[..bytes.len() / 2]);
    }
}

#[test]
fn policies() {
    plays("policy_text", super::policy_text);
}

#[test]
fn bodies() {
    plays("provider_bodies", super::provider_bodies);
}

#[test]
fn streams() {
    plays("sse_bytes", super::sse_bytes);
}

#[test]
#[cfg(feature = "bedrock")]
fn frames() {
    plays("frame_bytes", super::frame_bytes);
}

#[test]
fn logs() {
    plays("session_logs", super::session_logs);
}

#[test]
fn arguments() {
    plays("tool_arguments", super::tool_arguments);
}

#[test]
fn repairs() {
    plays("json_repair", super::json_repair);
}

#[test]
fn every_target_has_a_program_a_dictionary_and_an_entry_here() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    let tests = fs::read_to_string(file!()).unwrap();
    let mut targets = 0;
    for file in fs::read_dir(fuzz.join("fuzz_targets")).unwrap() {
        let path = file.unwrap().path();
        let target = path.file_stem().unwrap().to_str().unwrap();
        let program = fs::read_to_string(&path).unwrap();
        assert!(program.contains(&format!("unfazed::fuzzing::{target}(data)")), "{target}");
        assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
        assert!(fuzz.join(format!("dictionaries/{target}.dict")).is_file(), "{target}");
        assert!(tests.contains(&format!("plays(\"{target}\", super::{target})")), "{target}");
        targets += 1;
    }
    assert_eq!(targets, 7);
}

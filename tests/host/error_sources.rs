//! What the library promises to who builds on it: errors keep what led to them.

use std::error::Error;
use std::{fs, io};

use unfazed::engine::{Record, ToolCatalogue, ToolSpec};
use unfazed::host::guard::CallError;
use unfazed::host::{
    Guard, HttpModel, JournalError, ModelConfig, PolicyFiles, PolicyFilesError, Provider, RunError,
    SharedStateError, ToolError,
};
use unfazed::policy::Loader;
use unfazed::store::{FsyncMode, JsonlStore, SessionId, Store, StoreError, read_log};
use unfazed::{ErrorCause, Policy};

/// The errors below one, from the one that led to it down to the root.
fn chain<'e>(error: &'e (dyn Error + 'static)) -> Vec<&'e (dyn Error + 'static)> {
    std::iter::successors(error.source(), |error: &&'e (dyn Error + 'static)| (*error).source()).collect()
}

/// Whether an error has a cause of that type, and its own message says what the cause says at most once.
fn is_caused_by<C: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    let (said, chain) = (error.to_string(), chain(error));
    let Some(cause) = chain.first() else { return false };
    let once = said.matches(&cause.to_string()).count() <= 1;
    assert!(once, "`{said}` says twice what its cause says: `{cause}`");
    chain.iter().any(|cause| cause.is::<C>())
}

fn disk_full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "the disk is full")
}

#[test]
fn errors_keep_what_led_to_them() {
    let openai = |url: &str| {
        HttpModel::new(ModelConfig { base_url: url.into(), ..ModelConfig::new(Provider::OPENAI, "m") })
            .expect_err("it is no address")
    };
    assert!(!chain(&openai("http://[")).is_empty(), "{}", openai("http://["));

    let malformed = Record::parse(b"{").unwrap_err();
    assert!(is_caused_by::<serde_json::Error>(&malformed), "{malformed}");
    let log = read_log(&b"{\n"[..]).find_map(Result::err).unwrap();
    assert!(is_caused_by::<serde_json::Error>(&log), "{log}");

    let dir = tempfile::tempdir().unwrap();
    let store = JsonlStore::new(dir.path(), FsyncMode::Turn);
    let id: SessionId = "trip".parse().unwrap();
    fs::create_dir(store.path(&id)).unwrap();
    let folder = crate::waiting::wait(store.open(&id)).err().unwrap();
    assert!(is_caused_by::<io::Error>(&folder), "{folder}");

    let full = StoreError::Write { place: "a".into(), source: disk_full() };
    let journal = JournalError(Box::new(full));
    assert!(is_caused_by::<StoreError>(&journal), "{journal}");
    let run = RunError::from(journal);
    assert!(is_caused_by::<StoreError>(&run) && is_caused_by::<io::Error>(&run), "{run}");

    let nothing = PolicyFiles::new().load(&Loader::new(), &["/nowhere/policy.yaml"]).unwrap_err();
    assert!(is_caused_by::<io::Error>(&nothing), "{nothing}");
    let parameters = serde_json::json!({"type": 7});
    let spec = ToolSpec { name: "t".into(), description: String::new(), parameters, effect: None };
    let schema = ToolCatalogue::new([spec]).unwrap_err();
    assert!(is_caused_by::<unfazed::text::SchemaError>(&schema), "{schema}");
    let unfit = PolicyFilesError::Unfit(ErrorCause::from(unfazed::engine::NameClash("report".into())));
    assert!(is_caused_by::<unfazed::engine::NameClash>(&unfit), "{unfit}");

    let shared = SharedStateError(ErrorCause::from(disk_full()));
    assert!(is_caused_by::<io::Error>(&shared), "{shared}");
    let tool = ToolError::failed("the order is not saved").caused_by(disk_full());
    assert!(is_caused_by::<io::Error>(&tool), "{tool}");
    let models = unfazed::context::ModelCatalogue::litellm(b"[]").unwrap_err();
    assert!(is_caused_by::<serde_json::Error>(&models), "{models}");
}

#[tokio::test]
async fn the_cause_of_a_guarded_call_is_the_error_of_the_caller() {
    let policy = Policy::from_yaml("p.yaml", "version: 1\ntools: {t: {retry: {enabled: false}}}\n").unwrap();
    let tool = Guard::new(policy).tool("t");
    let call = tool.call((), |(), _| async {
        Err::<(), _>(ToolError::failed("it is not saved").caused_by(disk_full()))
    });
    let error: CallError<ToolError> = call.await.unwrap_err();
    assert!(is_caused_by::<ToolError>(&error) && is_caused_by::<io::Error>(&error), "{error}");
}

/// A field of an error that holds another error is its source.
#[test]
fn no_error_hides_another() {
    let mut hidden = Vec::new();
    let mut seen = 0;
    for file in sources("src".as_ref()) {
        let text = fs::read_to_string(&file).unwrap();
        for declared in text.split("thiserror::Error").skip(1) {
            seen += 1;
            let body = declared.split("\n}\n").next().unwrap_or_default();
            let mut before = "";
            for line in body.lines().map(str::trim) {
                if holds_error(line) && !(is_source(line) || before.contains("transparent")) {
                    hidden.push(format!("{}: {line}", file.display()));
                }
                before = line;
                if line.ends_with(");") {
                    break;
                }
            }
        }
    }
    assert!(seen > 20, "only {seen} errors are found");
    assert!(hidden.is_empty(), "these need `#[source]`:\n{}", hidden.join("\n"));
}

/// Whether a line declares a field whose type is an error.
fn holds_error(line: &str) -> bool {
    if line.starts_with("//") || line.starts_with("#[error") || !line.ends_with([',', ';']) {
        return false;
    }
    let Some((_, types)) = line.split_once(['(', ':']) else { return false };
    let mut words = types.split(|c: char| !c.is_alphanumeric());
    words.any(|word| word.ends_with("Error") || matches!(word, "ErrorCause" | "Report" | "NameClash"))
}

fn is_source(line: &str) -> bool {
    line.contains("#[source]") || line.contains("#[from]") || line.contains("source:")
}

fn sources(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files
}

//! Keys that a command prints or a file holds, over real sockets: how they are sent, and what is done where one is refused.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use unfazed::engine::{Failure, ModelReply};
use unfazed::host::{CommandKey, FileKey, HttpModel, Model, ModelConfig, Provider, RenewedKey};
use unfazed::policy::{ErrorClass, Policy};
use unfazed::session::Message;

use super::{LONG, request};

const SAID: &str =
    r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
const EXPIRED: &str = r#"{"error":{"code":"invalid_token","message":"token tok-1 has expired"}}"#;

/// A script that counts how often it ran in `$n`.
fn script(folder: &TempDir, body: &str) -> CommandKey {
    let counts = "n=$(($(cat runs 2>/dev/null || echo 0) + 1)); echo $n > runs\n";
    fs::write(folder.path().join("token.sh"), format!("{counts}{body}\n")).unwrap();
    CommandKey::new(["sh", "token.sh"]).working_dir(folder.path())
}

fn runs(folder: &TempDir) -> String {
    fs::read_to_string(folder.path().join("runs")).unwrap_or_default().trim().to_owned()
}

fn answer(status: u16, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// What comes of so many calls at a server that answers so, and the heads of the requests.
async fn asked(
    config: ModelConfig,
    calls: usize,
    answers: Vec<String>,
) -> (Vec<Result<ModelReply, Failure>>, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let model = HttpModel::new(ModelConfig { base_url, ..config }).unwrap();
    let server = async {
        let mut heads = Vec::new();
        for answer in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 8192];
            let read = socket.read(&mut buffer).await.unwrap();
            socket.write_all(answer.as_bytes()).await.unwrap();
            let _ = socket.shutdown().await;
            heads.push(String::from_utf8_lossy(&buffer[..read]).into_owned());
        }
        heads
    };
    let messages = [Message::user("go")];
    let client = async {
        let mut results = Vec::new();
        for _ in 0..calls {
            results.push(model.call(request(&messages, LONG)).await);
        }
        results
    };
    tokio::join!(client, server)
}

fn keyed(provider: &'static Provider, bearer: bool, key: RenewedKey) -> ModelConfig {
    ModelConfig { renewed_key: Some(key), bearer, ..ModelConfig::new(provider, "m") }
}

fn class(failure: &Failure) -> ErrorClass {
    failure.clone().classified(&Policy::builtin()).class
}

#[tokio::test]
async fn a_token_is_sent_as_one_and_a_key_as_the_provider_wants_it() {
    let (bearer, bare) = ("\r\nauthorization: Bearer tok-1\r\n", "tok-1\r\n");
    for (provider, is_token, line) in [
        (Provider::OPENAI, false, bearer),
        (Provider::AZURE, true, bearer),
        (Provider::AZURE, false, &*format!("\r\napi-key: {bare}")),
        (Provider::GEMINI, true, bearer),
        (Provider::GEMINI, false, &*format!("\r\nx-goog-api-key: {bare}")),
        (Provider::ANTHROPIC, true, bearer),
        (Provider::ANTHROPIC, false, &*format!("\r\nx-api-key: {bare}")),
        (Provider::RESPONSES, true, bearer),
        (Provider::BEDROCK, false, bearer),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let command = script(&folder, r#"echo '{"accessToken": "tok-1", "expires_on": 99999999999}'"#);
        let config = keyed(provider, is_token, RenewedKey::new(command));
        let (_, heads) = asked(config, 2, vec![answer(500, "{}"); 2]).await;
        assert!(
            heads.iter().all(|head| head.contains(line) && head.matches("tok-1").count() == 1),
            "{heads:?}"
        );
        assert_eq!(runs(&folder), "1", "{provider:?}");
    }
    // A header of the user is in its place: nothing is asked for.
    let folder = tempfile::tempdir().unwrap();
    let config = ModelConfig {
        headers: vec![("Authorization".into(), "Bearer mine".into())],
        ..keyed(Provider::OPENAI, false, RenewedKey::new(script(&folder, "echo tok-1")))
    };
    let (_, heads) = asked(config, 1, vec![answer(500, "{}")]).await;
    assert!(heads[0].contains("authorization: Bearer mine") && runs(&folder).is_empty(), "{heads:?}");
}

#[tokio::test]
async fn a_token_that_is_refused_is_asked_for_again_and_the_attempt_is_the_same() {
    for status in [401, 403] {
        let folder = tempfile::tempdir().unwrap();
        let key = RenewedKey::new(script(&folder, "echo tok-$n"));
        let answers =
            vec![answer(status, EXPIRED), answer(200, SAID), answer(200, SAID), answer(401, EXPIRED)];
        let (results, heads) = asked(keyed(Provider::OPENAI, false, key), 3, answers).await;
        let sent: Vec<bool> = heads.iter().map(|head| head.contains("Bearer tok-1")).collect();
        assert_eq!((&*sent, &*runs(&folder)), (&[true, false, false, false][..], "2"));
        let first = results[0].as_ref().unwrap();
        assert_eq!(first.notes, [format!("the key was refused (HTTP {status}) and asked for again")]);
        assert_eq!(results[1].as_ref().unwrap().notes, [] as [String; 0]);
        // It is refused for another reason, and what the server repeats is not shown.
        let last = results[2].as_ref().unwrap_err();
        assert_eq!((class(last), &*last.message), (ErrorClass::AuthError, "token [redacted] has expired"));
    }
}

#[tokio::test]
async fn a_command_without_a_token_says_why_and_shows_none() {
    let said = "cannot sign in: eyJhbGciOiJub25lIn0.eyJleHAiOjF9.c2lnbmF0dXJl";
    for (body, class_of, says) in [
        (
            &*format!("echo s3cret-output; echo '{said}' >&2; exit 3"),
            ErrorClass::AuthError,
            "the command of the key failed: `sh` exited with code 3: cannot sign in: [redacted]",
        ),
        ("echo s3cret-output; exit 1", ErrorClass::AuthError, "`sh` exited with code 1"),
        ("echo s3cret output", ErrorClass::AuthError, "printed several words"),
        ("echo '{\"s3cret\": 1}'", ErrorClass::AuthError, "printed JSON without a token"),
        ("head -c 100000 /dev/zero | tr '\\0' s", ErrorClass::AuthError, "printed more than 64 KiB"),
        ("exec sleep 60", ErrorClass::Timeout, "did not end within 300ms and was killed"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let command = script(&folder, body);
        let limit = if class_of == ErrorClass::Timeout { Duration::from_millis(300) } else { LONG.into() };
        let config = keyed(Provider::OPENAI, false, RenewedKey::new(command.timeout(limit)));
        let (results, _) = asked(config, 1, vec![]).await;
        let failure = results[0].as_ref().unwrap_err();
        assert_eq!(class(failure), class_of, "{failure:?}");
        assert!(failure.message.contains(says) && !failure.message.contains("s3cret"), "{failure:?}");
        assert!(failure.message.len() < 300, "{failure:?}");
    }
    let missing = RenewedKey::new(CommandKey::new(["no-such-program-here"]));
    let (results, _) = asked(keyed(Provider::OPENAI, false, missing), 1, vec![]).await;
    let failure = results[0].as_ref().unwrap_err();
    assert!(failure.message.contains("`no-such-program-here` was not found"), "{failure:?}");
}

#[tokio::test]
async fn a_renewal_that_fails_says_so_beside_the_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let command = script(&folder, "[ $n = 1 ] && echo tok-1 || { echo signed out >&2; exit 1; }");
    let config = keyed(Provider::OPENAI, false, RenewedKey::new(command));
    let (results, _) = asked(config, 1, vec![answer(401, EXPIRED)]).await;
    assert_eq!(
        results[0].as_ref().unwrap_err().message,
        "the key was refused (HTTP 401), and the command of the key failed: `sh` exited with code 1: signed out"
    );
}

#[tokio::test]
async fn a_file_that_was_written_anew_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    fs::write(&path, "tok-1\n").unwrap();
    // It is not read with each request: a refusal is what tells within the minute.
    let key = RenewedKey::new(FileKey::new(&path));
    let config = keyed(Provider::AZURE, true, key.clone());
    let (results, heads) = asked(config.clone(), 1, vec![answer(200, SAID)]).await;
    assert!(results[0].is_ok() && heads[0].contains("Bearer tok-1\r\n"), "{heads:?}");
    fs::write(&path, "tok-2\n").unwrap();
    let answers = vec![answer(401, EXPIRED), answer(200, SAID)];
    let (results, heads) = asked(config, 1, answers).await;
    assert!(results[0].is_ok() && heads[1].contains("Bearer tok-2\r\n"), "{heads:?}");

    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    fs::write(&path, "tok-3\n").unwrap();
    let (_, heads) = asked(keyed(Provider::AZURE, true, key), 1, vec![answer(200, SAID)]).await;
    assert!(heads[0].contains("Bearer tok-3\r\n"), "{heads:?}");
}

#[tokio::test]
async fn a_file_without_a_key_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let of = |path: &Path| keyed(Provider::OPENAI, false, RenewedKey::new(FileKey::new(path)));
    let path = folder.path().join("token");
    let (results, _) = asked(of(&path), 1, vec![]).await;
    let missing = results[0].as_ref().unwrap_err().message.clone();
    fs::write(&path, " \n").unwrap();
    let (results, _) = asked(of(&path), 1, vec![]).await;
    let empty = results[0].as_ref().unwrap_err().message.clone();
    let shown = path.display();
    assert!(missing.starts_with(&format!("cannot read the key from {shown}: ")), "{missing}");
    assert_eq!(empty, format!("{shown} is empty; it should hold the key"));
}

#[test]
fn a_key_is_in_no_debug() {
    let command = CommandKey::new(["print", "--client-secret", "s3cret"]);
    let config = keyed(Provider::OPENAI, false, RenewedKey::new(command));
    assert!(!format!("{config:?}").contains("s3cret"), "{config:?}");
}

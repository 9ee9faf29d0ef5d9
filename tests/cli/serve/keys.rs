//! A gateway whose keys are printed by a command.

use super::{CHAT, Gateway, MESSAGES, Reply, Upstream, said};

fn file(upstream: &Upstream) -> String {
    let token = "token: {command: [sh, -c, 'n=$(($(cat runs 2>/dev/null || echo 0) + 1)); echo $n > runs; echo upstream-tok-$n']}";
    format!(
        "models:\n  main: {{api: azure, base_url: '{}', model: m, api_version: '1', {token}}}\nroutes: {{main: main}}\n",
        upstream.base_url()
    )
}

#[tokio::test]
async fn a_refused_token_is_renewed_within_the_attempt_and_in_no_answer() {
    for client in [CHAT, MESSAGES] {
        let expired = Reply::json(401, "", r#"{"error":{"code":"invalid_token","message":"expired"}}"#);
        let upstream = Upstream::start([expired, Reply::json(200, "", &said("it is upstream-tok-2!"))]);
        let gateway = Gateway::start(&file(&upstream));
        let ask = r#"{"model":"main","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
        let got = gateway.post(client, &[], ask).await;
        assert_eq!((got.status, got.told()), (200, ("1", "main", "")), "{got:?}");
        assert!(!got.body.contains("upstream-tok"), "{got:?}");
        assert!(got.body.contains("it is **************!") || client == MESSAGES, "{got:?}");
        let again = gateway.post(client, &[], ask).await;
        assert_eq!(again.status, 200, "{again:?}");
        let tokens: Vec<bool> = upstream
            .seen()
            .iter()
            .map(|seen| seen.contains("authorization: Bearer upstream-tok-1"))
            .collect();
        assert_eq!(tokens, [true, false, false]);
        let runs = std::fs::read_to_string(gateway.folder.path().join("runs")).unwrap();
        assert_eq!(runs.trim(), "2");
        let log = gateway.said.lock().unwrap().join("\n");
        assert!(!log.contains("upstream-tok"), "{log}");
    }
}

#[tokio::test]
async fn a_command_that_fails_is_an_error_of_the_request() {
    let upstream = Upstream::start([Reply::json(200, "", &said("hi"))]);
    let file =
        file(&upstream).replace("echo upstream-tok-$n", "echo upstream-tok; echo signed out >&2; exit 4");
    let gateway = Gateway::start(&file);
    let got = gateway.chat().await;
    assert!(got.body.contains("`sh` exited with code 4: signed out"), "{got:?}");
    assert!(!got.body.contains("upstream-tok") && upstream.seen().is_empty(), "{got:?}");
    assert_eq!(got.told().2, "auth_error", "{got:?}");
}

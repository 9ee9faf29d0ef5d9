//! Requests that never reach a provider, and files that are no gateway.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::{CHAT, Gateway, MESSAGES, Reply, Upstream, one, said};
use crate::command;

/// The SHA-256 of `sesame`.
const SESAME: &str = "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272";
/// The SHA-256 of `open`.
const OPEN: &str = "2348f998744212575d85959674f9607ab26f67708a917157472832386337c904";

fn upstream() -> Upstream {
    Upstream::start([Reply::json(200, "", &said("hi"))])
}

#[tokio::test]
async fn pages_of_elsewhere_are_no_clients() {
    let upstream = upstream();
    let gateway = Gateway::start(&one("openai", &upstream));
    for (name, value) in [("origin", "https://evil.example"), ("origin", "null"), ("host", "evil.example")] {
        for path in [CHAT, "/v1/models", "/healthz", "/metrics", "/elsewhere"] {
            let request = if path == CHAT {
                gateway.http.post(format!("{}{path}", gateway.url))
            } else {
                gateway.http.get(format!("{}{path}", gateway.url))
            };
            let got = request.header(name, value).send().await.unwrap();
            assert_eq!(got.status().as_u16(), 403, "{path} {name}: {value}");
        }
    }
    let own = [("origin", "http://localhost:3000")];
    assert_eq!(gateway.post(CHAT, &own, r#"{"model":"main"}"#).await.status, 200);
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn a_key_opens_the_routes_that_it_may_use() {
    let upstream = upstream();
    let keys = format!("keys: {{desk: {{sha256: {SESAME}}}, shop: {{sha256: {OPEN}, routes: cheap}}}}\n");
    let gateway = Gateway::start(
        &(one("openai", &upstream).replace("{main: main}", "{main: main, cheap: main}") + &keys),
    );
    let asks = |key: &'static str, route: &'static str| {
        let body = format!("{{\"model\":\"{route}\"}}");
        let gateway = &gateway;
        async move { gateway.post(CHAT, &[("authorization", key)], body).await }
    };
    assert_eq!(asks("Bearer sesame", "main").await.status, 200);
    assert_eq!(asks("Bearer open", "cheap").await.status, 200);
    let got = asks("Bearer open", "main").await;
    assert_eq!(
        (got.status, &got.json()["error"]["message"]),
        (404, &"no route is named `main`; there are: cheap".into())
    );
    for key in ["Bearer none", "Bearer ", "Basic sesame"] {
        let got = asks(key, "main").await;
        assert_eq!(
            (got.status, got.header("www-authenticate"), got.header("connection")),
            (401, "Bearer", "close")
        );
        assert_eq!(got.json()["error"]["code"], "invalid_api_key");
    }
    assert_eq!(gateway.get("/v1/models", &[]).await.status, 401);
    let listed = gateway.get("/v1/models", &[("x-api-key", "open")]).await.json();
    assert_eq!((listed["data"].as_array().unwrap().len(), &listed["data"][0]["id"]), (1, &"cheap".into()));
    assert_eq!(upstream.seen().len(), 2);
}

#[tokio::test]
async fn a_pattern_in_the_routes_of_a_key_opens_all_that_it_matches() {
    let upstream = upstream();
    let routes = "{gpt-5: main, 'gpt-*': main, cheap: main}";
    let keys = format!("keys: {{desk: {{sha256: {SESAME}, routes: ['gpt-*']}}}}\n");
    let gateway = Gateway::start(&(one("openai", &upstream).replace("{main: main}", routes) + &keys));
    for (route, status) in [("gpt-5", 200), ("gpt-6", 200), ("cheap", 404)] {
        let body = format!("{{\"model\":\"{route}\"}}");
        assert_eq!(gateway.post(CHAT, &[("x-api-key", "sesame")], body).await.status, status, "{route}");
    }
    let listed = gateway.get("/v1/models", &[("x-api-key", "sesame")]).await.json();
    assert_eq!((listed["data"].as_array().unwrap().len(), &listed["data"][0]["id"]), (1, &"gpt-5".into()));
}

#[tokio::test]
async fn a_name_that_no_route_has_leads_nowhere() {
    let upstream = upstream();
    let gateway = Gateway::start(&one("openai", &upstream));
    for name in ["mian", "../v1/files", "main\\u0000", "http://evil.example/"] {
        let got = gateway.post(CHAT, &[], format!("{{\"model\":\"{name}\"}}")).await;
        let said = got.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(got.status == 404 && said.ends_with("; there are: main"), "{got:?}");
    }
    let got = gateway.post(MESSAGES, &[], r#"{"model":"mian"}"#).await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (404, &"not_found_error".into()));
    for (body, status) in [("{", 400), ("[]", 400), ("{\"messages\":[]}", 400)] {
        assert_eq!(gateway.post(CHAT, &[], body).await.status, status, "{body}");
    }
    assert_eq!(gateway.get("/v1/files", &[]).await.status, 404);
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn another_method_is_refused_in_words_and_to_strangers_as_anything_is() {
    let upstream = upstream();
    let keys = format!("keys: {{desk: {{sha256: {SESAME}}}}}\n");
    let gateway = Gateway::start(&(one("openai", &upstream) + &keys));
    let key = ("x-api-key", "sesame");
    let got = gateway.get(CHAT, &[key]).await;
    assert_eq!((got.status, got.header("allow")), (405, "POST"), "{got:?}");
    for (path, allowed) in
        [("/v1/models", "GET,HEAD"), ("/status.json", "GET,HEAD"), ("/healthz", "GET,HEAD")]
    {
        let got = gateway.post(path, &[key], "").await;
        assert_eq!((got.status, got.header("allow")), (405, allowed), "{got:?}");
        assert_eq!(got.json()["error"]["code"], "method_not_allowed");
        assert_eq!(gateway.post(path, &[], "").await.status, 401, "{path}");
        assert_eq!(
            gateway.post(path, &[key, ("origin", "http://evil.example")], "").await.status,
            403,
            "{path}"
        );
    }
    let foreign = [key, ("origin", "http://evil.example")];
    for (headers, status) in [(&foreign[..0], 401), (&foreign[..], 403)] {
        assert_eq!(gateway.get(CHAT, headers).await.status, status);
    }
}

#[tokio::test]
async fn a_model_is_found_by_its_name() {
    let upstream = upstream();
    let keys = format!("keys: {{desk: {{sha256: {SESAME}}}, shop: {{sha256: {OPEN}, routes: [main]}}}}\n");
    let file = one("openai", &upstream).replace("{main: main}", "{main: main, 'gpt-*': main}") + &keys;
    let gateway = Gateway::start(&file);
    let desk = ("authorization", "Bearer sesame");
    for name in ["main", "gpt-5"] {
        let got = gateway.get(&format!("/v1/models/{name}"), &[desk]).await.json();
        assert_eq!((&got["id"], &got["type"]), (&name.into(), &"model".into()));
        let got = gateway.get(&format!("/v1beta/models/{name}"), &[desk]).await.json();
        assert_eq!(got["name"], format!("models/{name}"));
    }
    let version = ("anthropic-version", "2023-06-01");
    let got = gateway.get("/v1/models/mian", &[desk, version]).await;
    assert_eq!((got.status, &got.json()["error"]["type"]), (404, &"not_found_error".into()));
    assert_eq!(gateway.get("/v1/models/gpt-5", &[("x-api-key", "open")]).await.status, 404);
    assert_eq!(gateway.get("/v1/models/main", &[]).await.status, 401);
    let got = gateway.post("/v1beta/models/%ff:generateContent", &[desk], "{}").await;
    assert_eq!((got.status, &got.json()["error"]["status"]), (400, &"INVALID_ARGUMENT".into()));
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn what_is_no_request_is_refused_as_a_bad_one() {
    let upstream = upstream();
    let gateway = Gateway::start(&one("openai", &upstream));
    let rest = "content-length: 16\r\n\r\n{\"model\":\"main\"}";
    for request in [
        format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n{rest}"),
        format!(
            "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\norigin: null\r\n{rest}"
        ),
        format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n"),
        format!("POST {CHAT} HTTP/1.1\r\n{rest}"),
    ] {
        let mut stream = TcpStream::connect(gateway.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 400", "{request}");
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn a_client_of_http_1_0_need_not_name_the_host() {
    let upstream = upstream();
    let gateway = Gateway::start(&one("openai", &upstream));
    let rest = "content-length: 16\r\n\r\n{\"model\":\"main\"}";
    for (said, status) in [
        ("", "200"),
        ("origin: http://evil.example\r\n", "403"),
        ("origin: http://localhost\r\n", "403"),
        ("host: evil.example\r\n", "403"),
        ("host: \r\n", "403"),
    ] {
        let mut stream = TcpStream::connect(gateway.address()).unwrap();
        stream.write_all(format!("POST {CHAT} HTTP/1.0\r\n{said}{rest}").as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.0 {status}"), "{said}");
    }
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn what_is_too_large_is_refused_with_words() {
    let upstream = upstream();
    let gateway = Gateway::start(&one("openai", &upstream));
    let got = gateway.post(CHAT, &[], vec![b' '; 33 << 20]).await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (413, &"request_too_large".into()));
    let many: Vec<String> = (0..10_000).map(|number| format!("x-{number}: 1\r\n")).collect();
    let many = many.concat();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\n{many}content-length: 2\r\n\r\n{{}}");
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    // It may have answered and closed before all of them are sent.
    let _ = stream.write_all(head.as_bytes());
    let mut answer = [0; 12];
    let read = stream.read(&mut answer).unwrap_or(0);
    assert!(read == 0 || answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(gateway.chat().await.status, 200, "others are served");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn beyond_this_machine_it_does_not_start_without_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = "version: 1\nmodels: {main: {api: openai, base_url: 'http://127.0.0.1:9/v1', model: m}}\nroutes: {main: main}\n";
    std::fs::write(folder.path().join("gateway.yaml"), file).unwrap();
    let (code, said) = run(folder.path(), &["serve", "gateway.yaml", "--addr", "0.0.0.0:0"]);
    assert_eq!(code, 2);
    assert!(said.contains("--addr: beyond this machine clients need keys"), "{said}");
}

#[test]
fn the_mistakes_of_a_file_are_found_at_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(folder.path().join("gateway.yaml"), text).unwrap();
    write(
        "version: 1
models:
  main: {api: openai, base_url: 'http://127.0.0.1:9/v1', model: m}
  claude: {api: anthropic, model: c}
routes:
  gpt-*: [mian]
  both: [main, claude]
  none: []
keys:
  desk: {sha256: sk-in-the-clear, routes: [bath]}
",
    );
    let (code, said) = run(folder.path(), &["check", "gateway.yaml", "--format", "short"]);
    assert_eq!(code, 1, "{said}");
    for expected in [
        "gateway.yaml:6:11: error[P0201]: there is no model `mian`",
        "did you mean `main`?",
        "gateway.yaml:8:3: error[P0104]: the route leads to no model",
        "gateway.yaml:10:18: error[P0104]: this is no SHA-256 of a key",
        "there is no route `bath`",
        "did you mean `both`?",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    // Requests are converted, so a route may mix dialects.
    assert!(!said.contains("sk-in-the-clear") && !said.contains("gateway.yaml:7:"), "{said}");
    write("version: 1\nmodels: {main: {api: openai, base_url: 'http://127.0.0.1:9/v1', model: m}}\n");
    let (code, said) = run(folder.path(), &["serve", "gateway.yaml"]);
    assert!(code == 2 && said.contains("gateway.yaml has no route"), "{said}");
    // What else is of a gateway says that it is to be one: the check finds it, too.
    let keys = format!("keys: {{desk: {{sha256: {}}}}}", "0".repeat(64));
    for gateway in ["routes: {}", &keys, "tls: {certificate: c.pem, key: k.pem}"] {
        write(&format!(
            "version: 1\nmodels: {{main: {{api: openai, base_url: 'http://127.0.0.1:9/v1', model: m}}}}\n{gateway}\n"
        ));
        for command in [&["serve", "gateway.yaml"][..], &["check", "gateway.yaml"]] {
            let (code, said) = run(folder.path(), command);
            assert!(
                code == 1
                    && said.contains("error[P0102]: the gateway has no route")
                    && said.contains("gateway.yaml:3:1"),
                "{said}"
            );
        }
    }
    // Of a model that is wrong only that is said.
    write("version: 1\nmodels: {main: {api: gpt, model: m}}\nroutes: {main: main}\n");
    let (code, said) = run(folder.path(), &["check", "gateway.yaml"]);
    assert!(code == 1 && said.contains("unknown value `gpt`") && !said.contains("no model `main`"), "{said}");
    std::fs::write(folder.path().join("p.yaml"), "version: 1\nlimits: {run: {tokens: 200000}}\n").unwrap();
    write(
        "version: 1\npolicy: p.yaml\nmodels: {main: {api: openai, base_url: 'http://127.0.0.1:9/v1', model: m}}\nroutes: {main: main}\n",
    );
    let (code, said) = run(folder.path(), &["serve", "gateway.yaml"]);
    assert!(
        code == 1 && said.contains("`limits.run.tokens` bounds a run") && said.contains("p.yaml:2:"),
        "{said}"
    );
}

#[test]
fn a_key_is_made_with_its_hash() {
    let folder = tempfile::tempdir().unwrap();
    let output = command::unfazed(folder.path(), &["serve", "--hash-key"]).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = printed.split_whitespace().collect();
    assert!(
        matches!(words[..], ["key", key, "sha256", hash] if key.starts_with("ufz-") && key.len() == 68 && hash.len() == 64),
        "{printed}"
    );
}

/// The exit code, and all that is said.
fn run(folder: &std::path::Path, args: &[&str]) -> (i32, String) {
    let output = command::unfazed(folder, args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[test]
fn a_policy_that_bounds_a_run_is_no_policy_of_a_gateway_for_check_either() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.yaml"), "version: 1\nlimits: {run: {tokens: 1000}}\n").unwrap();
    let file = "version: 1\npolicy: p.yaml\nmodels: {main: {api: openai, base_url: 'http://127.0.0.1:9/v1', model: m}}\n";
    let check = |text: &str| {
        std::fs::write(folder.path().join("g.yaml"), text).unwrap();
        let output = command::unfazed(folder.path(), &["check", "g.yaml"]).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, said) = check(&format!("{file}routes: {{x: main}}\n"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("`limits.run.tokens` bounds a run") && said.contains("p.yaml:2:"), "{said}");
    std::fs::write(
        folder.path().join("p.yaml"),
        "version: 1\nlimits:\n  run: {tokens: 1000}\n  max_turns: 5\n",
    )
    .unwrap();
    let (_, both) = check(&format!("{file}routes: {{x: main}}\n"));
    for (limit, place) in [("limits.run.tokens", "p.yaml:3:"), ("limits.max_turns", "p.yaml:4:")] {
        let line = both.lines().find(|line| line.contains(&format!("`{limit}` bounds a run")));
        assert!(line.is_some_and(|line| line.contains(place)), "{both}");
    }
    let (code, said) = check(&format!("{file}task: Look it up.\n"));
    assert_eq!(code, Some(0), "a run may have limits: {said}");
}

#[tokio::test]
async fn routes_are_listed_as_they_were_written() {
    let upstream = upstream();
    let routes = "{b: main, longest: main, 'l*': main, a: main}";
    let gateway = Gateway::start(&one("openai", &upstream).replace("{main: main}", routes));
    let listed = gateway.get("/v1/models", &[]).await.json();
    let names: Vec<&str> =
        listed["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "longest", "a"]);
}

#[tokio::test]
async fn an_unknown_address_of_googles_has_an_error_of_googles() {
    let upstream = upstream();
    let got = Gateway::start(&one("openai", &upstream))
        .post("/v1beta/tunedModels/x:generateContent", &[], "{}")
        .await;
    assert_eq!((got.status, &got.json()["error"]["status"]), (404, &"NOT_FOUND".into()), "{got:?}");
}

#[tokio::test]
async fn the_headers_of_a_request_have_a_bound() {
    let upstream = upstream();
    let gateway = Gateway::start(&one("openai", &upstream));
    for (bytes, status) in [(60_000, 200), (70_000, 431)] {
        let long = "x".repeat(bytes);
        let got = gateway.post(CHAT, &[("x-long", &long)], r#"{"model":"main"}"#).await;
        assert_eq!(got.status, status, "{bytes}");
    }
}

#[tokio::test]
async fn an_error_within_an_answer_has_a_status_of_its_own() {
    let quota = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let blocked = r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}"#;
    for (api, answer, status) in [("openai", quota, 429), ("gemini", blocked, 400)] {
        let upstream = Upstream::start([Reply::json(200, "", answer)]);
        let body = r#"{"model":"main","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
        let got = Gateway::start(&one(api, &upstream)).post(MESSAGES, &[], body).await;
        assert_eq!(got.status, status, "{got:?}");
    }
}

#[tokio::test]
async fn a_key_of_some_routes_has_no_server_choose_among_its_models() {
    let upstream = upstream();
    let keys = format!("keys: {{desk: {{sha256: {SESAME}}}, shop: {{sha256: {OPEN}, routes: main}}}}\n");
    let gateway = Gateway::start(&(one("openai", &upstream) + &keys));
    for field in [r#""models":["dear"]"#, r#""Fallbacks":["dear"]"#, r#""route":"fallback""#] {
        let ask = format!(r#"{{"model":"main",{field}}}"#);
        let got = gateway.post(CHAT, &[("x-api-key", "open")], ask.clone()).await;
        let name = field.split('"').nth(1).unwrap().to_lowercase();
        let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(got.status == 400 && message.starts_with(&format!("`{name}` ")), "{got:?}");
        // Who may use all, may have it chosen.
        assert_eq!(gateway.post(CHAT, &[("x-api-key", "sesame")], ask).await.status, 200);
    }
    // Of two names the servers take one or the other.
    let both = r#"{"model":"main","Model":"dear"}"#;
    for key in ["open", "sesame"] {
        let got = gateway.post(CHAT, &[("x-api-key", key)], both).await;
        assert!(got.status == 400 && got.body.contains("`Model` may be read as `model`"), "{got:?}");
    }
    assert_eq!(upstream.seen().len(), 3);
}

#[tokio::test]
async fn what_is_refused_before_it_is_read_counts() {
    let upstream = upstream();
    let keys = format!("keys: {{desk: {{sha256: {SESAME}}}}}\n");
    let gateway = Gateway::start(&(one("openai", &upstream) + &keys));
    let headers = [("x-api-key", "sesame")];
    assert_eq!(gateway.post(CHAT, &[], "{}").await.status, 401);
    assert_eq!(gateway.post(CHAT, &headers, "{bad").await.status, 400);
    assert_eq!(gateway.post(CHAT, &[headers[0], ("origin", "https://evil.example")], "{}").await.status, 403);
    assert_eq!(gateway.status().await["requests"]["refused"], 3);
}

#[tokio::test]
async fn a_name_of_this_machine_is_an_address_too() {
    let upstream = upstream();
    let gateway = Gateway::under(super::POLICY, &one("openai", &upstream), &["--addr", "localhost:0"]);
    assert!(gateway.url.starts_with("http://127.0.0.1:"), "{}", gateway.url);
    assert_eq!(gateway.chat().await.status, 200);
}

/// The gateway, started where a process may open so many files by that flag of `ulimit`.
#[cfg(target_os = "linux")]
fn with_files(flag: &str, upstream: &Upstream) -> Gateway {
    let folder = super::folder(super::POLICY, &one("openai", upstream));
    let script = format!(
        "ulimit {flag} 1024 && exec '{}' serve gateway.yaml --addr 127.0.0.1:0",
        env!("CARGO_BIN_EXE_unfazed")
    );
    let command = command::program("sh", folder.path(), &["-c", &script]);
    Gateway::of_command(folder, command)
}

#[cfg(target_os = "linux")]
#[test]
fn it_opens_as_many_files_as_it_may_and_says_where_these_are_too_few() {
    let upstream = upstream();
    let soft_of = |gateway: &Gateway| {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", gateway.child.id())).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap().to_owned();
        let numbers: Vec<String> = line.split_whitespace().skip(3).take(2).map(str::to_owned).collect();
        (numbers[0].clone(), numbers[1].clone())
    };
    let warns =
        |gateway: &Gateway| gateway.said.lock().unwrap().iter().any(|line| line.contains("open 1024 files"));
    let raised = with_files("-Sn", &upstream);
    let (soft, hard) = soft_of(&raised);
    assert_eq!((soft == hard, warns(&raised)), (true, hard == "1024"));
    assert!(warns(&with_files("-n", &upstream)));
}

/// That this process has no file left is no failure of the model, which has one attempt.
#[cfg(target_os = "linux")]
#[test]
fn a_request_waits_for_a_file_that_may_be_opened() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let upstream = upstream();
    let gateway = Gateway::start(&one("openai", &upstream));
    let process = gateway.child.id();
    let may_open = |files: usize| {
        let (maximum, files) = (getrlimit(Resource::Nofile).maximum, u64::try_from(files).unwrap());
        let pid = Pid::from_raw(i32::try_from(process).unwrap());
        prlimit(pid, Resource::Nofile, Rlimit { current: Some(files), maximum }).unwrap();
    };
    let mut client = TcpStream::connect(gateway.url.trim_start_matches("http://")).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut ask = |head: &str, body: &str| {
        let host = "host: 127.0.0.1\r\ncontent-type: application/json";
        write!(client, "{head} HTTP/1.1\r\n{host}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        client.try_clone().unwrap()
    };
    let mut answer = [0; 4096];
    assert!(ask("GET /healthz", "").read(&mut answer).unwrap() > 0);
    // It may open none besides those that it has: a new file gets the lowest number that is free.
    let is_free = |number: &usize| !std::path::Path::new(&format!("/proc/{process}/fd/{number}")).exists();
    may_open((0..1024).find(is_free).unwrap());
    let body = r#"{"model":"main","messages":[{"role":"user","content":"hi"}]}"#;
    let mut asked = ask(&format!("POST {CHAT}"), body);
    let early = asked.read(&mut answer);
    assert!(early.is_err(), "{}", String::from_utf8_lossy(&answer));
    may_open(1024);
    let read = asked.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("x-unfazed-attempts: 1\r\n"), "{answer}");
}

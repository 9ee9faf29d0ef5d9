//! Providers that ask for waits that cannot be meant.

use std::time::{Duration, Instant};

use super::{Gateway, Reply, Upstream, model, one, said};

const ABSURD: [&str; 5] =
    ["18446744073709551615", "-5", "NaN", "Fri, 31 Dec 9999 23:59:59 GMT", "99999999999999999999999999"];

fn limited(header: &str, wait: &str) -> Reply {
    Reply::json(429, &format!("{header}: {wait}\r\n"), r#"{"error":{"message":"slow down"}}"#)
}

#[tokio::test]
async fn an_absurd_wait_is_not_passed_on() {
    for header in ["retry-after", "retry-after-ms", "x-ms-retry-after-ms"] {
        for wait in ABSURD {
            let main = Upstream::start([limited(header, wait)]);
            let policy = "version: 1\nmodels: {'*': {retry: {max_attempts: 1}}}\n";
            let gateway = Gateway::under(policy, &one("openai", &main), &[]);
            let got = gateway.chat().await;
            assert_eq!((got.status, got.told()), (429, ("1", "main", "rate_limit")), "{got:?}");
            for (name, most) in
                [("retry-after", 86_400), ("retry-after-ms", 86_400_000), ("x-ms-retry-after-ms", 0)]
            {
                let said = got.header(name);
                assert!(said.is_empty() || said.parse::<u64>().is_ok_and(|said| said <= most), "{got:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_pause_of_one_model_stops_no_request_that_has_another() {
    let (main, spare) = (
        Upstream::start([limited("retry-after", ABSURD[0])]),
        Upstream::start([Reply::json(200, "", &said("hello"))]),
    );
    let models = model("main", "openai", &main) + &model("spare", "openai", &spare);
    let file = format!("models:\n{models}routes: {{main: main, both: [main, spare]}}\n");
    let policy = "version: 1\nmodels: {'*': {retry: {max_attempts: 1}}}\n";
    let gateway = Gateway::under(policy, &file, &[]);
    let ask = |route: &str| format!(r#"{{"model":"{route}","messages":[{{"role":"user","content":"hi"}}]}}"#);
    let began = Instant::now();
    let got = gateway.post(super::CHAT, &[], ask("main")).await;
    assert_eq!((got.status, got.told()), (429, ("1", "main", "rate_limit")), "{got:?}");
    let got = gateway.post(super::CHAT, &[], ask("both")).await;
    assert_eq!((got.status, got.header("x-unfazed-target")), (200, "spare"), "{got:?}");
    // The pause of the pool is a minute, `server_delay.max`.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_wait_of_hours_is_the_clients_at_once() {
    let main = Upstream::start([limited("retry-after", "7200")]);
    let gateway = Gateway::under("version: 1\n", &one("openai", &main), &[]);
    let began = Instant::now();
    let got = gateway.chat().await;
    assert_eq!((got.status, got.told()), (429, ("1", "main", "rate_limit")), "{got:?}");
    assert_eq!((got.header("retry-after"), got.header("x-should-retry")), ("7200", "false"), "{got:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

//! Providers that ask for waits that cannot be meant.

use super::{Gateway, Reply, Upstream, one};

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

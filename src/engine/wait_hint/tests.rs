//! Server delays in every observed form.

use super::*;
use proptest::prelude::*;

const SENT: &str = "Fri, 20 Nov 2026 10:00:00 GMT";

/// One hour after `SENT`: a wrong clock.
fn now() -> Instant {
    date::rfc3339("2026-11-20T11:00:00Z").unwrap()
}

fn sent() -> Instant {
    date::http(SENT).unwrap()
}

fn read(status: u16, headers: &[(&str, &str)], body: &str) -> WaitHint {
    let headers = ReplyHeaders::new(headers.iter().map(|(name, value)| (*name, value.as_bytes())));
    Failure::from_answer(status, &headers, body.as_bytes(), now).retry_after
}

fn wait(millis: u64) -> WaitHint {
    WaitHint::Wait(Nanos::from_millis(millis))
}

#[test]
fn what_each_header_says() {
    let table: &[(&[(&str, &str)], WaitHint)] = &[
        (&[], WaitHint::None),
        (&[("retry-after", "1")], wait(1000)),
        (&[("Retry-After", " 20 ")], wait(20_000)),
        (&[("retry-after", "0")], wait(0)),
        (&[("retry-after", "1.5")], wait(1500)),
        (&[("retry-after", "86400")], wait(86_400_000)),
        (&[("retry-after", "0.0000000001")], WaitHint::Wait(Nanos(1))),
        (&[("retry-after", "99999999999999999999999999")], WaitHint::Wait(Nanos::MAX)),
        (&[("retry-after-ms", "250")], wait(250)),
        (&[("retry-after-ms", "0.5")], WaitHint::Wait(Nanos(500_000))),
        (&[("x-ms-retry-after-ms", "70"), ("retry-after", "1")], wait(70)),
        (&[("x-ms-retry-after-ms", "70"), ("retry-after-ms", "90")], wait(90)),
        (&[("retry-after-ms", "1200"), ("retry-after", "2")], wait(1200)),
        (&[("retry-after-ms", "soon"), ("retry-after", "2")], wait(2000)),
        (&[("retry-after", "Fri, 20 Nov 2026 10:00:30 GMT"), ("date", SENT)], wait(30_000)),
        (&[("retry-after", "Friday, 20-Nov-26 10:00:30 GMT"), ("date", SENT)], wait(30_000)),
        (&[("retry-after", "Fri Nov 20 10:00:30 2026"), ("date", SENT)], wait(30_000)),
        (&[("retry-after", "Fri, 20 Nov 2026 09:00:00 GMT"), ("date", SENT)], wait(0)),
        (&[("retry-after", "Fri, 20 Nov 2026 11:00:05 GMT")], wait(5000)),
        (&[("retry-after", "Fri, 20 Nov 2026 11:00:05 GMT"), ("date", "today")], wait(5000)),
        (&[("retry-after", "60s")], wait(60_000)),
        (&[("retry-after", "1m30s")], wait(90_000)),
        (&[("retry-after-ms", "0"), ("retry-after", "30")], wait(0)),
    ];
    for (headers, expected) in table {
        assert_eq!(read(429, headers, "").wait(), expected.wait(), "{headers:?}");
    }
}

#[test]
fn a_header_that_comes_twice_asks_for_the_longest_of_its_waits() {
    let table: &[(&[(&str, &str)], WaitHint)] = &[
        (&[("retry-after", "2, 7")], wait(7000)),
        (&[("retry-after", "2"), ("retry-after", "7"), ("retry-after", "3")], wait(7000)),
        (&[("retry-after", "soon"), ("retry-after", "7")], wait(7000)),
        (&[("retry-after-ms", "20,700"), ("retry-after", "9")], wait(700)),
        (
            &[("retry-after", "2"), ("retry-after", "Fri, 20 Nov 2026 10:00:30 GMT"), ("date", SENT)],
            wait(30_000),
        ),
    ];
    for (headers, expected) in table {
        assert_eq!(read(429, headers, "").wait(), expected.wait(), "{headers:?}");
    }
    let half = "retry-after: `2, soon` is not a number of seconds or an HTTP date";
    assert_eq!(read(429, &[("retry-after", "2, soon")], ""), WaitHint::Ignored(half.into()));
}

#[test]
fn a_time_however_far_is_a_wait() {
    let year = |text: &str| read(429, &[("retry-after", text), ("date", SENT)], "");
    assert_eq!(year("Thu, 01 Jan 1970 00:00:00 GMT"), wait(0));
    assert_eq!(year("Sunday, 06-Nov-94 08:49:37 GMT"), wait(0), "two digits of a year that was");
    let WaitHint::Wait(far) = year("Fri, 31 Dec 9999 23:59:59 GMT") else { panic!() };
    assert!(far > Nanos::from_secs(400 * 365 * 86_400), "{far}");
    for (value, expected) in [
        ("1", wait(1000)),
        ("9999999999999999999999", WaitHint::Wait(Nanos(u64::MAX).saturating_sub(Nanos(sent().0)))),
        (
            "0001-01-01T00:00:00Z",
            WaitHint::Ignored(
                "x-ratelimit-reset: `0001-01-01T00:00:00Z` is not a duration, a number or a time".into(),
            ),
        ),
        ("1970-01-01T00:00:00Z", wait(0)),
    ] {
        assert_eq!(read(429, &[("x-ratelimit-reset", value), ("date", SENT)], ""), expected, "{value}");
    }
}

#[test]
fn without_a_date_of_the_answer_the_own_clock_counts() {
    let limit = |value| {
        let left = ("anthropic-ratelimit-output-tokens-remaining", "0");
        read(429, &[("anthropic-ratelimit-output-tokens-reset", value), left], "")
    };
    assert_eq!(limit("2026-11-20T11:00:09Z"), wait(9000));
    assert_eq!(limit("2026-11-20T10:00:09Z"), wait(0));
    assert_eq!(read(429, &[("x-ratelimit-reset", "1795172409")], ""), wait(9000));
}

#[test]
fn only_limits_of_which_nothing_remains_are_waited_for() {
    let table: &[(&[(&str, &str)], WaitHint)] = &[
        (&[("x-ratelimit-reset-requests", "6m0s"), ("x-ratelimit-remaining-requests", "0")], wait(360_000)),
        (&[("x-ratelimit-reset-tokens", "28ms"), ("x-ratelimit-remaining-tokens", "0")], wait(28)),
        (&[("x-ratelimit-reset-tokens", "28ms"), ("x-ratelimit-remaining-tokens", "7")], WaitHint::None),
        (
            &[
                ("x-ratelimit-reset-requests", "6m0s"),
                ("x-ratelimit-remaining-requests", "9"),
                ("x-ratelimit-reset-tokens", "1.5s"),
                ("x-ratelimit-remaining-tokens", "0"),
            ],
            wait(1500),
        ),
        (
            &[
                ("x-ratelimit-reset-requests", "2s"),
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-tokens", "3s"),
                ("x-ratelimit-remaining-tokens", "0"),
                ("retry-after", "1"),
            ],
            // The reset is when the limit is whole again; the server itself asks for less.
            wait(1000),
        ),
        (&[("x-ratelimit-reset", "12")], wait(12_000)),
        (&[("x-ratelimit-reset", "1795168830"), ("date", SENT)], wait(30_000)),
        (&[("x-ratelimit-reset", "1795168830500"), ("date", SENT)], wait(30_500)),
        (&[("x-ratelimit-reset", "1795160000"), ("date", SENT)], wait(0)),
        (&[("x-ratelimit-reset", "2026-11-20T10:00:30Z"), ("date", SENT)], wait(30_000)),
        (
            &[
                ("anthropic-ratelimit-requests-reset", "2026-11-20T10:02:00Z"),
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-tokens-reset", "2026-11-20T10:59:00Z"),
                ("anthropic-ratelimit-tokens-remaining", "1000"),
                ("date", SENT),
            ],
            wait(120_000),
        ),
        (&[("anthropic-ratelimit-tokens-reset", "2026-11-20T10:59:00Z"), ("date", SENT)], WaitHint::None),
        (
            &[
                ("anthropic-ratelimit-input-tokens-reset", "2026-11-20T10:00:20Z"),
                ("anthropic-ratelimit-input-tokens-remaining", "0"),
                ("anthropic-ratelimit-output-tokens-reset", "2026-11-20T10:00:40Z"),
                ("anthropic-ratelimit-output-tokens-remaining", "0"),
                ("retry-after", "30"),
                ("date", SENT),
            ],
            wait(30_000),
        ),
        (&[("x-ratelimit-reset-requests", "0s"), ("x-ratelimit-remaining-requests", "0")], wait(0)),
        (&[("x-ratelimit-reset-tokens", "1m26.4s"), ("x-ratelimit-remaining-tokens", "0")], wait(86_400)),
        // An exceeded limit, and a value that cannot be parsed.
        (&[("x-ratelimit-reset-tokens", "2s"), ("x-ratelimit-remaining-tokens", "-40")], wait(2000)),
        (&[("x-ratelimit-reset-tokens", "2s"), ("x-ratelimit-remaining-tokens", "few")], WaitHint::None),
        (&[("x-ratelimit-reset-tokens", "2s"), ("x-ratelimit-remaining-tokens", "0.5")], WaitHint::None),
        // Each limit has its own remaining amount.
        (&[("x-ratelimit-reset-tokens", "2s"), ("x-ratelimit-remaining-requests", "0")], wait(2000)),
        (&[("x-ratelimit-reset", "5"), ("x-ratelimit-remaining", "3")], WaitHint::None),
        (&[("ratelimit-reset", "5"), ("ratelimit-remaining", "0")], wait(5000)),
        (&[("ratelimit-reset", "5"), ("ratelimit-remaining", "3")], WaitHint::None),
        (
            &[("ratelimit", "\"default\";r=0;t=30"), ("ratelimit-policy", "\"default\";q=100;w=60")],
            wait(30_000),
        ),
        (&[("ratelimit", "\"default\";r=4;t=30")], WaitHint::None),
        // Azure writes bare seconds; Cerebras the unit into the name.
        (&[("x-ratelimit-reset-tokens", "59"), ("x-ratelimit-remaining-tokens", "0")], wait(59_000)),
        (
            &[
                ("anthropic-priority-input-tokens-reset", "2026-11-20T10:00:20Z"),
                ("anthropic-priority-input-tokens-remaining", "0"),
                ("date", SENT),
            ],
            wait(20_000),
        ),
        (
            &[("x-ratelimit-reset-tokens-minute", "4.5"), ("x-ratelimit-remaining-tokens-minute", "0")],
            wait(4500),
        ),
        // Mistral's tokens of a minute.
        (&[("ratelimitbysize-reset", "40"), ("ratelimitbysize-remaining", "0")], wait(40_000)),
        (&[("ratelimitbysize-reset", "40"), ("ratelimitbysize-remaining", "468000")], WaitHint::None),
        (&[("ratelimitbysize-reset", "40"), ("retry-after", "1")], wait(1000)),
    ];
    for (headers, expected) in table {
        assert_eq!(&read(429, headers, ""), expected, "{headers:?}");
    }
    assert_eq!(read(503, &[("ratelimit", "\"default\";t=30")], ""), WaitHint::None, "nor does it say so");
    assert_eq!(read(500, &[("x-ratelimit-reset", "12")], ""), WaitHint::None, "no limit is reached");
}

#[test]
fn what_a_body_says() {
    let table = [
        (
            r#"{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"58s"}]}}"#,
            58_000,
        ),
        (r#"[{"error":{"details":[{"retryDelay":"0.847655010s"}]}}]"#, 848),
        (r#"{"error":{"details":[{"retryDelay":{"seconds":5,"nanos":500000000}}]}}"#, 5500),
        (r#"{"error":{"details":[{"retryDelay":{"seconds":"5"}}]}}"#, 5000),
        (r#"{"error":{"message":"m","retry_after":7}}"#, 7000),
        (
            r#"{"error":{"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1795172430000"}}}}"#,
            30_000,
        ),
        (r#"{"error":{"message":"Rate limit reached. Please try again in 2s. Contact us"}}"#, 2000),
        (r#"{"error":{"message":"Please retry in 58.2s."}}"#, 58_200),
        (r#"{"error":{"message":"Please retry after 86400 seconds. To increase"}}"#, 86_400_000),
        (r#"{"error":{"message":"Please try again in 114h18m0s."}}"#, 411_480_000),
        (r#"{"error":{"message":"Try again in 20ms"}}"#, 20),
        (r#"{"error":{"metadata":{"headers":{"Retry-After":"7"}}}}"#, 7000),
        (r#"{"error":{"metadata":{"headers":{"retry-after-ms":700,"Retry-After":9}}}}"#, 700),
        (
            r#"{"error":{"details":[{"retryDelay":"3600s"}],"message":"Please retry in 1h0m0.5s."}}"#,
            3_600_500,
        ),
        (r#"{"error":{"details":[{"retryDelay":{"nanos":1500000}}]}}"#, 2),
        (r#"{"error":{"message":"Please try again in 1 minute and 30 seconds."}}"#, 90_000),
        (r#"{"error":{"message":"Please try again in 1h 30m. Or wait 9 days"}}"#, 5_400_000),
        (r#"{"error":{"message":"try again in 1 day, 2 hours (limit 5)"}}"#, 93_600_000),
        (r#"{"error":{"message":"Please retry your request after 6 seconds"}}"#, 6000),
        (r#"{"error":{"message":"try again in 1.5 minutes"}}"#, 90_000),
        ("slow down, retry in 3s", 3000),
        ("Please wait 5631 seconds before retrying.", 5_631_000),
        ("Your quota will reset after 3h20m.", 12_000_000),
        ("please try again after 1 seconds", 1000),
        ("Too many. Come back after 15 seconds", 15_000),
        ("Wait for 15 seconds before the next request", 15_000),
        ("Busy. Expected available in 19 seconds", 19_000),
        ("slow down (retry after: 13s)", 13_000),
        ("budget refills in 20 seconds", 20_000),
        (r#"{"error":{"message":"slow down","retry_after_ms":1500}}"#, 1500),
        (r#"{"error":"Model x is currently loading","estimated_time":20.0}"#, 20_000),
        (
            r#"{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_at":1777936568,"resets_in_seconds":13872}}"#,
            13_872_000,
        ),
        (r#"{"error":{"message":"try again in 2s","details":[{"retryDelay":"9s"}]}}"#, 9000),
    ];
    for (body, millis) in table {
        let WaitHint::Wait(found) = read(429, &[], body) else { panic!("no wait in {body}") };
        assert_eq!(found.0.div_ceil(1_000_000), millis, "{body}");
    }
    for body in ["", "{}", r#"{"error":{"message":"try again in a few minutes"}}"#, r#"{"retryDelay":null}"#]
    {
        assert_eq!(read(429, &[], body), WaitHint::None, "{body}");
    }
}

#[test]
fn an_explicit_wait_goes_before_the_end_of_a_limit() {
    let reset = ("x-ratelimit-reset-tokens", "6m0s");
    let left = ("x-ratelimit-remaining-tokens", "0");
    for (more, body, expected) in [
        (("retry-after", "2"), "", 2000),
        (("retry-after-ms", "200"), "", 200),
        (("x", "y"), r#"{"error":{"details":[{"retryDelay":"14s"}]}}"#, 14_000),
        (("x", "y"), "Please try again in 1m2.5s.", 62_500),
        (("retry-after", "2"), "Please try again in 1m2.5s.", 2000),
        (("x", "y"), "slow down", 360_000),
        (("retry-after", "soon"), "", 360_000),
    ] {
        assert_eq!(
            read(429, &[reset, left, more], body).wait(),
            Some(Nanos::from_millis(expected)),
            "{more:?} {body}"
        );
    }
}

#[test]
fn each_source_is_kept_for_policies_that_take_another() {
    let all = [("retry-after", "2"), ("x-ratelimit-reset", "9"), ("x-should-retry", "false")];
    let headers = |headers: &[(&str, &str)]| {
        ReplyHeaders::new(headers.iter().map(|(name, value)| (*name, value.as_bytes())))
    };
    let failure = Failure::from_answer(429, &headers(&all), b"try again in 5s", now);
    let seconds = |secs| Some(Nanos::from_secs(secs));
    assert_eq!(failure.waits(), WaitHints { header: seconds(2), body: seconds(5), reset: seconds(9) });
    assert_eq!(failure.should_retry, Some(false));
    let failure = Failure::from_answer(429, &headers(&all[..1]), b"slow down", now);
    assert_eq!((failure.waits, failure.should_retry), (None, None), "one header is as it always was");
    let inside = r#"{"error":{"metadata":{"headers":{"X-Should-Retry":"true","Retry-After":"3"}}}}"#;
    let failure = Failure::from_answer(429, &headers(&[]), inside.as_bytes(), now);
    assert_eq!((failure.should_retry, failure.retry_after.wait()), (Some(true), seconds(3)));
}

#[test]
fn what_cannot_be_used_is_said_so() {
    let unusable = [
        "soon",
        "-1",
        "-0",
        "1e3",
        "inf",
        "NaN",
        "",
        ",",
        "1.2.3",
        "1.",
        ".5",
        "+1",
        "1 0",
        "0x10",
        "1h-",
        "２",
        "2026-11-20T10:00:30Z",
        "Fri, 20 Nov 2026 10:00:30",
        "Fri, 31 Nov 2026 10:00:30 GMT",
        "Fri, 20 Nov 2026 10:00:30 CET",
        "Thu, 31 Dec 1969 23:59:59 GMT",
    ];
    for value in unusable {
        let reason = format!("retry-after: `{value}` is not a number of seconds or an HTTP date");
        assert_eq!(read(429, &[("retry-after", value)], ""), WaitHint::Ignored(reason));
    }
    for (headers, body, says) in [
        (("retry-after-ms", "-5"), "", "retry-after-ms: `-5` is not a number of milliseconds"),
        (
            ("x-ratelimit-reset", "soon"),
            "",
            "x-ratelimit-reset: `soon` is not a duration, a number or a time",
        ),
        (
            ("x", ""),
            r#"{"retryDelay":"5"}"#,
            "retryDelay: `\"5\"` is not a duration, or `seconds` and `nanos`",
        ),
        (("x", ""), r#"{"retry_after":-1}"#, "retry_after: `-1` is not a number of seconds"),
        (("x", ""), "try again in 5 parsecs", "message: `5 parsecs` is not a length of time"),
        (
            ("x", ""),
            r#"{"retryDelay":{"seconds":-5}}"#,
            "retryDelay: `{\"seconds\":-5}` is not a duration, or `seconds` and `nanos`",
        ),
        (("x", ""), r#"{"retry_after":1e30}"#, "retry_after: `1e+30` is not a number of seconds"),
        (
            ("x", ""),
            r#"{"retry_after":"in a while"}"#,
            "retry_after: `in a while` is not a number of seconds",
        ),
        (
            ("anthropic-ratelimit-tokens-reset", "soon"),
            "{}",
            "anthropic-ratelimit-tokens-reset: `soon` is not a duration, a number or a time",
        ),
    ] {
        let empty = ("anthropic-ratelimit-tokens-remaining", "0");
        assert_eq!(read(429, &[headers, empty], body), WaitHint::Ignored(says.into()));
    }
}

#[test]
fn what_is_no_text_is_said_so_and_shown_cut() {
    let bytes = ReplyHeaders::new([("retry-after", &b"\xff\xfe"[..])]);
    let ignored = |headers: &ReplyHeaders| match Failure::from_answer(429, headers, b"", now).retry_after {
        WaitHint::Ignored(reason) => reason,
        other => panic!("{other:?}"),
    };
    assert!(ignored(&bytes).starts_with("retry-after: `\u{fffd}\u{fffd}` is not a number"));
    let long = "x".repeat(100_000);
    let reason = ignored(&ReplyHeaders::new([("retry-after", long.as_bytes())]));
    assert!(reason.len() < 200, "{}", reason.len());
    let nines = "9".repeat(100_000);
    assert_eq!(read(429, &[("retry-after", &nines)], ""), WaitHint::Wait(Nanos::MAX));
}

#[test]
fn one_wait_that_can_be_read_makes_up_for_others_that_cannot_and_those_are_told() {
    for (headers, message, wait, says) in [
        (
            &[("retry-after", "NaN"), ("x-ratelimit-reset", "4")][..],
            "",
            4000,
            "retry-after: `NaN` is not a number of",
        ),
        (&[("retry-after", "-3")], "try again in 2s", 2000, "retry-after: `-3` is not a number of seconds"),
        (
            &[("retry-after-ms", "soon"), ("retry-after", "1")],
            "",
            1000,
            "retry-after-ms: `soon` is not a number of milli",
        ),
    ] {
        let hint = read(429, headers, message);
        assert_eq!(hint.wait(), Some(Nanos::from_millis(wait)));
        assert!(hint.ignored().is_some_and(|ignored| ignored.starts_with(says)), "{hint:?}");
    }
}

#[test]
fn the_type_of_bedrock_stands_in_a_header() {
    let kind = "com.amazon#ThrottlingException:http://internal.amazon.com/";
    let headers = ReplyHeaders::new([("x-amzn-ErrorType", kind.as_bytes())]);
    let failure = Failure::from_answer(429, &headers, br#"{"message":"slow"}"#, now);
    assert_eq!((failure.kind.as_deref(), failure.status), (Some("ThrottlingException"), Some(429)));
}

proptest! {
    #[test]
    fn any_value_is_a_wait_or_is_ignored(value in "\\PC{0,30}", body in "\\PC{0,60}") {
        for name in ["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-reset-tokens"] {
            prop_assert_ne!(read(429, &[(name, value.trim())], ""), WaitHint::None);
            prop_assert_ne!(read(429, &[(name, value.trim()), (name, "5, ")], ""), WaitHint::None);
        }
        read(429, &[], &format!("try again in {body}"));
        read(429, &[], &format!(r#"{{"retryDelay": "{body}"}}"#));
    }

    #[test]
    fn a_wait_is_never_shorter_than_what_is_written(whole in 0_u64..1_000_000, digits in "[0-9]{1,12}") {
        let WaitHint::Wait(found) = read(429, &[("retry-after", &format!("{whole}.{digits}"))], "") else { panic!() };
        let least = u128::from(whole) * 1_000_000_000
            + digits.parse::<u128>().unwrap() * 1_000_000_000 / 10_u128.pow(digits.len().try_into().unwrap());
        prop_assert!(u128::from(found.0) >= least && u128::from(found.0) <= least + 1);
    }
}

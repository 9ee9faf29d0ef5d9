//! What hostile policies cost: for each, how long reading, lints and reporting take and how much memory, against the
//! limits of the product. Ends with an error if one is exceeded.
//!
//! ```sh
//! cargo bench --bench hostile             # all
//! cargo bench --bench hostile -- alias    # those whose name holds a word
//! ```

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use unfazed::analysis::LintOptions;
use unfazed::policy::Loader;

/// The largest file that is read.
const SIZE: usize = 4 << 20;
/// The longest it may take to read one and to write all about it.
const MOST_TIME: Duration = Duration::from_millis(500);
/// How much longer than the plain one a file of a megabyte may take, measured in the same run.
const MOST_OF_PLAIN: u32 = 5;
/// The one they are held against; it comes before them.
const PLAIN: &str = "plain 1 MB";
/// The most memory of the whole process, in kilobytes.
const MOST_MEMORY: u64 = 150 << 10;
/// Which one a process of its own reads.
const CASE: &str = "HOSTILE_CASE";

/// A name and a text.
type Case = (&'static str, fn() -> String);

const CASES: &[Case] = &[
    ("deep flow lists", || filled("", |_| "[".into(), "")),
    ("deep flow maps", || filled("a: ", |_| "{a: ".into(), "")),
    ("deep blocks", || filled("", |i| format!("{}a:\n", " ".repeat(i)), "")),
    ("deep compact lists", || filled("", |_| "- ".into(), "")),
    ("deep again and again", || {
        many(4_000, "a:\n", |_| format!("- {}1{}\n", "[".repeat(60), "]".repeat(60)), "")
    }),
    ("alias bomb", || filled("a0: &a0 [x, x]\n", |i| format!("a{}: &a{0} [*a{i}, *a{i}]\n", i + 1), "")),
    ("alias bomb of text", || {
        filled(&format!("a: &a '{}'\nb: [", "x".repeat(1 << 20)), |_| "*a, ".into(), "]\n")
    }),
    ("aliases as keys", || many(100_000, "a: &a x\n", |i| format!("b{i}: {{*a : 1}}\n"), "")),
    ("anchors", || many(200_000, "", |i| format!("a{i}: &a{i} 1\n"), "")),
    ("aliases", || many(200_000, "a: &a x\n", |i| format!("a{i}: *a\n"), "")),
    ("unknown keys", || filled("version: 1\n", |i| format!("retri{i}: 1\n"), "")),
    ("100000 unknown keys", || many(100_000, "version: 1\n", |i| format!("retri{i}: {{limits: 1}}\n"), "")),
    ("100000 unknown keys of a tool", || {
        many(100_000, "version: 1\ntools:\n  a:\n", |i| format!("    retri{i}: 1\n"), "")
    }),
    ("100000 long unknown keys", || {
        many(100_000, "version: 1\n", |i| format!("{}{i}: 1\n", "k".repeat(30)), "")
    }),
    ("100000 duplicate keys", || many(100_000, "version: 1\n", |_| "retry: {max_attempts: 3}\n".into(), "")),
    ("100000 duplicate tools", || {
        many(100_000, "version: 1\ntools:\n", |i| format!("  tool{}: {{}}\n", i % 100), "")
    }),
    ("merge keys", || many(100_000, "version: 1\na: &a {}\n", |i| format!("b{i}: {{<<: *a}}\n"), "")),
    ("one long key", || filled("", |_| "x".into(), ": 1\n")),
    ("one huge scalar", || filled("version: ", |_| "x".into(), "\n")),
    ("one huge number", || filled("version: ", |_| "1".into(), "\n")),
    ("one huge quoted scalar", || filled("version: \"", |_| "\\u00e9".into(), "\"\n")),
    ("one huge block", || filled("version: >\n", |i| format!("  line {i}\n"), "")),
    ("one huge duration", || filled("version: 1\nlimits: {deadline: ", |_| "1".into(), "s}\n")),
    ("one duration of many parts", || filled("version: 1\nlimits: {deadline: ", |_| "1s".into(), "}\n")),
    ("one huge expression", || filled(WHEN, |_| "1 + ".into(), "1'}]}}\n")),
    ("one deep expression", || filled(WHEN, |_| "(".into(), "1'}]}}\n")),
    ("expressions", || many(90_000, CALLS, |i| format!("    - {{when: \"args.a == {i}\"}}\n"), "")),
    ("long expressions", || {
        many(1_000, CALLS, |_| format!("    - {{when: \"{}1 == 1\"}}\n", "1 + ".repeat(1_000)), "")
    }),
    ("20000 expressions", || {
        many(
            20_000,
            CALLS,
            |i| format!("    - {{when: \"args.a == {i} && {} == 1\"}}\n", "args.b + ".repeat(10) + "1"),
            "",
        )
    }),
    ("patterns with more expressions than are kept", || {
        many(
            10_000,
            TOOLS,
            |i| {
                format!(
                    "  \"p{i}_*\": {{calls: [{{when: args.a == {i}, approval: always}}, {{when: args.b > {i}, retry: {{max_attempts: 2}}}}]}}\n"
                )
            },
            "",
        )
    }),
    ("patterns of expressions that are too large", || {
        many(
            40_000,
            CALLS,
            |i| format!("    - {{when: \"args.a.matches('^(a{{1,200}}{i}){{1,200}}$')\"}}\n"),
            "",
        )
    }),
    ("patterns of expressions that are nearly too large", || {
        many(
            40_000,
            CALLS,
            |i| format!("    - {{when: \"args.a.matches('^(a{{1,900}}{i}){{1,4}}$')\"}}\n"),
            "",
        )
    }),
    ("20000 matches", || {
        many(20_000, CALLS, |i| format!("    - {{when: \"args.a.matches('^a{{1,200}}{i}$')\"}}\n"), "")
    }),
    ("one huge template", || filled(FAILED, |_| "{{ tool }}".into(), "'}}}\n")),
    ("one deep template", || filled(FAILED, |_| "{% if tool %}".into(), "'}}}\n")),
    ("20000 templates", || {
        many(
            10_000,
            "version: 1\ntools:\n",
            |i| {
                format!(
                    "  t{i}: {{messages: {{failed: 'a {{{{ tool }}}} {} {{{{ error }}}}', interrupted: '{{{{ tool }}}}'}}}}\n",
                    "x".repeat(200)
                )
            },
            "",
        )
    }),
    ("one huge selector", || filled("version: 1\ntools: {\"", |_| "a*".into(), "\": {}}\n")),
    ("comments", || filled("version: 1\n", |i| format!("# unfazed: {i}\n"), "")),
    ("comments beside values", || {
        many(100_000, "version: 1\nerrors: [\n", |i| format!("# {i}\n{{class: x}}, # {i}\n"), "]\n")
    }),
    ("empty lines", || filled("version: 1\n", |_| "\n".into(), "")),
    ("one long comment", || filled("version: 1 #", |_| " x".into(), "")),
    ("one long line of problems", || many(200_000, "{version: 1", |i| format!(", retri{i}: 1"), "}")),
    ("one long line of wide letters", || {
        many(100_000, "{version: 1", |i| format!(", \u{4e00}\u{4e01}\u{4e02}{i}: 1"), "}")
    }),
    ("one long line of wrong values", || {
        many(100_000, "{version: 1, errors: [", |_| "{class: ratelimit}, ".into(), "]}")
    }),
    ("lines just short enough to show", || {
        many(2_000, "version: 1\n", |i| format!("k{i}: [{}]\n", "a, ".repeat(600)), "")
    }),
    ("wrong types", || {
        many(
            10_000,
            TOOLS,
            |i| format!("  t{i}: {{effect: 1, retry: {{max_attempts: x, deadline: 7, enabled: maybe}}}}\n"),
            "",
        )
    }),
    ("wrong words", || many(200_000, "version: 1\nretry:\n  retry_on:\n", |_| "  - rate_limt\n".into(), "")),
    ("long wrong words", || {
        many(4_000, "version: 1\nretry:\n  retry_on:\n", |_| format!("  - {}\n", "rate_limt".repeat(100)), "")
    }),
    ("ambiguous scalars", || many(400_000, "version: 1\na:\n", |_| "- 0b11\n".into(), "")),
    ("tags", || many(400_000, "version: 1\na:\n", |_| "- !x y\n".into(), "")),
    ("documents", || filled("version: 1\n", |_| "---\na: 1\n".into(), "")),
    ("100000 tools", || many(100_000, TOOLS, |i| format!("  t{i}: {{effect: unknown}}\n"), "")),
    ("10000 tools", || many(10_000, TOOLS, |i| rule(&format!("t{i}"), 3), "")),
    ("10000 overlapping patterns", || many(10_000, TOOLS, |i| rule(&format!("*{}*", letters(i)), 3), "")),
    ("10000 patterns that begin alike", || {
        many(10_000, TOOLS, |i| rule(&format!("a*{}", letters(i)), 3), "")
    }),
    ("10000 patterns of many stars", || {
        many(10_000, TOOLS, |i| rule(&format!("{}{}*", "*a".repeat(100), letters(i)), 3), "")
    }),
    ("10000 overlapping patterns that disagree", || {
        many(10_000, TOOLS, |i| rule(&format!("*{}*", letters(i)), i + 1), "")
    }),
    ("1000 overlapping patterns that disagree", || {
        many(1_000, TOOLS, |i| rule(&format!("*{}*", letters(i)), i + 1), "")
    }),
    ("1000 patterns of many stars that disagree", || {
        many(1_000, TOOLS, |i| rule(&format!("{}{}*", "*a".repeat(100), letters(i)), i + 1), "")
    }),
    ("profiles", || {
        many(
            32,
            &many(10_000, TOOLS, |i| rule(&format!("t{i}"), 3), "profiles:\n"),
            |profile| {
                many(
                    2_000,
                    &format!("  p{profile}:\n    tools:\n"),
                    |i| format!("      u{i}: {{effect: unknown}}\n"),
                    "",
                )
            },
            "",
        )
    }),
    ("profiles of patterns", || {
        many(
            32,
            &many(3_000, TOOLS, |i| rule(&format!("*{}*", letters(i)), 3), "profiles:\n"),
            |profile| {
                many(
                    2_000,
                    &format!("  p{profile}:\n    tools:\n"),
                    |i| format!("      \"{}*\": {{effect: unknown}}\n", letters(i)),
                    "",
                )
            },
            "",
        )
    }),
    ("rows of errors", || {
        many(90_000, "version: 1\nerrors:\n", |i| format!("- {{code: c{i}, class: timeout}}\n"), "")
    }),
    ("delays", || {
        many(400_000, "version: 1\nretry: {backoff: {kind: schedule, delays: [", |_| "1s, ".into(), "]}}")
    }),
    ("reducers", || {
        many(
            10_000,
            "version: 1\nsession: {slices: {a: {}}, reducers: {",
            |i| format!("r{i}: {{on: tool_failed, slice: a, do: {{kind: append, value: 'event.tool'}}}}, "),
            "}}",
        )
    }),
    ("reducers of slices that are not there", || {
        many(
            10_000,
            "version: 1\nsession: {slices: {a: {}}, reducers: {",
            |i| format!("r{i}: {{on: tool_failed, slice: aa, do: {{kind: append, value: 'event.tool'}}}}, "),
            "}}",
        )
    }),
    ("slices", || many(100_000, "version: 1\nsession: {slices: {", |i| format!("s{i}: {{}}, "), "}}")),
    ("a schema of many patterns", || {
        many(100_000, SCHEMA, |i| format!("p{i}: {{pattern: '^a{{1,9}}b$'}}, "), "}}}")
    }),
    ("a schema of costly patterns", || {
        many(100, SCHEMA, |i| format!("p{i}: {{pattern: '^(a{{1,500}}){{1,500}}b$'}}, "), "}}}")
    }),
    ("a deep schema", || {
        format!("version: 1\noutput: {{schema: {}true{}}}\n", "{not: ".repeat(60), "}".repeat(60))
    }),
    ("300000 wrong classes", || {
        many(300_000, "version: 1\nretry: {retry_on: [", |_| "rate_limi, ".into(), "]}")
    }),
    ("300000 wrong classes of rows", || {
        many(150_000, "version: 1\nerrors: [", |i| format!("{{class: x{i}}}, "), "]")
    }),
    ("20000 calls", || many(20_000, CALLS, call, "")),
    ("70000 calls", || many(70_000, CALLS, call, "")),
    ("20000 calls without end", || {
        many(
            20_000,
            CALLS,
            |i| format!("    - {{when: \"{}\", retry: {{max_attempts: unlimited}}}}\n", i % 2 == 0),
            "",
        )
    }),
    ("calls of overlapping patterns", || {
        many(200, TOOLS, |i| many(100, &format!("  \"*{}*\":\n    calls:\n", letters(i)), call, ""), "")
    }),
    ("pools of two shapes", || {
        many(
            10_000,
            TOOLS,
            |i| {
                format!(
                    "  t{i}: {{retry: {{budget: {{kind: tokens, capacity: {}, pool: p{}}}}}}}\n",
                    i + 1,
                    i % 100
                )
            },
            "",
        )
    }),
    ("plain 1 MB", || {
        megabyte(TOOLS, |i| {
            format!(
                "  t{i}: {{effect: unknown, retry: {{max_attempts: 3, deadline: 5m, attempt_timeout: 9s}}}}\n"
            )
        })
    }),
    ("slow growth for all 1 MB", || {
        let global = "version: 1\nretry: {max_attempts: 4000000000, deadline: 9d, backoff: {kind: exponential, base: 1ms, factor: 1.001, cap: 9d}}\ntools:\n";
        megabyte(global, |i| format!("  t{i}: {{breaker: {{failures: never}}}}\n"))
    }),
    ("slow growth of each 1 MB", || {
        megabyte(TOOLS, |i| {
            format!(
                "  t{i}: {{breaker: {{failures: never}}, retry: {{max_attempts: {}, backoff: {{kind: exponential, base: {i}ms, factor: 1.001}}}}}}\n",
                4_000_000_000 - i
            )
        })
    }),
    ("slow growth by class 1 MB", || {
        megabyte(TOOLS, |i| {
            let classes = ["timeout", "overloaded", "rate_limit", "network_error"];
            let own = classes.map(|class| {
                format!(
                    "{class}: {{max_attempts: {}, backoff: {{kind: fibonacci, base: {i}ms}}}}",
                    4_000_000_000 - i
                )
            });
            format!("  t{i}: {{breaker: {{failures: never}}, retry: {{by_class: {{{}}}}}}}\n", own.join(", "))
        })
    }),
    ("slow growth of calls 1 MB", || {
        megabyte(CALLS, |i| {
            format!(
                "    - {{when: args.a == {i}, retry: {{max_attempts: {}, backoff: {{kind: exponential, base: 1ms, factor: 1.{i:03}}}}}}}\n",
                4_000_000_000 - i
            )
        })
    }),
    ("a long schedule for many tools 1 MB", || {
        let delays = "1s, 2s, ".repeat(60_000);
        let global = format!(
            "version: 1\nretry: {{max_attempts: 4000000000, deadline: 9d, backoff: {{kind: schedule, delays: [{delays}]}}}}\ntools:\n"
        );
        megabyte(&global, |i| format!("  t{i}: {{breaker: {{failures: never}}}}\n"))
    }),
    ("values that are repeated", || {
        many(
            10_000,
            "version: 1\nretry: {max_attempts: 5}\ntools:\n",
            |i| format!("  t{i}: {{retry: {{max_attempts: 5, deadline: null}}, effect: idempotent}}\n"),
            "",
        )
    }),
    ("suppressions", || {
        many(90_000, "version: 1\nretry: {}\n", |_| "# unfazed: ignore[W0205] for a reason\n".into(), "")
    }),
    ("suppressions of several lints", || {
        filled("version: 1\n# unfazed: ignore[", |_| "W0205, ".into(), "W0201] for a reason\nretry: {}\n")
    }),
    ("secrets", || many(100_000, "version: 1\n", |i| format!("k{i}: {{api_key: {{secret: sk-{i}}}}}\n"), "")),
    ("secrets on one line", || many(200_000, "{version: 1", |i| format!(", token: sk-{i}"), "}")),
    ("secrets within secrets", || filled("version: 1\na: ", |_| "{token: ".into(), "")),
    ("files it extends", || many(200_000, "version: 1\nextends: [", |i| format!("f{i}.yaml, "), "]")),
];

const TOOLS: &str = "version: 1\ntools:\n";
const CALLS: &str = "version: 1\ntools:\n  a:\n    calls:\n";
const WHEN: &str = "version: 1\ntools: {a: {calls: [{when: '";
const FAILED: &str = "version: 1\ntools: {a: {messages: {failed: '";
const SCHEMA: &str = "version: 1\noutput: {schema: {properties: {";

/// As many pieces as fit into a megabyte, and no more than a policy may have selectors.
fn megabyte(start: &str, piece: impl Fn(usize) -> String) -> String {
    let mut text = start.to_owned();
    for i in 1..10_000 {
        let piece = piece(i);
        if text.len() + piece.len() > 1 << 20 {
            break;
        }
        text.push_str(&piece);
    }
    text
}

/// As many pieces as fit.
fn filled(start: &str, piece: impl Fn(usize) -> String, end: &str) -> String {
    many(usize::MAX, start, piece, end)
}

/// So many pieces, or as many as fit.
fn many(most: usize, start: &str, piece: impl Fn(usize) -> String, end: &str) -> String {
    let mut text = start.to_owned();
    for i in 0..most {
        let piece = piece(i);
        if text.len() + piece.len() + end.len() > SIZE {
            break;
        }
        text.push_str(&piece);
    }
    text + end
}

/// A rule for the tools of a pattern.
fn rule(pattern: &str, attempts: usize) -> String {
    format!("  \"{pattern}\": {{effect: unknown, retry: {{max_attempts: {attempts}}}}}\n")
}

/// A rule for single calls.
fn call(number: usize) -> String {
    format!("    - {{when: \"args.a == {number}\", retry: {{max_attempts: 2}}}}\n")
}

/// The number in letters, so that patterns of it overlap.
fn letters(mut number: usize) -> String {
    let mut text = String::new();
    loop {
        text.push(char::from(b'a' + u8::try_from(number % 26).unwrap_or_default()));
        number /= 26;
        if number == 0 {
            return text;
        }
    }
}

/// Reads one in this process, writes all there is to say about it, and tells what that took.
fn read(text: &str) -> String {
    let begun = Instant::now();
    let loader = Loader::new().every_profile().with_lints(LintOptions::default());
    let outcome = loader.load(vec![("hostile.yaml".to_owned(), text)]);
    let (report, fine) = match outcome {
        Ok(policy) => (policy.lint(&LintOptions::default()), "fine, "),
        Err(report) => (report, ""),
    };
    let said = report.human(true).len() + report.to_string().len() + report.to_json().to_string().len();
    let first = report.diagnostics().first().map(|problem| problem.code.to_string());
    let codes = format!("{fine}{} x{}", first.unwrap_or_default(), report.diagnostics().len());
    let took = begun.elapsed();
    format!("{} {} {said} {codes}", took.as_micros(), peak())
}

/// The most memory this process ever had, in kilobytes; 0 where the system does not say.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// Has one read by a process of its own. `None`: it did not come back.
fn measure(name: &str) -> Option<(Duration, u64, usize, String)> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new(program).env(CASE, name).output().ok()?;
    let told = String::from_utf8(output.stdout).ok()?;
    let mut words = told.trim().splitn(4, ' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (took, memory, said) = (number()?, number()?, number()?);
    Some((Duration::from_micros(took), memory, usize::try_from(said).ok()?, words.next()?.to_owned()))
}

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(CASE) {
        if let Some((_, text)) = CASES.iter().find(|(known, _)| *known == name) {
            println!("{}", read(&text()));
        }
        return ExitCode::SUCCESS;
    }
    let word = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let mut exceeded = 0;
    let mut plain = None;
    println!("{:<48} {:>9} {:>8} {:>9}  problems", "input", "time", "memory", "report");
    for (name, _) in
        CASES.iter().filter(|(name, _)| name.contains(&word) || (*name == PLAIN && word.contains("MB")))
    {
        let Some((took, memory, said, codes)) = measure(name) else {
            println!("{name:<48} DIED");
            exceeded += 1;
            continue;
        };
        if *name == PLAIN {
            plain = Some(took);
        }
        let of_plain = plain.filter(|_| name.ends_with("1 MB"));
        let most = of_plain.map_or(MOST_TIME, |plain| (plain * MOST_OF_PLAIN).max(MOST_TIME));
        let much = took > most || memory > MOST_MEMORY;
        exceeded += usize::from(much);
        let mark = if much { "  TOO MUCH" } else { "" };
        let (millis, megabytes) = (took.as_millis(), memory >> 10);
        println!("{name:<48} {millis:>6} ms {megabytes:>5} MB {said:>9}  {codes}{mark}");
    }
    if exceeded == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

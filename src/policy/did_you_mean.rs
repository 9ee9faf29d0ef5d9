//! "Did you mean": the known name nearest to a misspelt one.

/// Longer names are not compared; nobody misspells them by a letter or two.
const LONGEST: usize = 64;
/// Words of more letters than this are known though two of them are wrong.
const LONG_WORD: usize = 5;

/// The candidate a person most likely meant by `name`, if one is near enough.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    if length == 0 || length > LONGEST {
        return None;
    }
    let tolerance = (length / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerance && *distance < length)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Whether `meant` is all that `name` can be: a letter away, or two in a longer word, and no other candidate as near.
pub(crate) fn is_certain<'a>(name: &str, meant: &str, candidates: impl IntoIterator<Item = &'a str>) -> bool {
    let near = distance(name, meant);
    let most = if name.chars().count() > LONG_WORD { 2 } else { 1 };
    let mut others = candidates.into_iter().filter(|candidate| *candidate != meant);
    near <= most && others.all(|other| distance(name, other) > near)
}

/// A field by the name it has in other systems.
pub(crate) struct Habit {
    /// Its name here.
    pub(crate) here: &'static str,
    /// How it is written.
    pub(crate) help: &'static str,
}

/// Names that other systems have, the field of that sense, which must be there, and how it is written.
const HABITS: &[(&[&str], &str, &str)] = &[
    (
        &["timeout", "requesttimeout", "pertrytimeout", "calltimeout", "timeoutms", "timeoutseconds"],
        "attempt_timeout",
        "`attempt_timeout` bounds one attempt, `deadline` all attempts of a call",
    ),
    (
        &["retries", "maxretries", "numretries", "retrycount", "maxretry", "retrylimit", "retrymax"],
        "max_attempts",
        "`max_attempts` counts the first attempt too: 3 retries are `max_attempts: 4`",
    ),
    (
        &["attempts", "tries", "maxtries", "maxattempt", "limit", "times"],
        "max_attempts",
        "`max_attempts` counts the first attempt too",
    ),
    (
        &[
            "on",
            "when",
            "if",
            "retryif",
            "retryable",
            "retryableerrors",
            "retriable",
            "exceptions",
            "retrywhen",
            "retryonerrors",
        ],
        "retry_on",
        "`retry_on: [rate_limit, timeout]` names classes of errors",
    ),
    (
        &["exclude", "ignore", "noretry", "donotretry", "nonretryable", "fatal"],
        "never_retry",
        "`never_retry: [auth_error]` names classes of errors",
    ),
    (
        &[
            "delay",
            "wait",
            "initialdelay",
            "basedelay",
            "initialinterval",
            "interval",
            "initialbackoff",
            "factor",
            "multiplier",
            "backofffactor",
            "exponentialbase",
            "maxdelay",
            "maxinterval",
            "maxbackoff",
            "jitter",
            "base",
            "cap",
            "strategy",
            "sleep",
        ],
        "backoff",
        "`backoff: {kind: exponential, base: 500ms, factor: 2, cap: 30s, jitter: full}` says all about delays",
    ),
    (
        &["maxelapsedtime", "totaltimeout", "maxtime", "maxduration", "timebudget"],
        "deadline",
        "`deadline` bounds all attempts of a call",
    ),
    (
        &["multiplier", "rate", "exponent", "exponentialbase", "backofffactor"],
        "factor",
        "`factor: 2` doubles each delay",
    ),
    (
        &[
            "delay",
            "wait",
            "initial",
            "initialdelay",
            "basedelay",
            "initialinterval",
            "interval",
            "start",
            "min",
        ],
        "base",
        "`base` is the first delay",
    ),
    (&["wait", "interval", "base", "initialdelay", "seconds"], "delay", "`delay` is what is always waited"),
    (
        &["max", "maxdelay", "maxinterval", "maximum", "maxbackoff", "limit"],
        "cap",
        "`cap` is the longest delay",
    ),
    (&["when", "if", "condition"], "calls", "`calls: [{when: ...}]` holds rules for single calls"),
    (&["circuitbreaker"], "breaker", "`breaker: {failures: 5, open_for: 1m}` stops calling a tool"),
    (
        &["loopdetection", "loopdetector", "repetition", "repetitionthreshold", "stuckdetection"],
        "loop_guard",
        "`loop_guard: {same_call: {nudge: 3, block: 5}}` holds back a model that repeats itself",
    ),
    (
        &["threshold", "failurethreshold", "maxfailures", "consecutivefailures"],
        "failures",
        "`failures` counts consecutive ones",
    ),
    (
        &["resettimeout", "cooldown", "recoverytimeout", "sleepwindow"],
        "open_for",
        "`open_for: 1m` is how long it stays open",
    ),
    (
        &[
            "maxattempts",
            "maxretries",
            "retries",
            "attempts",
            "timeout",
            "deadline",
            "attempttimeout",
            "backoff",
            "delay",
            "retryon",
            "neverretry",
            "budget",
            "serverdelay",
            "totaldelay",
        ],
        "retry",
        "write it under `retry:`, as in `retry: {max_attempts: 3, attempt_timeout: 20s}`",
    ),
    (
        &["include", "includes", "inherits", "parent", "import", "imports"],
        "extends",
        "`extends: base.yaml` names the file this one stands above",
    ),
    (&["llm", "llms", "providers", "model"], "models", "`models:` holds rules for models by name"),
];

/// What a name means in other systems, if there is a field of that sense here.
pub(crate) fn elsewhere(name: &str, fields: &[&str]) -> Option<Habit> {
    if name.len() > LONGEST {
        return None;
    }
    let name = fold(name);
    let known =
        |(names, here, _): &&(&[&str], &str, &str)| names.contains(&name.as_str()) && fields.contains(here);
    HABITS.iter().find(known).map(|(_, here, help)| Habit { here, help })
}

/// Edits between the two, a swap of neighbours counting once; case and separators not at all.
fn distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(&fold(a), &fold(b))
}

fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | '.' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::{closest, is_certain};

    #[test]
    fn a_letter_or_two_leave_no_doubt_unless_two_names_are_as_near() {
        let names = ["max_attempts", "cap", "map", "retry"];
        assert!(is_certain("max_attemps", "max_attempts", names));
        assert!(is_certain("maxAtempt", "max_attempts", names));
        assert!(is_certain("rety", "retry", names));
        assert!(!is_certain("rtri", "retry", names));
        assert!(!is_certain("xap", "cap", names));
    }

    #[test]
    fn a_slip_finds_the_name_meant() {
        let names = ["args", "tool", "attempt"];
        assert_eq!(closest("arsg", names), Some("args"));
        assert_eq!(closest("Tool", names), Some("tool"));
        assert_eq!(closest("atempt", names), Some("attempt"));
        assert_eq!(closest("maxAttempts", ["max_attempts"]), Some("max_attempts"));
        assert_eq!(closest("http_get", ["http.get", "file.get"]), Some("http.get"));
    }

    #[test]
    fn a_name_unlike_all_finds_none() {
        assert_eq!(closest("budget", ["args", "tool"]), None);
        assert_eq!(closest("", ["a"]), None);
        assert_eq!(closest("b", ["a"]), None);
        assert_eq!(closest(&"a".repeat(100_000), ["a"]), None);
    }

    #[test]
    fn the_nearest_wins_and_ties_go_to_the_first() {
        assert_eq!(closest("cap", ["cab", "cap", "map"]), Some("cap"));
        assert_eq!(closest("xap", ["cap", "map"]), Some("cap"));
    }
}

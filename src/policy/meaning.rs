//! What words of other libraries and protocols mean here: fields, error classes, effects.
//!
//! The one table of synonyms, by library. Sources: the SDKs of `OpenAI` and Anthropic (`_exceptions.py`, `error.type`),
//! `LiteLLM` ("Exception mapping", "Router: retry policy"), `LangChain` (`Runnable.with_retry`, `AgentExecutor`), the agents
//! SDK of `OpenAI` and Vercel's AI SDK (`maxTurns`, `maxSteps`, `maxRetries`), tenacity (`stop_*`, `wait_*`, `retry_*`),
//! backoff (`on_exception`), resilience4j (`RetryConfig`, `CircuitBreakerConfig`, `TimeLimiterConfig`), Polly
//! (`RetryStrategyOptions`), Envoy (`x-envoy-retry-on`), gRPC (status codes), Spring Retry (`@Retryable`), urllib3 (`Retry`),
//! the hints of MCP's tool annotations, and HTTP (RFC 9110).

use super::did_you_mean::{closest, fold, is_certain};

/// Longer names are looked for nowhere.
const LONGEST: usize = 64;
/// How many attempts there are after the first, as the `OpenAI` and Vercel SDKs, `LiteLLM`, urllib3, Polly and httpx call it.
const RETRIES: &[&str] = &[
    "retries",
    "maxretries",
    "numretries",
    "retrycount",
    "maxretry",
    "retrylimit",
    "retrymax",
    "maxretryattempts",
    "nretries",
];
/// The models after the first, as `LiteLLM`, Portkey and Envoy call them.
const FALLBACKS: &[&str] = &[
    "fallbacks",
    "fallback",
    "failover",
    "contextwindowfallbacks",
    "contentpolicyfallbacks",
    "withfallbacks",
];

/// A field by the name it has in other systems.
pub(crate) struct Field {
    /// Its name here.
    pub(crate) here: &'static str,
    /// How it is written.
    pub(crate) help: &'static str,
    /// What becomes of a number that is its value there.
    pub(crate) counts: Counts,
}

/// What the numbers of such a field count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Attempts that come after the first.
    Retries,
    /// Attempts, the first one too.
    Attempts,
    /// Something else.
    Other,
}

/// What bounds a whole run elsewhere: `LiteLLM` (`max_budget`), `LangChain` (`max_execution_time`), Claude Code
/// (`--max-budget-usd`).
const BUDGETS: &[&str] = &[
    "maxtokens",
    "tokenbudget",
    "tokenlimit",
    "maxtotaltokens",
    "maxbudget",
    "costlimit",
    "maxcost",
    "budgetusd",
    "maxcalls",
    "maxtoolcalls",
    "maxmodelcalls",
    "rundeadline",
    "runtimeout",
    "maxexecutiontime",
    "runtime",
    "runtokens",
    "runcost",
    "maxduration",
    "walltime",
    "maxbudgetusd",
];
const RUN: &str =
    "a whole run is bounded at the top level: `limits: {run: {time: 10m, tokens: 100000, cost: 2.50}}`";

/// Names as [`fold`] leaves them, the field of that sense, which must be there, and how it is written. The first row of
/// a name whose field is there is the one.
const FIELDS: &[(&[&str], &str, &str, Counts)] = &[
    (
        RETRIES,
        "max_attempts",
        "`max_attempts` counts the first attempt too: 3 retries are `max_attempts: 4`",
        Counts::Retries,
    ),
    (
        // resilience4j, Spring, tenacity, backoff, LangChain.
        &[
            "attempts",
            "tries",
            "maxtries",
            "maxattempt",
            "limit",
            "times",
            "stopafterattempt",
            "maximumattempts",
        ],
        "max_attempts",
        "`max_attempts` counts the first attempt too",
        Counts::Attempts,
    ),
    (
        RETRIES,
        "retry",
        "write it under `retry:`; `max_attempts` counts the first attempt too: 3 retries are `retry: {max_attempts: 4}`",
        Counts::Retries,
    ),
    (
        &["maxattempts", "attempts", "tries", "maxtries", "stopafterattempt"],
        "retry",
        "write it under `retry:`, as in `retry: {max_attempts: 3}`; the first attempt counts",
        Counts::Attempts,
    ),
    (
        // Most HTTP clients, LiteLLM, resilience4j, Envoy.
        &[
            "timeout",
            "requesttimeout",
            "pertrytimeout",
            "calltimeout",
            "timeoutms",
            "timeoutseconds",
            "timeoutduration",
            "readtimeout",
        ],
        "attempt_timeout",
        "`attempt_timeout` bounds one attempt, `deadline` all attempts of a call",
        Counts::Other,
    ),
    (BUDGETS, "run", RUN, Counts::Other),
    (BUDGETS, "limits", RUN, Counts::Other),
    // In `turn:`, which has neither.
    (BUDGETS, "max_turns", RUN, Counts::Other),
    (&["deadline", "timeout", "time", "tokens", "cost", "budget"], "max_turns", RUN, Counts::Other),
    (
        // LangChain, OpenAI Agents SDK, Vercel AI SDK, LangGraph.
        &[
            "maxiterations",
            "maxsteps",
            "steplimit",
            "recursionlimit",
            "maxrounds",
            "maxloops",
            "iterations",
            "steps",
            "turns",
            "stopwhen",
            "maxturn",
        ],
        "max_turns",
        "`max_turns` is the number of turns of a run, the last one included",
        Counts::Other,
    ),
    (
        &["maxiterations", "maxsteps", "steplimit", "recursionlimit", "maxrounds", "maxturns", "maxturn"],
        "turn",
        "write it under `turn:`, as in `turn: {max_turns: 20}`",
        Counts::Other,
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
            "retryexceptions",
            "retryifexceptiontype",
            "retryfor",
            "shouldhandle",
            "statusforcelist",
            "retrystatuscodes",
        ],
        "retry_on",
        "`retry_on: [rate_limit, timeout]` names classes of errors",
        Counts::Other,
    ),
    (
        &[
            "exclude",
            "ignore",
            "noretry",
            "donotretry",
            "nonretryable",
            "fatal",
            "giveup",
            "ignoreexceptions",
            "noretryfor",
            "abortif",
            "nonretryableerrors",
        ],
        "never_retry",
        "`never_retry: [auth_error]` names classes of errors",
        Counts::Other,
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
            "waitfixed",
            "waitexponential",
            "waitrandomexponential",
            "waitexponentialjitter",
            "waitduration",
            "exponentialbackoffmultiplier",
            "enableexponentialbackoff",
            "enablerandomizedwait",
            "exponentialmaxwaitduration",
            "retryinterval",
            "backofftype",
            "usejitter",
            "expo",
            "retrydelay",
            "mintimeout",
        ],
        "backoff",
        "`backoff: {kind: exponential, base: 500ms, factor: 2, cap: 30s, jitter: full}` says all about delays",
        Counts::Other,
    ),
    (
        &[
            "maxelapsedtime",
            "totaltimeout",
            "maxtime",
            "maxduration",
            "timebudget",
            "stopafterdelay",
            "overalltimeout",
            "totaldeadline",
        ],
        "deadline",
        "`deadline` bounds all attempts of a call",
        Counts::Other,
    ),
    (
        &[
            "retryafter",
            "respectretryafter",
            "respectretryafterheader",
            "retryafterheader",
            "honorretryafter",
        ],
        "server_delay",
        "`server_delay: {mode: floor, max: 1m}` says what a wait that the server asks for does",
        Counts::Other,
    ),
    (
        &[
            "multiplier",
            "rate",
            "exponent",
            "exponentialbase",
            "backofffactor",
            "exponentialbackoffmultiplier",
        ],
        "factor",
        "`factor: 2` doubles each delay",
        Counts::Other,
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
            "waitduration",
            "mintimeout",
        ],
        "base",
        "`base` is the first delay",
        Counts::Other,
    ),
    (
        &["wait", "interval", "base", "initialdelay", "seconds", "waitfixed", "waitduration"],
        "delay",
        "`delay` is what is always waited",
        Counts::Other,
    ),
    (
        &[
            "max",
            "maxdelay",
            "maxinterval",
            "maximum",
            "maxbackoff",
            "limit",
            "exponentialmaxwaitduration",
            "maxvalue",
            "maxtimeout",
        ],
        "cap",
        "`cap` is the longest delay",
        Counts::Other,
    ),
    (
        &["when", "if", "condition"],
        "calls",
        "`calls: [{when: ...}]` holds rules for single calls",
        Counts::Other,
    ),
    (
        &["circuitbreaker", "circuit", "cb", "outlierdetection"],
        "breaker",
        "`breaker: {failures: 5, open_for: 1m}` stops calling a tool",
        Counts::Other,
    ),
    (
        &["loopdetection", "loopdetector", "repetition", "repetitionthreshold", "stuckdetection"],
        "loop_guard",
        "`loop_guard: {same_call: {nudge: 3, block: 5}}` holds back a model that repeats itself",
        Counts::Other,
    ),
    (
        // LiteLLM, Polly, resilience4j, Hystrix.
        &[
            "threshold",
            "failurethreshold",
            "maxfailures",
            "consecutivefailures",
            "allowedfails",
            "minimumthroughput",
            "consecutiveerrors",
        ],
        "failures",
        "`failures` counts consecutive ones",
        Counts::Other,
    ),
    (
        &[
            "resettimeout",
            "cooldown",
            "cooldowntime",
            "recoverytimeout",
            "sleepwindow",
            "waitdurationinopenstate",
            "breakduration",
            "baseejectiontime",
        ],
        "open_for",
        "`open_for: 1m` is how long it stays open",
        Counts::Other,
    ),
    (
        &["permittednumberofcallsinhalfopenstate", "halfopenrequests", "halfopencalls", "successthreshold"],
        "probes",
        "`probes: 2` is how many calls must go well before it closes",
        Counts::Other,
    ),
    (
        &[
            "slidingwindowsize",
            "slidingwindow",
            "failureratethreshold",
            "samplingduration",
            "minimumnumberofcalls",
        ],
        "count",
        "`count` says which failures it counts: those in a row, or those of a window of time",
        Counts::Other,
    ),
    (
        &[
            "maxattempts",
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
            "requesttimeout",
            "jitter",
            "maxdelay",
            "stopafterdelay",
            "wait",
            "retryexceptions",
        ],
        "retry",
        "write it under `retry:`, as in `retry: {max_attempts: 3, attempt_timeout: 20s}`",
        Counts::Other,
    ),
    (
        FALLBACKS,
        "targets",
        "the models of the agent are asked in their order; `targets` says when the next one is",
        Counts::Other,
    ),
    (
        FALLBACKS,
        "turn",
        "the models of the agent are asked in their order; `turn: {targets: ...}` says when the next one is",
        Counts::Other,
    ),
    (
        &[
            "maxparallelrequests",
            "maxconcurrency",
            "maxconcurrentcalls",
            "parallelism",
            "bulkhead",
            "semaphore",
        ],
        "concurrency",
        "`concurrency: 1` is how many calls of a tool run at once",
        Counts::Other,
    ),
    (
        // LangGraph, OpenAI Agents SDK, Vercel AI SDK, Claude Code.
        &[
            "needsapproval",
            "requireapproval",
            "humanintheloop",
            "hitl",
            "interruptbefore",
            "interrupton",
            "confirm",
            "confirmation",
            "permission",
        ],
        "approval",
        "`approval: always` asks a person before the tool runs",
        Counts::Other,
    ),
    (
        &["include", "includes", "inherits", "parent", "import", "imports", "from"],
        "extends",
        "`extends: base.yaml` names the file this one stands above",
        Counts::Other,
    ),
    (
        &["llm", "llms", "providers", "model"],
        "models",
        "`models:` holds rules for models by name",
        Counts::Other,
    ),
];

/// Words as [`fold`] leaves them, and the classes of that sense: one, or several that are told apart here.
const CLASSES: &[(&[&str], &[&str])] = &[
    // OpenAI SDK `APIConnectionError`, LiteLLM the same, Node `ECONNRESET`, Envoy `connect-failure`, `reset`, `refused-stream`.
    (
        &[
            "network",
            "connection",
            "connectionerror",
            "apiconnectionerror",
            "connecterror",
            "connectionrefused",
            "connectionreset",
            "econnreset",
            "econnrefused",
            "reset",
            "connectfailure",
            "refusedstream",
            "dns",
            "dnserror",
            "tls",
            "tlserror",
            "sslerror",
            "sockethangup",
            "requestexception",
            "transporterror",
            "networkfailure",
            "ioerror",
            "brokenpipe",
        ],
        &["network_error"],
    ),
    // HTTP 408 and 504, gRPC `DEADLINE_EXCEEDED`, OpenAI SDK `APITimeoutError`.
    (
        &[
            "timeouterror",
            "apitimeouterror",
            "timedout",
            "requesttimeout",
            "deadline",
            "deadlineexceeded",
            "etimedout",
            "readtimeout",
            "connecttimeout",
            "timeouts",
            "gatewaytimeout",
            "408",
            "504",
            "http408",
            "http504",
        ],
        &["timeout"],
    ),
    (
        &[
            "ratelimited",
            "ratelimits",
            "ratelimiterror",
            "toomanyrequests",
            "throttled",
            "throttling",
            "throttlingexception",
            "ratelimitexceeded",
            "requestlimitexceeded",
        ],
        &["rate_limit"],
    ),
    // RFC 6585; of providers a quota that is used up has that status, too.
    (&["429", "http429", "status429", "resourceexhausted"], &["rate_limit", "quota_exceeded"]),
    (
        &[
            "quota",
            "quotaerror",
            "insufficientquota",
            "billing",
            "billingerror",
            "paymentrequired",
            "402",
            "http402",
            "budgetexceeded",
            "budgetexceedederror",
            "credits",
            "outofcredits",
            "insufficientfunds",
        ],
        &["quota_exceeded"],
    ),
    // Anthropic `overloaded_error`, HTTP 503 and 529, gRPC `UNAVAILABLE`.
    (
        &[
            "overload",
            "overloadederror",
            "capacity",
            "nocapacity",
            "serviceunavailable",
            "serviceunavailableerror",
            "unavailable",
            "503",
            "529",
            "http503",
            "http529",
            "slowdown",
        ],
        &["overloaded"],
    ),
    // HTTP 500 and 502; Envoy `5xx`, `gateway-error`; OpenAI SDK `InternalServerError`; Anthropic `api_error`.
    (
        &[
            "servererror",
            "internalservererror",
            "internal",
            "internalerror",
            "apierror",
            "500",
            "502",
            "http500",
            "http502",
            "badgateway",
            "gatewayerror",
            "providererror",
            "upstreamerror",
            "unknownerror",
        ],
        &["model_error"],
    ),
    (&["5xx", "http5xx", "servererrors", "50x", "status5xx"], &["model_error", "overloaded", "timeout"]),
    (
        &["4xx", "http4xx", "clienterror", "clienterrors", "retriable4xx"],
        &["invalid_request", "auth_error", "not_found", "rate_limit"],
    ),
    (
        &[
            "auth",
            "unauthorized",
            "unauthenticated",
            "authentication",
            "authenticationerror",
            "autherrors",
            "invalidapikey",
            "401",
            "http401",
            "apikey",
        ],
        &["auth_error"],
    ),
    (
        &[
            "forbidden",
            "permission",
            "permissionerror",
            "permissiondeniederror",
            "accessdenied",
            "403",
            "http403",
        ],
        &["permission_denied", "auth_error"],
    ),
    (&["notfounderror", "modelnotfound", "404", "http404"], &["not_found"]),
    (
        &[
            "badrequest",
            "badrequesterror",
            "invalidrequesterror",
            "unprocessableentity",
            "unprocessableentityerror",
            "400",
            "422",
            "http400",
            "http422",
            "invalidargument",
            "unsupportedparamserror",
        ],
        &["invalid_request"],
    ),
    // LiteLLM `ContextWindowExceededError`, OpenAI `context_length_exceeded`, HTTP 413.
    (
        &[
            "contextlength",
            "contextlengthexceeded",
            "contextwindow",
            "contextwindowexceeded",
            "contextwindowexceedederror",
            "contexttoolong",
            "prompttoolong",
            "413",
            "http413",
            "requesttoolarge",
            "maxcontext",
        ],
        &["context_overflow"],
    ),
    (
        &[
            "contentpolicy",
            "contentpolicyviolation",
            "contentpolicyviolationerror",
            "moderation",
            "safety",
            "refusal",
            "contentfiltererror",
            "guardrail",
            "blocked",
        ],
        &["content_filter"],
    ),
    (
        &[
            "toolerror",
            "toolexception",
            "toolfailed",
            "toolfailure",
            "execution",
            "exception",
            "error",
            "failed",
            "toolexecutionerror",
        ],
        &["execution_error"],
    ),
    // LangChain `OutputParserException`, Vercel `NoObjectGeneratedError`, Pydantic `ValidationError`.
    (
        &[
            "outputparser",
            "outputparserexception",
            "outputparsing",
            "noobjectgenerated",
            "noobjectgeneratederror",
            "schemaviolation",
            "structuredoutput",
            "invalidreport",
        ],
        &["invalid_output"],
    ),
    (
        &[
            "validation",
            "validationerror",
            "invalidarguments",
            "invalidtoolinput",
            "invalidtoolarguments",
            "badarguments",
            "badargs",
            "invalidinput",
            "typeerror",
        ],
        &["invalid_args"],
    ),
    (
        &[
            "parseerror",
            "parsing",
            "jsonerror",
            "invalidjson",
            "jsondecodeerror",
            "malformedjson",
            "malformedfunctioncall",
        ],
        &["malformed_tool_call"],
    ),
    (
        &["nosuchtool", "unknowntool", "nosuchtoolerror", "toolmissing", "unknownfunction"],
        &["tool_not_found"],
    ),
    (&["mcperror", "tooldown", "toolunreachable", "spawnerror"], &["tool_unavailable"]),
    (
        &["length", "maxtokens", "truncated", "truncation", "finishreasonlength", "incomplete"],
        &["truncated_output"],
    ),
    (&["empty", "emptyreply", "noanswer", "nocontent", "noresponse", "emptyoutput"], &["empty_response"]),
    (
        &["circuitbreaker", "circuitbreakeropen", "brokencircuit", "callnotpermitted", "breakeropen"],
        &["circuit_open"],
    ),
    (&["loop", "repetition", "repeated", "stuck", "duplicatecall"], &["repeated_call"]),
    (&["cancel", "canceled", "abort", "aborted", "interrupted", "stopped"], &["cancelled"]),
    (&["orphan", "orphanedtoolcall", "danglingtoolcall", "missingtoolresult"], &["orphan_tool_call"]),
];

/// Words as [`fold`] leaves them, and the effect of that sense.
const EFFECTS: &[(&[&str], &[&str])] = &[
    (&["read", "safe", "pure", "readonlyhint", "none", "query", "get"], &["read_only"]),
    (&["idempotenthint", "repeatable", "upsert", "put"], &["idempotent"]),
    (
        &[
            "write",
            "writes",
            "unsafe",
            "destructive",
            "destructivehint",
            "mutating",
            "sideeffect",
            "sideeffects",
            "post",
            "notidempotent",
        ],
        &["non_idempotent"],
    ),
];

/// What a name means in other systems, if there is a field of that sense here.
pub(crate) fn field(name: &str, fields: &[&str]) -> Option<Field> {
    let name = short(name)?;
    let known = |(names, here, ..): &&(&[&str], &str, &str, Counts)| {
        names.contains(&name.as_str()) && fields.contains(here)
    };
    FIELDS.iter().find(known).map(|(_, here, help, counts)| Field { here, help, counts: *counts })
}

/// Whether a name has a meaning in other systems: then it is no slip of a name that looks alike.
pub(crate) fn is_known(name: &str) -> bool {
    short(name).is_some_and(|name| FIELDS.iter().any(|(names, ..)| names.contains(&name.as_str())))
}

/// What a word means in other systems: those of `options` that have its sense.
pub(crate) fn word<'o>(word: &str, options: &[&'o str]) -> Vec<&'o str> {
    let Some(word) = short(word) else { return Vec::new() };
    let rows = CLASSES.iter().chain(EFFECTS).filter(|(words, _)| words.contains(&word.as_str()));
    let meant =
        rows.map(|(_, meant)| options.iter().copied().filter(|option| meant.contains(option)).collect());
    meant.into_iter().find(|meant: &Vec<_>| !meant.is_empty()).unwrap_or_default()
}

/// What was probably meant by a word, of all that is known: by a slip, or by its sense elsewhere. `true`: nothing else.
pub(crate) fn meant<'o>(found: &str, options: &[&'o str]) -> Option<(&'o str, bool)> {
    let near = closest(found, options.iter().copied());
    if let Some(near) = near
        && is_certain(found, near, options.iter().copied())
    {
        return Some((near, true));
    }
    // A status stands for more than the classes that have it.
    let number = found.bytes().any(|byte| byte.is_ascii_digit());
    match word(found, options).as_slice() {
        [one] => Some((one, !number)),
        [] => near.map(|near| (near, false)),
        _ => None,
    }
}

fn short(name: &str) -> Option<String> {
    (name.len() <= LONGEST).then(|| fold(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ErrorClass;

    fn classes() -> Vec<&'static str> {
        ErrorClass::ALL.iter().map(|class| class.name()).collect()
    }

    #[test]
    fn words_of_other_libraries_lead_to_the_class_of_their_sense() {
        let classes = classes();
        for (found, class) in [
            ("connection_error", "network_error"),
            ("APIConnectionError", "network_error"),
            ("network", "network_error"),
            ("server_error", "model_error"),
            ("InternalServerError", "model_error"),
            ("ServiceUnavailableError", "overloaded"),
            ("RateLimitError", "rate_limit"),
            ("insufficient_quota", "quota_exceeded"),
            ("ContextWindowExceededError", "context_overflow"),
            ("ContentPolicyViolationError", "content_filter"),
            ("DEADLINE_EXCEEDED", "timeout"),
            ("gateway-error", "model_error"),
            ("time_out", "timeout"),
            ("rate_limt", "rate_limit"),
        ] {
            assert_eq!(meant(found, &classes), Some((class, true)), "{found}");
        }
        for (found, expected) in [
            ("429", &["rate_limit", "quota_exceeded"][..]),
            ("http_429", &["rate_limit", "quota_exceeded"]),
            ("5xx", &["timeout", "overloaded", "model_error"]),
        ] {
            assert_eq!((word(found, &classes), meant(found, &classes)), (expected.to_vec(), None), "{found}");
        }
        assert_eq!(meant("sunshine", &classes), None);
        assert_eq!(meant("writes", &["read_only", "non_idempotent"]), Some(("non_idempotent", true)));
    }

    #[test]
    fn every_word_of_the_table_is_folded_stands_there_once_and_leads_to_a_class() {
        let mut seen = std::collections::HashSet::new();
        for (words, meant) in CLASSES {
            assert!(meant.iter().all(|class| ErrorClass::from_name(class).is_some()), "{meant:?}");
            for word in *words {
                assert_eq!(fold(word), *word);
                assert!(seen.insert(*word), "{word} stands in two rows");
                assert!(ErrorClass::ALL.iter().all(|class| fold(class.name()) != *word), "{word} is a class");
            }
        }
        for (names, here, ..) in FIELDS {
            for name in *names {
                assert_eq!(fold(name), *name);
            }
            let twice = FIELDS
                .iter()
                .filter(|(other, at, ..)| at == here && other.iter().any(|one| names.contains(one)));
            assert!(
                twice.count() == 1 || *here == "retry" || *here == "max_attempts" || *here == "turn",
                "{here}"
            );
        }
    }

    #[test]
    fn fields_of_other_libraries_lead_to_the_field_of_their_sense() {
        let retry = ["max_attempts", "attempt_timeout", "deadline", "backoff", "retry_on", "server_delay"];
        for (name, here, counts) in [
            ("num_retries", "max_attempts", Counts::Retries),
            ("stop_after_attempt", "max_attempts", Counts::Attempts),
            ("wait_exponential_jitter", "backoff", Counts::Other),
            ("retryExceptions", "retry_on", Counts::Other),
            ("request_timeout", "attempt_timeout", Counts::Other),
            ("max_elapsed_time", "deadline", Counts::Other),
        ] {
            let found = field(name, &retry).unwrap();
            assert_eq!((found.here, found.counts), (here, counts), "{name}");
        }
        assert_eq!(field("retries", &["retry", "breaker"]).unwrap().counts, Counts::Retries);
        assert!(field("max_tokens", &["tokens"]).is_none() && is_known("max_tokens"));
        for here in ["run", "limits", "max_turns"] {
            assert!(field("max_tokens", &[here]).unwrap().help.contains("limits: {run: {"), "{here}");
        }
        assert!(field("deadline", &["max_turns"]).unwrap().help.contains("limits: {run: {"));
        assert_eq!(field("max_tokens", &["max_turns", "run"]).unwrap().here, "run");
    }
}

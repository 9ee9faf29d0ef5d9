//! Fields by the names they have elsewhere.

use super::CountedUnit;

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
pub(super) const FIELDS: &[(&[&str], &str, &str, CountedUnit)] = &[
    (
        RETRIES,
        "max_attempts",
        "`max_attempts` counts the first attempt too: 3 retries are `max_attempts: 4`",
        CountedUnit::Retries,
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
        CountedUnit::Attempts,
    ),
    (
        RETRIES,
        "retry",
        "write it under `retry:`; `max_attempts` counts the first attempt too: 3 retries are `retry: {max_attempts: 4}`",
        CountedUnit::Retries,
    ),
    (
        // One level too high: these belong below `retry`.
        &["maxattempts", "attempts", "tries", "maxtries", "stopafterattempt"],
        "retry",
        "write it under `retry:`, as in `retry: {max_attempts: 3}`; the first attempt counts",
        CountedUnit::Attempts,
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
        CountedUnit::Other,
    ),
    (BUDGETS, "run", RUN, CountedUnit::Other),
    (BUDGETS, "limits", RUN, CountedUnit::Other),
    // In `turn:`, which has neither `run` nor `limits`.
    (BUDGETS, "max_turns", RUN, CountedUnit::Other),
    (&["deadline", "timeout", "time", "tokens", "cost", "budget"], "max_turns", RUN, CountedUnit::Other),
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
        CountedUnit::Other,
    ),
    (
        // One level too high: these belong below `turn`.
        &["maxiterations", "maxsteps", "steplimit", "recursionlimit", "maxrounds", "maxturns", "maxturn"],
        "turn",
        "write it under `turn:`, as in `turn: {max_turns: 20}`",
        CountedUnit::Other,
    ),
    (
        // tenacity (`retry_if_exception_type`), Spring (`retryFor`), Polly (`ShouldHandle`), urllib3
        // (`status_forcelist`).
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
        CountedUnit::Other,
    ),
    (
        // Spring (`noRetryFor`), resilience4j (`ignoreExceptions`), backoff (`giveup`), Failsafe (`abortIf`).
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
        CountedUnit::Other,
    ),
    (
        // tenacity (`wait_*`), resilience4j (`waitDuration`), Polly (`BackoffType`), backoff (`expo`), npm's retry
        // (`minTimeout`).
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
        CountedUnit::Other,
    ),
    (
        // backoff (`max_time`), tenacity (`stop_after_delay`), backoff for Go (`MaxElapsedTime`).
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
        CountedUnit::Other,
    ),
    (
        // urllib3 (`respect_retry_after_header`).
        &[
            "retryafter",
            "respectretryafter",
            "respectretryafterheader",
            "retryafterheader",
            "honorretryafter",
        ],
        "server_delay",
        "`server_delay: {mode: floor, max: 1m}` says what a wait that the server asks for does",
        CountedUnit::Other,
    ),
    (
        // urllib3 (`backoff_factor`), resilience4j (`exponentialBackoffMultiplier`).
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
        CountedUnit::Other,
    ),
    (
        // tenacity (`initial`, `min`), Temporal (`initialInterval`), resilience4j (`waitDuration`), npm's retry
        // (`minTimeout`).
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
        CountedUnit::Other,
    ),
    (
        &["wait", "interval", "base", "initialdelay", "seconds", "waitfixed", "waitduration"],
        "delay",
        "`delay` is what is always waited",
        CountedUnit::Other,
    ),
    (
        // tenacity (`max`), gRPC (`maxBackoff`), Spring (`maxDelay`), backoff (`max_value`), npm's retry
        // (`maxTimeout`).
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
        CountedUnit::Other,
    ),
    (
        &["when", "if", "condition"],
        "calls",
        "`calls: [{when: ...}]` holds rules for single calls",
        CountedUnit::Other,
    ),
    (
        // Hystrix, resilience4j and Polly; Envoy (`outlierDetection`).
        &["circuitbreaker", "circuit", "cb", "outlierdetection"],
        "breaker",
        "`breaker: {failures: 5, open_for: 1m}` stops calling a tool",
        CountedUnit::Other,
    ),
    (
        &["loopdetection", "loopdetector", "repetition", "repetitionthreshold", "stuckdetection"],
        "loop_guard",
        "`loop_guard: {same_call: {nudge: 3, block: 5}}` holds back a model that repeats itself",
        CountedUnit::Other,
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
        CountedUnit::Other,
    ),
    (
        // LiteLLM (`cooldown_time`), Hystrix (`sleepWindow`), resilience4j (`waitDurationInOpenState`), Polly
        // (`BreakDuration`), Envoy (`baseEjectionTime`).
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
        CountedUnit::Other,
    ),
    (
        // resilience4j (`permittedNumberOfCallsInHalfOpenState`).
        &["permittednumberofcallsinhalfopenstate", "halfopenrequests", "halfopencalls", "successthreshold"],
        "probes",
        "`probes: 2` is how many calls must go well before it closes",
        CountedUnit::Other,
    ),
    (
        // resilience4j (`slidingWindowSize`, `failureRateThreshold`), Polly (`SamplingDuration`).
        &[
            "slidingwindowsize",
            "slidingwindow",
            "failureratethreshold",
            "samplingduration",
            "minimumnumberofcalls",
        ],
        "count",
        "`count` says which failures it counts: those in a row, or those of a window of time",
        CountedUnit::Other,
    ),
    (
        // One level too high: these belong below `retry`.
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
        CountedUnit::Other,
    ),
    (
        FALLBACKS,
        "targets",
        "the models of the agent are asked in their order; `targets` says when the next one is",
        CountedUnit::Other,
    ),
    (
        FALLBACKS,
        "turn",
        "the models of the agent are asked in their order; `turn: {targets: ...}` says when the next one is",
        CountedUnit::Other,
    ),
    (
        // LiteLLM (`rpm`, `tpm`), LangChain (`rate_limiter`), resilience4j, Envoy and Kong.
        &[
            "ratelimit",
            "ratelimits",
            "ratelimiter",
            "ratelimiting",
            "throttle",
            "throttling",
            "rpm",
            "tpm",
            "requestsperminute",
            "tokensperminute",
            "requestspersecond",
            "maxrps",
        ],
        "pace",
        "`pace: {requests: {limit: 50, per: 1m}}` is how often it may be called; models have `tokens`, too",
        CountedUnit::Other,
    ),
    (
        // LiteLLM (`max_parallel_requests`), resilience4j and Polly (bulkhead).
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
        CountedUnit::Other,
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
        CountedUnit::Other,
    ),
    (
        &["include", "includes", "inherits", "parent", "import", "imports", "from"],
        "extends",
        "`extends: base.yaml` names the file this one extends",
        CountedUnit::Other,
    ),
    (
        &["llm", "llms", "providers", "model"],
        "models",
        "`models:` holds rules for models by name",
        CountedUnit::Other,
    ),
];

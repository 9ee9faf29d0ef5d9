//! Error classes and effects by the words they have elsewhere.

/// Words as [`fold`] leaves them, and the classes of that sense: one, or several that are distinguished here.
pub(super) const CLASSES: &[(&[&str], &[&str])] = &[
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
    // HTTP 429 in words, AWS `ThrottlingException`, OpenAI SDK `RateLimitError`.
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
    // HTTP 402, OpenAI `insufficient_quota`, LiteLLM `BudgetExceededError`.
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
            "500",
            "502",
            "http500",
            "http502",
            "badgateway",
            "gatewayerror",
            "providererror",
            "upstreamerror",
        ],
        &["model_error"],
    ),
    (&["5xx", "http5xx", "servererrors", "50x", "status5xx"], &["model_error", "overloaded", "timeout"]),
    (
        &["4xx", "http4xx", "clienterror", "clienterrors", "retriable4xx"],
        &["invalid_request", "auth_error", "not_found", "rate_limit"],
    ),
    // HTTP 401, gRPC `UNAUTHENTICATED`, OpenAI SDK `AuthenticationError`.
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
    // HTTP 403, gRPC `PERMISSION_DENIED`; providers answer so to a key without the right, too.
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
    // OpenAI `content_policy_violation`, LiteLLM `ContentPolicyViolationError`, Anthropic `refusal`.
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
        &["toolerror", "toolexception", "toolfailed", "toolfailure", "execution", "toolexecutionerror"],
        &["execution_error"],
    ),
    // Of a tool or of a model.
    (&["error", "exception", "failed", "apierror", "unknownerror"], &["execution_error", "model_error"]),
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
    // Of arguments or of a report.
    (&["validation", "validationerror"], &["invalid_args", "invalid_output"]),
    // Vercel `InvalidToolInputError`, before it `InvalidToolArgumentsError`.
    (
        &[
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
        &["parseerror", "parsing", "jsonerror", "invalidjson", "jsondecodeerror", "malformedjson"],
        &["malformed_tool_call", "invalid_output"],
    ),
    // Gemini `MALFORMED_FUNCTION_CALL`.
    (&["malformedfunctioncall"], &["malformed_tool_call"]),
    // Vercel `NoSuchToolError`.
    (
        &["nosuchtool", "unknowntool", "nosuchtoolerror", "toolmissing", "unknownfunction"],
        &["tool_not_found"],
    ),
    (&["mcperror", "tooldown", "toolunreachable", "spawnerror"], &["tool_unavailable"]),
    // Why models stop: OpenAI `length`, Anthropic `max_tokens`.
    (
        &["length", "maxtokens", "truncated", "truncation", "finishreasonlength", "incomplete"],
        &["truncated_output"],
    ),
    (&["empty", "emptyreply", "noanswer", "nocontent", "noresponse", "emptyoutput"], &["empty_response"]),
    // Polly `BrokenCircuitException`, resilience4j `CallNotPermittedException`.
    (
        &["circuitbreaker", "circuitbreakeropen", "brokencircuit", "callnotpermitted", "breakeropen"],
        &["circuit_open"],
    ),
    (&["loop", "repetition", "repeated", "stuck", "duplicatecall"], &["repeated_call"]),
    (&["cancel", "canceled", "abort", "aborted", "interrupted", "stopped"], &["cancelled"]),
    (&["orphan", "orphanedtoolcall", "danglingtoolcall", "missingtoolresult"], &["orphan_tool_call"]),
];

/// Words as [`fold`] leaves them, and the effect of that sense.
pub(super) const EFFECTS: &[(&[&str], &[&str])] = &[
    // MCP's tool annotations, and the methods of RFC 9110, section 9.2.
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

//! Which problems that `unfazed check` finds concern which keys.

/// Problems that any key can have.
pub(super) const ANY: &[&str] = &[
    "P0001", "P0002", "P0003", "P0004", "P0005", "P0006", "P0007", "P0008", "P0009", "P0010", "P0011",
    "P0012", "P0101", "P0102", "P0103", "P0104", "P0105", "P0205", "P0301", "W0201", "W0205", "W0208",
    "W0211", "W0299",
];

/// The others, each with its keys. A key that ends with `.*` stands for all keys of that mapping.
pub(super) const OF_KEYS: &[(&str, &[&str])] = &[
    ("P0106", &["limits.deadline", "limits.total_delay", "limits.attempt_timeout", "retry.deadline"]),
    (
        "P0106",
        &["retry.min_attempt_time", "retry.attempt_timeout", "retry.total_delay", "retry.backoff.delay"],
    ),
    ("P0106", &["retry.backoff.base", "retry.backoff.step", "retry.backoff.cap", "retry.backoff.delays"]),
    ("P0106", &["retry.server_delay.margin", "retry.server_delay.min", "retry.server_delay.max"]),
    ("P0106", &["retry.budget.window", "tools.*.breaker.open_for", "tools.*.breaker.count.within"]),
    (
        "P0106",
        &[
            "models.*.timeouts.*",
            "models.*.cool_down",
            "turn.approval.timeout",
            "turn.total_delay",
            "turn.run_delay",
            "turn.targets.fallback_after",
        ],
    ),
    ("P0107", &["tools.*.validate[].check", "tools.*.calls[].when", "tools.*.after_effect.arguments"]),
    ("P0107", &["tools.*.after_effect.acted", "output.validate[].check"]),
    ("P0107", &["session.reducers.*.when", "session.reducers.*.check"]),
    ("P0107", &["session.reducers.*.do.value", "session.reducers.*.do.where"]),
    ("P0108", &["tools.*.validate[].message", "tools.*.breaker.message", "tools.*.loop_guard.messages.*"]),
    ("P0108", &["tools.*.result.notice", "tools.*.result.kept_notice", "tools.*.messages.*"]),
    (
        "P0108",
        &["turn.calls.messages.*", "turn.messages.*", "output.validate[].message", "output.messages.*"],
    ),
    ("P0108", &["history.messages.*", "context.messages.*"]),
    ("P0109", &["output.schema"]),
    ("P0110", &["tools", "models"]),
    ("P0201", &["session.reducers.*.slice", "tools.*.messages.*", "turn.messages.*", "output.messages.*"]),
    ("P0202", &["session.slices", "session.reducers.*.do", "retry.budget.pool"]),
    ("P0203", &["retry.max_attempts", "retry.deadline"]),
    ("P0204", &["extends"]),
    ("P0206", &["limits.run.cost", "models.*.price"]),
    ("P0207", &["tools", "models"]),
    ("W0202", &["retry.max_attempts"]),
    ("W0203", &["retry.max_attempts", "retry.deadline", "retry.total_delay"]),
    ("W0204", &["tools", "models"]),
    ("W0206", &["retry.retry_on"]),
    ("W0207", &["tools.*.effect", "retry.max_attempts", "retry.by_class"]),
    ("W0209", &["tools.*.breaker.failures", "tools.*.on_exhausted"]),
    ("W0210", &["retry.max_attempts", "retry.server_delay", "retry.attempt_timeout"]),
    ("W0212", &["retry.server_delay.min", "retry.server_delay.max"]),
    ("W0213", &["retry.backoff.cap"]),
    ("W0214", &["retry.budget.capacity", "retry.budget.cost", "retry.budget.cost_of"]),
    ("W0215", &["retry.retry_on", "retry.never_retry", "limits.never_retry"]),
    ("W0216", &["retry.by_class"]),
    ("W0217", &["tools.*.validate[].check", "tools.*.calls[].when"]),
    ("W0218", &["retry.attempt_timeout", "retry.deadline"]),
    ("W0219", &["errors"]),
    ("W0220", &["tools.*.breaker.open_for"]),
    ("W0221", &["tools.*.calls[].when"]),
    ("W0222", &["tools.*.calls"]),
    ("W0223", &["retry.enabled"]),
    ("W0224", &["retry.retry_on", "retry.never_retry"]),
    ("W0225", &["tools.*.validate[].name", "output.validate[].name"]),
    ("W0226", &["models.*.timeouts.*"]),
    ("W0227", &["errors", "errors[].status"]),
    ("W0230", &["tools.*.breaker.failures", "tools.*.breaker.count.calls"]),
    ("W0231", &["tools.*.loop_guard.same_call.*"]),
    ("W0232", &["tools.*.breaker.open_for", "tools.*.breaker.probes", "tools.*.breaker.successes"]),
    ("W0234", &["tools.*.result.over", "tools.*.result.max"]),
    ("W0235", &["tools.*.result.max"]),
    ("W0239", &["tools.*.after_effect.tool"]),
    ("W0245", &["context.gate", "context.evict_at"]),
    ("W0246", &["models.*.context_window", "models.*.output_reserve", "context.reserve", "context.safety"]),
    ("W0247", &["context.target", "context.evict_at"]),
    (
        "W0248",
        &["context.reduce[].over", "context.reduce[].head", "context.reduce[].tail", "context.reduce[].show"],
    ),
    ("W0249", &["tools.*.breaker.scope", "tools.*.breaker.open_for"]),
    ("W0256", &["limits.run.time", "limits.run.tokens", "limits.run.cost", "limits.run.model_calls"]),
    ("W0260", &["retry.backoff.jitter", "retry.backoff"]),
    (
        "W0261",
        &[
            "turn.targets.attempts",
            "turn.targets.fallback_after",
            "retry.correction_backoff",
            "retry.by_class",
        ],
    ),
    ("W0266", &["tools.*.calls[].when"]),
];

/// The problems of a key, in their order, each once.
pub(super) fn of_key(section: &str, key: &str) -> Vec<&'static str> {
    let path = if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
    let all = format!("{section}.*");
    let named = OF_KEYS.iter().filter(|(_, keys)| keys.iter().any(|key| **key == path || **key == all));
    let mut codes: Vec<_> = named.map(|(code, _)| *code).collect();
    codes.dedup();
    codes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use unfazed::policy::Code;

    use super::super::super::pages;
    use super::*;

    #[test]
    fn every_problem_is_told_once_or_of_its_keys() {
        let codes: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        let of_keys: BTreeSet<&str> = OF_KEYS.iter().map(|(code, _)| *code).collect();
        let any: BTreeSet<&str> = ANY.iter().copied().collect();
        assert!(any.is_disjoint(&of_keys), "{:?}", any.intersection(&of_keys));
        assert_eq!(any.union(&of_keys).copied().collect::<BTreeSet<_>>(), codes);
    }

    #[test]
    fn the_example_of_a_problem_has_one_of_its_keys() {
        for page in pages::all().filter(|page| !ANY.contains(&page.id)) {
            let keys = OF_KEYS.iter().filter(|(code, _)| *code == page.id).flat_map(|(_, keys)| *keys);
            let mut names = keys.map(|key| key.trim_end_matches(".*").rsplit('.').next().unwrap_or_default());
            assert!(names.any(|name| page.body.contains(&format!("{name}:"))), "{}", page.id);
        }
    }

    #[test]
    fn every_key_that_is_named_is_one_of_the_language() {
        let page = super::super::page::policy().unwrap();
        for (code, keys) in OF_KEYS {
            for key in *keys {
                let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
                let heading = if section.is_empty() {
                    "\n## Top level\n".into()
                } else {
                    format!("\n## `{section}`\n")
                };
                let body =
                    page.split_once(&heading).unwrap_or_else(|| panic!("{code}: no section `{section}`")).1;
                let body = body.split("\n## ").next().unwrap();
                let row = format!("\n| `{name}` |");
                assert!(name == "*" || body.contains(&row), "{code}: there is no `{key}`");
            }
        }
    }
}

//! The words of a refusal, and which parameter of a request they name.
//!
//! Providers quote in their errors what a client wrote. A word of the client teaches nothing: only the `param` of an error
//! does, or a name where the provider's own sentence has a parameter.

use serde_json::Value;

use crate::engine::Failure;

/// A refusal as words that can be looked for.
pub(crate) struct RefusalWords {
    param: String,
    text: String,
}

/// What stands before the name of a parameter.
const BEFORE: &[&str] = &[
    "parameter",
    "parameters",
    "parameter(s",
    "argument",
    "arguments",
    "supplied",
    "field",
    "fields",
    "property",
    "properties",
    "name",
    "names",
    "key",
    "keys",
    "option",
    "options",
    "permitted",
    "allowed",
    "unknown",
    "unsupported",
    "supported",
    "unrecognized",
    "unexpected",
    "extra_forbidden",
    "support",
    "supports",
    "support the",
    "this",
    "this model",
    "use",
];
/// What stands between the name of a parameter and what is said of it.
const BETWEEN: &[&str] = &[
    "parameter",
    "argument",
    "field",
    "property",
    "option",
    "key",
    "value",
    "is",
    "are",
    "was",
    "were",
    "has",
    "been",
    "does",
    "do",
    "currently",
];
/// How what is said of a refused parameter begins.
const AFTER: &[&str] = &[
    "not support",
    "doesn't support",
    "isn't support",
    "unsupported",
    "deprecated",
    "not permitted",
    "not allowed",
    "not recognized",
    "unrecognized",
    "unknown",
    "unexpected",
    "extra inputs",
    "extra fields",
    "not available",
    "cannot be used",
];
/// Words for what no parameter is.
const NO_PARAM: [&str; 3] = ["", "none", "null"];
/// The shortest text of a request that is looked for in an error.
const LEAST_QUOTED: usize = 8;

impl RefusalWords {
    pub(crate) fn of(failure: &Failure) -> Self {
        let param = failure.facts.as_ref().and_then(|facts| facts.param.as_deref()).unwrap_or_default();
        let message = without_quotations(&failure.message);
        let parts = [Some(message.as_str()), failure.code.as_deref(), failure.kind.as_deref(), Some(param)];
        Self {
            param: normal(param),
            text: normal(&parts.into_iter().flatten().collect::<Vec<_>>().join(" ")),
        }
    }

    pub(super) fn says(&self, any: &[&str]) -> bool {
        any.iter().any(|words| self.text.contains(words))
    }

    /// Whether something is refused for what it is, and not for its size.
    pub(crate) fn refuses(&self) -> bool {
        self.says(&[
            "unsupported",
            "not support",
            "n't support",
            "unknown",
            "unrecognized",
            "not recognized",
            "not permitted",
            "not allowed",
            "unexpected",
            "extra_forbidden",
            "extra fields",
            "additional propert",
            "deprecated",
        ])
    }

    /// Where a parameter is named as one.
    pub(crate) fn names(&self, field: &str) -> Option<usize> {
        if !NO_PARAM.contains(&self.param.as_str()) {
            return ends_path(&self.param, field).then_some(0);
        }
        self.text.match_indices(field).map(|(at, _)| at).find(|&at| {
            let (before, after) = self.text.split_at(at);
            let after = after.get(field.len()..).unwrap_or_default();
            let whole = !before.ends_with(of_word) && !after.starts_with(of_word);
            whole && (is_announced(before) || is_refused(after))
        })
    }

    /// Whether an option is named, however it is spelled: Google writes `thinking_level` and "Thinking level" for
    /// `thinkingLevel`.
    pub(crate) fn name_option(&self, name: &str) -> bool {
        let spaced = name.chars().fold(String::new(), |mut spaced, c| {
            if c.is_ascii_uppercase() {
                spaced.push(' ');
            }
            spaced.push(c.to_ascii_lowercase());
            spaced
        });
        [name.to_ascii_lowercase(), spaced.replace(' ', "_"), spaced]
            .iter()
            .any(|name| self.names(name).is_some())
    }
}

fn of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a path such as `tools[0].function.strict` ends with that field, or those fields.
fn ends_path(path: &str, field: &str) -> bool {
    let path = path.trim_end_matches(['\'', ']']);
    path.strip_suffix(field).is_some_and(|rest| !rest.ends_with(of_word))
}

/// Whether what stands before a name says that it is a parameter, other names of a list and the beginning of its path left aside.
fn is_announced(before: &str) -> bool {
    let mut before = before;
    loop {
        while let Some(outer) = before.strip_suffix('.') {
            before = outer.trim_end_matches(|c: char| of_word(c) || matches!(c, '[' | ']'));
        }
        let bare = before.trim_end_matches(|c: char| c.is_whitespace() || "':[(){,=*".contains(c));
        let ends = |noun: &&str| bare.strip_suffix(*noun).is_some_and(|rest| !rest.ends_with(of_word));
        if BEFORE.iter().any(ends) {
            return true;
        }
        // `'max_tokens' and 'temperature'`, `['body', 'seed']`.
        let listed = before.get(bare.len()..).is_some_and(|gap| gap.contains(','));
        let bare = match (listed, bare.strip_suffix(" and").or_else(|| bare.strip_suffix(" or"))) {
            (_, Some(first)) => first,
            (true, None) => bare,
            (false, None) => return false,
        };
        let shorter =
            bare.trim_end_matches(['\'', ')', ']']).trim_end_matches(|c: char| of_word(c) || c == '.');
        if shorter.len() == before.len() {
            return false;
        }
        before = shorter;
    }
}

/// Whether what stands after a name says that the parameter is refused.
fn is_refused(after: &str) -> bool {
    let mut after = after;
    loop {
        after = after.trim_start_matches(|c: char| c.is_whitespace() || "':])}".contains(c));
        if AFTER.iter().any(|words| after.starts_with(words)) {
            return true;
        }
        let between = BETWEEN
            .iter()
            .find_map(|word| after.strip_prefix(word).filter(|rest| !rest.starts_with(of_word)));
        let Some(rest) = between else { return false };
        after = rest;
    }
}

/// A refusal without the texts of the request that it quotes word for word.
pub(crate) fn unquoted(failure: &Failure, sent: &[u8]) -> Failure {
    let mut unquoted = failure.clone();
    if let Ok(sent) = serde_json::from_slice::<Value>(sent) {
        blank(&mut unquoted.message, &sent);
    }
    unquoted
}

/// Takes the texts of a value out of a message, but for single words: those may be names.
fn blank(message: &mut String, value: &Value) {
    match value {
        Value::String(text) => {
            let text = text.trim();
            let is_said = text.len() >= LEAST_QUOTED && text.contains(char::is_whitespace);
            if is_said && message.contains(text) {
                *message = message.replace(text, "");
            }
        }
        Value::Array(items) => items.iter().for_each(|item| blank(message, item)),
        Value::Object(fields) => fields.values().for_each(|field| blank(message, field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A text without what it quotes, but for single words: those are names and values. An error inside a text, as JSON or as
/// Python writes it, is no quotation.
fn without_quotations(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(quote) = rest.chars().next() {
        let after = rest.get(quote.len_utf8()..).unwrap_or_default();
        let quoted = closing(quote)
            .filter(|_| !kept.ends_with(char::is_alphanumeric))
            .and_then(|closing| end_of_quotation(after, closing));
        let Some((inside, behind)) = quoted else {
            kept.push(quote);
            rest = after;
            continue;
        };
        let whole = kept.trim().is_empty() && behind.trim().is_empty();
        if whole || !inside.contains(char::is_whitespace) || has_an_error(&kept) {
            kept.push_str(rest.get(..rest.len().saturating_sub(behind.len())).unwrap_or_default());
        }
        rest = behind;
    }
    kept
}

/// What ends a quotation that begins so.
const fn closing(quote: char) -> Option<char> {
    match quote {
        '\'' | '"' | '`' => Some(quote),
        '“' => Some('”'),
        '‘' => Some('’'),
        _ => None,
    }
}

/// What is quoted, and what comes after it. The apostrophe of a word ends nothing.
fn end_of_quotation(text: &str, closing: char) -> Option<(&str, &str)> {
    text.match_indices(closing).find_map(|(at, mark)| {
        let behind = text.get(at.saturating_add(mark.len())..)?;
        (!behind.starts_with(char::is_alphanumeric)).then(|| (text.get(..at).unwrap_or_default(), behind))
    })
}

/// Whether the value that follows is the text of an error.
fn has_an_error(before: &str) -> bool {
    let Some(key) = before.trim_end().strip_suffix(':') else { return false };
    ["message", "msg", "detail", "error"].iter().any(|name| {
        let quoted = key.trim_end_matches(['\'', '"']);
        quoted.len() < key.len() && quoted.ends_with(name)
    })
}

/// Small letters, one kind of quotes.
fn normal(text: &str) -> String {
    let one_kind = |c: char| if matches!(c, '`' | '"' | '’' | '‘') { '\'' } else { c };
    text.chars().flat_map(char::to_lowercase).map(one_kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::BodyFacts;
    use serde_json::json;

    fn failure(message: &str, param: Option<&str>) -> Failure {
        let facts =
            param.map(|param| Box::new(BodyFacts { param: Some(param.into()), ..BodyFacts::default() }));
        Failure { status: Some(400), message: message.into(), facts, ..Failure::default() }
    }

    fn names(message: &str, name: &str) -> bool {
        let words = RefusalWords::of(&failure(message, None));
        words.refuses() && words.name_option(name)
    }

    #[test]
    fn a_parameter_is_named_where_a_sentence_has_one() {
        for (message, name) in [
            ("Unsupported parameter: 'seed' is not supported with this model.", "seed"),
            ("Unrecognized request argument supplied: seed", "seed"),
            ("Unrecognized request arguments supplied: top_k, seed", "seed"),
            ("Unsupported parameter(s): 'top_k' and 'seed'", "seed"),
            ("`temperature` is deprecated for this model.", "temperature"),
            ("temperature: Extra inputs are not permitted", "temperature"),
            ("extra_forbidden [\"body\",\"seed\"]: Extra inputs are not permitted", "seed"),
            ("Extra inputs are not permitted: body.seed", "seed"),
            (
                "Invalid JSON payload received. Unknown name \"seed\" at 'generation_config': Cannot find field.",
                "seed",
            ),
            ("Thinking level is not supported for this model.", "thinkingLevel"),
            (
                "Malformed input request: #: extraneous key [seed] is not permitted, please reformat your input",
                "seed",
            ),
            ("Additional properties are not allowed ('seed' was unexpected)", "seed"),
            ("Completions.create() got an unexpected keyword argument 'seed'", "seed"),
            ("Argument not supported on this model: presencePenalty", "presencePenalty"),
            ("The seed parameter is currently not supported", "seed"),
            ("Error code: 400 - {'error': {'message': \"Unknown parameter: 'seed'.\"}}", "seed"),
            ("\"Unknown parameter: seed\"", "seed"),
        ] {
            assert!(names(message, name), "{message}");
        }
    }

    #[test]
    fn what_an_error_quotes_of_a_client_names_nothing() {
        for message in [
            "Unsupported content: 'the seed is not supported'",
            "Unexpected token in \"please say: unknown parameter seed\"",
            "Unsupported message `our temperature is deprecated` in a conversation",
            "unknown role: “seed is not supported”",
            "Unsupported model 'seed'",
            "A user's word is not allowed: \"don't use the seed field, it's unknown\"",
        ] {
            assert!(!names(message, "seed") && !names(message, "temperature"), "{message}");
        }
        // The error says itself what it means.
        let elsewhere = failure("seed is not supported", Some("messages[0].content"));
        assert!(!RefusalWords::of(&elsewhere).name_option("seed"));
        let meant = failure("This is not supported here.", Some("generation_config.seed"));
        assert!(RefusalWords::of(&meant).name_option("seed"));
    }

    #[test]
    fn what_an_error_repeats_of_a_request_is_taken_out_of_it() {
        let sent = json!({"messages": [{"content": [{"text": " seed is not supported "}]}], "user": "seed"});
        let said = failure("Invalid content: seed is not supported", None);
        let words = RefusalWords::of(&unquoted(&said, &serde_json::to_vec(&sent).unwrap()));
        assert!(!words.refuses() && !words.name_option("seed"));
        // A word alone may be the name.
        let refused = failure("Unknown parameter: seed", None);
        assert_eq!(unquoted(&refused, &serde_json::to_vec(&sent).unwrap()), refused);
    }
}

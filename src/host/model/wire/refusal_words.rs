//! The words of a refusal, and which parameter of a request they name.
//!
//! Providers quote in their errors what a client wrote. A word of the client teaches nothing: only the `param` of an error
//! does, or a name where the provider's own sentence has a parameter.

use std::cell::LazyCell;
use std::collections::BTreeSet;

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
    // Zod says "Unrecognized key(s) in object: 'stop'", pydantic `'loc': ('body', 'stop')`.
    "in object",
    "loc",
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
    "this",
    "type",
];
/// How what is said of a refused parameter begins.
const AFTER: &[&str] = &[
    "not support",
    "not currently support",
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
    "unavailable",
    "cannot be used",
    "cannot both be",
    "incompatible",
    // Google's: "Thinking is not enabled for models/…", "thinking is not configurable in this model", "… is only enabled when
    // thinking is enabled".
    "not enabled",
    "not configurable",
    "only enabled when",
];
/// What Google calls several options at once: the names in one word, or how they begin or end, and the word for them.
const AT_ONCE: [(OptionNames, &str); 4] = [
    (OptionNames::Beginning("thinking"), "thinking"),
    (OptionNames::Ending("penalty"), "penalty"),
    (OptionNames::Ending("logprobs"), "logprobs"),
    (OptionNames::Ending("candidatecount"), "multiple candidates"),
];
/// The shortest text of a request that is looked for in an error.
const LEAST_QUOTED: usize = 8;
/// How many characters beside a name show that it is in the middle of an echo.
const ECHOED: usize = 12;

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

    pub(crate) fn says(&self, any: &[&str]) -> bool {
        any.iter().any(|words| self.text.contains(words))
    }

    /// Whether something is refused for what it is, and not for its size.
    pub(crate) fn refuses(&self) -> bool {
        self.says(&[
            "unsupported",
            "not support",
            "not currently support",
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
            "incompatible",
            "not enabled",
            "not configurable",
            "only enabled when",
        ])
    }

    /// The same, where an option is named.
    pub(crate) fn refuses_option(&self) -> bool {
        self.refuses() || self.says(&["not available", "unavailable", "cannot both be"])
    }

    /// Whether it is the demand for a call that is refused, and not the tools.
    pub(crate) fn refuses_demand(&self) -> bool {
        // "tool_choice forces tool use is not compatible with this model.", "Thinking may not be enabled when tool_choice forces
        // tool use." (Anthropic), "Forced function calling (mode = ANY) with a response mime type: 'application/json' is
        // unsupported", "Function calling mode ANY is not supported for this model" (Google).
        let forced = self.says(&["forces tool use", "forced tool use", "forced function calling"]);
        let choice = spellings("tool_choice");
        let is_said = choice.iter().any(|choice| self.text.contains(choice));
        let is_other = self.says(&["must be auto", "must be 'auto'", "only 'auto'", "should be 'auto'"]);
        let is_named = self.name_itself("tool_choice") || self.says(&["mode any", "mode 'any'"]);
        forced || (is_said && is_other) || (is_named && self.refuses())
    }

    /// Whether a streamed answer is refused: "Your organization must be verified to stream this model."
    pub(crate) fn refuses_stream(&self) -> bool {
        self.says(&["must be verified to stream"]) || (self.param == "stream" && self.refuses())
    }

    /// Where a parameter is named as one.
    pub(crate) fn names(&self, field: &str) -> Option<usize> {
        if names_param(&self.param) {
            return ends_path(&self.param, field).then_some(0);
        }
        namings(&self.text, field).next().map(|naming| naming.at)
    }

    /// Whether an option is named, alone or with others like it, however it is spelled: Google writes `thinking_level` and
    /// "Thinking level" for `thinkingLevel`, xAI `presencePenalty` for `presence_penalty`.
    pub(crate) fn name_option(&self, name: &str) -> bool {
        self.name_itself(name) || self.name_at_once(name)
    }

    /// Whether an option is named alone.
    pub(crate) fn name_itself(&self, name: &str) -> bool {
        spellings(name).iter().any(|name| self.names(name).is_some())
    }

    /// Whether an option is named by a word for it and others like it.
    pub(crate) fn name_at_once(&self, name: &str) -> bool {
        word_at_once(name).is_some_and(|word| self.names(word).is_some())
    }
}

/// The names of options that have one word.
enum OptionNames {
    Beginning(&'static str),
    Ending(&'static str),
}

/// The word for an option and others like it.
fn word_at_once(name: &str) -> Option<&'static str> {
    let name = words_of(name).concat();
    let is_one = |names: &OptionNames| match names {
        OptionNames::Beginning(beginning) => name.starts_with(beginning),
        OptionNames::Ending(ending) => name.ends_with(ending),
    };
    AT_ONCE.iter().find(|(names, _)| is_one(names)).map(|(_, word)| *word)
}

/// How an option may be written, in small letters: `presence_penalty`, `presencePenalty`, "presence penalty".
fn spellings(name: &str) -> [String; 3] {
    let words = words_of(name);
    ["_", "", " "].map(|between| words.join(between))
}

/// The words of a name in small letters.
fn words_of(name: &str) -> Vec<String> {
    let spaced = name.chars().fold(String::new(), |mut spaced, c| {
        if c.is_ascii_uppercase() {
            spaced.push(' ');
        }
        spaced.push(c.to_ascii_lowercase());
        spaced
    });
    spaced.split([' ', '_']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Whether the `param` of an error is the name of one. Relays write the status there: `"400"`.
fn names_param(param: &str) -> bool {
    !["none", "null"].contains(&param) && param.contains(char::is_alphabetic)
}

/// A place where a text names a parameter as one.
struct ParameterNaming {
    /// Where the name is.
    at: usize,
    /// From where to where the words are that make it one.
    words: core::ops::Range<usize>,
}

impl ParameterNaming {
    /// The passages of the text that a client must not have written: the words, and the name as the beginning or the end of what
    /// may be an echo.
    fn passages<'t>(&self, text: &'t str, length: usize) -> impl Iterator<Item = &'t str> + use<'t> {
        let end = self.at.saturating_add(length);
        let (before, after) = (text.get(..self.at).unwrap_or_default(), text.get(end..).unwrap_or_default());
        let further =
            after.char_indices().nth(ECHOED).map_or(after, |(to, _)| after.get(..to).unwrap_or_default());
        let further = further.trim_end_matches(|c: char| !c.is_alphanumeric());
        let continued = text.get(self.at..end.saturating_add(further.len()));
        let from = before.char_indices().rev().nth(ECHOED).map(|(from, _)| from);
        let continuing = from.and_then(|from| text.get(from..end)).filter(|_| self.words.start == self.at);
        [
            text.get(self.words.clone()),
            continued.filter(|_| !further.is_empty() && self.words.end == end),
            continuing,
        ]
        .into_iter()
        .flatten()
    }
}

/// The places where a text names that parameter.
fn namings<'t>(text: &'t str, field: &'t str) -> impl Iterator<Item = ParameterNaming> + 't {
    // A name without a letter is named nowhere.
    text.match_indices(field).filter(move |_| !field.is_empty()).filter_map(move |(at, _)| {
        let (before, after) = text.split_at(at);
        let after = after.get(field.len()..).unwrap_or_default();
        if before.ends_with(of_word) || after.starts_with(of_word) {
            return None;
        }
        let end = at.saturating_add(field.len());
        let (announced, refused) = (announced_from(before), refused_to(after));
        let words = announced.unwrap_or(at)..end.saturating_add(refused.unwrap_or_default());
        (announced.is_some() || refused.is_some()).then_some(ParameterNaming { at, words })
    })
}

fn of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a path such as `tools[0].function.strict` ends with that field, or those fields.
fn ends_path(path: &str, field: &str) -> bool {
    let path = path.trim_end_matches(['\'', ']']);
    path.strip_suffix(field).is_some_and(|rest| !rest.ends_with(of_word))
}

/// Where the word before a name begins that says that it is a parameter, other names of a list and the beginning of its path left
/// aside.
fn announced_from(before: &str) -> Option<usize> {
    let mut before = before;
    loop {
        while let Some(outer) = before.strip_suffix('.') {
            before = outer.trim_end_matches(|c: char| of_word(c) || matches!(c, '[' | ']'));
        }
        let bare = before.trim_end_matches(|c: char| c.is_whitespace() || "':[(){,=*".contains(c));
        let start =
            |noun: &&str| bare.strip_suffix(*noun).filter(|rest| !rest.ends_with(of_word)).map(str::len);
        if let Some(start) = BEFORE.iter().find_map(start) {
            return Some(start);
        }
        // `'max_tokens' and 'temperature'`, `['body', 'seed']`.
        let listed = before.get(bare.len()..).is_some_and(|gap| gap.contains(','));
        let bare = match (listed, bare.strip_suffix(" and").or_else(|| bare.strip_suffix(" or"))) {
            (_, Some(first)) => first,
            (true, None) => bare,
            (false, None) => return None,
        };
        let shorter =
            bare.trim_end_matches(['\'', ')', ']']).trim_end_matches(|c: char| of_word(c) || c == '.');
        if shorter.len() == before.len() {
            return None;
        }
        before = shorter;
    }
}

/// Where the words after a name end that say that the parameter is refused.
fn refused_to(said: &str) -> Option<usize> {
    let mut after = said;
    loop {
        after = after.trim_start_matches(|c: char| c.is_whitespace() || "':=])}".contains(c));
        if let Some(rest) = AFTER.iter().find_map(|words| after.strip_prefix(words)) {
            return Some(said.len().saturating_sub(rest.len()));
        }
        let between = BETWEEN
            .iter()
            .find_map(|word| after.strip_prefix(word).filter(|rest| !rest.starts_with(of_word)));
        after = between.or_else(|| behind_value(after))?;
    }
}

/// What stands behind a quoted value whose first quote is left out: "`tool_choice` 'required' is not supported", "response mime type:
/// 'application/json' is unsupported".
fn behind_value(after: &str) -> Option<&str> {
    let (value, behind) = after.split_once('\'')?;
    let is_value = value.starts_with(of_word) && value.chars().all(|c| of_word(c) || "-./".contains(c));
    is_value.then_some(behind)
}

/// A refusal without the texts of the request that it quotes word for word, and without the words that name a parameter if they
/// are in such a text: the rest of it may be cut off.
pub(crate) fn unquoted(failure: &Failure, sent: &[u8]) -> Failure {
    let mut unquoted = failure.clone();
    if let Ok(sent) = serde_json::from_slice::<Value>(sent) {
        blank(&mut unquoted.message, &sent);
        let mut parts = SentParts::default();
        parts.add(&sent);
        if let Some(without) = parts.without_echoes(&unquoted.message) {
            unquoted.message = without;
        }
    }
    unquoted
}

/// What a request says, and what the fields in it are called.
#[derive(Default)]
struct SentParts<'s> {
    names: BTreeSet<String>,
    texts: Vec<&'s str>,
}

impl<'s> SentParts<'s> {
    fn add(&mut self, value: &'s Value) {
        match value {
            // A word alone names nothing as a parameter.
            Value::String(text) if text.contains(char::is_whitespace) => self.texts.push(text),
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.names.extend(spellings(name));
                    self.names.extend(word_at_once(name).map(str::to_owned));
                    self.add(value);
                }
            }
            _ => {}
        }
    }

    /// A message in small letters without the words of the request that name a parameter; `None`: it has none.
    fn without_echoes(&self, message: &str) -> Option<String> {
        let text = spaced(message);
        // Nearly no failure names one, and a conversation may be long.
        let sent: LazyCell<Vec<String>, _> =
            LazyCell::new(|| self.texts.iter().map(|sent| spaced(sent)).collect());
        let is_sent = |words: &str| sent.iter().any(|sent| sent.contains(words));
        let mut echoes = Vec::new();
        for name in &self.names {
            let is_echo = |naming: &ParameterNaming| naming.passages(&text, name.len()).any(is_sent);
            echoes.extend(namings(&text, name).filter(is_echo).map(|naming| naming.words));
        }
        if echoes.is_empty() {
            return None;
        }
        echoes.sort_by_key(|words| words.start);
        let (mut kept, mut from) = (String::new(), 0);
        for words in echoes {
            kept.push_str(text.get(from..words.start).unwrap_or_default());
            from = words.end.max(from);
        }
        kept.push_str(text.get(from..).unwrap_or_default());
        Some(kept)
    }
}

/// Small letters, one kind of quotes, single spaces.
fn spaced(text: &str) -> String {
    normal(text).split_whitespace().collect::<Vec<_>>().join(" ")
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
pub(crate) fn without_quotations(text: &str) -> String {
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
        words.refuses_option() && words.name_option(name)
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
            ("Thinking is not enabled for models/gemini-2.0-flash", "thinkingLevel"),
            (
                "Unable to submit request because thinking is not supported by this model. Learn more: https://x",
                "thinkingConfig",
            ),
            (
                "Unable to submit request because thinking is not configurable in this model; please remove it",
                "thinkingBudget",
            ),
            (
                "Unable to submit request because Thinking_config.include_thoughts is only enabled when thinking is enabled..",
                "includeThoughts",
            ),
            ("tool_choice 'required' is incompatible with thinking enabled", "tool_choice"),
            (
                "Malformed input request: #: extraneous key [seed] is not permitted, please reformat your input",
                "seed",
            ),
            ("Additional properties are not allowed ('seed' was unexpected)", "seed"),
            ("Completions.create() got an unexpected keyword argument 'seed'", "seed"),
            ("Argument not supported on this model: presencePenalty", "presencePenalty"),
            // xAI, whose own names are others than those of the request.
            ("Model grok-4 does not support parameter presencePenalty.", "presence_penalty"),
            ("Argument not supported on this model: reasoningEffort", "reasoning_effort"),
            ("Penalty is not enabled for this model", "frequencyPenalty"),
            ("Logprobs is not enabled for this model", "responseLogprobs"),
            ("Multiple candidates is not enabled for this model", "candidateCount"),
            (
                "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted'}]",
                "seed",
            ),
            ("[{\"loc\":[\"body\",\"seed\"],\"msg\":\"extra fields not permitted\"}]", "seed"),
            ("Unrecognized key(s) in object: 'seed'", "seed"),
            ("seed: this field is not allowed with anthropic-version 2026-10-21", "seed"),
            ("Invalid 'seed': This parameter is not supported by this model.", "seed"),
            ("seed is not available for this model", "seed"),
            // DeepSeek.
            ("This response_format type is unavailable now", "response_format"),
            ("seed is not currently supported", "seed"),
            ("`temperature` and `top_p` cannot both be specified for this model.", "top_p"),
            ("The provided ServiceTier value \"flex\" is not supported for this model.", "serviceTier"),
            ("tool_choice='required' is not supported yet.", "tool_choice"),
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
        // A relay writes the status where the name would be.
        let relayed = failure("Model m does not support parameter seed.", Some("400"));
        assert!(RefusalWords::of(&relayed).name_option("seed"));
    }

    #[test]
    fn one_option_of_two_that_exclude_each_other_is_named() {
        let words = "`temperature` and `top_p` cannot both be specified for this model. Please use only one.";
        assert!(!names(words, "temperature") && names(words, "top_p"));
    }

    #[test]
    fn a_demand_for_a_call_is_refused_in_many_words() {
        for (message, is_refused) in [
            ("tool_choice forces tool use is not compatible with this model.", true),
            ("Thinking may not be enabled when tool_choice forces tool use.", true),
            ("tool_choice.any: forced tool use is not supported on this model", true),
            ("tool_choice: type 'any' is not supported for this model.", true),
            ("This model doesn't support the toolConfig.toolChoice.any field.", true),
            ("Unable to submit request because function calling config mode `ANY` is not supported", true),
            ("Thinking mode does not support this tool_choice", true),
            ("tool_choice='required' is not supported yet.", true),
            ("Only \"auto\" tool choice is supported", true),
            ("Tool choice must be auto", true),
            ("tool_choice: Input should be an object", false),
            ("This model does not support tools", false),
            ("Unsupported parameter: 'parallel_tool_calls' needs tool_choice", false),
        ] {
            assert_eq!(RefusalWords::of(&failure(message, None)).refuses_demand(), is_refused, "{message}");
        }
    }

    #[test]
    fn what_an_error_repeats_of_a_request_is_taken_out_of_it() {
        let sent = json!({"messages": [{"content": [{"text": " seed is not supported "}]}], "user": "seed"});
        let said = failure("Invalid content: seed is not supported", None);
        let words = RefusalWords::of(&unquoted(&said, &serde_json::to_vec(&sent).unwrap()));
        assert!(!words.refuses() && !words.name_option("seed"));
        // Nor does it count if it is cut, or has other spaces and letters.
        let sent = json!({
            "messages": [{"content": "Hello. Know that the SEED is not\n supported, unknown parameter: temperature. Bye."}],
            "seed": 1, "temperature": 1, "generationConfig": {"thinkingLevel": "low"},
            "input": "my thinking level is unsupported here",
        });
        let sent = serde_json::to_vec(&sent).unwrap();
        for message in [
            "Invalid content: Hello. Know that the SEED is not\n supp...",
            "Unsupported content ... the seed is not supported, unknown param",
            "Unexpected content, beginning: unknown parameter: temperature.",
            "could not parse: thinking level is unsupported he",
            "Content not allowed: temperature. B...",
            "Hello. Know that the seed is unknown to us",
        ] {
            let words = RefusalWords::of(&unquoted(&failure(message, None), &sent));
            let found = ["seed", "temperature", "thinkingLevel"].map(|name| words.name_option(name));
            assert_eq!(found, [false; 3], "{message}");
        }
        // The provider's own words still do, beside those of the client.
        let both = failure("Unsupported parameter: 'temperature' (after: the seed is not supported)", None);
        let words = RefusalWords::of(&unquoted(&both, &sent));
        assert!(words.refuses() && words.name_option("temperature") && !words.name_option("seed"));
        // A word alone may be the name.
        let sent = json!({"messages": [], "user": "seed", "seed": 1});
        let refused = failure("Unknown parameter: seed", None);
        assert_eq!(unquoted(&refused, &serde_json::to_vec(&sent).unwrap()), refused);
    }
}

//! Values of the wrong type, and the repair that is evident from what was expected.

use super::{NodeReader, QUOTED, taken};
use crate::text::did_you_mean::closest;
use crate::text::excerpt;
use crate::text::scalar;
use crate::text::yaml::{self, YamlData, YamlNode};
use crate::text::{Code, Diagnostic};

impl NodeReader<'_> {
    /// Reports a value of the wrong type, with a repair where one is evident.
    pub fn wrong_type<T>(&mut self, node: &YamlNode, expected: &str) -> Option<T> {
        if matches!(node.data, YamlData::Reported) {
            self.expect(node, expected);
            return None;
        }
        let message = format!("expected {expected}, found {}", node.describe());
        let problem = Diagnostic::error(Code::WRONG_TYPE, node.span, message);
        let line = self.text.get(..node.span.start as usize).and_then(|text| text.rsplit('\n').next());
        let begins_line = line.is_some_and(|line| line.trim_matches([' ', '-']).is_empty());
        self.findings.push(repair(problem, node, expected, (self.text(node.span), begins_line)));
        None
    }
}

/// With the repair that follows from what was expected.
fn repair(
    problem: Diagnostic,
    node: &YamlNode,
    expected: &str,
    (raw, begins_line): (&str, bool),
) -> Diagnostic {
    let span = node.span;
    // Repairs follow from what was expected, as the message says it, so each type needs no list of its own.
    if let Some(pair) = yaml::pair(raw).filter(|_| expected.contains("a mapping")) {
        return taken::of_pair(problem, span, &pair, (raw, begins_line));
    }
    if let (YamlData::Text(_) | YamlData::Number(_), true) = (&node.data, expected.contains("version number"))
        && matches!(raw.trim_matches(['"', '\'']).trim_start_matches(['v', 'V']), "1" | "1.0")
    {
        return problem.fix(span, "the version is a number", "1");
    }
    let meant = match &node.data {
        YamlData::Text(text) => closest(text, words(expected)),
        _ => None,
    };
    match (&node.data, meant) {
        (YamlData::Text(text), _) if expected.contains("`true` or `false`") => {
            // `yes` and `on` are booleans in YAML 1.1 and texts in the core schema of YAML 1.2.2 (section 10.3.2).
            match text.to_ascii_lowercase().as_str() {
                "yes" | "on" | "y" => problem.fix(span, "booleans are `true` and `false`", "true"),
                "no" | "off" | "n" => problem.fix(span, "booleans are `true` and `false`", "false"),
                word @ ("true" | "false") => problem.fix(span, "remove the quotes", word.to_owned()),
                _ => problem,
            }
        }
        (YamlData::Text(text), _) if expected.contains("US dollars") => match dollars(text) {
            Some(number) => problem.fix(span, "the number alone is in US dollars", number),
            None => problem,
        },
        (YamlData::Text(text), None) if expected.contains("number") => {
            problem.help_if(scalar::grouped(text).map(|number| format!("write `{number}`")))
        }
        (YamlData::Number(_) | YamlData::Bool(_), _) if expected.contains("string") => {
            problem.fix(span, "quote it", format!("\"{raw}\""))
        }
        (YamlData::Text(text), Some(meant)) => problem.meant(span, text, meant, words(expected)),
        // One text in quotes that lists several: each of them is an entry.
        (YamlData::Text(text), None) if expected.contains("a list") && text.contains(',') => {
            problem.fix(span, "write a list", format!("[{text}]"))
        }
        (YamlData::Text(_) | YamlData::Number(_), None)
            if expected.contains("a list") && !raw.contains('\n') =>
        {
            problem.fix(span, "write a list", format!("[{raw}]"))
        }
        (YamlData::Map(_), _)
            if expected.contains("a list") && raw.starts_with('{') && !raw.contains('\n') =>
        {
            problem.fix(span, "write a list", format!("[{raw}]"))
        }
        (YamlData::Map(_), _) if expected.contains("a list") => problem.help("begin each entry with `- `"),
        // A number may belong to another key, so this is only a suggestion.
        (YamlData::Number(_), _) if expected.contains("`true` or `false`") => match raw {
            "1" => problem.help("write `true`"),
            "0" => problem.help("write `false`"),
            _ => problem,
        },
        (YamlData::Null, _) => problem.help("remove the line to leave it out"),
        (YamlData::List(items), _) if expected.contains("a mapping") => problem.help(keyed(items)),
        _ => problem,
    }
}

/// The number of an amount such as `$2` and `2.50 USD`.
fn dollars(text: &str) -> Option<&str> {
    let cut = |text| ["$", "US$", "USD"].iter().find_map(|sign| str::strip_prefix(text, sign));
    let tail = |text| ["$", "USD", "dollars"].iter().find_map(|sign| str::strip_suffix(text, sign));
    let number = cut(text).or_else(|| tail(text))?.trim();
    number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then_some(number)
}

/// What to write where the names are keys and not, as other tools have them, fields of the entries of a list.
fn keyed(items: &[YamlNode]) -> String {
    let name = |item: &YamlNode| match &item.data {
        YamlData::Text(text) => Some(text.clone()),
        YamlData::Map(entries) => entries.iter().find_map(|(key, value)| match (&*key.name, &value.data) {
            ("name" | "id", YamlData::Text(text)) => Some(text.clone()),
            _ => None,
        }),
        _ => None,
    };
    let name = items.iter().find_map(name).filter(|name| !name.contains(char::is_whitespace));
    name.map_or_else(
        || "write no `- ` and no `[…]`: each entry is `name: value`".to_owned(),
        |name| format!("names are keys here: write `{}: {{...}}`", excerpt(&name, QUOTED)),
    )
}

/// The words that may be written where that is expected.
fn words(expected: &str) -> impl Iterator<Item = &str> {
    let quoted = expected.split('`').skip(1).step_by(2);
    quoted
        .filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
}

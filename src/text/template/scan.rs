//! A look at the text before it is compiled: only simple tags, few and short, get further.

use core::ops::Range;

use super::TemplateError;
use crate::text::did_you_mean::closest;

const MAX_BYTES: usize = 16 << 10;
const MAX_TAGS: usize = 64;
const MAX_TAG_BYTES: usize = 512;
const MAX_SIGNS: usize = 64;

const STATEMENTS: [&str; 6] = ["if", "elif", "else", "endif", "for", "endfor"];
const FILTERS: [&str; 13] = [
    "upper",
    "lower",
    "title",
    "capitalize",
    "trim",
    "length",
    "first",
    "last",
    "default",
    "round",
    "int",
    "join",
    "tojson",
];
const TESTS: [&str; 7] = ["defined", "undefined", "none", "string", "number", "sequence", "mapping"];
/// Words that may stand before a bracket without being called.
const KEYWORDS: [&str; 8] = ["in", "and", "or", "not", "if", "elif", "else", "is"];

/// Refuses what the recursive compiler must not see, and what templates here do not know.
pub(super) fn scan(text: &str) -> Result<(), TemplateError> {
    if text.len() > MAX_BYTES {
        return Err(error("the template is longer than 16 KiB", None, "shorten it"));
    }
    let mut statements = 0_usize;
    let mut at = 0_usize;
    while let Some(rest) = text.get(at..) {
        let next = ["{{", "{%", "{#"].into_iter().filter_map(|open| Some((rest.find(open)?, open))).min();
        let Some((offset, open)) = next else { return Ok(()) };
        let start = at.saturating_add(offset);
        let inside = start.saturating_add(2);
        let body = text.get(inside..).unwrap_or("");
        if open == "{#" {
            at = match body.find("#}") {
                Some(end) => inside.saturating_add(end).saturating_add(2),
                None => {
                    return Err(error(
                        "the comment that begins here has no end",
                        Some(start..inside),
                        "end it with `#}`",
                    ));
                }
            };
            continue;
        }
        let close = if open == "{%" { "%}" } else { "}}" };
        let mut tag = TemplateTag { text, start: inside, at: inside, close, before: None, signs: 0 };
        if open == "{%" {
            statements = statements.saturating_add(1);
            tag.statement()?;
        }
        at = tag.rest()?;
        if statements > MAX_TAGS {
            return Err(error(
                "the template has more than 64 statements",
                Some(start..inside),
                "simplify it",
            ));
        }
    }
    Ok(())
}

/// One `{{ … }}` or `{% … %}`.
struct TemplateTag<'a> {
    text: &'a str,
    start: usize,
    at: usize,
    close: &'static str,
    /// The word before the current place, and what it is.
    before: Option<(TagWord, &'a str, Range<usize>)>,
    signs: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum TagWord {
    Name,
    Field,
    Filter,
    Test,
}

impl<'a> TemplateTag<'a> {
    fn left(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// The keyword of a statement.
    fn statement(&mut self) -> Result<(), TemplateError> {
        let left = self.left();
        // Jinja: `{%-` removes the blanks before a tag, and `{%+` keeps them.
        let trimmed = left.trim_start_matches(['-', '+']).trim_start();
        self.at = self.at.saturating_add(left.len().saturating_sub(trimmed.len()));
        let (keyword, place) = self.word();
        if STATEMENTS.contains(&keyword) {
            return Ok(());
        }
        let help = closest(keyword, STATEMENTS).map_or_else(
            || "messages know `if` and `for`".to_owned(),
            |meant| format!("did you mean `{meant}`?"),
        );
        Err(error(&format!("there is no statement `{keyword}`"), Some(place), &help))
    }

    /// Takes the word at the current place.
    fn word(&mut self) -> (&'a str, Range<usize>) {
        let left = self.left();
        let length = left.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(left.len());
        let start = self.at;
        self.at = self.at.saturating_add(length);
        (left.get(..length).unwrap_or(""), start..self.at)
    }

    /// Everything up to the end of the tag; gives the place after it.
    fn rest(mut self) -> Result<usize, TemplateError> {
        loop {
            let left = self.left();
            if left.starts_with(self.close) {
                return Ok(self.at.saturating_add(self.close.len()));
            }
            // A tag is compiled by recursion, and each sign may add a level.
            if self.at.saturating_sub(self.start) > MAX_TAG_BYTES || self.signs > MAX_SIGNS {
                return Err(error(
                    "the tag that begins here is too long",
                    Some(self.opening()),
                    "simplify it",
                ));
            }
            let Some(next) = left.chars().next() else {
                let help = format!("end it with `{}`", self.close);
                return Err(error("the tag that begins here has no end", Some(self.opening()), &help));
            };
            self.token(next, left)?;
        }
    }

    fn token(&mut self, next: char, left: &'a str) -> Result<(), TemplateError> {
        let place = self.at..self.at.saturating_add(next.len_utf8());
        if next.is_alphanumeric() || next == '_' {
            return self.name();
        }
        self.at = place.end;
        if next.is_whitespace() {
            return Ok(());
        }
        self.signs = self.signs.saturating_add(1);
        match next {
            '"' | '\'' => {
                let mut escaped = false;
                let end = left.char_indices().skip(1).find(|(_, c)| {
                    let ends = *c == next && !escaped;
                    escaped = *c == '\\' && !escaped;
                    ends
                });
                let Some((end, quote)) = end else {
                    return Err(error(
                        "the string that begins here has no end",
                        Some(place),
                        &format!("end it with `{next}`"),
                    ));
                };
                self.at = place.start.saturating_add(end).saturating_add(quote.len_utf8());
            }
            '(' => {
                // Values from tools may hold objects with methods of the engine, and no message needs to call one.
                if let Some((kind, word, at)) = self.before.take()
                    && matches!(kind, TagWord::Name | TagWord::Field)
                    && !KEYWORDS.contains(&word)
                {
                    return Err(error(
                        &format!("`{word}` cannot be called"),
                        Some(at),
                        "messages know filters: `{{ tool | upper }}`",
                    ));
                }
            }
            // `'a' * 1000000` would fill the output at once.
            '*' => return Err(error("messages do not multiply", Some(place), "remove the `*`")),
            '{' | '}' => {
                let help = format!("a tag ends with `{}`; maps are not written in messages", self.close);
                return Err(error(&format!("`{next}` is not expected here"), Some(place), &help));
            }
            _ => {}
        }
        self.before = None;
        Ok(())
    }

    /// A word, checked if it names a filter or a test.
    fn name(&mut self) -> Result<(), TemplateError> {
        let before = self.text.get(self.start..self.at).unwrap_or("").trim_end();
        let is_test =
            |before: &str| before.strip_suffix("is").is_some_and(|b| b.ends_with(char::is_whitespace));
        let kind = match before.chars().last() {
            Some('|') => TagWord::Filter,
            Some('.') => TagWord::Field,
            _ if is_test(before) || before.strip_suffix("not").is_some_and(|b| is_test(b.trim_end())) => {
                TagWord::Test
            }
            _ => TagWord::Name,
        };
        let (word, place) = self.word();
        let (what, known): (&str, &[&str]) = match kind {
            TagWord::Filter => ("filter", &FILTERS),
            TagWord::Test if word != "not" => ("test", &TESTS),
            // A recursive loop takes as much stack as the data is deep.
            _ if word == "recursive" => {
                return Err(error("loops do not call themselves here", Some(place), "remove `recursive`"));
            }
            _ => {
                self.before = Some((kind, word, place));
                return Ok(());
            }
        };
        self.before = Some((kind, word, place.clone()));
        if known.contains(&word) {
            return Ok(());
        }
        let help = closest(word, known.iter().copied()).map_or_else(
            || {
                format!(
                    "the {what}s are {}",
                    known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
                )
            },
            |meant| format!("did you mean `{meant}`?"),
        );
        Err(error(&format!("there is no {what} `{word}`"), Some(place), &help))
    }

    fn opening(&self) -> Range<usize> {
        self.start.saturating_sub(2)..self.start
    }
}

fn error(message: &str, at: Option<Range<usize>>, help: &str) -> TemplateError {
    TemplateError { message: message.to_owned(), at, help: Some(help.to_owned()) }
}

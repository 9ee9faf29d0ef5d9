//! A look at the text before it is parsed: nothing too deep or too long gets further, and the commonest slips
//! are named better than a parser can.

use core::ops::Range;

use super::ExprError;

const MAX_BYTES: usize = 1024;
/// Unoptimised, as in a debug build of who embeds this, the parser takes 155 KiB of stack for each bracket that is open, and
/// the builder of its tree 38 KiB for each operator in a row. A thread has 2 MiB, and its caller has used some: within these two
/// limits neither takes more than 1.3 MiB. `tests/embedder` measures it.
const MAX_BRACKETS: usize = 6;
const MAX_CHAIN: usize = 32;
const MAX_TERNARIES: usize = 16;
const MAX_OPERATORS: usize = 64;

/// Refuses what the recursive parser must not see, and slips that are plain from the characters alone.
pub(super) fn scan(text: &str) -> Result<(), ExprError> {
    if text.trim().is_empty() {
        return Err(error("the expression is empty", None, "write a condition, such as `args.qty > 0`"));
    }
    if text.len() > MAX_BYTES {
        return Err(error("the expression is longer than 1024 bytes", None, "split it into several checks"));
    }
    let mut scan =
        ExprScan { text, rest: text, open: Vec::new(), chains: vec![0], ternaries: 0, operators: 0 };
    while let Some(next) = scan.rest.chars().next() {
        scan.token(next)?;
        let at = scan.at();
        let refuse = |message: &str| Err(error(message, Some(at..at), "split it into several checks"));
        if scan.open.len() > MAX_BRACKETS {
            return refuse("the expression has more than 6 brackets inside of each other");
        }
        if scan.ternaries > MAX_TERNARIES {
            return refuse("the expression has more than 16 conditions with `?`");
        }
        if scan.chains.iter().fold(0_usize, |all, chain| all.saturating_add(*chain)) > MAX_CHAIN {
            return refuse("the expression has more than 32 comparisons and sums in a row");
        }
        if scan.operators > MAX_OPERATORS {
            return Err(error(
                "the expression has more than 64 operators",
                None,
                "split it into several checks",
            ));
        }
    }
    match scan.open.last() {
        Some(&(bracket, at)) => {
            Err(error(&format!("`{bracket}` is never closed"), Some(span(at, 1)), "close it"))
        }
        None => Ok(()),
    }
}

struct ExprScan<'a> {
    text: &'a str,
    rest: &'a str,
    open: Vec<(char, usize)>,
    /// Operators in a row, outside of all brackets and in each that is open.
    chains: Vec<usize>,
    ternaries: usize,
    operators: usize,
}

impl ExprScan<'_> {
    fn at(&self) -> usize {
        self.text.len().saturating_sub(self.rest.len())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
    }

    fn chains_on(&mut self) {
        if let Some(chain) = self.chains.last_mut() {
            *chain = chain.saturating_add(1);
        }
    }

    fn ends_chain(&mut self) {
        if let Some(chain) = self.chains.last_mut() {
            *chain = 0;
        }
    }

    /// Takes one token off the front, which begins with `next`.
    fn token(&mut self, next: char) -> Result<(), ExprError> {
        let at = self.at();
        match next {
            // CEL has comments; an operator in one counts for nothing.
            '/' if self.rest.starts_with("//") => self.skip(self.rest.find('\n').unwrap_or(self.rest.len())),
            // A bracket in a string counts for nothing.
            '"' | '\'' => return self.string(false),
            c if c.is_ascii_alphabetic() || c == '_' => return self.word(),
            // Names of CEL are ASCII (language definition, "Syntax").
            c if c.is_alphabetic() => {
                let message = format!("`{c}` cannot be part of a name");
                let help = "names are of the letters a to z; other keys are written `args['…']`";
                return Err(error(&message, Some(span(at, c.len_utf8())), help));
            }
            c if c.is_ascii_digit() => {
                self.skip(end_of(self.rest, |c| c.is_ascii_alphanumeric() || c == '.'));
            }
            '(' | '[' | '{' => {
                // To the parser an index is an operator.
                self.operators = self.operators.saturating_add(usize::from(next == '['));
                self.open.push((next, at));
                self.chains.push(0);
                self.skip(1);
            }
            ')' | ']' | '}' => {
                let opened = self.open.pop().map(|(bracket, _)| bracket);
                if opened != Some(opposite(next)) {
                    return Err(error(&format!("`{next}` closes nothing"), Some(span(at, 1)), "remove it"));
                }
                self.chains.pop();
                self.skip(1);
            }
            // The parser recurses into each part of a choice.
            '?' => {
                self.ternaries = self.ternaries.saturating_add(1);
                self.ends_chain();
                self.skip(1);
            }
            _ => return self.operator(next, at),
        }
        Ok(())
    }

    fn operator(&mut self, next: char, at: usize) -> Result<(), ExprError> {
        // As JavaScript, SQL, Ruby and others write them.
        let slips = [
            ("===", "=="),
            ("!==", "!="),
            ("=<", "<="),
            ("=>", ">="),
            ("=!", "!="),
            ("<>", "!="),
            ("=~", "matches"),
        ];
        if let Some((slip, meant)) = slips.into_iter().find(|(slip, _)| self.rest.starts_with(slip)) {
            let message = format!("`{slip}` is not an operator");
            let help = match meant {
                "matches" => "write `text.matches('pattern')`".to_owned(),
                meant => format!("did you mean `{meant}`?"),
            };
            return Err(error(&message, Some(span(at, slip.len())), &help));
        }
        let pairs = ["==", "!=", "<=", ">=", "&&", "||"];
        if pairs.iter().any(|pair| self.rest.starts_with(pair)) {
            self.operators = self.operators.saturating_add(1);
            // The parser makes a balanced tree of these.
            if self.rest.starts_with(['&', '|']) {
                self.ends_chain();
            } else {
                self.chains_on();
            }
            self.skip(2);
            return Ok(());
        }
        if let '=' | '&' | '|' = next {
            let message = format!("`{next}` is not an operator");
            return Err(error(&message, Some(span(at, 1)), &format!("did you mean `{next}{next}`?")));
        }
        self.operators = self.operators.saturating_add(usize::from("!<>+-*/%.".contains(next)));
        match next {
            '<' | '>' | '+' | '-' | '*' | '/' | '%' => self.chains_on(),
            ',' | ':' => self.ends_chain(),
            _ => {}
        }
        self.skip(next.len_utf8());
        Ok(())
    }

    /// A name, a word that is an operator, or the prefix of a string.
    fn word(&mut self) -> Result<(), ExprError> {
        let at = self.at();
        let (word, rest) = self.rest.split_at(end_of(self.rest, |c| c.is_ascii_alphanumeric() || c == '_'));
        self.rest = rest;
        let field = self.text.get(..at).is_some_and(|before| before.trim_end().ends_with('.'));
        let meant = match word {
            "in" => {
                self.operators = self.operators.saturating_add(1);
                self.chains_on();
                return Ok(());
            }
            _ if rest.starts_with(['"', '\'']) => {
                return match word.to_ascii_lowercase().as_str() {
                    // In a raw string a backslash escapes nothing.
                    "r" | "rb" | "br" => self.string(true),
                    "b" => self.string(false),
                    _ => Ok(()),
                };
            }
            // `args.and` is a field.
            _ if field => return Ok(()),
            "and" => "&&",
            "or" => "||",
            "not" => "!",
            _ => return Ok(()),
        };
        let message = format!("`{word}` is not an operator");
        Err(error(&message, Some(span(at, word.len())), &format!("did you mean `{meant}`?")))
    }

    /// A string, from its opening quote to its closing one.
    fn string(&mut self, raw: bool) -> Result<(), ExprError> {
        let start = self.at();
        let long = ["\"\"\"", "'''"].into_iter().find(|quotes| self.rest.starts_with(quotes));
        let quote = long.unwrap_or(if self.rest.starts_with('"') { "\"" } else { "'" });
        self.skip(quote.len());
        while let Some(next) = self.rest.chars().next() {
            if self.rest.starts_with(quote) {
                self.skip(quote.len());
                return Ok(());
            }
            if next == '\n' && long.is_none() {
                break;
            }
            self.skip(next.len_utf8());
            if next == '\\' && !raw {
                self.skip(self.rest.chars().next().map_or(0, char::len_utf8));
            }
        }
        Err(error(
            "the string that begins here has no end",
            Some(span(start, quote.len())),
            &format!("end it with `{quote}`"),
        ))
    }
}

const fn opposite(closing: char) -> char {
    match closing {
        ')' => '(',
        ']' => '[',
        _ => '{',
    }
}

/// Where the leading run of characters that `belongs` accepts ends.
fn end_of(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

fn span(at: usize, length: usize) -> Range<usize> {
    at..at.saturating_add(length)
}

fn error(message: &str, at: Option<Range<usize>>, help: &str) -> ExprError {
    ExprError { message: message.to_owned(), at, help: Some(help.to_owned()) }
}

//! What a person answers in a case, in short: `approve`, `refuse takes 10s`.

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::engine::ApprovalAnswer;
use crate::policy::decode::{Decode, NodeReader};
use crate::text::yaml::YamlNode;
use crate::text::{Code, Diagnostic, parse_duration};
use crate::time::Nanos;

/// An answer, and how long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimedAnswer {
    pub(crate) answer: ApprovalAnswer,
    pub(crate) takes: Nanos,
}

impl Decode for TimedAnswer {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let text = String::decode(node, reader)?;
        match short(&text) {
            Ok(answered) => Some(answered),
            Err(message) => {
                let problem = Diagnostic::error(Code::BAD_VALUE, node.span, message);
                let help =
                    "write `approve`, `approve_all`, `refuse` or `none`, and `takes 10s` if it takes time";
                reader.report(problem.help(help));
                None
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^\s*(approve|approve_all|refuse|none)(\s+takes\s+\S+)?\s*$",
            "description": "`approve`, `approve_all`, `refuse` or `none` (nobody answers); then `takes 10s`.",
            "examples": ["approve", "refuse takes 10s"],
        })
    }
}

fn short(text: &str) -> Result<TimedAnswer, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (word, takes) = match words.as_slice() {
        [word] => (*word, Nanos::ZERO),
        [word, "takes", time] => (*word, parse_duration(time).map_err(|error| error.message)?),
        _ => return Err(format!("`{text}` is not an answer")),
    };
    let answer = match word {
        "approve" => ApprovalAnswer::Approve,
        "approve_all" => ApprovalAnswer::ApproveAll,
        "refuse" => ApprovalAnswer::Refuse,
        "none" => ApprovalAnswer::None,
        _ => return Err(format!("`{word}` is not an answer")),
    };
    Ok(TimedAnswer { answer, takes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_word_and_the_time_it_takes() {
        assert_eq!(short("approve"), Ok(TimedAnswer { answer: ApprovalAnswer::Approve, takes: Nanos::ZERO }));
        let late = TimedAnswer { answer: ApprovalAnswer::Refuse, takes: Nanos::from_secs(10) };
        assert_eq!(short("refuse takes 10s"), Ok(late));
    }

    #[test]
    fn what_is_no_answer_is_told() {
        assert_eq!(short("yes"), Err("`yes` is not an answer".to_owned()));
        assert!(short("approve in 10s").is_err());
    }
}

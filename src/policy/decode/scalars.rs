//! Scalars that YAML readers disagree on, and values that are missing: what they may be is known by their field.

use super::NodeReader;
use crate::text::scalar::{self, is_ambiguous_text};
use crate::text::yaml::{YamlData, YamlKey, YamlNode};
use crate::text::{Code, Diagnostic, secret};

impl NodeReader<'_> {
    /// Reports a secret that is written into a text: whoever reads the file has it, and so has the model.
    pub(crate) fn refuse_secrets(&mut self, node: &YamlNode) {
        let YamlData::Text(text) = &node.data else { return };
        let Some(found) = secret::written(text) else { return };
        let span = self.inside(node.span, text, Some(found));
        let problem = Diagnostic::error(Code::SECRET, span, "a secret is written into the file");
        self.report(
            problem.help("remove it, and revoke it where it was issued: whoever can read the file has it"),
        );
    }

    /// Reports a word that other readers take for something else than text. `true`: it is one.
    pub(crate) fn is_ambiguous(&mut self, node: &YamlNode) -> bool {
        let YamlData::Text(text) = &node.data else { return false };
        // Quoted scalars are texts in every YAML. Plain `no` is a text in YAML 1.2 and a boolean in YAML 1.1:
        // Norway's country code became `false` so.
        let doubtful = self.text(node.span) == &**text && is_ambiguous_text(text);
        if doubtful {
            let message = format!("`{text}` is read differently by different YAML readers");
            let problem = Diagnostic::error(Code::AMBIGUOUS, node.span, message);
            self.report(problem.fix(node.span, "quote it", format!("\"{text}\"")));
        }
        doubtful
    }

    /// Reports a name that other readers take for something else than text. Only keys that somebody makes up are
    /// looked at: those of the language, such as `on`, are known here.
    pub(crate) fn check_name(&mut self, key: &YamlKey) {
        let written = self.text(key.span);
        // A tool called `on` would be called `true` in an editor or a pipeline that reads YAML 1.1.
        if written != &*key.name || !(scalar::read(written).is_err() || is_ambiguous_text(written)) {
            return;
        }
        let message = format!("the key `{written}` is read differently by different YAML readers");
        let problem = Diagnostic::error(Code::AMBIGUOUS, key.span, message);
        self.report(problem.fix(key.span, "quote the key", format!("\"{written}\"")));
    }

    /// As [`is_ambiguous`](Self::is_ambiguous), of every value and key within.
    pub(crate) fn has_ambiguous(&mut self, node: &YamlNode) -> bool {
        // All of them are reported, not the first alone.
        let mut any = false;
        match &node.data {
            YamlData::List(nodes) => {
                for node in nodes.iter() {
                    any |= self.has_ambiguous(node);
                }
            }
            YamlData::Map(entries) => {
                for (key, node) in entries.iter() {
                    self.check_name(key);
                    any |= self.has_ambiguous(node);
                }
            }
            _ => any = self.is_ambiguous(node),
        }
        any
    }

    /// Says what is expected of a scalar that was reported already. What repairs it is decided by its type: see
    /// [`value`](Self::value).
    pub(super) fn expect(&mut self, node: &YamlNode, expected: &str) {
        let known = |problem: &Diagnostic| problem.span == node.span;
        // The YAML reader could not know the type that is due here, so its message is completed now.
        match self.findings.problems_mut().recent(known) {
            Some(problem) if problem.code == Code::AMBIGUOUS => {
                problem.help = vec![format!("expected {expected}")];
            }
            Some(problem) if problem.code == Code::OUT_OF_RANGE && expected.contains("number") => {
                problem.help = vec!["the largest number that is taken anywhere is 4294967295".to_owned()];
            }
            _ => {}
        }
    }

    /// Adds to the report of a value that is missing, if `node` is one, that it may be `null`.
    pub(crate) fn takes_null(&mut self, node: &YamlNode) {
        // A key without a value is null in YAML, and most often a line that was not finished.
        let blank = matches!(node.data, YamlData::Reported) && node.span.start == node.span.end;
        let of_key = |problem: &Diagnostic| {
            problem.code == Code::BLANK
                && problem.span.source == node.span.source
                && problem.span.end <= node.span.start
                && self.text.get(problem.span.end as usize..node.span.start as usize).is_some_and(|between| {
                    between.chars().all(|c| c.is_whitespace() || c == ':' || c == '"' || c == '\'')
                })
        };
        if let Some(problem) = blank.then(|| self.findings.problems_mut().recent(of_key)).flatten() {
            problem.help = vec!["write `null` to unset it, or remove the line".to_owned()];
        }
    }
}

//! Which rule of which place decided.

use crate::engine::DecisionReason;
use crate::policy::LayerKind;
use crate::text::Place;

/// A place and layer as test files expect them: `tool`, `base.yaml:8`, `limit@base.yaml:2:24`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedPlace {
    layer: Option<LayerKind>,
    file: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
}

impl ExpectedPlace {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let nothing = Self { layer: None, file: None, line: None, column: None };
        if let Some(layer) = scope(text) {
            return Ok(Self { layer: Some(layer), ..nothing });
        }
        let (layer, place) = match text.split_once('@') {
            None => (None, text),
            Some((layer, place)) => match scope(layer) {
                Some(scope) => (Some(scope), place),
                None => return Err(format!("`{layer}` is not a layer: {LAYERS}")),
            },
        };
        let mut parts = place.rsplitn(3, ':').collect::<Vec<_>>();
        parts.reverse();
        let number = |part: &str| part.parse::<u32>().ok();
        let (file, line, column) = match parts.as_slice() {
            [file, line, column] => match (number(line), number(column)) {
                (Some(line), Some(column)) => ((*file).to_owned(), Some(line), Some(column)),
                (None, Some(line)) => (format!("{file}:{}", parts.get(1).unwrap_or(&"")), Some(line), None),
                _ => (place.to_owned(), None, None),
            },
            [file, line] => match number(line) {
                Some(line) => ((*file).to_owned(), Some(line), None),
                None => (place.to_owned(), None, None),
            },
            _ => (place.to_owned(), None, None),
        };
        if file.is_empty() {
            return Err("a file is missing: write such as `policy.yaml:8`, or a layer".to_owned());
        }
        if !file.contains('.') && !file.contains(':') && !file.starts_with('(') {
            return Err(format!("`{file}` is neither a file nor a layer: {LAYERS}"));
        }
        Ok(Self { layer, file: Some(file), line, column })
    }

    /// Whether a reason is the one that is expected. A file may be named by the end of its path.
    pub(crate) fn holds(&self, because: &DecisionReason) -> bool {
        let Place { file, line, column } = &because.place;
        self.layer.is_none_or(|layer| layer == because.layer)
            && self.file.as_ref().is_none_or(|expected| same_file(expected, file))
            && self.line.is_none_or(|expected| expected == *line)
            && self.column.is_none_or(|expected| expected == *column)
    }
}

/// Whether a rule is the one that is meant: by its whole path, or by the end of it.
pub(crate) fn same_rule(expected: &str, rule: &str) -> bool {
    rule == expected || rule.strip_suffix(expected).is_some_and(|before| before.ends_with('.'))
}

/// A reason as a test file would write it.
pub(crate) fn shown(because: &DecisionReason) -> String {
    format!("{}@{}", name(because.layer), because.place)
}

const LAYERS: &str = "the layers are builtin, global, tool, model, call, planner, limit";

fn same_file(expected: &str, file: &str) -> bool {
    file == expected || file.strip_suffix(expected).is_some_and(|before| before.ends_with(['/', '\\']))
}

fn scope(name: &str) -> Option<LayerKind> {
    Some(match name {
        "builtin" | "built-in" => LayerKind::Builtin,
        "global" => LayerKind::Global,
        "profile" | "profiles" => LayerKind::Profile,
        "tool" | "tools" => LayerKind::Tool,
        "model" | "models" => LayerKind::Model,
        "call" | "calls" => LayerKind::Call,
        "planner" => LayerKind::Planner,
        "limit" | "limits" => LayerKind::Limit,
        _ => return None,
    })
}

const fn name(scope: LayerKind) -> &'static str {
    match scope {
        LayerKind::Builtin => "builtin",
        LayerKind::Global => "global",
        LayerKind::Profile => "profile",
        LayerKind::Tool => "tool",
        LayerKind::Model => "model",
        LayerKind::Call => "call",
        LayerKind::Planner => "planner",
        LayerKind::Limit => "limit",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(expected: &str) -> bool {
        let place = Place { file: "team/base.yaml".into(), line: 8, column: 21 };
        let because = DecisionReason {
            rule: "retry.max_attempts".into(),
            value: "3".into(),
            layer: LayerKind::Limit,
            place,
            facts: Vec::new(),
        };
        ExpectedPlace::parse(expected).unwrap().holds(&because)
    }

    #[test]
    fn a_place_may_be_told_as_far_as_it_matters() {
        for yes in [
            "limit",
            "limits@base.yaml",
            "base.yaml",
            "team/base.yaml:8",
            "base.yaml:8:21",
            "limit@base.yaml:8",
        ] {
            assert!(holds(yes), "{yes}");
        }
        for no in ["tool", "tool@base.yaml", "se.yaml", "base.yaml:81", "base.yaml:8:2", "limit@other.yaml"] {
            assert!(!holds(no), "{no}");
        }
    }

    #[test]
    fn a_name_that_is_neither_file_nor_layer_is_refused() {
        assert!(ExpectedPlace::parse("limt").unwrap_err().contains("neither a file nor a layer"));
        assert!(ExpectedPlace::parse("limt@base.yaml").unwrap_err().contains("not a layer"));
        assert!(ExpectedPlace::parse("limit@").is_err());
    }

    #[test]
    fn the_end_of_a_path_names_a_rule() {
        assert!(same_rule("max_attempts", "retry.max_attempts"));
        assert!(same_rule("retry.max_attempts", "retry.max_attempts"));
        assert!(!same_rule("attempts", "retry.max_attempts"));
    }
}

//! Arguments of a command that are made of the arguments of the call.

use serde_json::{Map, Value};

use crate::host::tool::ToolError;
use crate::text::{Template, TemplateError};

/// What templates of arguments may use.
const VARIABLES: &[&str] = &["args"];

/// One or several arguments of a command, left out together if a value they use was not given.
///
/// Each template is one argument, whatever the value holds: nothing splits it, and no shell reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandArgument(pub Vec<Template>);

impl CommandArgument {
    /// A single one.
    ///
    /// # Errors
    /// If `text` is not a template over `args`.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Self::template(text).map(|template| Self(vec![template]))
    }

    /// A template of one argument.
    ///
    /// # Errors
    /// If `text` is not a template over `args`.
    pub fn template(text: &str) -> Result<Template, TemplateError> {
        Template::parse(text, VARIABLES)
    }
}

/// The arguments of the command for those of the call.
pub(super) fn fill(arguments: &[CommandArgument], call: &Value) -> Result<Vec<String>, ToolError> {
    // `null` says the same as nothing.
    let given = match call {
        Value::Object(fields) => fields.iter().filter(|(_, value)| !value.is_null()),
        _ => return Err(ToolError::invalid_args("the arguments must be an object")),
    };
    let given: Map<String, Value> = given.map(|(name, value)| (name.clone(), value.clone())).collect();
    let vars = Map::from_iter([("args".to_owned(), Value::Object(given))]);
    let mut filled = Vec::new();
    let mut options_end = false;
    for CommandArgument(group) in arguments {
        let mut texts = Vec::new();
        for template in group {
            let text = template.fill(&vars).map_err(|error| {
                ToolError::invalid_args(format!("an argument of the command cannot be made: {error}"))
            })?;
            // A condition that does not hold gives no argument; a value that is empty is one.
            let text = text.filter(|text| !text.is_empty() || !template.as_str().contains("{%"));
            let Some(text) = text else { break };
            check(template, &text, options_end)?;
            texts.push(text);
        }
        if texts.len() == group.len() {
            options_end |= group.iter().any(|template| template.as_str() == "--");
            filled.append(&mut texts);
        }
    }
    Ok(filled)
}

/// A value must stay a value: the program must not take it for one of its options. Options are those the template
/// spells out.
fn check(template: &Template, text: &str, options_end: bool) -> Result<(), ToolError> {
    if text.contains('\0') {
        return Err(ToolError::invalid_args("an argument of a command cannot hold the character U+0000"));
    }
    let written = template.as_str();
    let option = text.split('=').next().filter(|option| option.starts_with('-'));
    let from_value =
        written.trim_start().starts_with('{') && option.is_some_and(|name| !written.contains(name));
    if from_value && !options_end && text.parse::<f64>().is_err() {
        let message =
            "a value begins with `-`, so the command would take it for an option; give another value";
        return Err(ToolError::invalid_args(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn filled(arguments: &[&[&str]], call: &Value) -> Result<Vec<String>, String> {
        let group = |texts: &&[&str]| {
            CommandArgument(texts.iter().map(|t| CommandArgument::template(t).unwrap()).collect())
        };
        let arguments: Vec<CommandArgument> = arguments.iter().map(group).collect();
        fill(&arguments, call).map_err(|error| error.to_string())
    }

    #[test]
    fn every_template_is_one_argument_whatever_the_value_holds() {
        for value in ["a b", "$(reboot)", "'; rm -rf /", "\"", "*", "a\nb", "{{ args.x }}", ""] {
            assert_eq!(filled(&[&["{{ args.x }}"]], &json!({"x": value})).unwrap(), [value]);
        }
    }

    #[test]
    fn numbers_booleans_and_lists_have_a_text() {
        let call = json!({"n": 3, "b": true, "l": [1, "x"]});
        let written =
            filled(&[&["{{ args.n }}"], &["{{ args.b | tojson }}"], &["{{ args.l | tojson }}"]], &call);
        assert_eq!(written.unwrap(), ["3", "true", r#"[1,"x"]"#]);
    }

    #[test]
    fn what_was_not_given_is_left_out_with_its_group() {
        let arguments: &[&[&str]] = &[&["-v"], &["--city", "{{ args.city }}"], &["--day={{ args.day }}"]];
        assert_eq!(filled(arguments, &json!({})).unwrap(), ["-v"]);
        assert_eq!(filled(arguments, &json!({"city": null, "day": 1})).unwrap(), ["-v", "--day=1"]);
        assert_eq!(filled(arguments, &json!({"city": "Oslo"})).unwrap(), ["-v", "--city", "Oslo"]);
        assert_eq!(filled(&[&["{{ args.x | default('y') }}"]], &json!({})).unwrap(), ["y"]);
    }

    #[test]
    fn a_condition_that_does_not_hold_gives_no_argument() {
        let arguments: &[&[&str]] = &[&["{% if args.all %}--all{% endif %}"], &["{{ args.x }}"]];
        assert_eq!(filled(arguments, &json!({"all": true, "x": ""})).unwrap(), ["--all", ""]);
        assert_eq!(filled(arguments, &json!({"all": false, "x": "y"})).unwrap(), ["y"]);
        assert_eq!(filled(arguments, &json!({"x": "y"})).unwrap(), ["y"]);
        let either: &[&[&str]] = &[&["{% if args.all %}--all{% else %}{{ args.x }}{% endif %}"]];
        assert!(filled(either, &json!({"all": false, "x": "-rf"})).unwrap_err().contains("begins with `-`"));
    }

    #[test]
    fn a_value_is_never_an_option() {
        let call = json!({"x": "--output=/etc/passwd"});
        assert!(filled(&[&["{{ args.x }}"]], &call).unwrap_err().contains("begins with `-`"));
        assert_eq!(filled(&[&["--"], &["{{ args.x }}"]], &call).unwrap()[1], "--output=/etc/passwd");
        assert_eq!(filled(&[&["--x={{ args.x }}"]], &call).unwrap(), ["--x=--output=/etc/passwd"]);
        assert_eq!(filled(&[&["{{ args.x }}"]], &json!({"x": -4.5})).unwrap(), ["-4.5"]);
    }

    #[test]
    fn what_no_command_can_be_given_is_refused() {
        assert!(filled(&[&["{{ args.x }}"]], &json!({"x": "a\0b"})).unwrap_err().contains("U+0000"));
        assert!(
            filled(&[&["{{ args.x }}"]], &json!({"x": "y".repeat(100_000)})).unwrap_err().contains("64 KiB")
        );
    }
}

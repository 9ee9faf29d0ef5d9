//! The file that tells what a host has: its tools and models, for checks of policies.

use indexmap::IndexMap;
use serde_json::Value;

use crate::analysis::{KnownModel, KnownNames, KnownTool, LintOptions, NameCompleteness};
use crate::policy::decode::{self, DecodedDocument, Spanned, VersionOne, record};
use crate::policy::{Effect, WrittenSchema};
use crate::text::Report;

record! {
    /// What a host has. JSON, or the YAML that policies are written in.
    #[part(true)]
    pub(crate) struct ToolsFile {
        /// The version of the format; always 1.
        pub version: VersionOne,
        /// All tools of the host, by their names.
        pub tools: IndexMap<String, ToolInfo>,
        /// All models of the host, by the names the policy's selectors match. Left out: they are not known.
        pub models: Option<IndexMap<String, ModelInfo>>,
        /// How often clients of models retry inside each attempt, if a model does not say more.
        pub inner_retries: u32 = 0,
    }
}

record! {
    /// A tool of the host.
    #[part(true)]
    pub(crate) struct ToolInfo {
        /// What a run does to the world.
        pub effect: Effect = Effect::Unknown,
        /// JSON Schema of the arguments.
        /// Example: `{"type": "object", "required": ["query"]}`
        pub parameters: Option<Spanned<WrittenSchema>>,
        /// How often it retries inside each run.
        pub inner_retries: u32 = 0,
    }
}

record! {
    /// A model of the host.
    pub(crate) struct ModelInfo {
        /// How often its client retries inside each attempt.
        pub inner_retries: u32 = 0,
    }
}

impl LintOptions {
    /// What a file of tools says, or what `unfazed tools AGENT --format json` prints of an agent. `name` is how it is called in
    /// reports.
    ///
    /// # Errors
    /// Every mistake in it, with its place.
    pub fn read_tools(name: &str, bytes: &[u8]) -> Result<Self, Report> {
        match of_agent(bytes) {
            Some(options) => Ok(options),
            None => ToolsFile::read(name, bytes).map(|file| file.value.lint_options()),
        }
    }
}

impl ToolsFile {
    /// Reads such a file. `name` is how it is called in reports.
    ///
    /// # Errors
    /// Every mistake in it, with its place.
    pub(crate) fn read(name: &str, bytes: &[u8]) -> Result<DecodedDocument<Self>, Report> {
        decode::read(name, bytes)
    }

    /// The JSON Schema of such files.
    pub(crate) fn json_schema() -> Value {
        decode::schema::<Self>()
    }

    /// What lints need to know of it.
    fn lint_options(&self) -> LintOptions {
        let VersionOne = self.version;
        let tools = self.tools.iter().map(|(name, tool)| KnownTool {
            name: name.clone(),
            effect: tool.effect,
            inner_retries: tool.inner_retries,
            arguments: tool.parameters.as_ref().and_then(|schema| KnownTool::arguments_of(&schema.value.0)),
            schema: tool.parameters.as_ref().map(|schema| schema.value.0.clone()),
        });
        let models = self.models.as_ref().map(|models| {
            let known = models
                .iter()
                .map(|(name, model)| KnownModel { name: name.clone(), inner_retries: model.inner_retries });
            known.collect()
        });
        let inner_retries = self.inner_retries;
        LintOptions { tools: Some(tools.collect()), models, inner_retries, ..LintOptions::default() }
    }
}

/// The tools of an agent as the command prints them. It has asked the servers; if one did not answer, tools may be missing,
/// and what is known are no more than names.
fn of_agent(bytes: &[u8]) -> Option<LintOptions> {
    let document: Value = serde_json::from_slice(bytes).ok()?;
    (document.get("v")? == 1).then_some(())?;
    let rows = document.get("tools")?.as_array()?;
    let tool = |row: &Value| {
        let effect = row.get("effect").and_then(Value::as_str);
        let all = [Effect::ReadOnly, Effect::Idempotent, Effect::NonIdempotent];
        let effect = all.into_iter().find(|one| Some(one.name()) == effect);
        Some(KnownTool {
            name: row.get("name")?.as_str()?.to_owned(),
            effect: effect.unwrap_or(Effect::Unknown),
            inner_retries: 0,
            arguments: row.get("parameters").and_then(KnownTool::arguments_of),
            schema: row.get("parameters").cloned(),
        })
    };
    let tools: Vec<KnownTool> = rows.iter().map(tool).collect::<Option<_>>()?;
    let texts = |key: &str| -> Option<Vec<String>> {
        let texts = document.get(key)?.as_array()?.iter();
        Some(texts.filter_map(Value::as_str).map(str::to_owned).collect())
    };
    let models = texts("models");
    let complete = document.get("failed").and_then(Value::as_array).is_none_or(Vec::is_empty);
    let known = |name: &String| KnownModel { name: name.clone(), inner_retries: 0 };
    Some(LintOptions {
        names: Some(KnownNames {
            owner: "agent",
            tools: Some(tools.iter().map(|tool| tool.name.clone()).collect()),
            models: models.clone(),
            completeness: if complete { NameCompleteness::All } else { NameCompleteness::More },
            shared: Vec::new(),
            unasked: texts("unasked").unwrap_or_default(),
        }),
        models: models.filter(|_| complete).map(|names| names.iter().map(known).collect()),
        tools: complete.then_some(tools),
        ..LintOptions::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_command_prints_of_an_agent_is_taken_as_it_is() {
        let text = r#"{"v": 1, "tools": [{"name": "refund", "kind": "process", "effect": "non_idempotent", "tokens": 9,
            "from": "x", "description": "", "parameters": {"type": "object", "properties": {"id": {}},
            "additionalProperties": false}}], "models": ["m"], "tokens": 9, "failed": []}"#;
        let options = LintOptions::read_tools("tools.json", text.as_bytes()).unwrap();
        let tools = options.tools.unwrap();
        assert_eq!((tools[0].name.as_str(), tools[0].effect), ("refund", Effect::NonIdempotent));
        assert_eq!(tools[0].arguments, Some(vec!["id".to_owned()]));
        assert_eq!(options.models.unwrap()[0].name, "m");
        assert_eq!(options.names.unwrap().completeness, NameCompleteness::All);
        let text = text.replace("\"failed\": []", "\"failed\": [\"server s: gone\"]");
        let options = LintOptions::read_tools("tools.json", text.as_bytes()).unwrap();
        assert!(options.tools.is_none(), "other tools may be there");
        assert_eq!(options.names.unwrap().completeness, NameCompleteness::More);
    }

    fn mistakes(text: &str) -> String {
        ToolsFile::read("tools.json", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn what_a_host_has_is_what_lints_know() {
        let text = r#"{
            "version": 1,
            "tools": {
                "search": {"effect": "read_only", "parameters": {"type": "object"}, "inner_retries": 2},
                "pay": {}
            },
            "models": {"main": {"inner_retries": 1}}
        }"#;
        let options = ToolsFile::read("tools.json", text.as_bytes()).unwrap().value.lint_options();
        let tools = options.tools.unwrap();
        let search = KnownTool {
            name: "search".into(),
            effect: Effect::ReadOnly,
            inner_retries: 2,
            arguments: None,
            schema: Some(serde_json::json!({"type": "object"})),
        };
        assert_eq!(tools[0], search);
        assert_eq!((tools[1].name.as_str(), tools[1].effect), ("pay", Effect::Unknown));
        assert_eq!(options.models.unwrap()[0].inner_retries, 1);
    }

    #[test]
    fn mistakes_are_told_with_their_places() {
        insta::assert_snapshot!(mistakes(r#"{"version": 2, "tools": {"t": {"parameters": {"type": "objekt"}}}}"#), @r#"
        tools.json:1:13: error[P0104]: version 2 of the format is not known
        tools.json:1:55: error[P0109]: `objekt` is not a type
        "#);
        insta::assert_snapshot!(mistakes(r#"{"version": 1, "tools": {"t": {"efect": "readonly"}, "t": {}}}"#), @r#"
        tools.json:1:32: error[P0101]: unknown field `efect` (did you mean `effect`?)
        tools.json:1:41: error[P0104]: unknown value `readonly` (did you mean `read_only`?)
        tools.json:1:54: error[P0002]: duplicate key `t` (set again here)
        "#);
    }
}

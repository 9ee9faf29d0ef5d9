//! The tools an agent has, as the model and the interpreter see them.

use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::policy::{Effect, Policy};
use crate::text::{Schema, SchemaError};

/// A tool as it is declared to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolSpec {
    /// The name the model calls it by.
    /// Example: `lookup_price`
    pub name: String,
    /// What it does, for the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments.
    /// Example: `{"type": "object", "properties": {"item": {"type": "integer"}}}`
    pub parameters: Value,
    /// What a run does to the world, if the tool says so; the policy may say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

/// The tools of a run with their compiled schemas. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ToolCatalogue {
    tools: Arc<IndexMap<String, Arc<CatalogueEntry>>>,
}

#[derive(Debug)]
struct CatalogueEntry {
    spec: ToolSpec,
    schema: Schema,
}

/// Why a set of tools cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// Two tools have the same name.
    #[error("two tools are named `{0}`; give one of them another name")]
    Duplicate(String),
    /// The parameters of a tool are not a valid JSON Schema.
    #[error("the parameters of tool `{tool}` are not a JSON Schema: {source}")]
    Schema {
        /// The tool.
        tool: String,
        /// The error in the schema.
        source: SchemaError,
    },
}

/// A tool has the name that the policy reserves for the final report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a tool is named `{0}`, by which the policy takes the final report; give one of them another name")]
pub struct NameClash(pub String);

impl ToolCatalogue {
    /// Checks whether the policy can be used with these tools.
    ///
    /// # Errors
    /// A tool has the name that the policy reserves for the final report.
    pub fn fits(&self, policy: &Policy) -> Result<(), NameClash> {
        match policy.output() {
            Some(output) if self.get(&output.tool.value).is_some() => {
                Err(NameClash(output.tool.value.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Compiles the schemas of `specs`.
    ///
    /// # Errors
    /// Two tools have the same name, or parameters are not a valid JSON Schema.
    pub fn new(specs: impl IntoIterator<Item = ToolSpec>) -> Result<Self, CatalogueError> {
        // The order is kept: models see the tools in this order, and a change invalidates the provider's prompt
        // cache.
        let mut tools = IndexMap::new();
        for spec in specs {
            // Schemas are compiled once for all runs, so that a broken schema is reported at the start, not at the
            // first call.
            let schema = Schema::compile(&spec.parameters)
                .map_err(|source| CatalogueError::Schema { tool: spec.name.clone(), source })?;
            if tools.contains_key(&spec.name) {
                return Err(CatalogueError::Duplicate(spec.name));
            }
            tools.insert(spec.name.clone(), Arc::new(CatalogueEntry { spec, schema }));
        }
        Ok(Self { tools: Arc::new(tools) })
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        self.tools.get(name).map(|entry| &entry.spec)
    }

    /// The compiled schema of that tool's arguments.
    pub fn schema(&self, name: &str) -> Option<&Schema> {
        self.tools.get(name).map(|entry| &entry.schema)
    }

    /// All tools, in the order they were given.
    pub fn iter(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.values().map(|entry| &entry.spec)
    }

    /// The names of all tools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }
}

/// The tools of all of them, whose schemas are not compiled again. Of two with the same name the first stays.
impl FromIterator<ToolCatalogue> for ToolCatalogue {
    fn from_iter<C: IntoIterator<Item = Self>>(catalogues: C) -> Self {
        let mut tools = IndexMap::new();
        for (name, entry) in catalogues.into_iter().flat_map(|catalogue| (*catalogue.tools).clone()) {
            tools.entry(name).or_insert(entry);
        }
        Self { tools: Arc::new(tools) }
    }
}

//! The tools of a run, in order.

use std::fmt;
use std::sync::Arc;

use crate::engine::{CatalogueError, ToolCatalogue};
use crate::host::Tool;

/// The tools of a run, in the order they are shown to the model. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tools(Vec<Arc<dyn Tool>>);

impl Tools {
    /// No tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool at the end. That names differ is checked by [`Tools::catalogue`].
    pub fn push(&mut self, tool: Arc<dyn Tool>) {
        self.0.push(tool);
    }

    /// The set with `tool` at the end.
    #[must_use]
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        self.push(Arc::new(tool));
        self
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.iter().find(|tool| tool.spec().name == name)
    }

    /// All tools, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.0.iter()
    }

    /// The tools as the interpreter sees them.
    ///
    /// # Errors
    /// Two tools of one name, or parameters that are not a JSON Schema.
    pub fn catalogue(&self) -> Result<ToolCatalogue, CatalogueError> {
        ToolCatalogue::new(self.0.iter().map(|tool| tool.spec().clone()))
    }
}

impl FromIterator<Arc<dyn Tool>> for Tools {
    fn from_iter<I: IntoIterator<Item = Arc<dyn Tool>>>(tools: I) -> Self {
        Self(tools.into_iter().collect())
    }
}

impl Extend<Arc<dyn Tool>> for Tools {
    fn extend<I: IntoIterator<Item = Arc<dyn Tool>>>(&mut self, tools: I) {
        self.0.extend(tools);
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|tool| &tool.spec().name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tool::builtin;

    fn tools(names: &[&str]) -> Tools {
        names.iter().map(|name| builtin(name).unwrap()).collect()
    }

    #[test]
    fn tools_keep_their_order() {
        let tools = tools(&["echo", "calc"]);
        assert_eq!(format!("{tools:?}"), r#"["echo", "calc"]"#);
        assert_eq!(tools.catalogue().unwrap().names().collect::<Vec<_>>(), ["echo", "calc"]);
        assert_eq!(tools.get("calc").unwrap().spec().name, "calc");
        assert!(tools.get("dig").is_none());
    }

    #[test]
    fn two_tools_of_one_name_are_refused() {
        let error = tools(&["echo", "echo"]).catalogue().unwrap_err();
        assert_eq!(error.to_string(), "two tools are named `echo`; give one of them another name");
    }
}

//! What requests have declared lately. Clients send the same tools and the same form with every request of a conversation, and
//! compiling their schemas takes longer than all else that is done about one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::Value;

use super::declared::{self, DeclaredTools};
use crate::engine::{CatalogueError, ToolCatalogue, ToolSpec};
use crate::host::gateway::request::RequestBody;
use crate::host::model::front::GatewayDialect;
use crate::text::Schema;

/// The most bytes of declarations that are kept, and of one of them: read and compiled they take some ten times as much.
const MOST_KEPT: usize = 1 << 20;
const MOST_OF_ONE: usize = 256 << 10;
/// The most declarations that are kept: each request is compared with them.
const MOST: usize = 64;

/// What requests have declared lately, of all clients together.
#[derive(Default)]
pub(in crate::host::gateway) struct KnownDeclarations {
    tools: Mutex<RecentTexts<Option<KnownTools>>>,
    forms: Mutex<RecentTexts<Option<Result<Schema, String>>>>,
}

/// The tools of a request.
pub(super) struct KnownTools {
    /// Each with the schema of its arguments, if it has one.
    pub(super) tools: BTreeMap<String, Option<KnownTool>>,
    /// Whether there may be others.
    pub(super) open: bool,
}

/// A tool with a schema.
pub(super) struct KnownTool {
    parameters: Value,
    /// Made when it is first called.
    compiled: OnceLock<Result<ToolCatalogue, String>>,
}

/// What was made of texts, the latest last. A text is what was declared as it stands in the body, so nobody gets what others made of
/// another one.
struct RecentTexts<T> {
    all: VecDeque<(DeclaredText, Arc<T>)>,
    bytes: usize,
}

/// A declaration as it stands in the body, and what it means besides.
#[derive(PartialEq)]
struct DeclaredText {
    dialect: GatewayDialect,
    is_open: bool,
    text: Vec<u8>,
}

impl KnownDeclarations {
    /// The tools of a request; `None`: there are none, or they cannot be read.
    pub(super) fn tools(&self, dialect: GatewayDialect, body: &RequestBody) -> Arc<Option<KnownTools>> {
        let (text, is_open) = declared::text_of_tools(body);
        let read = || declared::tools(dialect, body).map(KnownTools::from);
        of_text(&self.tools, DeclaredText { dialect, is_open, text }, read)
    }

    /// The schema of the answer, or why it cannot be used; `None`: any text will do.
    pub(super) fn form(
        &self,
        dialect: GatewayDialect,
        body: &RequestBody,
    ) -> Arc<Option<Result<Schema, String>>> {
        let text = declared::text_of_form(body);
        let read = || {
            let form = declared::form(dialect, body)?;
            Some(Schema::compile(&form).map_err(|error| error.message))
        };
        of_text(&self.forms, DeclaredText { dialect, is_open: false, text }, read)
    }
}

impl KnownTool {
    /// A catalogue of this tool alone.
    ///
    /// # Errors
    /// Why its schema cannot be used.
    pub(super) fn catalogue(&self, name: &str) -> Result<ToolCatalogue, String> {
        let compile = || {
            let (name, parameters) = (name.to_owned(), self.parameters.clone());
            let spec = ToolSpec { name, description: String::new(), parameters, effect: None };
            ToolCatalogue::new([spec]).map_err(|error| match error {
                CatalogueError::Schema { source, .. } => source.message,
                CatalogueError::Duplicate(_) => error.to_string(),
            })
        };
        self.compiled.get_or_init(compile).clone()
    }
}

impl From<DeclaredTools> for KnownTools {
    fn from(DeclaredTools { tools, open }: DeclaredTools) -> Self {
        let known = |parameters| KnownTool { parameters, compiled: OnceLock::new() };
        Self { tools: tools.into_iter().map(|(name, schema)| (name, schema.map(known))).collect(), open }
    }
}

impl<T> Default for RecentTexts<T> {
    fn default() -> Self {
        Self { all: VecDeque::new(), bytes: 0 }
    }
}

impl<T> RecentTexts<T> {
    /// What was made of a text. It is the latest from now on.
    fn find(&mut self, text: &DeclaredText) -> Option<Arc<T>> {
        let at = self.all.iter().rposition(|(known, _)| known == text)?;
        let known = self.all.remove(at)?;
        let made = Arc::clone(&known.1);
        self.all.push_back(known);
        Some(made)
    }

    fn keep(&mut self, text: DeclaredText, made: &Arc<T>) {
        if text.text.len() > MOST_OF_ONE || self.find(&text).is_some() {
            return;
        }
        self.bytes = self.bytes.saturating_add(text.text.len());
        self.all.push_back((text, Arc::clone(made)));
        while self.bytes > MOST_KEPT || self.all.len() > MOST {
            let Some((oldest, _)) = self.all.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.text.len());
        }
    }
}

/// What is made of a text, or was. Nobody waits for it while it is made.
fn of_text<T>(known: &Mutex<RecentTexts<T>>, text: DeclaredText, read: impl FnOnce() -> T) -> Arc<T> {
    fn lock<T>(known: &Mutex<RecentTexts<T>>) -> MutexGuard<'_, RecentTexts<T>> {
        known.lock().unwrap_or_else(PoisonError::into_inner)
    }
    let found = lock(known).find(&text);
    found.unwrap_or_else(|| {
        let made = Arc::new(read());
        lock(known).keep(text, &made);
        made
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn body(fields: &Value) -> RequestBody {
        let mut fields = fields.clone();
        fields["model"] = "m".into();
        RequestBody::read(Bytes::from(fields.to_string()), None).unwrap()
    }

    fn tool(name: &str, parameters: &Value) -> RequestBody {
        let function = json!({"name": name, "parameters": parameters});
        body(&json!({"tools": [{"type": "function", "function": function}], "messages": []}))
    }

    #[test]
    fn what_was_declared_before_is_neither_read_nor_compiled_again() {
        let known = KnownDeclarations::default();
        let parameters = json!({"type": "object", "required": ["n"]});
        let schema = |request: &RequestBody| {
            let tools = known.tools(GatewayDialect::Chat, request);
            let (name, tool) = tools.as_ref().as_ref().unwrap().tools.first_key_value().unwrap();
            let catalogue = tool.as_ref().unwrap().catalogue(name).unwrap();
            core::ptr::from_ref(catalogue.schema(name).unwrap().json())
        };
        let first = schema(&tool("look", &parameters));
        let mut again = json!({"model": "other", "messages": [{"role": "user", "content": "x"}]});
        again["tools"] =
            json!([{"type": "function", "function": {"name": "look", "parameters": parameters}}]);
        assert_eq!(first, schema(&body(&again)), "of another request with the same tools");
        assert_ne!(first, schema(&tool("seek", &parameters)));
        let form = |schema: Value| {
            let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
            known.form(GatewayDialect::Chat, &body(&json!({ "response_format": format })))
        };
        assert!(Arc::ptr_eq(&form(json!({"type": "array"})), &form(json!({"type": "array"}))));
        assert!(!Arc::ptr_eq(&form(json!({"type": "array"})), &form(json!({"type": "object"}))));
        assert!(matches!(&*form(json!({"type": 1})), Some(Err(_))));
    }

    #[test]
    fn a_text_says_something_else_in_another_dialect_and_beside_other_fields() {
        let known = KnownDeclarations::default();
        let tools = json!([{"name": "look", "input_schema": {}}]);
        let named = |dialect, fields: &Value| {
            let tools = known.tools(dialect, &body(fields));
            tools.as_ref().as_ref().map(|known| (known.tools.len(), known.open))
        };
        assert_eq!(named(GatewayDialect::Messages, &json!({ "tools": tools })), Some((1, false)));
        assert_eq!(named(GatewayDialect::Chat, &json!({ "tools": tools })), None);
        let open = json!({"tools": tools, "functions": []});
        assert_eq!(named(GatewayDialect::Messages, &open), Some((1, true)));
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_latest_stays() {
        let known = KnownDeclarations::default();
        let of = |text: &str| known.tools(GatewayDialect::Chat, &tool("look", &json!({ "title": text })));
        let kept = of("kept");
        for number in 0..MOST * 2 {
            of(&number.to_string());
            assert!(Arc::ptr_eq(&kept, &of("kept")));
        }
        let (small, large) = (of("1"), "x".repeat(MOST_OF_ONE - 200));
        for number in 0..10 {
            of(&format!("{number}{large}"));
        }
        let too_large = "x".repeat(MOST_OF_ONE);
        assert!(!Arc::ptr_eq(&of(&too_large), &of(&too_large)));
        let recent = known.tools.lock().unwrap();
        assert!(recent.all.len() <= MOST && recent.bytes <= MOST_KEPT, "{}", recent.bytes);
        assert_eq!(recent.bytes, recent.all.iter().map(|(known, _)| known.text.len()).sum::<usize>());
        drop(recent);
        assert!(!Arc::ptr_eq(&small, &of("1")), "the oldest went");
    }
}

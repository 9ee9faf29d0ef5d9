//! The tools of the server: what the policy knows of them, and which of them the client is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::{ErrorCode, ErrorData, Tool as Declared};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::link::RelayLink;
use super::message::{self, RpcMessage};
use crate::engine::ToolSpec;
use crate::host::guard::ClassifyError;
use crate::host::tool::mcp::declare;
use crate::host::tool::mcp::failure::LinkError;
use crate::host::tool::mcp::issue::{McpIssueReason, McpToolIssue};
use crate::host::tool::mcp::link::{MOST_PAGES, MOST_TOOLS};

/// The most tools that are logged as left out: a server may invent them without end.
const MOST_LOGGED: usize = 1000;

/// The tools of a server.
#[derive(Debug)]
pub(super) struct RelayTools {
    /// The name of the server.
    server: String,
    /// What the names begin with by which the policy knows the tools.
    prefix: String,
    /// Whoever lists them holds it: the others wait, and have the same.
    listing: tokio::sync::Mutex<()>,
    stale: AtomicBool,
    known: Mutex<KnownTools>,
}

#[derive(Debug, Default)]
struct KnownTools {
    /// By the names that the policy knows them by.
    tools: BTreeMap<String, KnownTool>,
    /// As the policy sees them, in the server's order.
    specs: Vec<ToolSpec>,
    /// What was logged about tools that are left out.
    logged: BTreeSet<String>,
}

/// A tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownTool {
    /// What the server calls it.
    pub(super) remote: String,
    /// Clients expect structured content of it.
    pub(super) structured: bool,
}

impl RelayTools {
    pub(super) fn new(server: String, prefix: String) -> Self {
        Self {
            server,
            prefix,
            listing: tokio::sync::Mutex::default(),
            stale: AtomicBool::new(true),
            known: Mutex::default(),
        }
    }

    /// The server may have other tools now.
    pub(super) fn outdate(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// The name by which the policy knows a tool.
    pub(super) fn name_of(&self, remote: &str) -> String {
        format!("{}{remote}", self.prefix)
    }

    /// The tool that the policy knows by that name.
    pub(super) fn get(&self, name: &str) -> Option<KnownTool> {
        self.known().tools.get(name).cloned()
    }

    /// As the policy sees them.
    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        self.known().specs.clone()
    }

    /// The names that the server gives them.
    pub(super) fn remotes(&self) -> Vec<String> {
        self.known().tools.values().map(|tool| tool.remote.clone()).collect()
    }

    /// What the policy knows them by.
    pub(super) fn names(&self) -> Vec<String> {
        self.known().tools.keys().cloned().collect()
    }

    /// Lists the tools, unless they are known. `meta` is the `_meta` of the request that needs them. Returns whether
    /// they may be others.
    pub(super) async fn refresh(
        &self,
        upstream: &RelayLink,
        meta: &Map<String, Value>,
    ) -> Result<bool, LinkError> {
        let _one_at_a_time = self.listing.lock().await;
        if !self.stale.load(Ordering::Acquire) {
            return Ok(false);
        }
        let mut fresh = FreshTools { stale: &self.stale, is_whole: false };
        // What changes from now on is not in this list.
        self.stale.store(false, Ordering::Release);
        let (specs, tools) = self.list(upstream, meta).await?;
        fresh.is_whole = true;
        let mut known = self.known();
        (known.specs, known.tools) = (specs, tools);
        Ok(true)
    }

    async fn list(
        &self,
        upstream: &RelayLink,
        meta: &Map<String, Value>,
    ) -> Result<(Vec<ToolSpec>, BTreeMap<String, KnownTool>), LinkError> {
        let (mut specs, mut tools) = (Vec::new(), BTreeMap::new());
        let mut cursor: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let Some(page) = page(upstream, meta, cursor.take()).await? else { break };
            for tool in page.tools {
                match tool.and_then(|tool| Ok((usable(&tool)?, tool))) {
                    Ok((mut spec, tool)) => {
                        spec.name = self.name_of(&tool.name);
                        let structured = tool.output_schema.is_some();
                        let known = KnownTool { remote: tool.name.into_owned(), structured };
                        if tools.insert(spec.name.clone(), known).is_none() {
                            specs.push(spec);
                        }
                    }
                    Err(issue) => self.log(&issue),
                }
            }
            if specs.len() > MOST_TOOLS {
                return Err(format!("the server has more than {MOST_TOOLS} tools").into());
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        if cursor.is_some() {
            return Err(format!("the server's list of tools has more than {MOST_PAGES} pages").into());
        }
        Ok((specs, tools))
    }

    /// The line that answers a client's request for tools, without those that cannot be used: they would make some clients
    /// refuse the whole list. `None`: all of them can be.
    pub(super) fn without_unusable(&self, line: &str) -> Option<String> {
        let Ok(RpcMessage::Answer { outcome: Ok(result), .. }) = RpcMessage::parse(line) else { return None };
        let ListedTools { tools } = serde_json::from_str(result.get()).ok()?;
        let mut names = BTreeSet::new();
        let may_stay = |tool: &&&RawValue| match self.shown(tool, &mut names) {
            Ok(()) => true,
            Err(issue) => {
                self.log(&issue);
                false
            }
        };
        let kept: Vec<&RawValue> = tools.iter().filter(may_stay).copied().collect();
        if kept.len() == tools.len() {
            return None;
        }
        let mut fields: indexmap::IndexMap<String, Box<RawValue>> =
            serde_json::from_str(result.get()).ok()?;
        fields.insert("tools".to_owned(), serde_json::value::to_raw_value(&kept).ok()?);
        Some(message::with_part(line.trim(), result, &serde_json::to_string(&fields).ok()?))
    }

    /// Whether the client is shown a tool, or why not.
    pub(super) fn may_be_shown(&self, tool: &RawValue) -> bool {
        self.shown(tool, &mut BTreeSet::new()).map_err(|issue| self.log(&issue)).is_ok()
    }

    fn shown(&self, tool: &RawValue, names: &mut BTreeSet<String>) -> Result<(), McpToolIssue> {
        let page = declare::page(serde_json::json!({ "tools": [tool] }));
        let declared = page.and_then(|page| page.tools.into_iter().next());
        let Some(declared) = declared else { return Ok(()) };
        let declared = declared?;
        if !names.insert(declared.name.to_string()) {
            let message = format!("the server lists tool `{}` more than once", declared.name);
            return Err(McpToolIssue::new(&declared.name, McpIssueReason::DuplicateName, &message));
        }
        // What the relay has listed itself is checked already.
        if self.get(&self.name_of(&declared.name)).is_some() { Ok(()) } else { usable(&declared).map(drop) }
    }

    /// Says once that a tool is left out.
    fn log(&self, issue: &McpToolIssue) {
        let McpToolIssue { tool, reason, message } = issue;
        let mut known = self.known();
        if known.logged.len() < MOST_LOGGED && known.logged.insert(message.clone()) {
            let server = &self.server;
            tracing::warn!(server, tool, reason = reason.name(), message, "a tool of the server is left out");
        }
    }

    fn known(&self) -> MutexGuard<'_, KnownTools> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A list that is being made. Given up before its end, it is to be made again.
struct FreshTools<'a> {
    stale: &'a AtomicBool,
    is_whole: bool,
}

impl Drop for FreshTools<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            self.stale.store(true, Ordering::Release);
        }
    }
}

/// The tools of a page as they were sent.
#[derive(Deserialize)]
struct ListedTools<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

/// The tool as the policy sees it, or why it cannot be used.
fn usable(tool: &Declared) -> Result<ToolSpec, McpToolIssue> {
    declare::spec("", tool)
}

/// One page of the list; `None`: the server has no tools.
async fn page(
    upstream: &RelayLink,
    meta: &Map<String, Value>,
    cursor: Option<String>,
) -> Result<Option<declare::ToolPage>, LinkError> {
    let mut params = Map::new();
    if let Some(cursor) = cursor {
        params.insert("cursor".to_owned(), cursor.into());
    }
    if !meta.is_empty() {
        params.insert("_meta".to_owned(), Value::Object(meta.clone()));
    }
    let params = Value::Object(params).to_string();
    let asked = upstream.ask(|number| message::request(number, "tools/list", &params)).await;
    let line = match asked {
        Ok(asked) => asked.answer().await.map_err(|error| LinkError::from(error.message()))?,
        Err(_) => return Err(upstream.why().await.into()),
    };
    let unreadable = || LinkError::from("the server's list of tools cannot be read".to_owned());
    match RpcMessage::parse(&line) {
        Ok(RpcMessage::Answer { outcome: Ok(result), .. }) => {
            let page = serde_json::from_str(result.get()).ok().and_then(declare::page);
            page.map(Some).ok_or_else(unreadable)
        }
        Ok(RpcMessage::Answer { outcome: Err(error), .. }) => {
            let error: ErrorData = serde_json::from_str(error.get()).map_err(|_| unreadable())?;
            if error.code == ErrorCode::METHOD_NOT_FOUND {
                return Ok(None);
            }
            Err(format!("the server does not list its tools: {} ({})", error.message, error.code.0).into())
        }
        _ => Err(unreadable()),
    }
}

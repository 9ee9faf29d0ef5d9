//! The tools of the server: what the policy knows of them, and which of them the client is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::Tool as Declared;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::link::RelayLink;
use super::merge::ListPage;
use super::message::{self, RpcMessage};
use super::pages::{self, ListFields, ListKind};
use super::shown::ShownTools;
use crate::engine::ToolSpec;
use crate::host::tool::mcp::declare;
use crate::host::tool::mcp::failure::LinkError;
use crate::host::tool::mcp::issue::{McpIssueReason, McpToolIssue};

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
    /// As a client that lists them now would be shown them.
    listed: ShownTools,
    /// What the client was shown last; `None`: it has not listed them.
    shown: Option<ShownTools>,
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

    /// Whether they are to be listed before they are known.
    pub(super) fn is_outdated(&self) -> bool {
        self.stale.load(Ordering::Acquire)
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

    /// What the client knows of them: what it was shown, else what its calls found; `None`: nothing.
    pub(super) fn known_to_client(&self) -> Option<ShownTools> {
        let known = self.known();
        known.shown.clone().or_else(|| Some(known.listed.clone()).filter(|listed| !listed.is_empty()))
    }

    /// What a client that lists them now would be shown.
    pub(super) fn listed(&self) -> ShownTools {
        self.known().listed.clone()
    }

    /// The client was shown these, and no others.
    pub(super) fn were_shown(&self, shown: ShownTools) {
        self.known().shown = Some(shown);
    }

    /// The server has listed these for the client. Whether it has others than before it need not say, and in the protocol's version
    /// 2026-07-28 it says so to subscribers alone: a call must not be held against what the client is not shown any more.
    pub(super) fn compare(&self, shown: &ShownTools) {
        if shown.differ_from(&self.known().listed) {
            self.outdate();
        }
    }

    /// Lists the tools, unless they are known. `meta` is the `_meta` of the request that needs them. `learned` is done before
    /// anybody else takes them for known.
    pub(super) async fn refresh(
        &self,
        upstream: &Arc<RelayLink>,
        meta: &Map<String, Value>,
        learned: impl FnOnce() -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        let _one_at_a_time = self.listing.lock().await;
        if !self.is_outdated() {
            return Ok(());
        }
        let mut fresh = FreshTools { stale: &self.stale, is_whole: false };
        // What changes from now on is not in this list.
        self.stale.store(false, Ordering::Release);
        let params = if meta.is_empty() {
            ListFields::new()
        } else {
            ListFields::from([("_meta".to_owned(), to_raw_value(meta).map_err(unwritable)?)])
        };
        let pages = pages::all(upstream, ListKind::Tools, params).await?;
        self.learn(&pages.items);
        learned()?;
        fresh.is_whole = true;
        Ok(())
    }

    /// Takes note of what the server has listed.
    fn learn(&self, items: &[Box<RawValue>]) {
        let (mut specs, mut tools, mut listed) = (Vec::new(), BTreeMap::new(), ShownTools::default());
        for item in items {
            match declared(item).and_then(|tool| Ok((usable(&tool)?, tool))) {
                Ok((mut spec, tool)) => {
                    spec.name = self.name_of(&tool.name);
                    if listed.add(&tool.name, item) {
                        let structured = tool.output_schema.is_some();
                        let known = KnownTool { remote: tool.name.into_owned(), structured };
                        tools.insert(spec.name.clone(), known);
                        specs.push(spec);
                    }
                }
                Err(issue) => self.log(&issue),
            }
        }
        let mut known = self.known();
        (known.specs, known.tools, known.listed) = (specs, tools, listed);
    }

    /// The line that answers a client's request for tools, without those that cannot be used: they would make some clients
    /// refuse the whole list. `None`: all of them can be. `is_first`: it is the first page.
    pub(super) fn without_unusable(&self, line: &str, is_first: bool) -> Option<String> {
        let Ok(RpcMessage::Answer { outcome: Ok(result), .. }) = RpcMessage::parse(line) else { return None };
        let page = ListPage::read(result.get(), ListKind::Tools.key())?;
        let before = if is_first { None } else { self.known().shown.take() };
        let mut shown = before.unwrap_or_default();
        let kept: Vec<&RawValue> = page
            .items
            .iter()
            .map(|item| &**item)
            .filter(|item| self.may_be_shown(item, &mut shown))
            .collect();
        shown.has_more(page.next.is_some());
        self.compare(&shown);
        self.were_shown(shown);
        if kept.len() == page.items.len() {
            return None;
        }
        let mut fields: ListFields = serde_json::from_str(result.get()).ok()?;
        fields.insert(ListKind::Tools.key().to_owned(), to_raw_value(&kept).ok()?);
        Some(message::with_part(line.trim(), result, &serde_json::to_string(&fields).ok()?))
    }

    /// Whether the client is shown a tool, after these. Says once why not.
    pub(super) fn may_be_shown(&self, item: &RawValue, shown: &mut ShownTools) -> bool {
        self.show(item, shown).map_err(|issue| self.log(&issue)).is_ok()
    }

    fn show(&self, item: &RawValue, shown: &mut ShownTools) -> Result<(), McpToolIssue> {
        let declared = declared(item)?;
        // What the relay has listed itself is checked already.
        if !self.known().listed.has(&declared.name, item) {
            usable(&declared)?;
        }
        if shown.add(&declared.name, item) {
            return Ok(());
        }
        let message = format!("the server lists tool `{}` more than once", declared.name);
        Err(McpToolIssue::new(&declared.name, McpIssueReason::DuplicateName, &message))
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

/// The tool as the policy sees it, or why it cannot be used.
fn usable(tool: &Declared) -> Result<ToolSpec, McpToolIssue> {
    declare::spec("", tool)
}

/// A tool as the server declares it, or why it cannot be read.
fn declared(item: &RawValue) -> Result<Declared, McpToolIssue> {
    let page = declare::page(serde_json::json!({ "tools": [item] }));
    let tool = page.and_then(|page| page.tools.into_iter().next());
    tool.unwrap_or_else(|| {
        let message = "the declaration of a tool cannot be read";
        Err(McpToolIssue::new("without a name", McpIssueReason::UnreadableDeclaration, message))
    })
}

fn unwritable(error: serde_json::Error) -> LinkError {
    LinkError::of(error.to_string(), error)
}

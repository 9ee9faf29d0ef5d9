//! What several servers have, as one list: each server is asked for all pages of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use indexmap::IndexMap;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::RelayParts;
use super::merge::{self, ListPage};
use super::message::{self, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcAnswer, RpcMessage};
use super::upstream::RelayServer;
use crate::host::guard::ClassifyError;
use crate::host::tool::mcp::failure::LinkError;
use crate::host::tool::mcp::link::{MOST_PAGES, MOST_TOOLS};

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// What a server has listed.
struct ServerList {
    /// The number of the server.
    server: usize,
    fields: IndexMap<String, Box<RawValue>>,
    items: Vec<Box<RawValue>>,
}

impl ListKind {
    /// What a method lists; `None`: it does not list.
    pub(super) fn of(method: &str) -> Option<Self> {
        [Self::Tools, Self::Prompts, Self::Resources, Self::Templates]
            .into_iter()
            .find(|kind| kind.method() == method)
    }

    const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The field of the answer that has the items.
    const fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// What a server announces that has any.
    const fn feature(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// The field of an item by which it is known.
    const fn name(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }
}

impl RelayParts {
    /// One list of all servers. A server that does not answer is left out.
    pub(super) async fn merged_list(
        self: &Arc<Self>,
        kind: ListKind,
        params: Option<&RawValue>,
    ) -> RpcAnswer {
        let mut params: IndexMap<String, Box<RawValue>> =
            params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        if params.shift_remove("cursor").is_some_and(|cursor| cursor.get() != "null") {
            return Err(message::failure(INVALID_PARAMS, "the list has one page, and no cursor was given"));
        }
        let asked = self.with_feature(kind.feature());
        let lists = join_all(asked.iter().map(|(at, server)| self.list_of(*at, server, kind, &params))).await;
        let (mut listed, mut refused) = (Vec::new(), None);
        for ((_, server), list) in asked.iter().zip(lists) {
            match list {
                Ok(list) => listed.push(list),
                Err(error) => {
                    let (server, list) = (&server.config.name, kind.method());
                    tracing::warn!(server, list, error, "a server is left out of a list");
                    refused.get_or_insert(error);
                }
            }
        }
        if let (true, Some(error)) = (listed.is_empty(), refused) {
            return Err(error);
        }
        let fields = listed.first().map(|list| list.fields.clone()).unwrap_or_default();
        let items = self.shown(kind, listed);
        merge::list(fields, kind.key(), &items)
            .map_err(|error| message::failure(INTERNAL_ERROR, &error.to_string()))
    }

    /// Lists the tools of all servers, unless they are known, so that short names are known.
    pub(super) async fn list_all_tools(self: &Arc<Self>, meta: &Map<String, Value>) {
        let asked = self.with_feature("tools");
        let listed = join_all(asked.iter().map(|(_, server)| async move {
            let upstream = self.link(server).await?;
            self.list_tools(server, &upstream, meta).await
        }));
        let mut is_complete = self.is_complete("tools", asked.len());
        for ((_, server), listed) in asked.iter().zip(listed.await) {
            if let Err(LinkError { why, .. }) = listed {
                is_complete = false;
                tracing::debug!(server = server.config.name, why, "the tools of a server are not known");
            }
        }
        let names: Vec<Vec<String>> = self.servers.iter().map(|server| server.tools.remotes()).collect();
        let names = names.iter().enumerate();
        let names = names.flat_map(|(at, names)| names.iter().map(move |name| (at, name.as_str())));
        self.shared().tools.learn(names, is_complete);
    }

    /// Whether so many servers are all that have a feature, or may have it.
    fn is_complete(&self, feature: &str, servers: usize) -> bool {
        self.servers.iter().filter(|server| server.has(feature) != Some(false)).count() == servers
    }

    /// All pages of one server.
    async fn list_of(
        self: &Arc<Self>,
        at: usize,
        server: &Arc<RelayServer>,
        kind: ListKind,
        params: &IndexMap<String, Box<RawValue>>,
    ) -> Result<ServerList, String> {
        let within = server.config.start_timeout;
        let pages = tokio::time::timeout(within.to_std(), self.pages_of(server, kind, params.clone())).await;
        let (fields, items) = pages.unwrap_or_else(|_| {
            Err(message::failure(INTERNAL_ERROR, &format!("the server did not answer within {within}")))
        })?;
        Ok(ServerList { server: at, fields, items })
    }

    async fn pages_of(
        self: &Arc<Self>,
        server: &Arc<RelayServer>,
        kind: ListKind,
        mut params: IndexMap<String, Box<RawValue>>,
    ) -> Result<(IndexMap<String, Box<RawValue>>, Vec<Box<RawValue>>), String> {
        let failed = |why: &str| message::failure(INTERNAL_ERROR, why);
        let upstream = self.link(server).await.map_err(|error| failed(&error.why))?;
        let (mut fields, mut items) = (IndexMap::new(), Vec::new());
        for _ in 0..MOST_PAGES {
            let text = serde_json::to_string(&params).map_err(|error| failed(&error.to_string()))?;
            let asked = upstream.ask(|number| message::request(number, kind.method(), &text)).await;
            let Ok(asked) = asked else { return Err(failed(&upstream.why().await)) };
            let line = asked.answer().await.map_err(|error| failed(&error.message()))?;
            let page = match RpcMessage::parse(&line) {
                Ok(RpcMessage::Answer { outcome: Ok(result), .. }) => {
                    ListPage::read(result.get(), kind.key())
                }
                Ok(RpcMessage::Answer { outcome: Err(error), .. }) if is_unknown_method(error) => break,
                Ok(RpcMessage::Answer { outcome: Err(error), .. }) => return Err(error.get().to_owned()),
                _ => None,
            };
            let page = page.ok_or_else(|| failed("the server's list cannot be read"))?;
            items.extend(page.items);
            if items.len() > MOST_TOOLS {
                return Err(failed(&format!("the server lists more than {MOST_TOOLS}")));
            }
            if fields.is_empty() {
                fields = page.fields;
            }
            let Some(next) = page.next else { return Ok((fields, items)) };
            params.insert(
                "cursor".to_owned(),
                to_raw_value(&next).map_err(|error| failed(&error.to_string()))?,
            );
        }
        // Without pages the server has none of it.
        if items.is_empty() {
            Ok((fields, items))
        } else {
            Err(failed("the server's list has too many pages"))
        }
    }

    /// What the client sees of the lists, and what is known of it from now on.
    fn shown(&self, kind: ListKind, listed: Vec<ServerList>) -> Vec<Box<RawValue>> {
        let mut items: Vec<(usize, String, Box<RawValue>)> = Vec::new();
        let answered = listed.len();
        for list in listed {
            let (at, mut seen) = (list.server, BTreeSet::new());
            for item in list.items {
                let Some(name) = merge::text_of(&item, kind.name()) else { continue };
                let is_usable = kind != ListKind::Tools
                    || self.servers.get(at).is_some_and(|server| server.tools.may_be_shown(&item));
                if is_usable && seen.insert(name.clone()) {
                    items.push((at, name, item));
                }
            }
        }
        let is_complete = self.is_complete(kind.feature(), answered);
        let mut shared = self.shared();
        let names = match kind {
            ListKind::Tools => &mut shared.tools,
            ListKind::Prompts => &mut shared.prompts,
            ListKind::Resources => {
                let owners = shared.resources.learn(items.iter().map(|(at, uri, _)| (*at, uri.as_str())));
                let kept = items.iter().filter(|(at, uri, _)| owners.get(uri.as_str()) == Some(at));
                return kept.map(|(_, _, item)| item.clone()).collect();
            }
            ListKind::Templates => {
                items.retain(|(at, uri, _)| shared.resources.learn_template(*at, uri));
                return items.into_iter().map(|(_, _, item)| item).collect();
            }
        };
        names.learn(items.iter().map(|(at, name, _)| (*at, name.as_str())), is_complete);
        let renamed = items.into_iter().filter_map(|(at, name, item)| {
            let shown = names.shown(at, &name);
            if shown == name { Some(item) } else { merge::with_text(&item, "name", &shown) }
        });
        renamed.collect()
    }
}

fn is_unknown_method(error: &RawValue) -> bool {
    let error: Option<Value> = serde_json::from_str(error.get()).ok();
    error.is_some_and(|error| error.get("code").and_then(Value::as_i64) == Some(METHOD_NOT_FOUND))
}

//! What several servers have, as one list: each server is asked for all pages of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::RelayParts;
use super::merge;
use super::message::{self, INTERNAL_ERROR, INVALID_PARAMS, RpcAnswer};
use super::pages::{self, ListFields, ListKind, ListPages};
use super::shown::ShownTools;
use super::upstream::RelayServer;
use crate::host::tool::mcp::failure::LinkError;

/// What a server has listed.
struct ServerList {
    /// The number of the server.
    server: usize,
    pages: ListPages,
}

impl RelayParts {
    /// One list of all servers. A server that does not answer is left out.
    pub(super) async fn merged_list(
        self: &Arc<Self>,
        kind: ListKind,
        params: Option<&RawValue>,
    ) -> RpcAnswer {
        self.list(kind, params, &mut false).await
    }

    /// The same for the relay itself, which looks whose something is. A list that a server was left out of before is announced.
    pub(super) async fn list_on_demand(self: &Arc<Self>, kind: ListKind) -> Result<(), String> {
        let mut is_longer = false;
        let listed = self.list(kind, None, &mut is_longer).await;
        if is_longer {
            self.announce(kind.feature()).await;
        }
        listed.map(drop)
    }

    /// The same where it may happen often: a list that has not changed is not asked for again.
    pub(super) async fn list_if_changed(self: &Arc<Self>, kind: ListKind) {
        let is_known = self.shared().listed.contains(&kind);
        if !is_known {
            // Who asks finds that nothing is known then.
            let _ = self.list_on_demand(kind).await;
        }
    }

    /// Lists of a feature have changed.
    pub(super) fn has_changed(&self, feature: &str) {
        self.shared().listed.retain(|kind| kind.feature() != feature);
    }

    /// `is_longer`: set if a server is in the list again that was left out.
    async fn list(
        self: &Arc<Self>,
        kind: ListKind,
        params: Option<&RawValue>,
        is_longer: &mut bool,
    ) -> RpcAnswer {
        let mut params: ListFields =
            params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        if params.shift_remove("cursor").is_some_and(|cursor| cursor.get() != "null") {
            return Err(message::failure(INVALID_PARAMS, "the list has one page, and no cursor was given"));
        }
        self.shared().listed.insert(kind);
        let asked = self.with_feature(kind.feature());
        let lists = join_all(asked.iter().map(|(_, server)| self.list_of(server, kind, &params))).await;
        let (mut listed, mut refused) = (Vec::new(), None);
        for ((at, server), list) in asked.iter().zip(lists) {
            match list {
                Ok(pages) => {
                    *is_longer |= server.is_listed_again(kind);
                    listed.push(ServerList { server: *at, pages });
                }
                Err(error) => {
                    server.leave_out(kind, &error);
                    refused.get_or_insert(error);
                }
            }
        }
        if let (true, Some(error)) = (listed.is_empty(), refused) {
            return Err(error);
        }
        let fields = listed.first().map(|list| list.pages.fields.clone()).unwrap_or_default();
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
        // A server that has come meanwhile is not among those that were asked: its names are learned with a list of all.
        let names: Vec<_> = asked.iter().map(|(at, server)| (*at, server.tools.remotes())).collect();
        let names = names.iter().flat_map(|(at, names)| names.iter().map(move |name| (*at, name.as_str())));
        self.shared().tools.learn(names, is_complete);
    }

    /// Whether so many servers are all that have a feature, or may have it.
    fn is_complete(&self, feature: &str, servers: usize) -> bool {
        self.servers.iter().filter(|server| server.has(feature) != Some(false)).count() == servers
    }

    /// Asks servers for lists again that they were left out of: the client learns that they are there.
    pub(super) fn look_again(self: &Arc<Self>) {
        for server in &self.servers {
            let due = server.ask_again();
            if due.is_empty() {
                continue;
            }
            let (relay, server) = (Arc::clone(self), Arc::clone(server));
            tokio::spawn(async move {
                for kind in due {
                    let is_listed = relay.list_of(&server, kind, &ListFields::new()).await.is_ok();
                    // A list of the client may have come between.
                    if is_listed && server.is_listed_again(kind) {
                        relay.announce(kind.feature()).await;
                    }
                }
                server.asked_again();
            });
        }
    }

    /// All pages of one server, or the error object.
    async fn list_of(
        self: &Arc<Self>,
        server: &Arc<RelayServer>,
        kind: ListKind,
        params: &ListFields,
    ) -> Result<ListPages, String> {
        let within = server.config.start_timeout;
        let listed = async {
            let upstream = self.link(server).await;
            let upstream = upstream.map_err(|error| message::failure(INTERNAL_ERROR, &error.why))?;
            pages::all(&upstream, kind, params.clone()).await.map_err(|failure| failure.object())
        };
        tokio::time::timeout(within.to_std(), listed).await.unwrap_or_else(|_| {
            Err(message::failure(INTERNAL_ERROR, &format!("the server did not answer within {within}")))
        })
    }

    /// What the client sees of the lists, and what is known of it from now on.
    fn shown(&self, kind: ListKind, listed: Vec<ServerList>) -> Vec<Box<RawValue>> {
        let mut items: Vec<(usize, String, Box<RawValue>)> = Vec::new();
        let answered = listed.len();
        let mut tools: Vec<ShownTools> = self.servers.iter().map(|_| ShownTools::default()).collect();
        for list in listed {
            let (at, mut seen) = (list.server, BTreeSet::new());
            let server = self.servers.get(at).zip(tools.get_mut(at));
            let Some((server, shown)) = server else { continue };
            for item in list.pages.items {
                let Some(name) = merge::text_of(&item, kind.name()) else { continue };
                let is_usable = kind != ListKind::Tools || server.tools.may_be_shown(&item, shown);
                if is_usable && seen.insert(name.clone()) {
                    items.push((at, name, item));
                }
            }
            if kind == ListKind::Tools {
                server.tools.compare(shown);
            }
        }
        if kind == ListKind::Tools {
            for (server, shown) in self.servers.iter().zip(tools) {
                server.tools.were_shown(shown);
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

//! Which of several servers answers a request of the client: all of them for what is merged, else the one whose it is.

use std::sync::Arc;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::RelayParts;
use super::merge::{self, CompletionParams};
use super::message::{self, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcAnswer, RpcMessage};
use super::pages::ListKind;
use super::upstream::RelayServer;
use crate::host::ToolError;
use crate::host::guard::ClassifyError;

#[derive(Deserialize)]
struct UriParams {
    uri: String,
}

#[derive(Deserialize)]
struct NameParams {
    name: String,
}

impl RelayParts {
    /// A request of the client is answered by one or all of several servers.
    pub(super) async fn request_of_several(self: &Arc<Self>, line: &str, id: &RawValue, method: &str) {
        if method == "ping" {
            return self.to_client(message::answer(id.get(), "{}")).await;
        }
        if matches!(method, "initialize" | "server/discover") {
            let (relay, handshakes) = (Arc::clone(self), self.begin_handshakes(line, method));
            return self.begin(id, async move { relay.merged_handshake(handshakes).await }).await;
        }
        if ListKind::of(method).is_none() {
            self.look_again();
        }
        let (relay, line, method) = (Arc::clone(self), line.to_owned(), method.to_owned());
        self.begin(id, async move { relay.answer_of_several(&line, &method).await }).await;
    }

    async fn answer_of_several(self: &Arc<Self>, line: &str, method: &str) -> RpcAnswer {
        let Ok(RpcMessage::Request { id, params, .. }) = RpcMessage::parse(line) else {
            return Err(message::failure(INTERNAL_ERROR, "the request cannot be read"));
        };
        match method {
            "prompts/get" => self.get_prompt(line, params).await,
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                self.ask_for_resource(line, method, params).await
            }
            "completion/complete" => self.complete(line, params).await,
            "subscriptions/listen" => self.listen_to_all(line, id, params).await,
            "logging/setLevel" => self.ask_all(line, "logging").await,
            _ => match ListKind::of(method) {
                Some(kind) => self.merged_list(kind, params).await,
                None => self.ask_only(line, method).await,
            },
        }
    }

    /// Passes a request of the client on to a server, and waits for the answer.
    pub(super) async fn ask_server(self: &Arc<Self>, server: &Arc<RelayServer>, line: &str) -> RpcAnswer {
        let failed = |why: &str| Err(message::failure(INTERNAL_ERROR, why));
        let upstream = match self.link(server).await {
            Ok(upstream) => upstream,
            Err(error) => return failed(&error.why),
        };
        let Ok(RpcMessage::Request { id, method, params }) = RpcMessage::parse(line) else {
            return failed("the request cannot be read");
        };
        server.remember(line, &method, params);
        // A cancellation names the client's own id.
        let own = Some(id.get());
        let answer = match upstream.ask(own, |number| message::with_part(line, id, &number.to_string())) {
            Ok(asked) => asked.answer().await,
            Err(unsent) => Err(ToolError::unavailable(upstream.why_unsent(unsent).await)),
        };
        match answer.as_deref().map(RpcMessage::parse) {
            Ok(Ok(RpcMessage::Answer { outcome: Ok(result), .. })) => Ok(result.get().to_owned()),
            Ok(Ok(RpcMessage::Answer { outcome: Err(error), .. })) => Err(error.get().to_owned()),
            Ok(_) => failed("the server's answer cannot be read"),
            Err(error) => failed(&error.message()),
        }
    }

    async fn get_prompt(self: &Arc<Self>, line: &str, params: Option<&RawValue>) -> RpcAnswer {
        let read = params.and_then(|params| Some((params, serde_json::from_str(params.get()).ok()?)));
        let Some((params, NameParams { name })) = read else {
            return Err(message::failure(INVALID_PARAMS, "`params` has no `name` of a prompt"));
        };
        let (server, remote) = self.prompt_of(&name).await?;
        let own = merge::with_text(params, "name", &remote);
        let own = own.filter(|_| remote != name).map(|own| message::with_part(line, params, own.get()));
        self.ask_server(&server, own.as_deref().unwrap_or(line)).await
    }

    /// The server that has a prompt, and the server's own name of it. The prompts are listed if it is not known yet.
    async fn prompt_of(self: &Arc<Self>, shown: &str) -> Result<(Arc<RelayServer>, String), String> {
        if let Some(found) = self.known_prompt(shown) {
            return Ok(found);
        }
        self.list_on_demand(ListKind::Prompts).await?;
        self.known_prompt(shown).ok_or_else(|| no_prompt(shown))
    }

    fn known_prompt(&self, shown: &str) -> Option<(Arc<RelayServer>, String)> {
        let shared = self.shared();
        let (at, name) = shared.prompts.find(shown)?;
        Some((Arc::clone(self.servers.get(at)?), name.to_owned()))
    }

    /// A resource is asked for at the server that has it. Where that has it no more, and where none has listed it, the others are
    /// asked in the order of the servers. Only what was read shows whose it is: any server may take a subscription.
    async fn ask_for_resource(
        self: &Arc<Self>,
        line: &str,
        method: &str,
        params: Option<&RawValue>,
    ) -> RpcAnswer {
        let read = params.and_then(|params| serde_json::from_str(params.get()).ok());
        let Some(UriParams { uri }) = read else {
            return Err(message::failure(INVALID_PARAMS, "`params` has no `uri` of a resource"));
        };
        let mut owner = self.shared().resources.find(&uri);
        for kind in [ListKind::Resources, ListKind::Templates] {
            if owner.is_none() {
                // A server that lists nothing may have it all the same.
                let _ = self.list_on_demand(kind).await;
                owner = self.shared().resources.find(&uri);
            }
        }
        let (mut refused, mut taken) = (None, None);
        let others = self.with_feature("resources").into_iter().filter(|(at, _)| Some(*at) != owner);
        let first = owner.and_then(|at| Some((at, self.servers.get(at)?)));
        for (at, server) in first.into_iter().chain(others) {
            match self.ask_server(server, line).await {
                Ok(result) if method == "resources/read" || owner == Some(at) => return Ok(result),
                Ok(result) => drop(taken.get_or_insert(result)),
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        let none = || message::failure(INVALID_PARAMS, "no server has resources");
        taken.ok_or_else(|| refused.unwrap_or_else(none))
    }

    /// A completion is of the server with the prompt, or the template, that it names. A client asks for one at each key that a
    /// person presses.
    async fn complete(self: &Arc<Self>, line: &str, params: Option<&RawValue>) -> RpcAnswer {
        let read = params.and_then(|params| Some((params, serde_json::from_str(params.get()).ok()?)));
        let Some((params, CompletionParams { of })) = read else {
            return Err(message::failure(INVALID_PARAMS, "`params` has no `ref` that can be read"));
        };
        if let Some(name) = &of.name {
            if self.known_prompt(name).is_none() {
                self.list_if_changed(ListKind::Prompts).await;
            }
            let (server, remote) = self.known_prompt(name).ok_or_else(|| no_prompt(name))?;
            let own = merge::with_ref_name(params, &remote).filter(|_| remote != *name);
            let own = own.map(|own| message::with_part(line, params, own.get()));
            return self.ask_server(&server, own.as_deref().unwrap_or(line)).await;
        }
        let uri = of.uri.unwrap_or_default();
        // Only templates have something to complete.
        if self.shared().resources.find(&uri).is_none() {
            self.list_if_changed(ListKind::Templates).await;
        }
        let owner = self.shared().resources.find(&uri);
        match owner.and_then(|at| self.servers.get(at)) {
            Some(server) => self.ask_server(server, line).await,
            None => self.ask_only(line, "completions").await,
        }
    }

    /// All servers with that feature: the answer is of the first that has one that is no error.
    async fn ask_all(self: &Arc<Self>, line: &str, feature: &str) -> RpcAnswer {
        if let Ok(RpcMessage::Request { method, params, .. }) = RpcMessage::parse(line) {
            // A server that is not there yet gets it when it is.
            let may_have = self.servers.iter().filter(|server| server.has(feature) != Some(false));
            may_have.for_each(|server| server.remember(line, &method, params));
        }
        let asked = self.with_feature(feature).into_iter().map(|(_, server)| self.ask_server(server, line));
        let mut refused = None;
        let mut taken = None;
        for answer in join_all(asked).await {
            match answer {
                Ok(result) => drop(taken.get_or_insert(result)),
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        let none = || message::failure(METHOD_NOT_FOUND, &format!("no server has `{feature}`"));
        taken.ok_or_else(|| refused.unwrap_or_else(none))
    }

    /// The only server with the feature that a method is of: nothing in the request says which is meant.
    async fn ask_only(self: &Arc<Self>, line: &str, method: &str) -> RpcAnswer {
        let feature = method.split('/').next().unwrap_or_default();
        let have: Vec<_> = self.servers.iter().filter(|server| server.has(feature) == Some(true)).collect();
        let why = match &*have {
            [server] => return self.ask_server(server, line).await,
            [] => format!("no server announces `{feature}`"),
            several => {
                let names: Vec<&str> = several.iter().map(|server| server.config.name.as_str()).collect();
                format!(
                    "the servers {} announce `{feature}`, and nothing says which is meant",
                    names.join(", ")
                )
            }
        };
        Err(message::failure(METHOD_NOT_FOUND, &why))
    }
}

fn no_prompt(shown: &str) -> String {
    message::failure(INVALID_PARAMS, &format!("no server has a prompt `{shown}`"))
}

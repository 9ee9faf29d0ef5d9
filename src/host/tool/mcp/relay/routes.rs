//! Which of several servers answers a request of the client: all of them for what is merged, else the one whose it is.

use std::sync::Arc;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::RelayParts;
use super::lists::ListKind;
use super::merge::{self, CompletionParams};
use super::message::{self, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcAnswer, RpcMessage};
use super::server::announced;
use super::upstream::RelayServer;
use crate::host::ToolError;
use crate::host::guard::ClassifyError;
use crate::host::tool::mcp::failure::LinkError;

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
        let (relay, line, method) = (Arc::clone(self), line.to_owned(), method.to_owned());
        self.begin(id, async move { relay.answer_of_several(&line, &method).await }).await;
    }

    async fn answer_of_several(self: &Arc<Self>, line: &str, method: &str) -> RpcAnswer {
        let Ok(RpcMessage::Request { params, .. }) = RpcMessage::parse(line) else {
            return Err(message::failure(INTERNAL_ERROR, "the request cannot be read"));
        };
        match method {
            "initialize" | "server/discover" => self.merged_handshake(line, method).await,
            "prompts/get" => self.get_prompt(line, params).await,
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                self.ask_for_resource(line, method, params).await
            }
            "completion/complete" => self.complete(line, params).await,
            "logging/setLevel" => self.ask_all(line, "logging").await,
            _ => match ListKind::of(method) {
                Some(kind) => self.merged_list(kind, params).await,
                None => self.ask_only(line, method).await,
            },
        }
    }

    /// Passes a request of the client on to a server, and waits for the answer.
    async fn ask_server(self: &Arc<Self>, server: &Arc<RelayServer>, line: &str) -> RpcAnswer {
        let failed = |why: &str| Err(message::failure(INTERNAL_ERROR, why));
        let upstream = match self.link(server).await {
            Ok(upstream) => upstream,
            Err(error) => return failed(&error.why),
        };
        let Ok(RpcMessage::Request { id, method, params }) = RpcMessage::parse(line) else {
            return failed("the request cannot be read");
        };
        server.remember(line, &method, params);
        let asked = upstream.ask(|number| message::with_part(line, id, &number.to_string())).await;
        let answer = match asked {
            Ok(asked) => asked.answer().await,
            Err(_) => Err(ToolError::unavailable(upstream.why().await)),
        };
        match answer.as_deref().map(RpcMessage::parse) {
            Ok(Ok(RpcMessage::Answer { outcome: Ok(result), .. })) => Ok(result.get().to_owned()),
            Ok(Ok(RpcMessage::Answer { outcome: Err(error), .. })) => Err(error.get().to_owned()),
            Ok(_) => failed("the server's answer cannot be read"),
            Err(error) => failed(&error.message()),
        }
    }

    /// All servers at once: the client sees one. Those that refuse a handshake are left out, and get another one later.
    async fn merged_handshake(self: &Arc<Self>, line: &str, method: &str) -> RpcAnswer {
        let begins = method == "initialize";
        let answers = join_all(self.servers.iter().map(|server| self.handshake_of(server, line))).await;
        let (mut taken, mut refused, mut ended) = (Vec::new(), None, Vec::new());
        for (server, answer) in self.servers.iter().zip(answers) {
            match answer {
                Ok(result) => {
                    let read = serde_json::from_str(&result).unwrap_or_default();
                    taken.push((server.config.name.as_str(), read));
                }
                // A client that is refused here begins with a handshake, which all servers know.
                Err(error) if !begins => return Err(error),
                Err(error) => {
                    let why = message::message_of(&error);
                    let why = why.as_deref().unwrap_or(&error);
                    server.failed(&LinkError::from(format!("it does not begin: {why}")));
                    ended.extend(server.live_link());
                    refused.get_or_insert(error);
                }
            }
        }
        join_all(ended.iter().map(|upstream| upstream.end())).await;
        let Some(merged) = merge::handshake(&taken) else {
            return Err(refused.unwrap_or_else(|| message::failure(INTERNAL_ERROR, "there is no server")));
        };
        if begins {
            self.client().version = merged.get("protocolVersion").and_then(Value::as_str).map(str::to_owned);
        }
        Ok(merged.to_string())
    }

    async fn handshake_of(self: &Arc<Self>, server: &Arc<RelayServer>, line: &str) -> RpcAnswer {
        let within = server.config.start_timeout;
        let asked = tokio::time::timeout(within.to_std(), self.ask_server(server, line)).await;
        let answer = asked.unwrap_or_else(|_| {
            Err(message::failure(INTERNAL_ERROR, &format!("the server did not answer within {within}")))
        })?;
        if let Ok(result) = serde_json::from_str::<&RawValue>(&answer) {
            server.announced(announced(result));
        }
        server.started();
        Ok(answer)
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
        for is_listed in [false, true] {
            if is_listed {
                self.merged_list(ListKind::Prompts, None).await?;
            }
            let found = self.shared().prompts.find(shown).map(|(at, name)| (at, name.to_owned()));
            if let Some((at, name)) = found
                && let Some(server) = self.servers.get(at)
            {
                return Ok((Arc::clone(server), name));
            }
        }
        Err(message::failure(INVALID_PARAMS, &format!("no server has a prompt `{shown}`")))
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
        let owner = self.resource_owner(&uri).await;
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

    /// The server that has a resource, or the template with that address. What the servers have is listed if none is known to
    /// have it.
    async fn resource_owner(self: &Arc<Self>, uri: &str) -> Option<usize> {
        for kind in [None, Some(ListKind::Resources), Some(ListKind::Templates)] {
            if let Some(kind) = kind {
                // A server that lists nothing may have it all the same.
                let _ = self.merged_list(kind, None).await;
            }
            let owner = self.shared().resources.find(uri);
            if owner.is_some() {
                return owner;
            }
        }
        None
    }

    async fn complete(self: &Arc<Self>, line: &str, params: Option<&RawValue>) -> RpcAnswer {
        let read = params.and_then(|params| Some((params, serde_json::from_str(params.get()).ok()?)));
        let Some((params, CompletionParams { of })) = read else {
            return Err(message::failure(INVALID_PARAMS, "`params` has no `ref` that can be read"));
        };
        if let Some(name) = &of.name {
            let (server, remote) = self.prompt_of(name).await?;
            let own = merge::with_ref_name(params, &remote).filter(|_| remote != *name);
            let own = own.map(|own| message::with_part(line, params, own.get()));
            return self.ask_server(&server, own.as_deref().unwrap_or(line)).await;
        }
        let owner = match of.uri {
            Some(uri) => self.resource_owner(&uri).await,
            None => None,
        };
        match owner.and_then(|at| self.servers.get(at)) {
            Some(server) => self.ask_server(server, line).await,
            None => self.ask_only(line, "completions").await,
        }
    }

    /// All servers with that feature: the answer is of the first that has one that is no error.
    async fn ask_all(self: &Arc<Self>, line: &str, feature: &str) -> RpcAnswer {
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

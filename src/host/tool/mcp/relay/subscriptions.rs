//! Subscriptions of a client without a handshake (`subscriptions/listen`, the protocol's version 2026-07-28). Each notification names
//! the request that it is for, by the id that its receiver knows.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::RelayParts;
use super::link::{AskedOfServer, RelayLink};
use super::message::{self, INVALID_PARAMS, METHOD_NOT_FOUND, RpcAnswer};
use super::pages;
use super::upstream::RelayServer;

/// Where a message names its subscription, in `_meta`.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The first notification of a subscription: what of it is granted.
const GRANTED: &str = "notifications/subscriptions/acknowledged";

/// What a client wants to be notified of, or is going to be.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Subscription {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools_list_changed: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompts_list_changed: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resources_list_changed: Option<bool>,
    /// The addresses of resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource_subscriptions: Option<Vec<String>>,
}

impl Subscription {
    /// What of it the servers announce; nothing comes of the rest.
    fn granted_by(self, servers: &[&Arc<RelayServer>]) -> Self {
        let announced = |feature, what| servers.iter().any(|server| server.announces(feature, what));
        let of = |wanted: Option<bool>, feature| {
            wanted.filter(|wanted| *wanted && announced(feature, "listChanged"))
        };
        let uris = self.resource_subscriptions.filter(|_| announced("resources", "subscribe"));
        Self {
            tools_list_changed: of(self.tools_list_changed, "tools"),
            prompts_list_changed: of(self.prompts_list_changed, "prompts"),
            resources_list_changed: of(self.resources_list_changed, "resources"),
            resource_subscriptions: uris,
        }
    }
}

/// The subscription that the parameters of a notification, or a result, name.
pub(super) fn named_in(part: &RawValue) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(rename = "_meta", borrow)]
        meta: Meta<'a>,
    }
    #[derive(Deserialize)]
    struct Meta<'a> {
        #[serde(rename = "io.modelcontextprotocol/subscriptionId", borrow)]
        subscription: &'a RawValue,
    }
    // Most messages are of none, and some are long.
    let named = part.get().contains(SUBSCRIPTION).then(|| serde_json::from_str(part.get()).ok())?;
    named.map(|Named { meta: Meta { subscription } }| subscription)
}

/// What a client is sent of a notification.
pub(super) enum ToSubscriber {
    /// It is of no subscription.
    Same,
    /// The same under the id of the client's own request.
    Named(String),
    /// Nothing: what is granted of a subscription at several servers the client knows already.
    Nothing,
}

/// What the client is sent of a notification of the server.
pub(super) fn to_subscriber(
    upstream: &RelayLink,
    line: &str,
    method: &str,
    params: Option<&RawValue>,
) -> ToSubscriber {
    let Some(named) = params.and_then(named_in) else { return ToSubscriber::Same };
    let asked = upstream.asked();
    let request = named.get().parse().ok().and_then(|number| asked.get(number));
    match request {
        Some(AskedOfServer::Relay { of: Some(_), .. }) if method == GRANTED => ToSubscriber::Nothing,
        Some(AskedOfServer::Client { id, .. } | AskedOfServer::Relay { of: Some(id), .. }) => {
            ToSubscriber::Named(message::with_part(line, named, id))
        }
        _ => ToSubscriber::Same,
    }
}

impl RelayParts {
    /// A subscription of the client is one at each of several servers that announce anything of the kind. It is over when all of
    /// them have ended theirs, or one of them has broken off: clients look at everything again then.
    pub(super) async fn listen_to_all(
        self: &Arc<Self>,
        line: &str,
        id: &RawValue,
        params: Option<&RawValue>,
    ) -> RpcAnswer {
        #[derive(Deserialize)]
        struct ListenParams {
            notifications: Subscription,
        }
        let read = params.and_then(|params| serde_json::from_str(params.get()).ok());
        let Some(ListenParams { notifications }) = read else {
            return Err(message::failure(INVALID_PARAMS, "`params` has no `notifications` that can be read"));
        };
        let servers: Vec<_> = self.servers.iter().filter(|server| may_notify(server)).collect();
        if servers.is_empty() {
            let why = "no server announces that it says what changes";
            return Err(message::failure(METHOD_NOT_FOUND, why));
        }
        let id: Value = serde_json::from_str(id.get()).unwrap_or_default();
        let meta = json!({ SUBSCRIPTION: id });
        let granted = json!({ "notifications": notifications.granted_by(&servers), "_meta": meta });
        self.to_client(message::notification(GRANTED, &granted)).await;
        let mut open: FuturesUnordered<_> =
            servers.into_iter().map(|server| self.ask_server(server, line)).collect();
        while let Some(ended) = open.next().await {
            // A server need not know the method to announce so.
            if let Err(error) = ended
                && pages::code_of(&error) != Some(METHOD_NOT_FOUND)
            {
                return Err(error);
            }
        }
        Ok(json!({ "resultType": "complete", "_meta": meta }).to_string())
    }
}

/// Whether a server announces that it notifies of anything.
fn may_notify(server: &RelayServer) -> bool {
    let lists = ["tools", "prompts", "resources"];
    lists.iter().any(|feature| server.announces(feature, "listChanged"))
        || server.announces("resources", "subscribe")
}

/// The answer to a subscription at the only server, under the id of the client's own request.
pub(super) fn ended(line: &str, result: &RawValue, own: &str) -> Option<String> {
    Some(message::with_part(line, named_in(result)?, own))
}

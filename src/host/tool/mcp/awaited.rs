//! Whose answer an error without an id is.
//!
//! A server that cannot read the id of a request answers with the id null (JSON-RPC 2.0, section 5), which `rmcp` drops: whoever
//! asked would wait until the time of the call is over. While exactly one request is in flight, the error is its answer.

use std::collections::HashSet;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ErrorCode, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport over which an error without an id reaches whoever asked.
pub(super) struct AwaitedTransport<T> {
    inner: T,
    requests: OpenRequests,
}

/// The requests in flight.
#[derive(Default)]
struct OpenRequests {
    ids: HashSet<RequestId>,
    /// How many notifications have been sent since the last answer.
    notifications: usize,
}

impl<T> AwaitedTransport<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, requests: OpenRequests::default() }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for AwaitedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.requests.sent(&item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let mut message = self.inner.receive().await?;
            match &mut message {
                JsonRpcMessage::Response(response) => self.requests.answered(&response.id),
                JsonRpcMessage::Error(error) => {
                    if error.id.is_none() {
                        error.id = self.requests.addressee(error.error.code);
                    }
                    let Some(id) = &error.id else {
                        let (code, message) = (error.error.code.0, &error.error.message);
                        tracing::warn!(code, %message, "an error of an MCP server names no request");
                        continue;
                    };
                    self.requests.answered(id);
                }
                _ => {}
            }
            return Some(message);
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

impl OpenRequests {
    fn sent(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                self.ids.insert(request.id.clone());
            }
            JsonRpcMessage::Notification(notification) => {
                self.notifications = self.notifications.saturating_add(1);
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.ids.remove(id);
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, id: &RequestId) {
        self.ids.remove(id);
        self.notifications = 0;
    }

    /// The request that an error without an id answers; `None`: that is not known.
    fn addressee(&mut self, code: ErrorCode) -> Option<RequestId> {
        // Some servers answer notifications, which have no id, as if they were requests.
        let of_notification =
            [ErrorCode::METHOD_NOT_FOUND, ErrorCode::INVALID_REQUEST, ErrorCode::INVALID_PARAMS];
        if self.notifications > 0 && of_notification.contains(&code) {
            self.notifications = self.notifications.saturating_sub(1);
            return None;
        }
        let mut ids = self.ids.iter();
        ids.next().filter(|_| ids.next().is_none()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(requests: &mut OpenRequests, message: serde_json::Value) {
        requests.sent(&serde_json::from_value(message).unwrap());
    }

    fn call(id: i64) -> serde_json::Value {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}})
    }

    #[test]
    fn an_error_without_an_id_is_the_answer_to_the_only_request() {
        let mut requests = OpenRequests::default();
        assert_eq!(requests.addressee(ErrorCode::PARSE_ERROR), None);
        sent(&mut requests, call(1));
        assert_eq!(requests.addressee(ErrorCode::INVALID_REQUEST), Some(RequestId::Number(1)));
        sent(&mut requests, call(2));
        assert_eq!(requests.addressee(ErrorCode::PARSE_ERROR), None, "it may be of either");
        requests.answered(&RequestId::Number(1));
        assert_eq!(requests.addressee(ErrorCode::PARSE_ERROR), Some(RequestId::Number(2)));
    }

    #[test]
    fn a_request_is_not_failed_by_the_answer_to_a_notification() {
        let mut requests = OpenRequests::default();
        sent(&mut requests, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        sent(&mut requests, call(1));
        assert_eq!(requests.addressee(ErrorCode::METHOD_NOT_FOUND), None);
        assert_eq!(requests.addressee(ErrorCode::METHOD_NOT_FOUND), Some(RequestId::Number(1)));
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        sent(&mut requests, cancelled);
        assert_eq!(requests.addressee(ErrorCode::PARSE_ERROR), None, "nobody waits for it any more");
    }
}

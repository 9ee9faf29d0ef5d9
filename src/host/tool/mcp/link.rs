//! One connection to a server, from its handshake to its end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    CustomResult, ErrorCode, Implementation, JsonObject, ListToolsRequest, PaginatedRequestParams,
    ProgressNotificationParam, ServerResult, Tool as Declared,
};
use rmcp::service::{NotificationContext, Peer, PeerRequestOptions, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient, ServiceError, ServiceExt};
use secrecy::ExposeSecret;

use super::answer::UndecodableAnswer;
use super::awaited::AwaitedTransport;
use super::declare::{self, ToolPage};
use super::failure::{self, LinkError};
use super::http::HttpClient;
use super::issue::McpToolIssue;
use super::stdio::{ServerProcess, ServerProgram};
use super::{McpConfig, McpReach};
use crate::engine::EffectState;
use crate::host::model::client::HttpClients;
use crate::host::tool::{allowed, expiry};
use crate::host::{ProgressReporter, ToolError, ToolInput};
use crate::time::Nanos;

/// The most pages of tools that are asked for.
pub(super) const MOST_PAGES: usize = 100;
/// The most tools of one server.
pub(super) const MOST_TOOLS: usize = 2000;
/// The longest wait for a server that gets a notification or is to end the conversation.
const COURTESY: Duration = Duration::from_secs(1);

/// A connection.
pub(super) struct ServerLink {
    peer: Peer<RoleClient>,
    service: tokio::sync::Mutex<Option<RunningService<RoleClient, ServerListener>>>,
    process: Option<ServerProcess>,
    progress: Arc<CallProgress>,
}

/// Calls in flight by their tokens: how far they are, and who is informed.
#[derive(Default)]
struct CallProgress(Mutex<HashMap<String, (String, ProgressReporter)>>);

/// Receives the notifications of the server.
#[derive(Clone)]
struct ServerListener {
    changes: Arc<AtomicU64>,
    progress: Arc<CallProgress>,
}

impl ClientHandler for ServerListener {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    async fn on_progress(&self, said: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        let of = said.total.map(|total| format!(" of {total}")).unwrap_or_default();
        let text = said.message.map(|text| format!(": {text}")).unwrap_or_default();
        self.progress.tell(&said.progress_token.0.to_string(), format!("{}{of}{text}", said.progress));
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("unfazed", env!("CARGO_PKG_VERSION")),
        )
    }
}

impl ServerLink {
    /// Starts or reaches the server and shakes hands. `changes` counts how often it says that its tools are others.
    pub(super) async fn open(config: &McpConfig, changes: Arc<AtomicU64>) -> Result<Self, LinkError> {
        let progress = Arc::new(CallProgress::default());
        let listener = ServerListener { changes, progress: Arc::clone(&progress) };
        let within = config.start_timeout;
        let (service, process) = match &config.reach {
            McpReach::Process { command, working_dir, pass_env, env } => {
                let program = ServerProgram {
                    relayed: false,
                    command,
                    working_dir: working_dir.as_deref(),
                    pass_env,
                    env,
                    grace: config.grace.to_std(),
                };
                let (process, near, stdin) = ServerProcess::start(&program)?;
                let transport = AwaitedTransport::new(AsyncRwTransport::new_client(near, stdin));
                let result = tokio::time::timeout(within.to_std(), listener.serve(transport)).await;
                let why = match result {
                    Ok(Ok(service)) => return Ok(Self::of(service, Some(process), progress)),
                    Ok(Err(error)) => {
                        let why = match failure::of_handshake(&error) {
                            Some(why) => why + &process.complaints(),
                            None => process.why().await,
                        };
                        LinkError::of(why, error)
                    }
                    Err(_) => format!("it did not answer within {within}{}", process.complaints()).into(),
                };
                process.end().await;
                return Err(why);
            }
            McpReach::Http { url, headers } => {
                let transport = http(url, headers)?;
                let result = tokio::time::timeout(within.to_std(), listener.serve(transport)).await;
                match result {
                    Ok(Ok(service)) => (service, None),
                    Ok(Err(error)) => {
                        let why = failure::of_handshake(&error);
                        let why = why.unwrap_or_else(|| failure::of_connection(&error));
                        return Err(LinkError::of(why, error));
                    }
                    Err(_) => return Err(format!("it did not answer within {within}").into()),
                }
            }
        };
        Ok(Self::of(service, process, progress))
    }

    fn of(
        service: RunningService<RoleClient, ServerListener>,
        process: Option<ServerProcess>,
        progress: Arc<CallProgress>,
    ) -> Self {
        let peer = service.peer().clone();
        Self { peer, service: tokio::sync::Mutex::new(Some(service)), process, progress }
    }

    /// Whether calls can go over it.
    pub(super) fn is_alive(&self) -> bool {
        !self.peer.is_transport_closed() && !self.process.as_ref().is_some_and(ServerProcess::is_gone)
    }

    /// All tools the server declares, over as many pages as it takes.
    pub(super) async fn list(&self) -> Result<Vec<Result<Declared, McpToolIssue>>, LinkError> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let asked = PaginatedRequestParams::default().with_cursor(cursor.take());
            let page = match self.page(asked).await {
                Ok(page) => page,
                // A server of prompts or resources only.
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => break,
                Err(ServiceError::TransportClosed) => return Err(self.why().await.into()),
                Err(error) => {
                    let why = format!("its tools cannot be listed: {}", failure::cause(&error));
                    return Err(LinkError::of(why, error));
                }
            };
            tools.extend(page.tools);
            if tools.len() > MOST_TOOLS {
                return Err(format!("it has more than {MOST_TOOLS} tools").into());
            }
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(tools),
            }
        }
        if cursor.is_some() {
            return Err(format!("its list of tools has more than {MOST_PAGES} pages").into());
        }
        Ok(tools)
    }

    /// One page of the list. A tool that cannot be read does not make the others unreadable.
    async fn page(&self, asked: PaginatedRequestParams) -> Result<ToolPage, ServiceError> {
        let request = ListToolsRequest { params: Some(asked), ..ListToolsRequest::default() };
        match self.peer.send_request(ClientRequest::ListToolsRequest(request)).await? {
            ServerResult::ListToolsResult(page) => {
                Ok(ToolPage { tools: page.tools.into_iter().map(Ok).collect(), next: page.next_cursor })
            }
            ServerResult::CustomResult(CustomResult(page)) => {
                declare::page(page).ok_or(ServiceError::UnexpectedResponse)
            }
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    /// One call, which has the time that is `left` of what the input allows. The server is informed when it is not waited for
    /// any more.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        input: &ToolInput<'_>,
        left: Option<Nanos>,
        shown: &str,
    ) -> Result<CallToolResult, ToolError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut limit = std::pin::pin!(expiry(left.map(Into::into)));
        let sending = self.peer.send_request_with_option(request, PeerRequestOptions::no_options());
        let mut under_way = tokio::select! {
            biased;
            () = input.cancel.cancelled() => return Err(ToolError::cancelled(format!("{shown} was stopped"))),
            sent = sending => match sent {
                Ok(under_way) => under_way,
                Err(error) => return Err(failure::of_service(&error, &self.why().await)),
            },
            () = limit.as_mut() => return Err(self.late(input, shown, None)),
        };
        let token = under_way.progress_token.0.to_string();
        self.progress.expect(&token, &input.aside);
        let _forget = ForgetOnDrop { progress: &self.progress, token: &token };
        let answer = tokio::select! {
            biased;
            answer = &mut under_way.rx => answer.unwrap_or(Err(ServiceError::TransportClosed)),
            () = input.cancel.cancelled() => {
                self.tell_not_waited_for(under_way.cancel(Some("stopped".into()))).await;
                return Err(ToolError::cancelled(format!("{shown} was stopped")));
            }
            () = limit => {
                self.tell_not_waited_for(under_way.cancel(Some("it took too long".into()))).await;
                return Err(self.late(input, shown, Some(&token)));
            }
        };
        match answer {
            Ok(ServerResult::CallToolResult(result)) => Ok(result),
            Ok(ServerResult::InputRequiredResult(_)) => {
                let message = format!("{shown} asks for something only a person can give");
                Err(ToolError::failed(message).effect(EffectState::Unknown))
            }
            Ok(_) => Err(failure::of_service(&ServiceError::UnexpectedResponse, &self.complaints())),
            Err(error @ (ServiceError::TransportClosed | ServiceError::Cancelled { .. })) => {
                Err(failure::of_service(&error, &self.why().await))
            }
            Err(error) => Err(failure::of_service(&error, &self.complaints())),
        }
    }

    /// Ends the conversation, and the server with all its processes if it is one of ours.
    pub(super) async fn end(&self) {
        if let Some(mut service) = self.service.lock().await.take() {
            let _ = service.close_with_timeout(COURTESY).await;
        }
        if let Some(process) = &self.process {
            process.end().await;
        }
    }

    async fn tell_not_waited_for(&self, telling: impl Future<Output = Result<(), ServiceError>>) {
        let _ = tokio::time::timeout(COURTESY, telling).await;
    }

    fn late(&self, input: &ToolInput<'_>, shown: &str, token: Option<&str>) -> ToolError {
        let after = allowed(input.timeout);
        let far = token.and_then(|token| self.progress.of(token));
        let far = far.map(|far| format!("; it had come to {far}")).unwrap_or_default();
        ToolError::timeout(format!("{shown} gave no answer within {after}{far}{}", self.complaints()))
    }

    /// What it wrote that was no message.
    fn complaints(&self) -> String {
        self.process.as_ref().map(ServerProcess::complaints).unwrap_or_default()
    }

    /// Why there is no connection any more.
    async fn why(&self) -> String {
        match &self.process {
            Some(process) => process.why().await,
            None => "the server closed the connection".to_owned(),
        }
    }
}

impl CallProgress {
    /// Only of calls in flight is anything kept: a server may invent tokens.
    fn expect(&self, token: &str, aside: &ProgressReporter) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.insert(token.to_owned(), (String::new(), aside.clone()));
    }

    fn tell(&self, token: &str, mut text: String) {
        const MOST: usize = 200;
        if let Some((at, _)) = text.char_indices().nth(MOST) {
            text.truncate(at);
        }
        if let Some((said, aside)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(token) {
            aside.progress(&text);
            *said = text;
        }
    }

    fn of(&self, token: &str) -> Option<String> {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.get(token).map(|(text, _)| text).filter(|text| !text.is_empty()).cloned()
    }
}

/// Forgets a call when it is over, however that comes.
struct ForgetOnDrop<'a> {
    progress: &'a CallProgress,
    token: &'a str,
}

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        self.progress.0.lock().unwrap_or_else(PoisonError::into_inner).remove(self.token);
    }
}

fn http(
    url: &str,
    headers: &[(String, secrecy::SecretString)],
) -> Result<StreamableHttpClientTransport<HttpClient>, LinkError> {
    let (client, headers) = http_client(url, headers, UndecodableAnswer::Replace)?;
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// The way to a server over HTTP, and the headers of its requests.
pub(super) fn http_client(
    url: &str,
    headers: &[(String, secrecy::SecretString)],
    undecodable: UndecodableAnswer,
) -> Result<(HttpClient, HashMap<HeaderName, HeaderValue>), LinkError> {
    let parsed = reqwest::Url::parse(url)
        .map_err(|error| LinkError::of(format!("`url` is not a URL: {error}"), error))?;
    let client = HttpClients::new(&parsed)
        .and_then(|clients| clients.connecting_within(Some(Nanos::from_secs(10))))
        .map_err(|error| LinkError::of(error.to_string(), error))?;
    let mut own = HashMap::new();
    for (name, value) in headers {
        let refused = || format!("header `{name}` cannot be sent");
        let name = name.parse::<HeaderName>().map_err(|_| refused())?;
        let mut value = HeaderValue::from_str(value.expose_secret().trim()).map_err(|_| refused())?;
        value.set_sensitive(true);
        own.insert(name, value);
    }
    Ok((HttpClient { client, undecodable }, own))
}

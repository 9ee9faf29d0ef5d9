//! What `benches/relay.py` measures `unfazed mcp` against: `bare_relay relay COMMAND…` passes tools on with rmcp and does nothing
//! else; `bare_relay serve` is the server behind both.

use std::error::Error;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::transport::{TokioChildProcess, stdio};
use rmcp::{ErrorData, RoleClient, RoleServer, ServerHandler, ServiceExt};

/// Passes on what it is asked.
struct BareRelay(RunningService<RoleClient, ()>);

/// Has one tool, which answers with the text that it gets.
struct EchoServer;

fn config() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.capabilities = ServerCapabilities::builder().enable_tools().build();
    config
}

fn failed(error: impl ToString) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

impl ServerHandler for BareRelay {
    fn get_info(&self) -> ServerConfig {
        config()
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.peer().list_tools(page).await.map_err(failed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = self.0.peer().call_tool(request).await.map_err(failed)?;
        Ok(result.into())
    }
}

impl ServerHandler for EchoServer {
    fn get_info(&self) -> ServerConfig {
        config()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = serde_json::json!({
            "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"],
        });
        let tool = serde_json::json!({ "name": "echo", "description": "The text.", "inputSchema": schema });
        let tool: Tool = serde_json::from_value(tool).map_err(failed)?;
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = arguments.get("text").and_then(|text| text.as_str()).unwrap_or_default();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("serve") => drop(EchoServer.serve(stdio()).await?.waiting().await?),
        Some("relay") => {
            let mut command = tokio::process::Command::new(args.next().ok_or("relay COMMAND")?);
            command.args(args);
            let server = ().serve(TokioChildProcess::new(command)?).await?;
            drop(BareRelay(server).serve(stdio()).await?.waiting().await?);
        }
        _ => return Err("bare_relay serve, or bare_relay relay COMMAND".into()),
    }
    Ok(())
}

//! An agent whose tools come from an MCP server: what the server says about them counts, and the policy decides the rest.
//!
//! `cargo run --example mcp_agent`
//!
//! The server is this program itself, called with `serve`; a real one is named by its command
//! (`npx -y @modelcontextprotocol/server-filesystem .`) or, with `McpReach::Http`, by its address. The model is a script.

use std::io::{BufRead, Write};

use serde_json::{Value, json};
use unfazed::engine::{Directive, DirectiveKind, Note, Outcome, Work};
use unfazed::host::scripted::{Script, ScriptEntry, ScriptedModel};
use unfazed::host::{Agent, McpConfig, McpReach, McpServer, Observer, RunTask, StopSwitch};
use unfazed::policy::{Effect, Policy};

const POLICY: &str = "
version: 1
tools:
  \"library__*\":
    # What the server calls read-only may run twice; so it says of `find`.
    retry: {max_attempts: 3, retry_on: {add: [execution_error]}, backoff: {kind: constant, delay: 50ms}}
  library__burn:
    approval: always        # a person has to agree, and in this program there is none to ask
";

/// Shows what is done with the tools.
struct Shown;

impl Observer for Shown {
    fn directive(&mut self, directive: &Directive) {
        match &directive.order {
            DirectiveKind::Work(Work::RunTool(run)) => println!("runs {}, attempt {}", run.tool, run.attempt),
            DirectiveKind::Note(Note::Refused { tool, message, .. }) => println!("refuses {tool}: {message}"),
            _ => {}
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve();
    }
    let program = std::env::current_exe()?.display().to_string();
    let server =
        McpServer::start(McpConfig::new("library", McpReach::command([program, "serve".into()]))).await?;
    let script = Script::new(
        "librarian",
        [
            ScriptEntry::call("library__find", r#"{"title": "Emma"}"#),
            ScriptEntry::call("library__burn", r#"{"title": "Emma"}"#),
            ScriptEntry::text("It stands on shelf 7, and there it stays."),
        ],
    );
    let agent = Agent::new(Policy::from_yaml("policy.yaml", POLICY)?)
        .model("main", ScriptedModel::new(script))
        .tool_source(server.clone());
    for tool in agent.offered()? {
        println!("offers {} ({})", tool.name, tool.effect.map_or("effect not said", Effect::name));
    }
    let task = RunTask { run: "demo".into(), task: "Find Emma, then burn it.".into(), ..RunTask::default() };
    let report = agent.run_with(task, &mut Shown, None, StopSwitch::new()).await?;
    if let Outcome::Answered { text } = report.outcome {
        println!("answered: {text}");
    }
    server.shutdown().await;
    Ok(())
}

/// The smallest server there is: two tools, one message a line. Its catalogue is busy the first time it is asked.
fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let mut asked = 0;
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let Some(id) = message.get("id") else { continue };
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "library", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": [
                tool("find", "Finds a book.", &json!({"readOnlyHint": true})),
                tool("burn", "Burns a book.", &json!({"destructiveHint": true})),
            ]}),
            Some("tools/call") => {
                asked += 1;
                let text = if asked == 1 { "the catalogue is busy" } else { "shelf 7" };
                json!({"content": [{"type": "text", "text": text}], "isError": asked == 1})
            }
            _ => json!({}),
        };
        println!("{}", json!({"jsonrpc": "2.0", "id": id, "result": result}));
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn tool(name: &str, description: &str, hints: &Value) -> Value {
    let title = json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]});
    json!({"name": name, "description": description, "inputSchema": title, "annotations": hints})
}

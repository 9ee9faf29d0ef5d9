//! Servers whose tools change while runs continue, and servers that come and go.

use super::*;

/// Calls a tool that makes the server grow another, then answers; remembers which tools it was offered.
struct Grower(Arc<Mutex<Vec<Vec<String>>>>);

impl Model for Grower {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        let mut offered = self.0.lock().unwrap();
        offered.push(request.tools.iter().map(|tool| tool.name.clone()).collect());
        let reply = match offered.len() {
            1 => {
                let call = ToolCall { id: "c1".into(), name: "s__grow".into(), arguments: "{}".into() };
                ModelReply { calls: vec![ProposedCall::from(call)], ..ModelReply::default() }
            }
            _ => ModelReply { text: "done".into(), ..ModelReply::default() },
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

#[derive(Default)]
struct Seen {
    tokens: Vec<u64>,
    changes: Vec<usize>,
}

impl Observer for Seen {
    fn event(&mut self, envelope: &Envelope) {
        match &envelope.event {
            Event::TurnPrepared { measure, .. } => self.tokens.push(measure.tool_tokens),
            Event::ToolsChanged { tools } => self.changes.push(tools.len()),
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_next_turn_has_the_tools_a_server_has_added_and_counts_them() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    let offered = Arc::new(Mutex::new(Vec::new()));
    let policy = Policy::from_yaml("policy.yaml", "version: 1\n").unwrap();
    let agent = Agent::new(policy).model("main", Grower(Arc::clone(&offered))).tool_source(server.clone());
    let mut seen = Seen::default();
    let task = RunTask { run: "run-1".into(), task: "grow".into(), ..RunTask::default() };
    let report = agent.run_with(task, &mut seen, None, CancellationToken::new()).await.unwrap();
    assert_eq!(report.outcome, Outcome::Answered { text: "done".into() });
    let offered = offered.lock().unwrap().clone();
    assert!(!offered[0].contains(&"s__grown".to_owned()));
    assert_eq!(offered[1].len(), offered[0].len() + 1);
    assert!(offered[1].contains(&"s__grown".to_owned()));
    assert_eq!(seen.changes, [offered[1].len()]);
    assert!(seen.tokens[0] < seen.tokens[1], "{:?}", seen.tokens);
    server.shutdown().await;
}

#[tokio::test]
async fn tools_that_nobody_has_looked_at_to_the_end_are_looked_at_by_all_runs_that_follow() {
    let notes = Notes::new();
    let server = server("normal", &notes).await;
    // It does not answer who asks first.
    call(&server, "s__grow", json!({"mute": true})).await;
    let looks = async {
        loop {
            server.refresh().await;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = looks => unreachable!("it continues and on"),
        () = notes.wait_for("asked", 1) => {}
    }
    let sees = || async {
        server.refresh().await;
        server.tools().iter().any(|tool| tool.spec().name == "s__grown")
    };
    assert_eq!(tokio::join!(sees(), sees()), (true, true));
    server.shutdown().await;
}

/// Adds a server before its second turn, takes it away before its third, and remembers what it was offered.
struct Mover {
    servers: McpServers,
    config: McpConfig,
    offered: Arc<Mutex<Vec<Vec<String>>>>,
}

impl Model for Mover {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        let names: Vec<String> = request.tools.iter().map(|tool| tool.name.clone()).collect();
        let turn = {
            let mut offered = self.offered.lock().unwrap();
            offered.push(names);
            offered.len()
        };
        Box::pin(async move {
            let calling = |name: &str| {
                let call =
                    ToolCall { id: "c1".into(), name: name.into(), arguments: r#"{"text":"x"}"#.into() };
                ModelReply { calls: vec![ProposedCall::from(call)], ..ModelReply::default() }
            };
            Ok(match turn {
                1 => {
                    self.servers.add(self.config.clone()).await.unwrap();
                    calling("s__echo")
                }
                2 => {
                    let reply = calling("s__echo");
                    assert!(self.servers.remove("s").await);
                    reply
                }
                _ => ModelReply { text: "done".into(), ..ModelReply::default() },
            })
        })
    }
}

#[tokio::test]
async fn servers_are_added_and_removed_while_runs_go_on_and_the_tokens_of_their_tools_follow() {
    let notes = Notes::new();
    let servers = McpServers::new();
    let offered = Arc::new(Mutex::new(Vec::new()));
    let mover =
        Mover { servers: servers.clone(), config: config("normal", &notes), offered: Arc::clone(&offered) };
    let policy =
        Policy::from_yaml("policy.yaml", "version: 1\ntools: {\"*\": {effect: idempotent}}\n").unwrap();
    let agent = Agent::new(policy).model("main", mover).tool_source(servers.clone());
    let mut seen = Seen::default();
    let task = RunTask { run: "run-1".into(), task: "move".into(), ..RunTask::default() };
    let report = agent.run_with(task, &mut seen, None, CancellationToken::new()).await.unwrap();
    assert_eq!(report.outcome, Outcome::Answered { text: "done".into() });
    let offered = offered.lock().unwrap().clone();
    let has = |turn: usize| offered[turn].contains(&"s__echo".to_owned());
    assert_eq!((has(0), has(1), has(2)), (false, true, false));
    assert_eq!(seen.changes, [offered[1].len(), offered[2].len()]);
    assert!(seen.tokens[0] < seen.tokens[1], "{:?}", seen.tokens);
    assert_eq!(seen.tokens[0], seen.tokens[2]);
    assert!(servers.names().is_empty());
    notes.all_gone().await;
}

#[tokio::test]
async fn two_servers_of_one_name_are_refused_and_a_name_is_free_again_when_its_server_is_gone() {
    let (notes, servers) = (Notes::new(), McpServers::new());
    servers.add(config("normal", &notes)).await.unwrap();
    let error = servers.add(config("normal", &notes)).await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server `s`: a server of that name is there; remove it first");
    let before = servers.version();
    assert!(servers.remove("s").await);
    assert!(!servers.remove("s").await);
    servers.add(config("normal", &notes)).await.unwrap();
    assert!(servers.version() > before + 1);
    assert_eq!(servers.names(), ["s"]);
    servers.shutdown().await;
    notes.all_gone().await;
}

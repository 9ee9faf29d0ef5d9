//! A rig agent under a policy: rig runs the loop, the guards stand where it sends requests and where its tools run.
//!
//! From the root of the repository: `cargo run -p rig_agent`
//!
//! No key and no network are needed: the model is a script, served over HTTP on this machine. It is over its limit first,
//! then calls the tool with arguments that do not hold, then with good ones; and the tool's service fails once.

mod http;
mod tool;

use std::sync::atomic::{AtomicU32, Ordering};

use rig_agent::AgentBuilder;
use rig_core::providers::openai::{OpenAIConfig, Route};
use rig_core::tool::PortableTool;
use rig_reqwest::ReqwestClient;
use serde::Deserialize;
use serde_json::{Value, json};
use unfazed::engine::{ToolCatalogue, ToolSpec};
use unfazed::host::ModelAttempt;
use unfazed::host::guard::{Guard, GuardConfig};
use unfazed::host::scripted::{ErrorReply, Script, ScriptEntry, ScriptOutcome, ScriptedServer};
use unfazed::policy::Policy;

const POLICY: &str = "
version: 1
models:
  main:
    retry: {max_attempts: 4, server_delay: {mode: floor, max: 10s, above_max: give_up}}
tools:
  weather:
    effect: read_only
    retry: {max_attempts: 3, retry_on: {add: [execution_error]}, backoff: {kind: constant, delay: 50ms}}
    validate: [{name: place, check: size(args.city) > 0, message: name a city}]
";

/// A tool as rig wants it. Its service is down now and then.
#[derive(Default)]
struct Weather {
    asked: AtomicU32,
}

#[derive(Deserialize)]
struct Place {
    city: String,
}

impl PortableTool for Weather {
    const NAME: &'static str = "weather";
    type Args = Place;
    type Output = String;
    type Error = std::io::Error;

    fn description(&self) -> String {
        "Tells the weather of a city.".into()
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
    }

    async fn call(&self, place: Place) -> Result<String, std::io::Error> {
        if self.asked.fetch_add(1, Ordering::Relaxed) == 0 {
            println!("the service of the weather is down");
            return Err(std::io::Error::other("503 from the weather service"));
        }
        println!("the weather of {} is asked for", place.city);
        Ok("4 degrees, rain".into())
    }
}

/// What an operator would log of each call of the model.
fn told(attempt: &ModelAttempt) {
    let said = serde_json::to_value(attempt).unwrap_or_default();
    let word = |key: &str| said[key].as_str().unwrap_or("nothing to do");
    println!("{} attempt {}: {}, {}", word("target"), said["attempt"], word("status"), word("action"));
}

fn script() -> Script {
    let limit = ErrorReply::new(429, "rate_limit_exceeded", "slow down").header("retry-after-ms", "40");
    Script::new(
        "forecaster",
        [
            ScriptEntry::new(ScriptOutcome::Error(limit)),
            ScriptEntry::call("weather", r#"{"city": ""}"#),
            ScriptEntry::call("weather", r#"{"city": "Oslo"}"#),
            ScriptEntry::text("It rains in Oslo, at 4 degrees."),
        ],
    )
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ScriptedServer::start(script(), 0).await?;

    let weather = Weather::default();
    let spec = ToolSpec {
        name: Weather::NAME.into(),
        description: weather.description(),
        parameters: weather.parameters(),
        effect: None,
    };
    let guard = Guard::new(
        GuardConfig::new(Policy::from_yaml("policy.yaml", POLICY)?)
            .tools(ToolCatalogue::new([spec])?)
            .targets(["main"])
            .on_attempt(told),
    );

    let client = rig_reqwest::reqwest::Client::builder().no_proxy().build()?;
    let model = OpenAIConfig::new("no-key")
        .with_base_url(server.base_url())
        .with_route(Route::Chat)
        .connect(http::Guarded::new(guard.clone(), ReqwestClient::from(client)))
        .completion("scripted");
    let agent = AgentBuilder::new(model)
        .preamble("You tell people about the weather.")
        .tool(tool::Guarded::new(&guard, weather))
        .default_max_turns(6)
        .build();

    let answer = agent.prompt("What is the weather in Oslo?").await?;
    println!("rig answers: {}", answer.output());
    for feedback in guard.slices(|slices| slices.feedback().collect::<Vec<_>>()) {
        println!("remembered: {} attempt {}: {}", feedback.error_type, feedback.attempt, feedback.message);
    }
    // What the model learns about the call that did not run.
    for message in server.requests()[2].body["messages"].as_array().into_iter().flatten() {
        if message["role"] == "tool" {
            println!("the model was informed: {}", message["content"]);
        }
    }
    Ok(())
}

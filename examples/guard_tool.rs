//! A host with a loop of its own puts one tool under a policy: `cargo run --example guard_tool`

use serde_json::json;
use unfazed::host::guard::CallError;
use unfazed::host::{Guard, ToolError};
use unfazed::policy::Policy;

const POLICY: &str = "
version: 1
tools:
  weather:
    effect: read_only
    retry: {max_attempts: 3, retry_on: {add: [network_error]}, backoff: {kind: constant, delay: 100ms}}
    validate: [{name: place, check: size(args.city) > 0, message: name a city}]
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let guard = Guard::new(Policy::from_yaml("policy.yaml", POLICY)?);
    let weather = guard.tool("weather");

    // The service is down twice; the third attempt gets through.
    let args = json!({ "city": "Oslo" });
    let answer = weather.call(&args, |args, ctx| async move {
        println!("attempt {}: asking for {}", ctx.attempt, args["city"]);
        if ctx.attempt < 3 { Err(ToolError::network("connection reset")) } else { Ok("4 degrees, rain") }
    });
    println!("{}", answer.await?);

    // Arguments that do not hold never reach the tool. The model gets feedback.
    let refused = weather.call(&json!({ "city": "" }), |_, _| async { Ok::<_, ToolError>("never") }).await;
    if let Err(CallError::Refused(refusal)) = refused {
        println!("for the model: {}", refusal.message);
    }

    // What went wrong is in the session, for prompts to look at.
    for feedback in guard.slices(|slices| slices.feedback().collect::<Vec<_>>()) {
        println!("remembered: attempt {}: {}: {}", feedback.attempt, feedback.error_type, feedback.message);
    }
    Ok(())
}

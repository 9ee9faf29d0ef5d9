//! One policy for three environments: the same failing service under each profile.
//!
//! `cargo run --example profiles`
//!
//! Time is virtual here, so that the minutes of production pass at once. `unfazed explain search policy.yaml --profile
//! production` shows the same of a policy in a file.

use tokio::time::Instant;
use unfazed::host::guard::CallError;
use unfazed::host::{Guard, ToolError};
use unfazed::policy::Loader;
use unfazed::text::Report;

const POLICY: &str = "
version: 1
# The rules below keep `jitter: none`, so that the waits are round.
retry: {max_attempts: 3, backoff: {kind: constant, delay: 1s, jitter: none}}
tools:
  search: {effect: read_only, breaker: {failures: never}}
profiles:
  # A developer wants to see the first failure, at once.
  development:
    retry: {max_attempts: 1}
  # A pipeline may not wait long, whatever the rules below say.
  ci:
    limits: {total_delay: 5s}
    tools:
      search: {retry: {max_attempts: 10, backoff: {kind: exponential, base: 500ms, factor: 2}}}
  # Nobody is looking: patience is cheap.
  production:
    tools:
      search: {retry: {max_attempts: 8, backoff: {kind: exponential, base: 1s, factor: 2, cap: 1m}}}
";

/// A call of a service that is down, until nothing is tried any more.
async fn call(profile: Option<&str>) -> Result<(), Report> {
    let loader = profile.map_or_else(Loader::new, |name| Loader::new().profile(name));
    let policy = loader.load(vec![("policy.yaml".to_owned(), POLICY)])?;
    let search = Guard::new(policy).tool("search");
    let began = Instant::now();
    let ended =
        search.call((), |(), _| async { Err::<(), _>(ToolError::network("connection refused")) }).await;
    let waited = began.elapsed().as_secs_f64();
    if let Err(CallError::Exhausted(given_up)) = ended {
        let exhausted = given_up.exhausted;
        let (attempts, why) = (exhausted.attempts.len(), exhausted.reason.name());
        println!("{:<12} {attempts} attempts in {waited} s, then: {why}", profile.unwrap_or("no profile"));
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for profile in [None, Some("development"), Some("ci"), Some("production")] {
        call(profile).await?;
    }
    // A profile that is not there is an error, not the default.
    if let Err(report) = call(Some("prodution")).await {
        println!("{report}");
    }
    Ok(())
}

//! A program runs an agent file, as `unfazed run` does: `cargo run --example agent_file`

use unfazed::Agent;
use unfazed::engine::Outcome;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Every mistake in the file, its policy and its script is found before anything starts.
    let agent = Agent::from_file("examples/quickstart/agent.yaml").await?;
    let report = agent.run().await?;
    agent.shutdown().await;

    if let Outcome::Reported { output } = &report.outcome {
        println!("{output}");
    }
    println!("{} turns, {} tokens", report.state.turn, report.state.usage.total());
    Ok(())
}

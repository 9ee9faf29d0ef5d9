//! The gateway that needs no file.

use super::Gateway;
use crate::command;

#[tokio::test]
async fn the_demo_needs_no_file_and_something_happens_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::spawned(folder, &["serve", "--demo", "--addr", "127.0.0.1:0"]);
    let status = gateway
        .status_when(|status| {
            let has_decided = |what: &str| {
                let decisions = status["decisions"].as_array().unwrap();
                decisions.iter().any(|decided| decided["what"] == what)
            };
            status["requests"]["answered"].as_u64() > Some(3) && has_decided("retry") && has_decided("pace")
        })
        .await;
    let places = status["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|decided| decided["because"].as_array().unwrap());
    let places: Vec<&str> = places.filter_map(|because| because["place"].as_str()).collect();
    assert!(places.iter().any(|place| place.starts_with("demo/policy.yaml:")), "{places:?}");
    assert!(gateway.get("/", &[]).await.body.contains("unfazed serve"));
}

#[test]
fn the_demo_serves_this_machine_alone() {
    let folder = tempfile::tempdir().unwrap();
    let said = command::unfazed(folder.path(), &["serve", "--demo", "--addr", "0.0.0.0:0"]).output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.code() == Some(2) && text.contains("this machine alone"), "{text}");
}

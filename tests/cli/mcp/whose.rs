//! What concerns one of several servers reaches that one alone.

use serde_json::{Value, json};

use super::Client;
use super::several::{client_of, read_by};

fn two() -> Client {
    let features = json!({"prompts": {}, "completions": {}, "logging": {}});
    let of = |prompt: &str| json!({"tools": ["ask"], "token": 1, "prompts": [prompt], "features": features});
    let mut client = client_of(&[("red", of("plan")), ("blue", of("paint"))], "version: 1\n");
    client.shake_hands(&json!({}));
    client
}

/// Waits until both servers have read all that was sent before.
fn settle(client: &mut Client) {
    client.ask("logging/setLevel", &json!({"level": "info"}));
}

#[test]
fn progress_of_a_question_reaches_the_server_that_asked_it_under_its_own_token() {
    let mut client = two();
    for (id, tool) in [(1, "red__ask"), (2, "blue__ask")] {
        client.send(&json!(id), "tools/call", &json!({"name": tool, "arguments": {}}));
    }
    let asked: [Value; 2] = [client.next(), client.next()];
    let tokens = asked.each_ref().map(|question| question["params"]["_meta"]["progressToken"].clone());
    assert_ne!(tokens[0], tokens[1], "{asked:?}");
    for (question, token) in asked.iter().zip(&tokens) {
        let of = &question["params"]["from"];
        client.tell("notifications/progress", &json!({"progressToken": token, "progress": 1, "message": of}));
    }
    client.tell("notifications/progress", &json!({"progressToken": "of nobody", "progress": 1}));
    settle(&mut client);
    for server in ["red", "blue"] {
        let read = read_by(&client, server, "notifications/progress");
        let params: Vec<&Value> = read.iter().map(|line| &line["params"]).collect();
        assert_eq!(params, [&json!({"progressToken": 1, "progress": 1, "message": server})]);
    }
}

#[test]
fn a_cancellation_reaches_the_server_that_works_on_the_call_with_its_reason() {
    let mut client = two();
    client.send(&json!("call"), "tools/call", &json!({"name": "red__ask", "arguments": {}}));
    client.next();
    client.tell(
        "notifications/cancelled",
        &json!({"requestId": "call", "reason": "the person left", "new": 1}),
    );
    settle(&mut client);
    let read = read_by(&client, "red", "notifications/cancelled");
    assert_eq!(read.len(), 1, "{read:?}");
    assert_eq!(
        (&read[0]["params"]["reason"], &read[0]["params"]["new"]),
        (&json!("the person left"), &json!(1))
    );
    assert_eq!(read[0]["params"]["requestId"], read_by(&client, "red", "tools/call")[0]["id"]);
    assert_eq!(read_by(&client, "blue", "notifications/cancelled").len(), 0);
}

#[test]
fn completions_list_what_they_need_once() {
    let mut client = two();
    let of = |name: &str| json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "a", "value": "b"}});
    for _ in 0..3 {
        let unknown = client.ask("completion/complete", &of("nothing"));
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    }
    assert_eq!(client.ask("completion/complete", &of("paint"))["result"]["of"], "blue");
    let template =
        json!({"ref": {"type": "ref/resource", "uri": "db://{x}"}, "argument": {"name": "x", "value": "b"}});
    for _ in 0..3 {
        assert_eq!(client.ask("completion/complete", &template)["error"]["code"], -32601);
    }
    for server in ["red", "blue"] {
        assert_eq!(read_by(&client, server, "prompts/list").len(), 1, "{server}");
    }
}

//! A history that providers refuse.

use serde_json::Map;
use unfazed::session::{Message, ToolCall};

/// What a run that was killed has left, and a host that kept the last messages only.
pub(crate) fn torn_history() -> Vec<Message> {
    let call = |id: &str| ToolCall { id: id.into(), name: "alpha".into(), arguments: r#"{"n": 1}"#.into() };
    let result = |call: &str| Message::Tool {
        call: call.into(),
        tool: "alpha".into(),
        text: "1".into(),
        error: false,
        handle: None,
    };
    let assistant = |calls| Message::Assistant { text: "I look.".into(), calls, extra: Map::default() };
    vec![
        result("h0"),
        Message::user("before"),
        assistant(vec![call("h1"), call("h2")]),
        result("h2"),
        result("h2"),
        assistant(vec![call("h3")]),
        Message::user("and now"),
        result("h3"),
    ]
}

//! Where calls begin and end in a text.

use super::cursor::TextCursor;
use super::named::MARKS;

/// Tokens that surround calls, each with its end.
const SURROUNDING: [(&str, &str); 10] = [
    // Llama 3.
    ("<|python_tag|>", "<|eom_id|>"),
    // Mistral with a list of calls; with names of their own, `named` reads them.
    ("[TOOL_CALLS]", "</s>"),
    // Kimi K2; its model writes both.
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
    ("<|tool_call_section_begin|>", "<|tool_call_section_end|>"),
    // Kimi K3.
    ("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
    // DeepSeek V3, R1 and V3.1.
    ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    // Granite and Phi 4.
    ("<|tool_call|>", "<|/tool_call|>"),
    // Command.
    ("<|START_ACTION|>", "<|END_ACTION|>"),
    // InternLM.
    ("<|action_start|><|plugin|>", "<|action_end|>"),
    // Nemotron.
    ("<TOOLCALL>", "</TOOLCALL>"),
];
/// Other tokens that end a call or a message.
const ENDS: [&str; 6] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
    "<|close|>message<|sep|>",
    "[e~[",
];
/// Tags that surround calls: Hermes, Qwen, GLM and Seed, Hunyuan, Claude; `calls` is of `DeepSeek` V4.1.
const TAGS: [&str; 7] =
    ["tool_call", "tool_calls", "function_call", "function_calls", "longcat_tool_call", "calls", "tools"];
/// What models write before the names of their tags: `DeepSeek` V3.2 and V4, Claude, `MiniMax` M2, Seed.
const NAMESPACES: [&str; 6] = ["｜DSML｜", "｜｜DSML｜｜", "|DSML|", "antml:", "minimax:", "seed:"];

/// Where calls begin.
pub(super) struct Opening {
    /// How many bytes are before it.
    pub(super) at: usize,
    pub(super) length: usize,
    /// What ends it. Empty for a single call.
    pub(super) closing: String,
    /// Whether it is around calls; if not, it belongs to a single call.
    pub(super) surrounds: bool,
}

/// A tag: `<minimax:invoke name="search">`.
pub(super) struct Tag<'t> {
    pub(super) closes: bool,
    /// All before the attributes: `<minimax:invoke`.
    written: &'t str,
    /// Without its namespace.
    pub(super) name: &'t str,
    /// All between the name and the end.
    pub(super) attributes: &'t str,
}

impl Opening {
    /// The first one in `text`.
    pub(super) fn first(text: &str) -> Option<Self> {
        let begins = |c: char| matches!(c, '<' | '[');
        text.match_indices(begins)
            .find_map(|(at, _)| Self::here(text.get(at..)?).map(|opening| Self { at, ..opening }))
    }

    /// The one with which `text` begins.
    pub(super) fn here(text: &str) -> Option<Self> {
        if MARKS.iter().any(|mark| text.starts_with(mark.open)) && !is_list_of_mistral(text) {
            return Some(Self::single());
        }
        if let Some((open, close)) = SURROUNDING.iter().find(|(open, _)| text.starts_with(open)) {
            let closing = (*close).to_owned();
            return Some(Self { at: 0, length: open.len(), closing, surrounds: true });
        }
        let mut cursor = TextCursor::new(text);
        let tag = tag(&mut cursor).filter(|tag| !tag.closes)?;
        if tag.calls().is_some() {
            return Some(Self::single());
        }
        let length = text.len().checked_sub(cursor.rest().len())?;
        let bare = TAGS.contains(&tag.name) && tag.attributes.is_empty();
        bare.then(|| Self { at: 0, length, closing: tag.closing(), surrounds: true })
    }

    const fn single() -> Self {
        Self { at: 0, length: 0, closing: String::new(), surrounds: false }
    }
}

impl<'t> Tag<'t> {
    /// The tool that an opening tag calls: `<invoke name="search">`, or `<function=search>` as Qwen writes it.
    pub(super) fn calls(&self) -> Option<&'t str> {
        match self.name {
            "invoke" | "function" => self.named(),
            // Kimi K3.
            "call" => self.attribute("tool"),
            _ => None,
        }
    }

    /// The name of a tool or parameter, in an attribute or after `=`.
    pub(super) fn named(&self) -> Option<&'t str> {
        let after = self.attributes.strip_prefix('=').map(|name| name.trim().trim_matches('"'));
        after.or_else(|| self.attribute("name")).filter(|name| !name.is_empty())
    }

    /// The tag that closes what this one opens. Models keep to one way to write their tags.
    pub(super) fn closing(&self) -> String {
        match (self.written.strip_prefix("<|open|>"), self.written.strip_prefix('<')) {
            (Some(name), _) => format!("<|close|>{name}<|sep|>"),
            (None, name) => format!("</{}>", name.unwrap_or(self.name)),
        }
    }

    /// Whether it closes a block or `call`.
    pub(super) fn ends(&self, call: &Self) -> bool {
        self.closes && (self.name == call.name || TAGS.contains(&self.name))
    }

    pub(super) fn attribute(&self, key: &str) -> Option<&'t str> {
        let mut rest = self.attributes;
        while let Some((before, after)) = rest.split_once("=\"") {
            let (value, after) = after.split_once('"')?;
            if before.trim() == key {
                return Some(value);
            }
            rest = after;
        }
        None
    }
}

/// Reads a tag.
pub(super) fn tag<'t>(cursor: &mut TextCursor<'t>) -> Option<Tag<'t>> {
    let text = cursor.rest();
    let mut ahead = *cursor;
    let mut closes = ahead.take("<|close|>");
    let end = if closes || ahead.take("<|open|>") {
        "<|sep|>"
    } else if ahead.take("<") {
        closes = ahead.take("/");
        for namespace in NAMESPACES {
            ahead.take(namespace);
        }
        // DeepSeek V4.1 writes a space after its namespace.
        ahead.take(" ");
        ">"
    } else {
        return None;
    };
    let name = ahead.name()?;
    let written = text.get(..text.len().checked_sub(ahead.rest().len())?)?;
    let attributes = ahead.until_near(end)?;
    if !attributes.is_empty() && !attributes.starts_with(['=', ' ', '\n', '\t']) {
        return None;
    }
    *cursor = ahead;
    Some(Tag { closes, written, name, attributes: attributes.trim() })
}

/// Skips what ends a block.
pub(super) fn skip_closings(cursor: &mut TextCursor<'_>) {
    loop {
        let mut ahead = *cursor;
        ahead.skip_space();
        let mut tokens = SURROUNDING.iter().map(|(_, close)| *close).chain(ENDS);
        let closed = tokens.any(|token| ahead.take(token))
            || tag(&mut ahead).is_some_and(|tag| tag.closes && TAGS.contains(&tag.name));
        if !closed {
            return;
        }
        *cursor = ahead;
    }
}

/// `[TOOL_CALLS][{"name": …}]`, as Mistral's models wrote it until 2025.
fn is_list_of_mistral(text: &str) -> bool {
    text.strip_prefix("[TOOL_CALLS]").is_some_and(|rest| rest.trim_start().starts_with(['[', '{']))
}

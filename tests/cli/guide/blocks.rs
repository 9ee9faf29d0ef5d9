//! The fenced blocks of a page.

use super::{pages, read};

/// What may stand behind a fence.
const WORDS: &[&str] = &[
    "yaml",
    "yaml wrong",
    "yaml written",
    "console",
    "rust",
    "json",
    "jsonl",
    "toml",
    "sh",
    "ini",
    "dockerfile",
    "text",
    "mermaid",
    "python",
];
/// What may stand there besides in `docs/rules.md`.
const WORDS_OF_RULES: &[&str] = &["yaml comment", "yaml right", "json tools"];

/// A fenced block of a page.
#[derive(Clone)]
pub(crate) struct Block {
    pub(crate) page: String,
    /// The line of its text.
    pub(crate) line: usize,
    /// What stands behind the fence.
    pub(crate) words: String,
    pub(crate) text: String,
}

impl Block {
    /// Where it stands.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.page, self.line)
    }

    /// The name of the file it is, by its first line.
    pub(crate) fn name(&self) -> &str {
        let name = self.text.lines().next().and_then(|line| line.strip_prefix("# "));
        let name = name.filter(|name| name.rsplit('.').next() == Some("yaml") && !name.contains(' '));
        name.unwrap_or_else(|| {
            panic!("{}: say what file this is in the first line, `# policy.yaml`", self.place())
        })
    }
}

/// The blocks of a page, in order.
pub(crate) fn of(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let text = read(page);
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(words), None) => {
                let (page, words) = (page.to_owned(), words.to_owned());
                open = Some(Block { page, line: index + 2, words, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a block has no end");
    blocks
}

/// The blocks of all pages.
pub(crate) fn all() -> Vec<Block> {
    pages().iter().flat_map(|page| of(page)).collect()
}

#[test]
fn every_block_says_what_it_is() {
    for block in all() {
        let words = block.words.as_str();
        let known =
            WORDS.contains(&words) || block.page == "docs/rules.md" && WORDS_OF_RULES.contains(&words);
        assert!(known, "{}: `{words}` is none of {WORDS:?}", block.place());
    }
}

//! The pages about what `unfazed check` finds: `docs/rules.md`, a section for each.

/// The text.
const PAGES: &str = include_str!("../../docs/rules.md");

/// The page about one kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RulePage {
    /// `W0201`.
    pub(crate) id: &'static str,
    /// What it is, in a line.
    pub(crate) title: &'static str,
    /// The rest.
    pub(crate) body: &'static str,
}

/// All pages, in their order.
pub(crate) fn all() -> impl Iterator<Item = RulePage> {
    PAGES.split("\n## ").skip(1).filter_map(|section| {
        let (heading, body) = section.split_once('\n')?;
        let (id, title) = heading.split_once(": ")?;
        Some(RulePage { id, title, body: body.trim() })
    })
}

/// The page of that id.
pub(crate) fn find(id: &str) -> Option<RulePage> {
    all().find(|page| page.id == id)
}

//! `context:`: what goes into a model's context window.

mod tokens;

use serde_json::Value;

pub(crate) use tokens::{MergedTokens, TokensLayer};

use crate::policy::Span;
use crate::policy::decode::record;
use crate::policy::merge::{Block, Layer, Under};

record! {
    /// What goes into a model's context window, and how it is measured.
    #[derive(Default)]
    #[part(true)]
    pub(crate) struct ContextLayer {
        /// How tokens are counted. `tokens` of a model stands above it.
        pub(crate) tokens: Block<TokensLayer>,
    }
}

impl Layer for ContextLayer {
    fn unset(span: Span) -> Self {
        Self { tokens: Block(TokensLayer::unset(span)) }
    }

    fn entries(&self, under: &Under<'_>, found: &mut Vec<(String, Span, Value)>) {
        self.tokens.0.entries(&under.field("tokens"), found);
    }
}

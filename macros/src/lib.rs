//! `#[derive(Named)]`: the names of the variants of an enum. `#[derive(Block)]`: a block of policy keys, declared once.
//!
//! ```text
//! /// When a tool is no longer called.
//! #[derive(Clone, Debug, Block)]
//! pub struct BreakerPolicy<F: Form = Effective> {
//!     /// Failures that open it, or `never`.
//!     /// Checks: W0209, W0230.
//!     /// Example: `5`
//!     #[key(looser = More)]
//!     pub failures: F::Of<Failures>,
//!     /// The message to the model.
//!     pub messages: F::In<BreakerMessages<F>>,
//! }
//! ```
//!
//! It writes as little as it can: the table of the keys, the constructor of an empty block, and two walks over the fields.
//! What is done with them is ordinary code in `policy/form.rs` and the modules that use it. Of no use outside `unfazed`.

mod block;
mod named;
mod options;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// A block of policy keys, generic in its form.
#[proc_macro_derive(Block, attributes(block, key))]
pub fn block(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    block::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// `name()`, which says the variants of an enum in snake case.
#[proc_macro_derive(Named)]
pub fn named(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    named::derive(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

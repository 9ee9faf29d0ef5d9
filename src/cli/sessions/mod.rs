//! `unfazed sessions`: what was run, and what became of it.

pub(crate) mod find;

pub(crate) use find::{Found, dir};

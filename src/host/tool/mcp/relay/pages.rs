//! What one server lists, over as many pages as it takes.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::link::RelayLink;
use super::merge::ListPage;
use super::message::{self, INTERNAL_ERROR, METHOD_NOT_FOUND, RpcMessage};
use crate::host::guard::ClassifyError;
use crate::host::tool::mcp::failure::LinkError;
use crate::host::tool::mcp::link::{MOST_PAGES, MOST_TOOLS};

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// The parameters of a request for a list, or the fields of a page beside its items.
pub(super) type ListFields = IndexMap<String, Box<RawValue>>;

/// All pages of a list.
#[derive(Default)]
pub(super) struct ListPages {
    /// The fields of the first page, without the items.
    pub(super) fields: ListFields,
    pub(super) items: Vec<Box<RawValue>>,
}

/// Why a server has not listed something.
#[derive(Debug)]
pub(super) enum ListFailure {
    /// It answered with this error object.
    Refused(Box<RawValue>),
    /// There is no answer that can be used.
    Unusable(String),
}

impl ListKind {
    /// What a method lists; `None`: it does not list.
    pub(super) fn of(method: &str) -> Option<Self> {
        [Self::Tools, Self::Prompts, Self::Resources, Self::Templates]
            .into_iter()
            .find(|kind| kind.method() == method)
    }

    pub(super) const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The field of the answer that has the items.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// What a server announces that has any.
    pub(super) const fn feature(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// The field of an item by which it is known.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }
}

impl ListFailure {
    /// The error object for a client.
    pub(super) fn object(&self) -> String {
        match self {
            Self::Refused(error) => error.get().to_owned(),
            Self::Unusable(why) => message::failure(INTERNAL_ERROR, why),
        }
    }
}

impl From<ListFailure> for LinkError {
    fn from(failure: ListFailure) -> Self {
        match failure {
            ListFailure::Refused(error) => {
                let why = message::message_of(error.get());
                let code = code_of(error.get()).map(|code| format!(" ({code})")).unwrap_or_default();
                let why = why.unwrap_or_else(|| "its error cannot be read".to_owned());
                format!("the server refuses: {why}{code}").into()
            }
            ListFailure::Unusable(why) => why.into(),
        }
    }
}

/// Asks a server for all pages of a list. One that does not know the method has none of it.
///
/// # Errors
/// It refuses, its answer cannot be read, or the list has more than [`MOST_TOOLS`] items or [`MOST_PAGES`] pages.
pub(super) async fn all(
    upstream: &Arc<RelayLink>,
    kind: ListKind,
    mut params: ListFields,
) -> Result<ListPages, ListFailure> {
    let unusable = |why: String| ListFailure::Unusable(why);
    let mut pages = ListPages::default();
    for _ in 0..MOST_PAGES {
        let text = serde_json::to_string(&params).map_err(|error| unusable(error.to_string()))?;
        let asked = match upstream.ask(None, |number| message::request(number, kind.method(), &text)) {
            Ok(asked) => asked,
            Err(unsent) => return Err(unusable(upstream.why_unsent(unsent).await)),
        };
        let line = asked.answer().await.map_err(|error| unusable(error.message()))?;
        let page = match RpcMessage::parse(&line) {
            Ok(RpcMessage::Answer { outcome: Ok(result), .. }) => ListPage::read(result.get(), kind.key()),
            Ok(RpcMessage::Answer { outcome: Err(error), .. })
                if code_of(error.get()) == Some(METHOD_NOT_FOUND) =>
            {
                return Ok(pages);
            }
            Ok(RpcMessage::Answer { outcome: Err(error), .. }) => {
                return Err(ListFailure::Refused(error.to_owned()));
            }
            _ => None,
        };
        let page = page.ok_or_else(|| unusable("the server's list cannot be read".to_owned()))?;
        pages.items.extend(page.items);
        if pages.items.len() > MOST_TOOLS {
            return Err(unusable(format!("the server lists more than {MOST_TOOLS} items")));
        }
        if pages.fields.is_empty() {
            pages.fields = page.fields;
        }
        let Some(next) = page.next else { return Ok(pages) };
        let cursor = to_raw_value(&next).map_err(|error| unusable(error.to_string()))?;
        params.insert("cursor".to_owned(), cursor);
    }
    Err(unusable(format!("the server's list has more than {MOST_PAGES} pages")))
}

/// The code of an error object.
pub(super) fn code_of(error: &str) -> Option<i64> {
    let error: Value = serde_json::from_str(error).ok()?;
    error.get("code").and_then(Value::as_i64)
}

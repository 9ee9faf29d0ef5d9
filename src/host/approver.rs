//! Who is asked where the policy wants a person to agree.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::port::BoxFuture;
use crate::engine::{ApprovalAnswer, AskPerson, Event};

/// Asks a person.
///
/// The question is dropped when its time is over or the run ends; an answer that comes later is of no use.
///
/// ```
/// use unfazed::engine::{ApprovalAnswer, AskPerson};
/// use unfazed::host::{Approver, BoxFuture};
///
/// /// Lets everything run that is no deletion.
/// struct Careful;
///
/// impl Approver for Careful {
///     fn ask<'a>(&'a self, ask: &'a AskPerson) -> BoxFuture<'a, ApprovalAnswer> {
///         let answer = if ask.tool.starts_with("delete") { ApprovalAnswer::Refuse } else { ApprovalAnswer::Approve };
///         Box::pin(std::future::ready(answer))
///     }
/// }
/// ```
pub trait Approver: Send + Sync {
    /// What the person says. [`ApprovalAnswer::None`] if there is nobody: the policy decides then.
    fn ask<'a>(&'a self, ask: &'a AskPerson) -> BoxFuture<'a, ApprovalAnswer>;
}

/// There is nobody to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct DenyAll;

impl Approver for DenyAll {
    fn ask<'a>(&'a self, _ask: &'a AskPerson) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::None))
    }
}

/// Asks a person, as long as there is time and the run continues.
pub(super) fn answered(
    approver: Arc<dyn Approver>,
    ask: AskPerson,
    stop: CancellationToken,
) -> BoxFuture<'static, Event> {
    Box::pin(async move {
        let patience = async {
            match ask.timeout {
                Some(timeout) => tokio::time::sleep(timeout.to_std()).await,
                None => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            biased;
            () = stop.cancelled() => ApprovalAnswer::None,
            answer = approver.ask(&ask) => answer,
            () = patience => ApprovalAnswer::None,
        };
        ask.answered(answer)
    })
}

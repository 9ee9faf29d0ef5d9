//! What a step of a reduction comes to, for a host that has the conversation.

use crate::context::{TokenCounter, message_tokens, reduce};
use crate::engine::{Event, ReduceContext};
use crate::policy::Policy;
use crate::session::Message;

/// The event that answers the work.
pub(super) fn reduced(
    policy: &Policy,
    work: ReduceContext,
    messages: &[Message],
    counter: &dyn TokenCounter,
) -> Event {
    let weights: Vec<u64> = messages.iter().map(|message| message_tokens(counter, message)).collect();
    let reduction = reduce(policy, &work.plan, messages, &weights, counter);
    work.reduced(reduction)
}

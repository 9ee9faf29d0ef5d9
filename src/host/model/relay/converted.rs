//! Requests and answers that are written anew.

use super::judge::{JudgedReply, ReplyForm, ReplyJudge};
use super::verdict::usable;
use super::{AnswerHead, SentBody, WholeAnswer, beside};
use crate::engine::{Failure, ModelReply};
use crate::host::model::front::{FrontCall, left_out};
use crate::host::model::refusals::SentOption;
use crate::host::model::wire::WireFormat;

/// A request for a model that speaks another dialect than the client.
pub(in crate::host) struct ConvertedRequest<'a> {
    pub(in crate::host) body: SentBody,
    pub(super) front: &'a FrontCall,
    /// How it was written.
    pub(super) format: Box<dyn WireFormat>,
    pub(super) left_out: Vec<String>,
    /// Whether a message of the user was put before what the model says first.
    pub(in crate::host) opened: bool,
    /// Whether it has instructions in a role of their own.
    pub(super) instructs: bool,
    /// The options in it that not every server takes.
    pub(super) sent: Vec<SentOption>,
    /// Whether broken arguments of calls are repaired.
    pub(super) repairs: bool,
}

impl ConvertedRequest<'_> {
    /// The reply as the client gets it, after it was looked at.
    ///
    /// # Errors
    /// A call in it cannot be read, or nothing of it can be said in the dialect of the client.
    pub(super) fn settled(
        &self,
        reply: ModelReply,
        judge: Option<&dyn ReplyJudge>,
    ) -> Result<JudgedReply, Failure> {
        let reply = self.front.settled(reply);
        let judged = match judge {
            Some(judge) => judge.judge(reply, ReplyForm::Written),
            None => JudgedReply::unseen(reply),
        };
        // What no other dialect can say is a failure in any case.
        let usable = usable(judged.reply, self.repairs);
        let said = usable.and_then(|reply| beside::fault_of(&reply).map_or(Ok(reply), Err));
        let reply = said.map_err(|failure| judged.refused.clone().unwrap_or(failure))?;
        let left_out = beside::left_out(&reply);
        if !left_out.is_empty() {
            let left_out = left_out.join(", ");
            tracing::info!(left_out, "answer converted");
        }
        Ok(JudgedReply { reply, ..judged })
    }

    /// A settled reply as the client gets it at once.
    pub(super) fn whole(&self, mut head: AnswerHead, reply: &ModelReply) -> WholeAnswer {
        let mut writer = self.front.writer();
        let body = writer.text(&reply.text) + &writer.end(reply);
        // It has the fields of the request already: `extend` would add a second header.
        if let Some((name, value)) = left_out(&[&*self.left_out, &beside::left_out(reply)].concat()) {
            head.headers.insert(name, value);
        }
        WholeAnswer { head, body: body.into() }
    }

    /// The fields of the client's request that the model does not get.
    pub(in crate::host) fn left_out(&self) -> String {
        self.left_out.join(", ")
    }
}

//! What a request asks of its answer: that calls are of its tools and hold their schemas, and that a text is of the form it wants.
//!
//! Nothing is decided here. The interpreter says what does not hold, what is repaired, whether the model is asked once more, and
//! what it reads then.

mod declared;
mod events;
mod known;
mod rewritten;
mod spliced;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

pub(super) use self::known::KnownDeclarations;
use self::known::KnownTools;
use super::board::BoardTicket;
use super::progress::CallProgress;
use super::request::RequestBody;
use crate::engine::{CheckedReply, ModelReply, ReplyContract, ToolCatalogue};
use crate::host::model::cut_at_limit;
use crate::host::model::front::GatewayDialect;
use crate::host::model::relay::{AnswerSink, HeldPart, JudgedReply, ReplyForm, ReplyJudge};
use crate::host::redact::SecretRedactor;
use crate::host::trace;
use crate::policy::{ErrorClass, Policy};
use crate::session::{Message, Usage};
use crate::text::Schema;

/// The most tools of a request, and calls of an answer, that are looked at: providers take 128 tools at most (`OpenAI`, Gemini), and what
/// a stranger sends is not to cost seconds.
const MOST_TOOLS: usize = 1024;
const MOST_CALLS: usize = 128;

/// What a request asks of its answer, and what was wrong with the answers so far.
pub(super) struct RequestContract {
    dialect: GatewayDialect,
    body: RequestBody,
    has_tools: bool,
    has_form: bool,
    known: Arc<KnownDeclarations>,
    /// What the next model reads besides, with the model that has written it.
    correction: Mutex<Option<(String, Vec<Message>)>>,
    /// What the answers took that are not passed on, as far as it has not been charged.
    spent: Mutex<Usage>,
}

/// One attempt, whose answer has to hold.
pub(super) struct AttemptJudge<'a> {
    pub(super) contract: &'a RequestContract,
    pub(super) policy: &'a Policy,
    pub(super) target: &'a str,
    pub(super) sink: &'a AnswerSink,
    pub(super) progress: &'a CallProgress,
    pub(super) ticket: &'a BoardTicket,
    /// The secrets of its connection, which the next model may be at another provider to.
    pub(super) redactor: Cow<'a, SecretRedactor>,
}

impl RequestContract {
    /// The contract of a request; `None`: any answer will do.
    pub(super) fn of(
        dialect: GatewayDialect,
        body: &RequestBody,
        known: &Arc<KnownDeclarations>,
    ) -> Option<Self> {
        let (has_tools, has_form) = declared::declares(body);
        // Of several choices the first alone is read.
        if !(has_tools || has_form) || body.choices() > 1 {
            return None;
        }
        Some(Self {
            dialect,
            body: body.clone(),
            has_tools,
            has_form,
            known: Arc::clone(known),
            correction: Mutex::default(),
            spent: Mutex::default(),
        })
    }

    /// What a model reads behind the conversation: an answer that does not hold, and what is wrong with it.
    pub(super) fn correction(&self, target: &str) -> Option<Vec<Message>> {
        let (by, mut messages) = self.correction.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        for message in &mut messages {
            // What a model has thought, its issuer alone can read.
            if let Message::Assistant { extra, .. } = message
                && by != target
            {
                extra.clear();
            }
        }
        Some(messages)
    }

    /// What the answers took that were not passed on, and for which this was not asked yet.
    pub(super) fn take_spent(&self) -> Usage {
        core::mem::take(&mut *self.spent.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many answers do not hold so far.
    fn replies(&self) -> u32 {
        u32::from(self.correction.lock().unwrap_or_else(PoisonError::into_inner).is_some())
    }

    /// An answer does not hold, and is not passed on.
    fn refuse(&self, target: &str, usage: Usage, correction: Vec<Message>) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *spent = spent.plus(usage);
        let correction = Some((target.to_owned(), correction));
        *self.correction.lock().unwrap_or_else(PoisonError::into_inner) = correction;
    }

    /// The form that an answer has to have.
    fn form(&self) -> Option<Schema> {
        let form = self.has_form.then(|| self.known.form(self.dialect, &self.body))?;
        let form = form.as_ref().as_ref()?.as_ref();
        form.inspect_err(|why| unused("the answer", why)).ok().cloned()
    }

    /// What that reply is held against; `None`: any will do.
    fn of_reply(&self, reply: &ModelReply) -> Option<ReplyContract> {
        if reply.calls.is_empty() {
            let form = self.form().filter(|_| !says_more(reply))?;
            return Some(ReplyContract::default().with_form(form));
        }
        let known = self.has_tools.then(|| self.known.tools(self.dialect, &self.body))?;
        let KnownTools { tools, open } = known.as_ref().as_ref()?;
        if tools.len() > MOST_TOOLS || reply.calls.len() > MOST_CALLS {
            return None;
        }
        let called: BTreeSet<&str> = reply.calls.iter().map(|proposed| &*proposed.call.name).collect();
        // Which other tool is meant, its schema tells.
        let all = called.iter().any(|name| !tools.contains_key(*name));
        let (mut checked, mut unchecked) = (Vec::new(), Vec::new());
        for (name, tool) in tools {
            let tool = tool.as_ref().filter(|_| all || called.contains(&**name));
            let catalogue = tool.map(|tool| tool.catalogue(name));
            match catalogue.and_then(|catalogue| catalogue.inspect_err(|why| unused(name, why)).ok()) {
                Some(catalogue) => checked.push(catalogue),
                None => unchecked.push(name.clone()),
            }
        }
        let contract =
            ReplyContract::new(checked.into_iter().collect::<ToolCatalogue>()).with_unchecked(unchecked);
        Some(if *open { contract.with_unknown() } else { contract })
    }
}

/// That a schema cannot be used. What it is of passes as it is.
fn unused(of: &str, why: &str) {
    tracing::warn!(of, why, "schema not used");
}

/// Whether a reply has several messages of `OpenAI`'s: which of them is the answer is not known.
fn says_more(reply: &ModelReply) -> bool {
    let is_message = |item: &&Value| item.get("type").is_some_and(|kind| kind == "message");
    let items = |kept: &Value| {
        kept.get("items").and_then(Value::as_array).map(|all| all.iter().filter(is_message).count())
    };
    reply.extra.values().filter_map(items).any(|messages| messages > 1)
}

impl AttemptJudge<'_> {
    fn asks_again(&self, class: ErrorClass) -> bool {
        self.policy.model(self.target).retry.retries(class)
    }

    fn repairs_calls(&self) -> bool {
        let turn = self.policy.turn();
        let rules = [&turn.repair_json, &turn.calls.unpack_arguments, &turn.calls.correct_names];
        rules.iter().any(|rule| rule.value)
    }
}

impl ReplyJudge for AttemptJudge<'_> {
    fn holds(&self) -> HeldPart {
        if self.asks_again(ErrorClass::InvalidOutput) && self.contract.form().is_some() {
            HeldPart::All
        } else if self.contract.has_tools
            && [ErrorClass::InvalidArgs, ErrorClass::ToolNotFound]
                .into_iter()
                .any(|class| self.asks_again(class))
        {
            HeldPart::UntilText
        } else if self.contract.has_tools && self.repairs_calls() {
            HeldPart::Calls
        } else {
            HeldPart::Nothing
        }
    }

    fn still(&self) -> &'static [u8] {
        match self.contract.dialect {
            // Google's clients take every line that is not blank for data.
            GatewayDialect::Gemini => b"",
            // A comment (HTML standard, "Parsing an event stream").
            _ => b": still here\n\n",
        }
    }

    fn judge(&self, reply: ModelReply, form: ReplyForm<'_>) -> JudgedReply {
        let reply = cut_at_limit(reply, || Some(self.contract.body.bytes().clone()));
        let Some(contract) = self.contract.of_reply(&reply) else {
            return JudgedReply { reply, refused: None };
        };
        let attempt = self.contract.replies().saturating_add(1);
        let check = |reply, repairs| contract.check(self.policy, (self.target, attempt), reply, repairs);
        let write = match form {
            ReplyForm::Events(_) => events::rewritten,
            _ => rewritten::rewritten,
        };
        let checked = match form {
            ReplyForm::Written => check(reply, true),
            ReplyForm::Bytes(bytes) | ReplyForm::Events(bytes) => {
                let checked = check(reply.clone(), true);
                if checked.repairs.is_empty() {
                    checked
                } else if let Some(written) = write(self.contract.dialect, bytes, &reply, &checked.reply) {
                    *bytes = written;
                    checked
                } else {
                    check(reply, false)
                }
            }
        };
        let CheckedReply { reply, repairs, refused, .. } = checked;
        for repair in &repairs {
            trace::directive(repair);
            self.progress.take(repair);
            self.ticket.directive(repair);
        }
        let Some(refused) = refused else { return JudgedReply { reply, refused: None } };
        if refused.asks_again && !self.sink.has_begun() {
            let correction = refused.correction.into_iter().map(|said| self.redactor.message(said)).collect();
            self.contract.refuse(self.target, reply.usage.unwrap_or_default(), correction);
            self.ticket.refuses(&refused.because);
            return JudgedReply { reply, refused: Some(refused.failure) };
        }
        let class = refused.failure.class.unwrap_or(ErrorClass::InvalidArgs);
        if class == ErrorClass::MalformedToolCall {
            // Of what cannot be read at all, no dialect but the model's can tell: whoever passes it on knows whether it can.
            return JudgedReply { reply, refused: None };
        }
        let place = refused.because.place.to_string();
        tracing::warn!(
            target_model = self.target,
            error_type = class.name(),
            because = place,
            "reply passes as it is"
        );
        self.progress.passes(class, place);
        self.ticket.passes(class, &refused.because);
        JudgedReply { reply, refused: None }
    }
}

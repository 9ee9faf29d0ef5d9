//! The ports of the host: what a model and a tool are to it.

use core::time::Duration;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::aside::ProgressReporter;
use super::attached::AttachedFiles;
use super::redact::SecretRedactor;
use crate::context::ToolForm;
use crate::engine::{CallTimeouts, Failure, ModelReply, RunFacts, ToolChoice, ToolOutcome, ToolSpec};
use crate::session::Message;

/// A future on the heap, so that ports can be trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A model that can be called.
pub trait Model: Send + Sync {
    /// One call, no retries: retrying is the policy's business. Must return soon after `request.cancel` fires
    /// or one of its timeouts has passed, with a failure of class `cancelled` or `timeout`.
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>>;

    /// As [`call`](Self::call), without the secrets of whoever shows what comes of it.
    #[doc(hidden)]
    fn call_redacted<'a>(
        &'a self,
        request: ModelRequest<'a>,
        redactor: &'a SecretRedactor,
    ) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        Box::pin(async move {
            match self.call(request).await {
                Ok(reply) => Ok(redactor.reply(reply)),
                Err(failure) => Err(redactor.texts_of(failure)),
            }
        })
    }

    /// In which form it declares tools, for their count.
    fn tool_form(&self) -> ToolForm {
        ToolForm::Chat
    }
}

/// One request to a model.
#[derive(Clone, Debug)]
pub struct ModelRequest<'a> {
    /// The conversation.
    pub messages: &'a [Message],
    /// The tools the model may call, as they are sent.
    pub tools: Vec<&'a ToolSpec>,
    /// Whether it must call one.
    pub tool_choice: ToolChoice,
    /// The most tokens of the reply, if that is less than the model's configuration has.
    pub max_output: Option<u64>,
    /// The longest the call may take.
    pub timeout: Option<Duration>,
    /// The longest each step of it may take.
    pub timeouts: CallTimeouts,
    /// Receives the text of a streamed answer while it comes.
    pub streamed: Option<StreamSink>,
    /// Where the bytes are counted that the call sends and receives.
    pub traffic: ByteTraffic,
    /// The files that the conversation names, for models that can be shown them.
    pub files: AttachedFiles,
    /// Fires when the run is stopped.
    pub cancel: CancellationToken,
}

/// The way of a streamed text to whoever shows it.
#[derive(Clone, Debug)]
pub struct StreamSink(UnboundedSender<String>);

impl StreamSink {
    /// The way, and its end. What is not taken there stays in memory; an answer is no larger than 8 MiB.
    pub fn new() -> (Self, UnboundedReceiver<String>) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), receiver)
    }

    /// The next piece of the text. Nobody need listen any more.
    pub fn piece(&self, text: String) {
        if !text.is_empty() {
            let _ = self.0.send(text);
        }
    }
}

/// How many bytes one call of a model sends and receives. All clones count together.
#[derive(Clone, Debug, Default)]
pub struct ByteTraffic(Arc<ByteCounts>);

#[derive(Debug, Default)]
struct ByteCounts {
    sent: AtomicU64,
    received: AtomicU64,
}

impl ByteTraffic {
    /// So many bytes of a request are sent.
    pub fn sends(&self, bytes: usize) {
        self.0.sent.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// So many bytes of an answer have come.
    pub fn receives(&self, bytes: usize) {
        self.0.received.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How many bytes were sent so far.
    pub fn sent(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }

    /// How many bytes were received so far.
    pub fn received(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }
}

/// A tool that can be run.
pub trait Tool: Send + Sync {
    /// How it is declared to the model.
    fn spec(&self) -> &ToolSpec;

    /// One run, no retries. Must end, with all its processes, soon after `input.cancel` fires or
    /// `input.timeout` has passed.
    fn run<'a>(&'a self, input: ToolInput<'a>) -> BoxFuture<'a, ToolOutcome>;

    /// As [`run`](Self::run), with what else the tool knows of the run, such as its process.
    fn run_told<'a>(&'a self, input: ToolInput<'a>) -> BoxFuture<'a, (ToolOutcome, RunFacts)> {
        Box::pin(async move { (self.run(input).await, RunFacts::default()) })
    }

    /// Ends when nothing is left of runs whose `cancel` has fired. Asked at the end of a run of the agent; a tool that
    /// leaves nothing behind its runs need not say anything.
    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Tools that may change while a run continues. Several runs may look at one source.
pub trait ToolSource: Send + Sync {
    /// The tools as they are now, in the order they are shown to the model.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;

    /// A number that is another one whenever [`ToolSource::tools`] are others, and never one that it was before.
    fn version(&self) -> u64;

    /// Looks whether they are others now. Called before every turn; must end soon.
    fn refresh(&self) -> BoxFuture<'_, ()>;
}

/// One run of a tool.
#[derive(Clone, Debug)]
pub struct ToolInput<'a> {
    /// The arguments; they hold the tool's schema.
    pub arguments: &'a Value,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The same for every attempt of this call.
    pub idempotency_key: &'a str,
    /// The longest the run may take.
    pub timeout: Option<Duration>,
    /// Fires when the run is stopped.
    pub cancel: CancellationToken,
    /// Receives progress of the run.
    pub aside: ProgressReporter,
}

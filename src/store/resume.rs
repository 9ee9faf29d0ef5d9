//! Going on with a session: what its log makes of it.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;

use super::mend::parse;
use super::{LineKind, SessionId, SessionLog, SessionStatus, Store, StoreError, VerifiedLine};
use crate::ErrorCause;
use crate::engine::{
    Directives, Envelope, Event, Interpreter, LogHeader, Record, RecordError, RecordLine, RunStarted,
    SessionFold, State, ToolFacts,
};
use crate::host::SessionCheckpoint;
use crate::host::same_tools;

/// A session that continues.
pub struct ResumedSession {
    /// How it began.
    pub header: LogHeader,
    /// Where it stood when its log ended.
    pub past: SessionCheckpoint,
    /// Its log, for whoever writes on.
    pub log: Box<dyn SessionLog>,
}

impl core::fmt::Debug for ResumedSession {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Resumed")
            .field("run", &self.header.run)
            .field("place", &self.log.place())
            .finish_non_exhaustive()
    }
}

/// Why a session cannot continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// Its log cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was decided by other rules, and the state they led to is lost.
    #[error(
        "session `{id}` was decided by another policy (digest {policy}) or with other tools, and the sidecar file of its log \
         that would let it continue is missing or does not fit; resume it under that policy and with those tools"
    )]
    Foreign {
        /// The session.
        id: SessionId,
        /// Digest of the policy that decided last.
        policy: String,
    },
    /// It was decided by other rules, and the state they led to is in a format of an earlier version.
    #[error(
        "session `{id}` cannot be resumed: an earlier version of unfazed wrote its state, under another policy (digest \
         {policy}) or with other tools; it can be shown, exported and replayed; start a new session to continue its task"
    )]
    Outdated {
        /// The session.
        id: SessionId,
        /// Digest of the policy that decided last.
        policy: String,
    },
    /// The same rules lead elsewhere.
    #[error(
        "session `{id}` cannot continue: its events lead to another state than the one that was written down after event \
         {seq}; another version of unfazed may have written it"
    )]
    Diverged {
        /// The session.
        id: SessionId,
        /// The first event after which the states differ.
        seq: u64,
    },
}

/// Opens a session to continue with it: its state is the fold of its events by `interpreter`, and the same that was written
/// down. What was decided by another policy, or with other tools, is not decided again: then the state is the one that is
/// kept next to the log.
///
/// What comes of it is for [`Agent::go_on`](crate::host::Agent::go_on).
///
/// # Errors
/// The session cannot be opened, or its state cannot be reported.
pub async fn resume(
    store: &dyn Store,
    id: &SessionId,
    interpreter: &Interpreter,
) -> Result<ResumedSession, ResumeError> {
    let shared = Arc::new(Mutex::new(LogReading::new(interpreter)));
    let reader = Arc::clone(&shared);
    let each = move |line: VerifiedLine<'_>| reader.lock().unwrap_or_else(PoisonError::into_inner).line(line);
    let mut log = store.open_with(id, Box::new(each)).await?;
    let mut reading = std::mem::replace(
        &mut *shared.lock().unwrap_or_else(PoisonError::into_inner),
        LogReading::new(interpreter),
    );
    let Some(header) = reading.header.take() else {
        // Every session starts with a header, so a store that opens one without it has lost or damaged it.
        let source = RecordError::Malformed(ErrorCause::new("there is no header"));
        return Err(StoreError::Damaged { place: log.place(), line: 1, source }.into());
    };
    let fits = !reading.foreign && reading.fits();
    // Nothing has been decided in it yet, so there is nothing to compare.
    let fresh = reading.hash.is_empty();
    if !(fits || fresh && !reading.foreign) {
        let kept = log.kept_states().await.into_iter().rev();
        let mut read = kept.filter_map(|kept| serde_json::from_slice::<State>(&kept).ok());
        // A state next to the log counts only if its digest is the one that the log names.
        let Some(state) = read.find(|state| state.digest() == reading.hash) else {
            return Err(reading.lost(store, id).await?);
        };
        reading.fold = told(store, id).await?.at(state);
    }
    let LogReading { mut fold, pending, policy, .. } = reading;
    if let Some(envelope) = &pending {
        fold.happened(envelope);
    }
    let (state, messages, open, tools) = fold.into_parts();
    let past = SessionCheckpoint { state, messages, open, untaken: pending, policy, tools };
    describe(store, id, &past, &mut *log).await;
    Ok(ResumedSession { header, past, log })
}

/// What is known without the log may be lost, or older than the log.
async fn describe(store: &dyn Store, id: &SessionId, past: &SessionCheckpoint, log: &mut dyn SessionLog) {
    let known = log.meta().await;
    let meta = match &known {
        Some(known) => Some(known.clone()),
        None => store.info(id).await.ok().map(|info| info.meta),
    };
    let Some(mut meta) = meta else { return };
    meta.messages = u64::try_from(past.messages.len()).unwrap_or(u64::MAX);
    if !past.is_over() {
        meta.status = SessionStatus::Running;
    }
    if known.as_ref() != Some(&meta) {
        // The description only serves lists, so a read-only or full disk must not prevent a session from continuing.
        let _ = log.set_meta(meta).await;
    }
}

/// A log while it is read.
struct LogReading {
    interpreter: Interpreter,
    tools: Vec<ToolFacts>,
    header: Option<LogHeader>,
    fold: SessionFold,
    /// An event whose state has not come yet.
    pending: Option<Envelope>,
    /// Other rules have decided.
    foreign: bool,
    /// Digest of the policy that decided last.
    policy: String,
    /// The digest of the state that was written last.
    hash: String,
    /// Whether each state is compared with the one that was written down, and not only the last.
    compares: bool,
    /// The first event after which they differ.
    differs: Option<u64>,
    /// What was decided about the pending event, as it was written.
    decided: Vec<u8>,
    /// Whether all that led to states of another format was decided again as it was then.
    same: bool,
}

impl LogReading {
    fn new(interpreter: &Interpreter) -> Self {
        Self {
            interpreter: interpreter.clone(),
            tools: interpreter.tools().iter().map(ToolFacts::from).collect(),
            header: None,
            fold: SessionFold::new(),
            pending: None,
            foreign: false,
            policy: String::new(),
            hash: String::new(),
            compares: false,
            differs: None,
            decided: Vec::new(),
            same: true,
        }
    }

    fn line(&mut self, line: VerifiedLine<'_>) -> Result<(), RecordError> {
        match line.kind() {
            LineKind::Session => {
                if let Record::Session(header) = parse(line.json())? {
                    self.header = Some(header);
                }
            }
            LineKind::Event => {
                let envelope = event(line.json())?;
                self.take();
                self.pending = Some(envelope);
            }
            LineKind::Directives => {
                self.decided_by(line.json())?;
                self.decided.clear();
                self.decided.extend_from_slice(line.json());
            }
            LineKind::State => {
                if let Record::State { seq, hash } = parse(line.json())? {
                    self.hash = hash;
                    self.take();
                    if self.compares && self.differs.is_none() && !self.fits() {
                        self.differs = Some(seq);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the event whose state has come.
    fn take(&mut self) {
        let Some(envelope) = self.pending.take() else { return };
        if let Event::RunStarted(RunStarted { tools, .. }) | Event::ToolsChanged { tools } = &envelope.event {
            self.foreign |= !same_tools(tools, &self.tools);
        }
        // What other rules have decided is read again later.
        if !self.foreign {
            let again = self.fold.decide(&self.interpreter, envelope);
            if State::is_of_another_format(&self.hash) {
                self.same &= self.decided.is_empty() || is_same(&self.decided, &again);
            }
            self.decided.clear();
            self.fold.decided(again);
        }
    }

    /// Whether the state is the one that was written down. Of one in another format its digest says nothing; what was
    /// decided on the way there does.
    fn fits(&self) -> bool {
        if State::is_of_another_format(&self.hash) {
            return self.same;
        }
        self.fold.state().digest() == self.hash
    }

    /// What was decided follows from the event; only who decided is of interest.
    fn decided_by(&mut self, line: &[u8]) -> Result<(), RecordError> {
        let policy = match policy_of(line) {
            Some(policy) => policy,
            None => match parse(line)? {
                Record::Directives { policy, .. } => policy,
                _ => return Ok(()),
            },
        };
        self.foreign |= policy != self.interpreter.policy().digest();
        self.policy = policy;
        Ok(())
    }

    /// Why the state cannot be reported.
    async fn lost(self, store: &dyn Store, id: &SessionId) -> Result<ResumeError, StoreError> {
        if self.foreign {
            let (id, policy) = (id.clone(), self.policy);
            return Ok(if State::is_of_another_format(&self.hash) {
                ResumeError::Outdated { id, policy }
            } else {
                ResumeError::Foreign { id, policy }
            });
        }
        // Compared at every state only now: for a sound log the last one is enough.
        let mut again = Self { compares: true, ..Self::new(&self.interpreter) };
        let mut records = store.read(id).await?;
        while let Some(record) = records.next().await {
            // What was just read can be written.
            let Ok(line) = RecordLine::new(record?.as_ref()) else { continue };
            let _ = VerifiedLine::parse(line.as_str().as_bytes()).and_then(|line| again.line(line));
        }
        let seq = again.differs.unwrap_or(again.fold.state().seq);
        Ok(ResumeError::Diverged { id: id.clone(), seq })
    }
}

/// Whether the same was decided, whatever the reasons say: their words may differ from version to version.
fn is_same(then: &[u8], again: &Directives) -> bool {
    let Ok(Record::Directives { list: then, .. }) = parse(then) else { return false };
    then.0.iter().map(|directive| &directive.order).eq(again.0.iter().map(|directive| &directive.order))
}

/// The session as its log tells it, without deciding anything again.
async fn told(store: &dyn Store, id: &SessionId) -> Result<SessionFold, StoreError> {
    let mut fold = SessionFold::new();
    let mut records = store.read(id).await?;
    while let Some(record) = records.next().await {
        match record? {
            Record::Event(envelope) => fold.happened(&envelope),
            Record::Directives { list, .. } => fold.decided(list),
            Record::Session(_) | Record::State { .. } => {}
        }
    }
    Ok(fold)
}

/// The event of a line.
fn event(line: &[u8]) -> Result<Envelope, RecordError> {
    // Most lines are as they should be, and then need not be read twice.
    if let Ok(envelope) = serde_json::from_slice(line) {
        return Ok(envelope);
    }
    match parse(line)? {
        Record::Event(envelope) => Ok(envelope),
        _ => Err(RecordError::Malformed(ErrorCause::new("it is no event"))),
    }
}

/// The digest of the policy that decided, where lines of this version have it.
fn policy_of(line: &[u8]) -> Option<String> {
    let rest = line.strip_prefix(br#"{"v":2,"kind":"directives","seq":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = rest.get(digits..)?.strip_prefix(br#","policy":""#)?;
    let end = rest.iter().position(|byte| !byte.is_ascii_hexdigit())?;
    (rest.get(end) == Some(&b'"')).then(|| String::from_utf8_lossy(&rest[..end]).into_owned())
}

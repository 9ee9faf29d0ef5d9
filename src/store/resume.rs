//! Resumes a session from its log.

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

/// A session that can continue.
pub struct ResumedSession {
    /// The header of the log.
    pub header: LogHeader,
    /// The state at the end of the log.
    pub past: SessionCheckpoint,
    /// The log, for further records.
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

/// Why a session cannot be resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The log cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session was decided under other rules, and the resulting state is lost.
    #[error(
        "session `{id}` was decided by another policy (digest {policy}) or with other tools, and the sidecar file of its log \
         that would let it continue is missing or does not fit; resume it under that policy and with those tools"
    )]
    Foreign {
        /// The session.
        id: SessionId,
        /// Digest of the policy of the last decision.
        policy: String,
    },
    /// The session was decided under other rules, and the resulting state has an older format.
    #[error(
        "session `{id}` cannot be resumed: an earlier version of unfazed wrote its state, under another policy (digest \
         {policy}) or with other tools; it can be shown, exported and replayed; start a new session to continue its task"
    )]
    Outdated {
        /// The session.
        id: SessionId,
        /// Digest of the policy of the last decision.
        policy: String,
    },
    /// The same rules lead to another state.
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

/// Opens a session to continue it: its state is the fold of its events by `interpreter`, and must equal the recorded
/// one. Decisions of another policy, or with other tools, are not repeated: the state stored next to the log is used
/// instead.
///
/// The result is for [`Agent::go_on`](crate::host::Agent::go_on).
///
/// # Errors
/// The session cannot be opened, or its state cannot be determined.
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
        // Every session starts with a header, so a store that opens one without a header has lost or damaged it.
        let source = RecordError::Malformed(ErrorCause::new("there is no header"));
        return Err(StoreError::Damaged { place: log.place(), line: 1, source }.into());
    };
    let fits = !reading.foreign && reading.fits();
    // The session has no decision yet, so there is nothing to compare.
    let fresh = reading.hash.is_empty();
    if !(fits || fresh && !reading.foreign) {
        let kept = log.kept_states().await.into_iter().rev();
        let mut read = kept.filter_map(|kept| serde_json::from_slice::<State>(&kept).ok());
        // A stored state is used only if its digest is the one in the log.
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

/// Updates metadata that is lost, or older than the log.
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
        // The metadata only serves lists, so a read-only or full disk must not prevent a session from continuing.
        let _ = log.set_meta(meta).await;
    }
}

/// A log while it is read.
struct LogReading {
    interpreter: Interpreter,
    tools: Vec<ToolFacts>,
    header: Option<LogHeader>,
    fold: SessionFold,
    /// An event whose state was not read yet.
    pending: Option<Envelope>,
    /// Whether other rules have decided.
    foreign: bool,
    /// Digest of the policy of the last decision.
    policy: String,
    /// The last recorded digest of the state.
    hash: String,
    /// Whether each state is compared with its record, not only the last one.
    compares: bool,
    /// The first event after which the states differ.
    differs: Option<u64>,
    /// The recorded decisions about the pending event.
    decided: Vec<u8>,
    /// Whether all decisions before states of another format were repeated identically.
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

    /// Processes the event whose state was read.
    fn take(&mut self) {
        let Some(envelope) = self.pending.take() else { return };
        if let Event::RunStarted(RunStarted { tools, .. }) | Event::ToolsChanged { tools } = &envelope.event {
            self.foreign |= !same_tools(tools, &self.tools);
        }
        // Decisions of other rules are read again later.
        if !self.foreign {
            let again = self.fold.decide(&self.interpreter, envelope);
            if State::is_of_another_format(&self.hash) {
                self.same &= self.decided.is_empty() || is_same(&self.decided, &again);
            }
            self.decided.clear();
            self.fold.decided(again);
        }
    }

    /// Whether the state equals the recorded one. If the record has another format, the decisions are compared
    /// instead.
    fn fits(&self) -> bool {
        if State::is_of_another_format(&self.hash) {
            return self.same;
        }
        self.fold.state().digest() == self.hash
    }

    /// Notes the policy that decided. The decisions themselves follow from the event.
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

    /// Why the state cannot be determined.
    async fn lost(self, store: &dyn Store, id: &SessionId) -> Result<ResumeError, StoreError> {
        if self.foreign {
            let (id, policy) = (id.clone(), self.policy);
            return Ok(if State::is_of_another_format(&self.hash) {
                ResumeError::Outdated { id, policy }
            } else {
                ResumeError::Foreign { id, policy }
            });
        }
        // Every state is compared only now: for a valid log the last one is enough.
        let mut again = Self { compares: true, ..Self::new(&self.interpreter) };
        let mut records = store.read(id).await?;
        while let Some(record) = records.next().await {
            // A record that was just read can be written.
            let Ok(line) = RecordLine::new(record?.as_ref()) else { continue };
            let _ = VerifiedLine::parse(line.as_str().as_bytes()).and_then(|line| again.line(line));
        }
        let seq = again.differs.unwrap_or(again.fold.state().seq);
        Ok(ResumeError::Diverged { id: id.clone(), seq })
    }
}

/// Whether the decisions are equal, apart from their reasons, whose wording may differ between versions.
fn is_same(then: &[u8], again: &Directives) -> bool {
    let Ok(Record::Directives { list: then, .. }) = parse(then) else { return false };
    then.0.iter().map(|directive| &directive.order).eq(again.0.iter().map(|directive| &directive.order))
}

/// The session as recorded in its log, without repeating decisions.
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
    // Most lines are valid, and need not be repaired.
    if let Ok(envelope) = serde_json::from_slice(line) {
        return Ok(envelope);
    }
    match parse(line)? {
        Record::Event(envelope) => Ok(envelope),
        _ => Err(RecordError::Malformed(ErrorCause::new("it is no event"))),
    }
}

/// The digest of the policy that decided, in lines of the present version.
fn policy_of(line: &[u8]) -> Option<String> {
    let rest = line.strip_prefix(br#"{"v":2,"kind":"directives","seq":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = rest.get(digits..)?.strip_prefix(br#","policy":""#)?;
    let end = rest.iter().position(|byte| !byte.is_ascii_hexdigit())?;
    (rest.get(end) == Some(&b'"')).then(|| String::from_utf8_lossy(&rest[..end]).into_owned())
}

//! The metadata of a session, available without reading its log.

use serde::{Deserialize, Serialize};

use super::SessionId;
use crate::engine::{Envelope, Event, LogHeader, Note, Outcome};
use crate::session::{Message, Usage};
use crate::time::Instant;

/// The version of the form below.
pub(crate) const META_FORMAT: u32 = 1;
/// The maximum length of a title made from a message, in characters.
const LONGEST_TITLE: usize = 200;

/// The metadata of a session. It is stored next to the log and replaced as a whole; it can be computed from the log,
/// except a title given by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionMeta {
    /// The format of the stored metadata.
    pub v: u32,
    /// The title: the start of the user's first message, or a title given by hand.
    #[serde(default)]
    pub title: String,
    /// Whether the title was given by hand.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
    /// When the session began.
    pub created: Instant,
    /// The name of the agent, if it was run from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The status of its last run.
    pub status: SessionStatus,
    /// The preferred model of the last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The number of runs.
    #[serde(default)]
    pub runs: u32,
    /// The number of turns of the last run.
    #[serde(default)]
    pub turns: u32,
    /// The number of messages in the conversation, counted before replacements.
    #[serde(default)]
    pub messages: u64,
    /// The tokens of the last run.
    #[serde(default)]
    pub tokens: Usage,
}

/// The status of the last run of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// No run has begun.
    New,
    /// The run continues.
    Running,
    /// The run has not ended, and no process continues it.
    BrokenOff,
    /// The run ended with a report.
    Reported,
    /// The run ended with a plain answer.
    Answered,
    /// The run failed.
    Failed,
    /// The run was stopped.
    Stopped,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Its metadata.
    pub meta: SessionMeta,
    /// The time of the last write to its log.
    pub updated: Instant,
    /// The size of its log, in bytes.
    pub bytes: u64,
}

/// The sessions of a store.
#[derive(Clone, Debug, Default)]
pub struct SessionListing {
    /// The usable sessions, the last written first.
    pub sessions: Vec<SessionInfo>,
    /// The unusable sessions, with the reasons.
    pub damaged: Vec<(SessionId, String)>,
}

impl SessionMeta {
    /// The metadata of a new session.
    pub fn of(header: &LogHeader) -> Self {
        Self {
            v: META_FORMAT,
            title: String::new(),
            named: false,
            created: header.created,
            agent: header.agent.as_ref().map(|agent| agent.name.clone()),
            status: SessionStatus::New,
            model: None,
            runs: 0,
            turns: 0,
            messages: 0,
            tokens: Usage::default(),
        }
    }

    /// Updates the metadata by an event.
    pub fn happened(&mut self, envelope: &Envelope) {
        if let Event::RunStarted(run) = &envelope.event {
            self.runs = self.runs.saturating_add(1);
            self.status = SessionStatus::Running;
            self.model = run.targets.first().cloned();
            if self.title.is_empty() {
                self.title = title(&run.task);
            }
        }
    }

    /// Updates the metadata by a note.
    pub fn decided(&mut self, note: &Note) {
        match note {
            Note::Append { message } => {
                self.messages = self.messages.saturating_add(1);
                if let Message::User { text, guidance: None } = message
                    && self.title.is_empty()
                {
                    self.title = title(text);
                }
            }
            Note::Finish { outcome } => self.status = SessionStatus::from(outcome),
            _ => {}
        }
    }
}

impl SessionStatus {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::New,
        Self::Running,
        Self::BrokenOff,
        Self::Reported,
        Self::Answered,
        Self::Failed,
        Self::Stopped,
    ];

    /// The present status of the run: a run without an end is running only while a process writes to its session. The
    /// stored status is that of the last write.
    #[must_use]
    pub const fn now(self, is_written: bool) -> Self {
        match self {
            // A killed process writes no end, and its lock is released.
            Self::Running if !is_written => Self::BrokenOff,
            status => status,
        }
    }

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Running => "running",
            Self::BrokenOff => "broken_off",
            Self::Reported => "reported",
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

impl From<&Outcome> for SessionStatus {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Reported { .. } => Self::Reported,
            Outcome::Answered { .. } => Self::Answered,
            Outcome::Failed { .. } => Self::Failed,
            Outcome::Stopped { .. } => Self::Stopped,
        }
    }
}

/// The start of a text, on one line.
pub(super) fn title(text: &str) -> String {
    // A title is on one line of a list, and must not control the terminal.
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut title = String::new();
    for word in words {
        if !title.is_empty() {
            title.push(' ');
        }
        title.push_str(word);
        if let Some((cut, _)) = title.char_indices().nth(LONGEST_TITLE) {
            title.truncate(cut);
            title.push('…');
            break;
        }
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_short_line() {
        assert_eq!(title("  find\n\tthe \u{1b}[2J cheapest  "), "find the [2J cheapest");
        assert_eq!(title(&"é".repeat(201)), format!("{}…", "é".repeat(200)));
        assert_eq!(title(""), "");
    }

    #[test]
    fn a_status_has_one_name() {
        for status in SessionStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.name());
        }
    }
}

//! The session log: one record per line. Sessions can be read, resumed and replayed from it.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};

use super::directive::{DirectiveKind, Directives, Note};
use super::event::Envelope;
use crate::ErrorCause;
use crate::policy::decode::complete;
use crate::session::RetryFeedback;
use crate::time::Instant;

/// The version of written records. Records of version 1 have no checksum and are still read.
pub(crate) const RECORD_VERSION: u32 = 2;
/// The version of the format as a whole, in the first record.
pub(super) const LOG_FORMAT: u32 = 2;

pub(super) const CHECKSUM: &str = r#","checksum":""#;
/// The number of hexadecimal digits of a checksum.
const DIGITS: usize = 16;
/// The end of a line, after the checksum.
pub(super) const CLOSE: &str = r#""}"#;

/// One record of a session. It is written as a [`RecordLine`](super::RecordLine) alone, so that no line lacks its version and checksum.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The first record: what the session is.
    Session(LogHeader),
    /// An event, as the interpreter received it.
    Event(Envelope),
    /// What the interpreter answered.
    Directives {
        /// The event this answers.
        seq: u64,
        /// Digest of the policy that decided.
        /// Example: `5f3c0e9a7d1b4c2e8f6a0b9d3e7c1a5f`
        policy: String,
        /// The directives, in order.
        list: Directives,
    },
    /// The digest of the state.
    State {
        /// The event after which it was taken.
        seq: u64,
        /// The digest.
        /// Example: `5f3c0e9a7d1b4c2e8f6a0b9d3e7c1a5f`
        hash: String,
    },
}

/// The first record of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogHeader {
    /// The version of the format.
    pub format: u32,
    /// The id of the run.
    /// Example: `0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b`
    pub run: String,
    /// Digest of the effective policy.
    /// Example: `5f3c0e9a7d1b4c2e8f6a0b9d3e7c1a5f`
    pub policy: String,
    /// When the session began.
    pub created: Instant,
    /// The agent, if it was run from a file: what it takes to continue with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentFacts>,
}

/// The agent a session is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentFacts {
    /// Its name.
    /// Example: `order-desk`
    pub name: String,
    /// Its file, from the root of the file system.
    /// Example: `/srv/agents/order-desk.yaml`
    pub file: String,
    /// The profile of its policy that was chosen.
    /// Example: `ci`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// A record to be written, which borrows its parts.
#[derive(Clone, Copy, Debug)]
pub enum RecordRef<'a> {
    /// See [`Record::Session`].
    Session(&'a LogHeader),
    /// See [`Record::Event`].
    Event(&'a Envelope),
    /// See [`Record::Directives`].
    Directives {
        /// The number of the event that the directives answer.
        seq: u64,
        /// Digest of the policy that decided.
        policy: &'a str,
        /// The directives, in order.
        list: &'a Directives,
    },
    /// See [`Record::State`].
    State {
        /// The number of the event after which the state was taken.
        seq: u64,
        /// The digest.
        hash: &'a str,
    },
}

/// Why a line is not a valid record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A later version wrote the record.
    #[error(
        "it was written by a later version (record version {0}, this one reads {RECORD_VERSION}); update first"
    )]
    Newer(u64),
    /// The record cannot be parsed.
    #[error("it is not a record: {0}")]
    Malformed(#[source] ErrorCause),
    /// The record was changed after it was written.
    #[error(
        "its checksum does not match: it was changed after it was written; restore the session from a copy"
    )]
    Changed,
}

/// A line of a session log. What later versions add to a record is let pass.
#[derive(JsonSchema)]
#[schemars(rename = "SessionLine")]
#[expect(dead_code, reason = "only its schema is of use")]
struct LineSchema {
    /// The version of the record: 2, and 1 in sessions of earlier versions.
    #[schemars(range(min = 1, max = RECORD_VERSION))]
    v: u32,
    #[serde(flatten)]
    record: Record,
    /// XXH3 (64 bits, seed 0) of all bytes of the line before this field and its comma. Records of version 1 have none.
    /// Example: `0f3c0e9a7d1b4c2e`
    #[schemars(regex(pattern = "^[0-9a-f]{16}$"))]
    checksum: Option<String>,
}

#[derive(Deserialize)]
struct LineIn {
    #[serde(flatten)]
    record: Record,
}

#[derive(Deserialize)]
struct RecordVersion {
    v: u64,
}

impl LogHeader {
    /// The header of a new session.
    pub fn new(run: impl Into<String>, policy: impl Into<String>, created: Instant) -> Self {
        Self { format: LOG_FORMAT, run: run.into(), policy: policy.into(), created, agent: None }
    }

    /// Adds the facts of the agent to the header.
    #[must_use]
    pub fn of_agent(mut self, agent: AgentFacts) -> Self {
        self.agent = Some(agent);
        self
    }
}

impl Record {
    /// Parses a line.
    ///
    /// # Errors
    /// The line is not a record, has a later version, or was changed after it was written.
    pub fn parse(line: &[u8]) -> Result<Self, RecordError> {
        let malformed = |error: serde_json::Error| RecordError::Malformed(error.into());
        // The version is read first: a later record may have another shape, and must be reported as newer, not as
        // malformed.
        let version = serde_json::from_slice::<RecordVersion>(line).map_err(malformed)?.v;
        // The checksum comes before the content: a damaged line can still be valid JSON with another meaning.
        match (version, verify(line)?) {
            (0, _) => return Err(RecordError::Malformed(ErrorCause::new("there is no version 0"))),
            // Records of this version are always written with a checksum: without one the line was changed.
            (v, LineChecksum::None) if v == u64::from(RECORD_VERSION) => return Err(RecordError::Changed),
            // Older records are accepted; sessions must stay readable across versions.
            (v, _) if v <= u64::from(RECORD_VERSION) => {}
            (v, _) => return Err(RecordError::Newer(v)),
        }
        let LineIn { record } = serde_json::from_slice(line).map_err(malformed)?;
        match &record {
            Self::Session(header) if header.format > LOG_FORMAT => {
                Err(RecordError::Newer(u64::from(header.format)))
            }
            _ => Ok(record),
        }
    }

    /// The JSON Schema (2020-12) of a line.
    pub fn json_schema() -> serde_json::Value {
        let generator = SchemaSettings::draft2020_12().into_generator();
        complete(generator.into_root_schema_for::<LineSchema>().to_value())
    }

    /// The record in the form for writing.
    pub fn as_ref(&self) -> RecordRef<'_> {
        match self {
            Self::Session(header) => RecordRef::Session(header),
            Self::Event(envelope) => RecordRef::Event(envelope),
            Self::Directives { seq, policy, list } => RecordRef::Directives { seq: *seq, policy, list },
            Self::State { seq, hash } => RecordRef::State { seq: *seq, hash },
        }
    }

    /// The feedback that this record adds to the session.
    pub fn feedback(&self) -> impl Iterator<Item = &RetryFeedback> {
        let directives = match self {
            Self::Directives { list, .. } => list.0.as_slice(),
            _ => &[],
        };
        directives.iter().filter_map(|directive| match &directive.order {
            DirectiveKind::Note(Note::Feedback { feedback }) => Some(feedback),
            _ => None,
        })
    }
}

/// The result of a checksum comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineChecksum {
    /// The line has no checksum.
    None,
    /// The checksum matches.
    Matches,
}

/// Compares the checksum of a line, if it has one, with its content.
///
/// # Errors
/// The checksum does not match.
pub(crate) fn verify(line: &[u8]) -> Result<LineChecksum, RecordError> {
    // Trailing white space is not covered: editors and transfers change line ends.
    let Some((written, digits)) = split(line.trim_ascii_end()) else { return Ok(LineChecksum::None) };
    if checksum(written).as_bytes() == digits { Ok(LineChecksum::Matches) } else { Err(RecordError::Changed) }
}

/// The bytes that the checksum covers, and the checksum.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, digits) = line.strip_suffix(CLOSE.as_bytes())?.split_last_chunk::<DIGITS>()?;
    Some((rest.strip_suffix(CHECKSUM.as_bytes())?, digits))
}

/// The XXH3 hash of the bytes. It detects accidental changes; it is not a signature.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    format!("{:0DIGITS$x}", xxhash_rust::xxh3::xxh3_64(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        Directive, Event, Failure, ModelReply, ProposedCall, RecordLine, RunFacts, ToolOutcome, WorkId,
    };
    use crate::policy::ErrorClass;
    use crate::session::{FeedbackSource, ToolCall};
    use crate::time::Nanos;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::sync::LazyLock;

    fn line(record: &Record) -> String {
        RecordLine::new(record.as_ref()).unwrap().with_end().to_owned()
    }

    fn feedback(message: &str) -> RetryFeedback {
        RetryFeedback {
            source: FeedbackSource::Tool,
            tool_name: Some("search".into()),
            attempt: 1,
            max_attempts: Some(3),
            error_type: ErrorClass::InvalidArgs,
            message: message.to_owned(),
            retry_scheduled_at: Instant(1_763_768_419_250_000_000),
            next_delay: Nanos::from_millis(1500),
        }
    }

    fn directives(seq: u64, notes: impl IntoIterator<Item = Note>) -> Record {
        let directive = |note| Directive { order: DirectiveKind::Note(note), because: Vec::new(), of: None };
        Record::Directives {
            seq,
            policy: "p".into(),
            list: Directives(notes.into_iter().map(directive).collect()),
        }
    }

    #[test]
    fn a_record_is_one_line_with_its_version_and_kind() {
        let header = Record::Session(LogHeader::new("run-1", "abc", Instant(5)));
        let state = Record::State { seq: 7, hash: "beef".into() };
        let fired = Event::TimerFired { work: WorkId(3) };
        let event = Record::Event(Envelope { seq: 7, now: Instant(9), event: fired });
        let written = [header, event, directives(7, [Note::Feedback { feedback: feedback("no") }]), state];
        insta::assert_snapshot!(written.iter().map(line).collect::<String>());
    }

    #[test]
    fn feedback_is_found() {
        let notes = ["first", "second"].map(|text| Note::Feedback { feedback: feedback(text) });
        let record = Record::parse(line(&directives(1, notes)).as_bytes()).unwrap();
        let found: Vec<_> = record.feedback().map(|feedback| feedback.message.as_str()).collect();
        assert_eq!(found, ["first", "second"]);
        assert_eq!(Record::State { seq: 1, hash: String::new() }.feedback().count(), 0);
    }

    #[test]
    fn a_line_that_is_no_record_is_refused() {
        for text in ["", "{", "[]", "{}", r#"{"v":1}"#, r#"{"v":1,"kind":"dream"}"#] {
            assert!(matches!(Record::parse(text.as_bytes()), Err(RecordError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn a_record_of_a_later_version_is_named_as_such() {
        let error = Record::parse(br#"{"v":3,"kind":"dream","of":"the future"}"#).unwrap_err();
        assert_eq!(error, RecordError::Newer(3));
        let later = r#"{"v":1,"kind":"session","format":3,"run":"r","policy":"p","created":0}"#;
        assert_eq!(Record::parse(later.as_bytes()), Err(RecordError::Newer(3)));
    }

    #[test]
    fn a_record_of_version_1_needs_no_checksum_and_one_of_version_2_does() {
        let line = r#"{"v":1,"kind":"state","seq":7,"hash":"beef"}"#;
        assert_eq!(Record::parse(line.as_bytes()), Ok(Record::State { seq: 7, hash: "beef".into() }));
        let line = line.replace("\"v\":1", "\"v\":2");
        assert_eq!(Record::parse(line.as_bytes()), Err(RecordError::Changed));
    }

    static SCHEMA: LazyLock<jsonschema::Validator> =
        LazyLock::new(|| jsonschema::validator_for(&Record::json_schema()).unwrap());

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_filter("JSON has no other numbers", |n| n.is_finite()).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((any::<String>(), inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let work = any::<u64>().prop_map(WorkId);
        let call = (any::<String>(), any::<String>(), any::<String>());
        let call = call.prop_map(|(id, name, arguments)| ToolCall { id, name, arguments });
        prop_oneof![
            (work.clone(), any_json()).prop_map(|(work, data)| Event::ToolFinished {
                work,
                outcome: ToolOutcome::Ok { data },
                run: RunFacts::default()
            }),
            (work.clone(), any::<String>()).prop_map(|(work, message)| Event::ModelFailed {
                work,
                failure: Failure::of(ErrorClass::RateLimit, message)
            }),
            (work.clone(), any::<String>(), proptest::collection::vec(call, 0..3), any_json()).prop_map(
                |(work, text, calls, extra)| {
                    let calls = calls.into_iter().map(ProposedCall::from).collect();
                    let extra = serde_json::Map::from_iter([("extra".to_owned(), extra)]);
                    Event::ModelResponded {
                        work,
                        reply: ModelReply { text, calls, extra, ..ModelReply::default() },
                    }
                }
            ),
            work.prop_map(|work| Event::TimerFired { work }),
            any::<String>().prop_map(|reason| Event::Cancelled { reason }),
        ]
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let notes = prop_oneof![
            any::<String>().prop_map(|text| Note::Feedback { feedback: feedback(&text) }),
            any_json().prop_map(|output| Note::OutputAccepted {
                output,
                source: crate::session::ReportSource::Text
            }),
            any::<String>().prop_map(|message| Note::Warning { message }),
        ];
        prop_oneof![
            (any::<u64>(), any::<u64>(), any_event()).prop_map(|(seq, now, event)| Record::Event(Envelope {
                seq,
                now: Instant(now),
                event
            })),
            (any::<u64>(), proptest::collection::vec(notes, 0..3))
                .prop_map(|(seq, notes)| directives(seq, notes)),
            (any::<u64>(), any::<String>()).prop_map(|(seq, hash)| Record::State { seq, hash }),
            (any::<String>(), any::<String>(), any::<u64>())
                .prop_map(|(run, policy, at)| Record::Session(LogHeader::new(run, policy, Instant(at)))),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(record in any_record()) {
            let line = line(&record);
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert_eq!(Record::parse(line.as_bytes()).unwrap(), record);
        }

        #[test]
        fn what_is_written_holds_the_schema(record in any_record()) {
            let line: Value = serde_json::from_str(&line(&record)).unwrap();
            let problems: Vec<_> = SCHEMA.iter_errors(&line).map(|error| error.to_string()).collect();
            prop_assert!(problems.is_empty(), "{}: {:?}", line, problems);
        }

        #[test]
        fn a_changed_byte_is_found(record in any_record(), at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
            let mut line = line(&record).into_bytes();
            line.pop();
            let at = at.index(line.len());
            prop_assume!(line[at] != byte);
            line[at] = byte;
            prop_assert!(Record::parse(&line).is_err(), "{}", String::from_utf8_lossy(&line));
        }

        #[test]
        fn no_line_panics(line in any::<Vec<u8>>()) {
            let _ = Record::parse(&line);
        }
    }

    #[test]
    fn a_float_keeps_its_last_bit() {
        let data = json!([0.1 + 0.2, 1.0e-7, 5e-324, 1.797_693_134_862_315_7e308]);
        let outcome = ToolOutcome::Ok { data };
        let event = Event::ToolFinished { work: WorkId(1), outcome, run: RunFacts::default() };
        let record = Record::Event(Envelope { seq: 1, now: Instant(0), event });
        assert_eq!(Record::parse(line(&record).as_bytes()).unwrap(), record);
    }
}

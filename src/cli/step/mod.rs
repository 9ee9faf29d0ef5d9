//! `unfazed step`: the interpreter for hosts in any language, as JSON lines over standard input and output.

mod protocol;
mod session;

use std::io::{self, BufReader, Write};
use std::path::PathBuf;

use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::protocol::{
    ErrorAnswer, EventRequest, HelloRequest, ReadyAnswer, SaveRequest, SavedAnswer, StartRequest, StepAnswer,
    ToolsRequest, VERSION, shortened,
};
use self::session::{StepFailure, SteppedSession};
use super::exit::{CommandFailure, ExitStatus};
use super::lines::{self, InputLine};
use super::sessions::{self, OpenStore};
use super::settings::CliSettings;
use super::{named, out, policies, runtime};
use crate::engine::{Interpreter, LogHeader, Record, ToolCatalogue, ToolSpec, levels};
use crate::host::{Clock, SessionCheckpoint};
use crate::policy::Policy;
use crate::store::{FsyncMode, Recorder, SessionId};
use crate::text::did_you_mean;
use crate::text::repair::too_long;

pub(super) use protocol::json_schema;

/// The most levels of a line. A record has 120 at most, and the reader of JSON takes 127.
const MOST_LEVELS: usize = 100;

/// The kinds of lines that a host writes.
const KINDS: [&str; 5] = ["hello", "start", "event", "tools", "save"];

/// Decides for a host in any language: a JSON line on standard input says what happened, a line on standard output
/// says what to do
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed step policy.yaml
  unfazed step policy.yaml --record            # a session that `replay` and `sessions` read
  unfazed step policy.yaml --resume latest
  echo '{\"kind\":\"hello\",\"v\":1}' | unfazed step

The first line is `hello`. One line is read, and one is written, in turn; `unfazed schema step` describes them.

Exit codes:
  0    the input ended
  1    a file has problems, or the session cannot be written
  2    the command was not understood, or an input cannot be read")]
pub(crate) struct StepArgs {
    /// The policy files, the later ones above the earlier ones; the built-in policy alone without any.
    #[arg(value_name = "POLICY")]
    policy: Vec<PathBuf>,
    /// The profile of the policy that is chosen.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Writes a session, in the folder of the settings.
    #[arg(long, conflicts_with = "resume")]
    record: bool,
    /// Continues a session that was recorded, and writes on: its id, the beginning or the end of it, or `latest`.
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
}

pub(crate) fn run(args: &StepArgs, settings: &CliSettings) -> Result<ExitStatus, CommandFailure> {
    super::logs::start(settings)?;
    let loader = named::chosen(args.profile.as_deref(), settings);
    let (policy, _) = policies::load(&args.policy, &loader)?;
    if let Some(warnings) = policy.warnings() {
        out::say(&format!("{warnings}\n"));
    }
    let place = if args.record || args.resume.is_some() {
        let store = sessions::of_run(settings, None)?.open(FsyncMode::Turn)?;
        let past = args.resume.as_deref().map(|wanted| sessions::one(&store, wanted)).transpose()?;
        Some(RecordedPlace {
            id: past.clone().unwrap_or_else(SessionId::generate),
            resumes: past.is_some(),
            store,
        })
    } else {
        None
    };
    // Dropped after the runtime: the store has one of its own.
    let mut process = StepProcess { policy, place, session: None };
    runtime::block_on(serve(&mut process))
}

/// Where the session is written.
struct RecordedPlace {
    store: OpenStore,
    id: SessionId,
    /// It is there already.
    resumes: bool,
}

/// The process: nothing before `hello`, a session after it.
struct StepProcess {
    policy: Policy,
    place: Option<RecordedPlace>,
    session: Option<SteppedSession>,
}

/// Answers each line until the input ends.
async fn serve(process: &mut StepProcess) -> Result<ExitStatus, CommandFailure> {
    let (mut input, mut number, mut unopened) = (BufReader::new(io::stdin().lock()), 0, None);
    let unread = |error| CommandFailure::io("cannot read standard input", error);
    while let Some(line) = lines::next(&mut input, &mut number, process.most_of_a_line()).map_err(unread)? {
        let answer = match process.answer(line).await {
            Ok(answer) => answer,
            Err(StepFailure::Line(answer)) => {
                unopened = Some(answer.message.clone());
                StepAnswer::Error(ErrorAnswer { line: number, ..answer })
            }
            Err(StepFailure::Journal(error)) => return Err(CommandFailure::Stopped(error.to_string())),
        };
        let text = serde_json::to_string(&answer).map_err(|error| {
            CommandFailure::Stopped(format!("cannot write the answer to line {number}: {error}"))
        })?;
        if !written(&text).map_err(|error| CommandFailure::io("cannot write standard output", error))? {
            break;
        }
    }
    let Some(session) = process.session.take() else {
        if process.place.is_none() {
            return Ok(ExitStatus::Clean);
        }
        // Who asked for a record is not to take its absence for one.
        let why = unopened.unwrap_or_else(|| "no line came".to_owned());
        return Err(CommandFailure::Stopped(format!("no session is written: {why}")));
    };
    for problem in session.close().await {
        out::say(&format!("warning  {problem}\n"));
    }
    Ok(ExitStatus::Clean)
}

/// Writes an answer. Returns whether somebody can read it: what nobody reads is not to be decided.
fn written(answer: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{answer}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
    }
}

impl StepProcess {
    const fn most_of_a_line(&self) -> usize {
        if self.session.is_some() { lines::MOST } else { lines::MOST_OF_HELLO }
    }

    async fn answer(&mut self, line: InputLine) -> Result<StepAnswer, StepFailure> {
        let mut line = parsed(line, self.most_of_a_line())?;
        let kind = KINDS.into_iter().find(|kind| line["kind"] == *kind).ok_or_else(|| unknown_kind(&line))?;
        // The rest are the fields of a request of that kind, which has no others.
        line.as_object_mut().and_then(|fields| fields.shift_remove("kind"));
        if kind == "hello" {
            let hello = request(kind, &line)?;
            return Ok(StepAnswer::Ready(self.hello(hello).await?));
        }
        let Some(session) = &mut self.session else {
            let message =
                format!("the first line is of the kind `hello`: {{\"kind\":\"hello\",\"v\":{VERSION}}}");
            return Err(ErrorAnswer::at("/kind", message).into());
        };
        Ok(match kind {
            "start" => {
                let start: StartRequest = request(kind, &line)?;
                let (now, id) = (start.now, self.place.as_ref().map(|place| place.id.as_str()));
                StepAnswer::Directives(session.start(start.started(id), now).await?)
            }
            "tools" => {
                let ToolsRequest { tools, now } = request(kind, &line)?;
                let tools = catalogue(&self.policy, tools)?;
                StepAnswer::Directives(session.tools(tools, now).await?)
            }
            "save" => {
                let SaveRequest {} = request(kind, &line)?;
                StepAnswer::Saved(SavedAnswer { saved: session.saved()? })
            }
            _ => {
                // Before its fields are read: they are not what is wrong.
                if let Some(instead) = line["event"].as_str().and_then(protocol::instead_of) {
                    return Err(ErrorAnswer::at("/event", instead).into());
                }
                let EventRequest { seq, now, event } = request(kind, &line)?;
                StepAnswer::Directives(session.event(seq, event, now).await?)
            }
        })
    }

    async fn hello(&mut self, hello: HelloRequest) -> Result<ReadyAnswer, StepFailure> {
        if self.session.is_some() {
            return Err(ErrorAnswer::at("/kind", "there was a `hello` before").into());
        }
        if hello.v != VERSION {
            let message = format!("this is version {VERSION} of the lines, not {}", hello.v);
            return Err(ErrorAnswer::at("/v", message).into());
        }
        let interpreter = Interpreter::new(self.policy.clone(), catalogue(&self.policy, hello.tools)?);
        let past = hello.saved.as_deref().map(session::checkpoint).transpose()?;
        if past.is_some() && self.place.is_some() {
            let message =
                "a session that is recorded continues with `--resume`, and not with what was saved of it";
            return Err(ErrorAnswer::at("/saved", message).into());
        }
        let (mut past, journal) = match &self.place {
            Some(place) => place.open(&interpreter).await?,
            None => (past.unwrap_or_default(), None),
        };
        let untaken = past.untaken.take();
        let mut list = self.unread(hello.read).await?;
        let mut session = SteppedSession::new(interpreter, past, journal);
        list.extend(session.catch_up(untaken, hello.now).await?);
        let answer = ReadyAnswer {
            v: VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policy: session.policy().digest().to_owned(),
            session: self.place.as_ref().map(|place| place.id.to_string()),
            run: Some(session.state().run.clone()).filter(|run| !run.is_empty()),
            seq: session.state().seq,
            tools: session.offered(),
            open: session.open(),
            messages: session.messages(),
            list,
        };
        self.session = Some(session);
        Ok(answer)
    }

    /// What is in the log, and was decided after the answer that the host has read last.
    async fn unread(&self, read: Option<u64>) -> Result<Vec<Value>, ErrorAnswer> {
        let Some(read) = read else { return Ok(Vec::new()) };
        let Some(place) = self.place.as_ref().filter(|place| place.resumes) else {
            return Err(ErrorAnswer::at(
                "/read",
                "only a session that was recorded knows what was read: `--resume`",
            ));
        };
        let unreadable = |error: crate::store::StoreError| ErrorAnswer::new(error.to_string());
        let mut list = Vec::new();
        let mut records = place.store.store().read(&place.id).await.map_err(unreadable)?;
        while let Some(record) = records.next().await {
            if let Record::Directives { seq, list: decided, .. } = record.map_err(unreadable)?
                && seq > read
            {
                list.extend(session::for_host(&decided));
            }
        }
        Ok(list)
    }
}

impl RecordedPlace {
    /// The session in its log, and what writes it.
    async fn open(
        &self,
        interpreter: &Interpreter,
    ) -> Result<(SessionCheckpoint, Option<Recorder>), StepFailure> {
        let store = self.store.store();
        let (past, log) = if self.resumes {
            // The future is large, and each `hello` but this has no need of it.
            let resumed = Box::pin(crate::store::resume(store, &self.id, interpreter)).await;
            let resumed = resumed.map_err(|error| ErrorAnswer::new(error.to_string()))?;
            (resumed.past, resumed.log)
        } else {
            let policy = interpreter.policy().digest();
            let header = LogHeader::new(self.id.as_str(), policy, Clock::system().now());
            let log = store.create(&self.id, &header).await;
            (SessionCheckpoint::default(), log.map_err(|error| ErrorAnswer::new(error.to_string()))?)
        };
        Ok((past, Some(Recorder::new(log).await)))
    }
}

/// The JSON object of a line.
fn parsed(line: InputLine, most: usize) -> Result<Value, ErrorAnswer> {
    let bytes = match line {
        InputLine::Whole(bytes) => bytes,
        InputLine::TooLong(_) => {
            return Err(ErrorAnswer::new(format!("the line has more than {} MiB", most >> 20)));
        }
    };
    let value: Value = serde_json::from_slice(bytes.trim_ascii_end()).map_err(|error| {
        // Its line is that of the input, and not the first of a text of one line.
        let text = error.to_string();
        let message = text.rsplit_once(" at line ").map_or(&*text, |(message, _)| message).to_owned();
        ErrorAnswer { column: Some(error.column()), ..ErrorAnswer::new(message) }
    })?;
    if !value.is_object() {
        return Err(ErrorAnswer::at("", "a line is a JSON object"));
    }
    // Whatever is taken can be recorded, saved and read again: each puts it some levels deeper.
    if levels(&bytes) > MOST_LEVELS {
        return Err(ErrorAnswer::at("", format!("the line is nested deeper than {MOST_LEVELS} levels")));
    }
    // Integers have 64 bits here: a longer one is read as a float, and an id becomes another one.
    if let Some((at, number)) = core::str::from_utf8(&bytes).ok().and_then(too_long) {
        let number = shortened(number);
        let message = format!(
            "the integer {number} does not fit into 64 bits and would be changed: send it as a string, or as a float"
        );
        return Err(ErrorAnswer { column: Some(at.saturating_add(1)), ..ErrorAnswer::new(message) });
    }
    Ok(value)
}

/// What a line of a known kind asks for.
fn request<T: DeserializeOwned>(kind: &str, fields: &Value) -> Result<T, ErrorAnswer> {
    // What an SDK declares of a tool may have more than the interpreter reads; an event may not.
    if let "start" | "event" = kind
        && let Some(mistake) = protocol::unknown_name(kind, fields)
    {
        return Err(mistake);
    }
    serde_path_to_error::deserialize(fields).map_err(|error| {
        let mut line = fields.clone();
        line["kind"] = kind.into();
        protocol::mistake(&line, &error)
    })
}

fn unknown_kind(line: &Value) -> ErrorAnswer {
    let kinds = KINDS.map(|kind| format!("`{kind}`")).join(", ");
    match line.get("kind") {
        None => ErrorAnswer::at("", format!("`kind` is missing: one of {kinds}")),
        Some(Value::String(kind)) => {
            let near = did_you_mean(kind, KINDS);
            let near = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
            ErrorAnswer::at(
                "/kind",
                format!("there is no kind `{}`{near}; there are {kinds}", shortened(kind)),
            )
        }
        Some(_) => ErrorAnswer::at("/kind", format!("`kind` is one of {kinds}")),
    }
}

/// The tools, which have to fit the policy.
fn catalogue(policy: &Policy, tools: Vec<ToolSpec>) -> Result<ToolCatalogue, ErrorAnswer> {
    let catalogue =
        ToolCatalogue::new(tools).map_err(|error| ErrorAnswer::at("/tools", error.to_string()))?;
    catalogue.fits(policy).map_err(|error| ErrorAnswer::at("/tools", error.to_string()))?;
    Ok(catalogue)
}

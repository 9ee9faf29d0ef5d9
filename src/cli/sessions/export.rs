//! `unfazed sessions export`: a session for other programs and for people.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use crate::engine::{DirectiveKind, Record, SessionFold};
use crate::session::Message;
use crate::store::{SessionId, SessionInfo, StoreError};
use clap::ValueEnum;
use serde_json::{Value, json};

use super::failed;
use super::find::one;
use super::list;
use super::open_store::OpenStore;
use super::transcript::{TranscriptPiece, read};
use crate::cli::exit::{CommandFailure, ExitStatus};
use crate::cli::out;
use crate::cli::text::one_line;

/// Exports a session
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions export latest --format markdown -o trip.md
  unfazed sessions export 1f0a7c --format openai     # the messages of a chat-completions request")]
pub(super) struct ExportArgs {
    /// The session.
    #[arg(value_name = "ID")]
    id: String,
    /// As what.
    #[arg(long, value_enum, default_value_t)]
    format: ExportFormat,
    /// The file it is written into, instead of standard output; a new one.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// As what a session is exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// What is known about it, its messages, and its decisions with their reasons.
    #[default]
    Json,
    /// A page for people.
    Markdown,
    /// The messages as chat-completions servers take them.
    Openai,
}

pub(super) fn run(args: &ExportArgs, store: &OpenStore) -> Result<ExitStatus, CommandFailure> {
    let id = one(store, &args.id)?;
    let text = match args.format {
        ExportFormat::Json => json(store, &id).map(|value| format!("{value:#}\n")),
        ExportFormat::Markdown => markdown(store, &id),
        ExportFormat::Openai => messages(store, &id)
            .map(|messages| format!("{:#}\n", Value::from(crate::host::chat_messages(&messages)))),
    };
    let text = text.map_err(|error| failed(&error))?;
    let Some(path) = &args.output else {
        out::raw(&text)?;
        return Ok(ExitStatus::Clean);
    };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| CommandFailure::io(format!("cannot write {}", path.display()), error))?;
    Ok(ExitStatus::Clean)
}

fn messages(store: &OpenStore, id: &SessionId) -> Result<Vec<Message>, StoreError> {
    let mut fold = SessionFold::new();
    for record in store.read(id)? {
        if let Record::Directives { list, .. } = record? {
            fold.decided(list);
        }
    }
    Ok(fold.into_parts().1)
}

fn json(store: &OpenStore, id: &SessionId) -> Result<Value, StoreError> {
    let (mut fold, mut decisions, mut now) = (SessionFold::new(), Vec::new(), None);
    for record in store.read(id)? {
        match record? {
            Record::Event(envelope) => now = Some(envelope.now.to_rfc3339()),
            Record::Directives { seq, policy, list } => {
                for directive in &list.0 {
                    if !directive.because.is_empty() || matches!(directive.order, DirectiveKind::Work(_)) {
                        decisions
                            .push(json!({ "seq": seq, "at": now, "policy": policy, "decision": directive }));
                    }
                }
                fold.decided(list);
            }
            Record::Session(_) | Record::State { .. } => {}
        }
    }
    let session = list::one(&store.info(id)?, store);
    Ok(json!({ "v": 1, "session": session, "messages": fold.messages(), "decisions": decisions }))
}

fn markdown(store: &OpenStore, id: &SessionId) -> Result<String, StoreError> {
    let SessionInfo { meta, updated, .. } = store.info(id)?;
    let mut page = format!("# {}\n\n", one_line(&meta.title));
    let facts = [
        ("session", id.as_str().to_owned()),
        ("agent", meta.agent.unwrap_or_else(|| "-".to_owned())),
        ("model", meta.model.unwrap_or_else(|| "-".to_owned())),
        ("status", meta.status.name().replace('_', " ")),
        ("created", meta.created.to_rfc3339()),
        ("updated", updated.to_rfc3339()),
    ];
    for (name, value) in facts {
        page.extend(["- ", name, ": ", &one_line(&value), "\n"]);
    }
    for piece in read(store, id, false)? {
        match piece {
            TranscriptPiece::Decided(lines) => {
                let lines = anstream::adapter::strip_str(&lines).to_string();
                page.push('\n');
                for line in lines.lines() {
                    page.extend(["> ", line.trim(), "  \n"]);
                }
            }
            TranscriptPiece::Said(message) => page.push_str(&said(&message)),
            TranscriptPiece::Damaged(why) => page.extend(["\n**The log cannot be read on:** ", &why, "\n"]),
        }
    }
    Ok(page)
}

fn said(message: &Message) -> String {
    match message {
        Message::System { text } => format!("\n## System\n\n{text}\n"),
        Message::User { text, guidance: None } => format!("\n## User\n\n{text}\n"),
        Message::User { text, guidance: Some(which) } => format!("\n## Policy ({which})\n\n{text}\n"),
        Message::Assistant { text, calls, .. } => {
            let calls =
                calls.iter().flat_map(|call| ["\n".to_owned(), call.name.clone(), fenced(&call.arguments)]);
            let calls: String = calls.collect();
            let text = if text.is_empty() { String::new() } else { format!("\n{text}\n") };
            format!("\n## Assistant\n{text}{calls}")
        }
        Message::Tool { tool, text, .. } => format!("\n## Result of {tool}\n{}", fenced(text)),
    }
}

/// The text in a fence that nothing in it ends.
fn fenced(text: &str) -> String {
    let ticks = text.split(|c| c != '`').map(str::len).max().unwrap_or_default().max(2) + 1;
    let fence = "`".repeat(ticks);
    format!("\n{fence}\n{}\n{fence}\n", text.trim_end())
}

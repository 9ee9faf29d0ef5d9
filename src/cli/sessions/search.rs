//! `unfazed sessions search`: the sessions in whose title or messages a text stands.

use std::collections::HashSet;

use crate::store::{SessionId, TextQuery};

use super::failed;
use super::filter::SessionFilter;
use super::list::print;
use super::open_store::OpenStore;
use crate::cli::exit::{CommandFailure, ExitStatus};
use crate::cli::format::OutputFormat;

/// Lists the sessions in whose title or messages a text stands
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed sessions search 'desk lamp'
  unfazed sessions search timeout --since 7d --status failed
  unfazed sessions search lamp --titles          # without looking into the logs")]
pub(super) struct SearchArgs {
    /// The text, in capital letters or not.
    #[arg(value_name = "TEXT")]
    text: String,
    /// Looks at titles only.
    #[arg(long)]
    titles: bool,
    #[command(flatten)]
    filter: SessionFilter,
    /// At most so many.
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// How they are shown.
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

pub(super) fn run(args: &SearchArgs, store: &OpenStore) -> Result<ExitStatus, CommandFailure> {
    if args.text.is_empty() {
        return Err(CommandFailure::Usage("the text is empty: say what is looked for".into()));
    }
    let mut listing = store.list().map_err(|error| failed(&error))?;
    listing.sessions.retain(|info| args.filter.takes(info));
    let query = TextQuery::new(&args.text);
    let titled = listing.sessions.iter().filter(|info| query.is_in(&info.meta.title));
    let mut found: HashSet<SessionId> = titled.map(|info| info.id.clone()).collect();
    if !args.titles {
        let rest = listing.sessions.iter().map(|info| &info.id).filter(|id| !found.contains(id));
        let rest: Vec<SessionId> = rest.cloned().collect();
        found.extend(store.search(&rest, &args.text).map_err(|error| failed(&error))?);
    }
    listing.sessions.retain(|info| found.contains(&info.id));
    listing.sessions.truncate(args.limit.unwrap_or(usize::MAX));
    print(&listing, args.format, store, "such sessions")
}

//! Logs on standard error, for those who ask for them.

use anstream::{AutoStream, ColorChoice};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::exit::CommandFailure;
use super::settings::CliSettings;

/// Starts logging as the settings say; without a filter nothing is logged.
pub(crate) fn start(settings: &CliSettings) -> Result<(), CommandFailure> {
    if settings.log.is_empty() {
        return Ok(());
    }
    let wrong = |why: &str| {
        let filter = &settings.log;
        let write =
            "write a level (error, warn, info, debug, trace, off), or more of them: `warn,unfazed=debug`";
        CommandFailure::Usage(format!("the log filter `{filter}` is none: {why}; {write}"))
    };
    // What asks for spans is left to the parser.
    if !settings.log.contains('[')
        && let Some(part) = settings.log.split(',').map(str::trim).find(|part| !is_directive(part))
    {
        return Err(wrong(&format!("`{part}` names no level")));
    }
    let filter = EnvFilter::try_new(filter(&settings.log)).map_err(|error| wrong(&error.to_string()))?;
    let styled = AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
    let logs =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(styled).with_writer(std::io::stderr);
    // A log that cannot be written is no reason to end: the writer would complain on the same stream, and panic.
    let logs = logs.log_internal_errors(false);
    if settings.log_json {
        logs.json().flatten_event(true).init();
    } else {
        logs.init();
    }
    Ok(())
}

/// Whether a part of a filter ends with a level. A word alone would be taken for the name of a library, so that a
/// level with a slip in it would log nothing, and say nothing.
fn is_directive(part: &str) -> bool {
    let (target, level) = part.split_once('=').unwrap_or(("", part));
    !level.is_empty()
        && level.parse::<LevelFilter>().is_ok()
        && target.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':'))
}

/// A level alone is meant for this program: what the libraries under it have to say belongs to no run. Who wants it
/// names them.
fn filter(wanted: &str) -> String {
    match wanted.trim().parse::<LevelFilter>() {
        Ok(level) if level > LevelFilter::WARN => format!("warn,unfazed={level}"),
        _ => wanted.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{filter, is_directive};

    #[test]
    fn a_part_of_a_filter_ends_with_a_level() {
        for part in ["debug", "unfazed=debug", "unfazed::attempt=OFF", "h2=3"] {
            assert!(is_directive(part), "{part}");
        }
        for part in ["dbug", "", "!!!", "unfazed=loud", "unfazed", "foo=bar=baz"] {
            assert!(!is_directive(part), "{part}");
        }
    }

    #[test]
    fn a_level_alone_is_for_this_program() {
        assert_eq!(filter("debug"), "warn,unfazed=debug");
        assert_eq!(filter("error"), "error");
        assert_eq!(filter("h2=debug"), "h2=debug");
    }
}

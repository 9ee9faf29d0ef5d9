//! Logs on standard error, for those who ask for them.

use anstream::{AutoStream, ColorChoice};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::exit::Failed;
use super::settings::Settings;

/// Starts logging as the settings say; without a filter nothing is logged.
pub(crate) fn start(settings: &Settings) -> Result<(), Failed> {
    if settings.log.is_empty() {
        return Ok(());
    }
    let filter = EnvFilter::try_new(filter(&settings.log))
        .map_err(|error| Failed::Usage(format!("the log filter `{}` is none: {error}", settings.log)))?;
    let styled = AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
    let logs =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(styled).with_writer(std::io::stderr);
    if settings.log_json {
        logs.json().flatten_event(true).init();
    } else {
        logs.init();
    }
    Ok(())
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
    use super::filter;

    #[test]
    fn a_level_alone_is_for_this_program() {
        assert_eq!(filter("debug"), "warn,unfazed=debug");
        assert_eq!(filter("error"), "error");
        assert_eq!(filter("h2=debug"), "h2=debug");
    }
}

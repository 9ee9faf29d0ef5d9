//! Logs on standard error, for those who ask for them, and telemetry for a collector.

use anstream::{AutoStream, ColorChoice};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use super::exit::CommandFailure;
use super::settings::CliSettings;
use crate::host::MetricsSnapshot;
#[cfg(feature = "otlp")]
use crate::host::otlp::Otlp;

type AnyLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// That telemetry cannot be exported is said without being asked for.
#[cfg(feature = "otlp")]
const EXPORT_LOG: &str = "unfazed::host::otlp=warn";
/// Spans for collectors: log lines have spans of their own.
const NO_SPANS: &str = "unfazed::gen_ai=off";

/// Starts logging as the settings say; without a filter nothing is logged.
pub(crate) fn start(settings: &CliSettings) -> Result<(), CommandFailure> {
    if settings.log.is_empty() {
        return Ok(());
    }
    subscribe(vec![log_layer(settings, "")?]);
    Ok(())
}

/// The same, and exports telemetry as the environment says.
#[cfg_attr(not(feature = "otlp"), allow(clippy::unnecessary_wraps, reason = "there is nothing to export"))]
pub(crate) fn start_exporting(settings: &CliSettings) -> Result<Export, CommandFailure> {
    #[cfg(feature = "otlp")]
    match Otlp::from_env() {
        Ok(otlp) if otlp.is_on() => {
            if let Some(error) = otlp.ignored() {
                super::out::say(&format!("warning: {error}\n"));
            }
            let logs = log_layer(settings, EXPORT_LOG)?;
            subscribe([Some(logs), otlp.layer()].into_iter().flatten().collect());
            return Ok(Export { otlp: Some(otlp) });
        }
        Ok(_) => {}
        // The variables are not of this program alone: it does without.
        Err(error) => super::out::say(&format!("warning: no telemetry is exported: {error}\n")),
    }
    start(settings)?;
    Ok(Export::default())
}

/// The export of telemetry, if there is one.
#[derive(Default)]
pub(crate) struct Export {
    #[cfg(feature = "otlp")]
    otlp: Option<Otlp>,
}

impl Export {
    /// Exports these metrics.
    #[cfg_attr(
        not(feature = "otlp"),
        allow(unused_variables, clippy::unused_self, reason = "there is nothing to export")
    )]
    pub(crate) fn metrics(&self, snapshot: impl Fn() -> MetricsSnapshot + Send + Sync + 'static) {
        #[cfg(feature = "otlp")]
        if let Some(otlp) = &self.otlp {
            otlp.export_metrics(snapshot);
        }
    }

    /// Exports what is left.
    #[cfg_attr(not(feature = "otlp"), allow(clippy::unused_async, reason = "there is nothing to export"))]
    pub(crate) async fn end(self) {
        #[cfg(feature = "otlp")]
        if let Some(otlp) = self.otlp {
            otlp.end().await;
        }
    }
}

fn subscribe(layers: Vec<AnyLayer>) {
    tracing_subscriber::registry().with(layers).init();
}

/// Writes log lines as the settings say, and those of `besides`.
fn log_layer(settings: &CliSettings, besides: &str) -> Result<AnyLayer, CommandFailure> {
    let wrong = |why: &str| {
        let filter = &settings.log;
        let write =
            "write a level (error, warn, info, debug, trace, off), or more of them: `warn,unfazed=debug`";
        CommandFailure::Usage(format!("the log filter `{filter}` is none: {why}; {write}"))
    };
    // What asks for spans is left to the parser.
    if !settings.log.is_empty()
        && !settings.log.contains('[')
        && let Some(part) = settings.log.split(',').map(str::trim).find(|part| !is_directive(part))
    {
        return Err(wrong(&format!("`{part}` names no level")));
    }
    // Of two that are about the same, the last counts.
    let wanted = filter(&settings.log);
    let both = if wanted.is_empty() { besides.to_owned() } else { format!("{besides},{wanted}") };
    let filter = EnvFilter::try_new(both).map_err(|error| wrong(&error.to_string()))?;
    let styled = AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
    // A log that cannot be written is no reason to end: the writer would complain on the same stream, and panic.
    let logs = tracing_subscriber::fmt::layer()
        .with_ansi(styled)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    Ok(if settings.log_json {
        logs.json().flatten_event(true).with_filter(filter).boxed()
    } else {
        logs.with_filter(filter).boxed()
    })
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
        Ok(level) if level > LevelFilter::WARN => format!("warn,unfazed={level},{NO_SPANS}"),
        _ if wanted.contains("gen_ai") || wanted.is_empty() => wanted.to_owned(),
        _ => format!("{wanted},{NO_SPANS}"),
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
        assert_eq!(filter("debug"), "warn,unfazed=debug,unfazed::gen_ai=off");
        assert_eq!(filter("error"), "error,unfazed::gen_ai=off");
        assert_eq!(filter("h2=debug"), "h2=debug,unfazed::gen_ai=off");
        assert_eq!(filter("unfazed::gen_ai=debug"), "unfazed::gen_ai=debug");
    }
}

//! Settings of the command itself: `unfazed.toml`, then `UNFAZED_*`, then flags.
//!
//! Policies are not settings: they are read with the place of every value and merged by the policy language.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use figment::Figment;
use figment::error::Kind;
use figment::providers::{Format, Serialized, Toml};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::files;

/// Flags every command takes.
#[derive(Args)]
pub(crate) struct GlobalFlags {
    /// Settings file; `unfazed.toml` in the current folder if there is one.
    #[arg(long, global = true, value_name = "FILE", env = "UNFAZED_CONFIG")]
    config: Option<PathBuf>,
    /// When to use colour.
    #[arg(long, global = true, value_enum)]
    color: Option<ColorChoice>,
    /// What to log on standard error: `warn`, `unfazed=debug`, …
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,
    /// Logs as JSON lines.
    #[arg(long, global = true)]
    log_json: bool,
}

/// The effective settings.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CliSettings {
    /// When to use colour.
    pub(crate) color: ColorChoice,
    /// What to log; empty: nothing.
    pub(crate) log: String,
    /// Whether logs are JSON lines.
    pub(crate) log_json: bool,
    /// Policy files for `explain`, where the command line names none.
    pub(crate) policy: Vec<PathBuf>,
    /// The profile of policies that is chosen, where the command line names none.
    pub(crate) profile: Option<String>,
    /// Where sessions are kept, instead of where the agent file says.
    pub(crate) sessions: Option<PathBuf>,
    /// The database they are kept in instead. It may hold a password: the settings file cannot name it.
    #[serde(skip)]
    pub(crate) sessions_url: Option<SecretString>,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ColorChoice {
    /// On terminals, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl GlobalFlags {
    /// The settings: defaults, file, environment, flags.
    pub(crate) fn resolve(&self) -> Result<CliSettings, String> {
        let defaults = CliSettings {
            color: ColorChoice::Auto,
            log: String::new(),
            log_json: false,
            policy: Vec::new(),
            profile: None,
            sessions: None,
            sessions_url: None,
        };
        let mut figment = Figment::from(Serialized::defaults(defaults));
        let here = Path::new("unfazed.toml");
        match &self.config {
            Some(path) => {
                let unread = |error: std::io::Error| {
                    let why = crate::host::file_error(&error);
                    format!("cannot read the settings file {}: {why}", path.display())
                };
                files::bytes(path).map_err(unread)?;
                figment = figment.merge(Toml::file_exact(path));
            }
            None if here.is_file() => figment = figment.merge(Toml::file_exact(here)),
            None => {}
        }
        figment = environment(figment)?;
        if let Some(color) = self.color {
            figment = figment.merge(Serialized::default("color", color));
        }
        if let Some(log) = &self.log {
            figment = figment.merge(Serialized::default("log", log));
        }
        if self.log_json {
            figment = figment.merge(Serialized::default("log_json", true));
        }
        let settings: CliSettings = figment.extract().map_err(|errors| {
            errors.into_iter().map(|error| explain(&error)).collect::<Vec<_>>().join("\n")
        })?;
        let url = std::env::var("UNFAZED_SESSIONS_URL").ok().filter(|url| !url.is_empty());
        Ok(CliSettings { sessions_url: url.map(SecretString::from), ..settings })
    }
}

/// The variables that are settings. Values are text; whatever else begins with `UNFAZED_` is somebody else's.
fn environment(mut figment: Figment) -> Result<Figment, String> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let text = |name: &str| {
        let value = set(name).map(std::ffi::OsString::into_string).transpose();
        value.map_err(|_| format!("{name} is not UTF-8 text"))
    };
    if let Some(color) = text("UNFAZED_COLOR")? {
        let color = ColorChoice::from_str(&color, false).map_err(|_| {
            format!("UNFAZED_COLOR is `{color}`; set it to `auto`, `always` or `never`, or unset it")
        })?;
        figment = figment.merge(Serialized::default("color", color));
    }
    if let Some(log) = text("UNFAZED_LOG")? {
        figment = figment.merge(Serialized::default("log", log));
    }
    if let Some(json) = text("UNFAZED_LOG_JSON")? {
        let json = match json.as_str() {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => {
                return Err(format!(
                    "UNFAZED_LOG_JSON is `{json}`; set it to `true` or `false`, or unset it"
                ));
            }
        };
        figment = figment.merge(Serialized::default("log_json", json));
    }
    if let Some(policy) = set("UNFAZED_POLICY") {
        let policy: Vec<PathBuf> = std::env::split_paths(&policy).collect();
        figment = figment.merge(Serialized::default("policy", policy));
    }
    if let Some(profile) = text("UNFAZED_PROFILE")? {
        figment = figment.merge(Serialized::default("profile", profile));
    }
    if let Some(sessions) = set("UNFAZED_SESSIONS") {
        figment = figment.merge(Serialized::default("sessions", PathBuf::from(sessions)));
    }
    Ok(figment)
}

/// A mistake in the settings file: which file, which key, what to do.
fn explain(error: &figment::Error) -> String {
    let source = error.metadata.as_ref().and_then(|metadata| metadata.source.as_ref());
    let file = source.and_then(figment::Source::file_path).unwrap_or(Path::new("unfazed.toml")).display();
    let key = error.path.join(".");
    match &error.kind {
        Kind::UnknownField(name, known) => {
            format!("{file}: unknown key `{name}`; there are `{}`", known.join("`, `"))
        }
        Kind::UnknownVariant(value, known) => {
            format!("{file}: `{key}` is `{value}`; write one of `{}`", known.join("`, `"))
        }
        Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => {
            format!("{file}: `{key}` must be {expected}, not {found}; see docs/settings.md")
        }
        Kind::Message(message) => format!("{file}: {}", message.trim_end()),
        _ => format!("{file}: {error}"),
    }
}

impl ColorChoice {
    pub(crate) fn apply(self) {
        let choice = match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

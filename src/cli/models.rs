//! `unfazed models`: what is known of models by their names.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::exit::{CommandFailure, ExitStatus};
use super::format::OutputFormat;
use super::named::FileKind;
use super::table::{TableCell, TableColumn, TextTable};
use super::text::one_line;
use super::{files, named, out, policies};
use crate::context::{CatalogueEntry, ModelCatalogue, ModelLimits, overhead, overhead_source};
use crate::engine::RequestOverhead;
use crate::policy::{Cost, Price};

/// Lists models: how large their windows and replies are, what their tokens cost, where that is from; says which entry a
/// name falls under
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed models claude
  unfazed models openai/gpt-4.1-mini-2025-04-14
  unfazed models gpt-4.1 --models models.yaml
  unfazed models --format json | jq '.models[] | select(.price) | .name'

Exit codes:
  0  all is well
  1  the file of models has problems
  2  the command was not understood, or an input cannot be read
  3  no model has such a name")]
pub(crate) struct ModelsArgs {
    /// The name of a model, or a part of it; all models without it.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// A file of your own, as `model_windows` in an agent file names it. What it says comes first.
    #[arg(long, value_name = "FILE")]
    models: Option<PathBuf>,
    /// How they are printed.
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

pub(crate) fn run(args: &ModelsArgs) -> Result<ExitStatus, CommandFailure> {
    let own = args.models.as_deref().map(read).transpose()?;
    let known = KnownModels { own: own.as_ref() };
    let name = args.name.as_deref().unwrap_or_default();
    let (asked, listed) = (known.model(name), known.list(name));
    match args.format {
        OutputFormat::Human => out::styled(&text(name, asked.as_ref(), &listed))?,
        OutputFormat::Json => {
            let models: Vec<Value> = listed.iter().map(KnownModel::document).collect();
            let asked = asked.as_ref().map(KnownModel::document);
            out::raw(&format!("{:#}\n", json!({"v": 1, "asked": asked, "models": models})))?;
        }
    }
    Ok(if asked.is_none() && listed.is_empty() { ExitStatus::Nothing } else { ExitStatus::Clean })
}

/// The file of models that the user names.
fn read(path: &Path) -> Result<ModelCatalogue, CommandFailure> {
    let bytes = files::read(path)?;
    let name = path.display().to_string();
    match named::kind(&bytes) {
        FileKind::Models => {
            ModelCatalogue::read(&name, &bytes).map_err(|report| policies::reported(&[report]))
        }
        _ => ModelCatalogue::litellm(&bytes)
            .map_err(|error| CommandFailure::Stopped(format!("cannot use {name}: {error}"))),
    }
}

/// The catalogue that ships with the product, and the user's own above it.
struct KnownModels<'c> {
    own: Option<&'c ModelCatalogue>,
}

impl<'c> KnownModels<'c> {
    fn catalogues(&self) -> impl Iterator<Item = &'c ModelCatalogue> {
        self.own.into_iter().chain([ModelCatalogue::builtin()])
    }

    /// What is known of a model, if anything is.
    fn model(&self, name: &str) -> Option<KnownModel<'c>> {
        let model = KnownModel {
            name: name.to_owned(),
            limits: self.catalogues().find_map(|catalogue| catalogue.limits_entry(name)),
            price: self.catalogues().find_map(|catalogue| catalogue.price_entry(name)),
        };
        (model.limits.is_some() || model.price.is_some()).then_some(model)
    }

    /// The models of the catalogues in whose names that text is.
    fn list(&self, text: &str) -> Vec<KnownModel<'c>> {
        let text = text.trim().to_lowercase();
        let names: BTreeSet<&str> = self.catalogues().flat_map(ModelCatalogue::names).collect();
        names.into_iter().filter(|name| name.contains(&text)).filter_map(|name| self.model(name)).collect()
    }
}

/// What is known of a model.
struct KnownModel<'c> {
    name: String,
    limits: Option<CatalogueEntry<'c, ModelLimits>>,
    price: Option<CatalogueEntry<'c, Price>>,
}

impl KnownModel<'_> {
    fn document(&self) -> Value {
        let added = overhead(&self.name, true);
        json!({
            "name": self.name,
            "limits": self.limits.map(|entry| json!({
                "entry": entry.name, "window": entry.value.window, "output": entry.value.output, "source": entry.source,
            })),
            // In picodollars for each token, as in events.
            "price": self.price.map(|entry| json!({
                "entry": entry.name, "price": entry.value, "source": entry.source,
            })),
            "overhead": added.map(|added| json!({
                "request": added.request, "tools": added.tools, "source": overhead_source(&self.name),
            })),
        })
    }

    fn row(&self) -> Vec<TableCell> {
        let limits = self.limits.map(|entry| entry.value);
        let price = self.price.map(|entry| entry.value);
        let cell = |text: Option<String>| TableCell::from(text.unwrap_or_else(|| "-".into()));
        vec![
            one_line(&self.name).into(),
            cell(limits.map(|limits| limits.window.to_string())),
            cell(limits.and_then(|limits| limits.output).map(|output| output.to_string())),
            cell(price.map(|price| dollars(price.input))),
            cell(price.map(|price| dollars(price.output))),
        ]
    }

    /// Each value with the entry that it is of, and where it is from.
    fn details(&self) -> String {
        let mut lines = format!("{}\n", one_line(&self.name));
        let mut detail = |what: &str, value: String, of: String| {
            let _ = writeln!(lines, "  {what:<9} {value}\n{:12}{of}", "");
        };
        let from = |source: &str| format!("from {}", one_line(source));
        let of_entry = |entry: &str, source: Option<&str>| {
            let entry = format!("entry `{}`", one_line(entry));
            source.map_or_else(|| entry.clone(), |source| format!("{entry}, {}", from(source)))
        };
        if let Some(CatalogueEntry { name, value: ModelLimits { window, output }, source }) = self.limits {
            let output = output.map(|output| format!(", of a reply at most {output}")).unwrap_or_default();
            detail("window", format!("{window} tokens{output}"), of_entry(name, source));
        }
        if let Some(CatalogueEntry { name, value, source }) = self.price {
            let value = format!("{}; US dollars per million tokens", kinds(value));
            detail("price", value, of_entry(name, source));
        }
        if let Some(RequestOverhead { request, tools }) = overhead(&self.name, true) {
            let value = format!("{request} tokens for a request, {tools} more with tools");
            let assumed = || "assumed: what its provider adds is not documented".to_owned();
            detail("overhead", value, overhead_source(&self.name).map_or_else(assumed, from));
        }
        lines
    }
}

/// What each kind of token costs.
fn kinds(price: Price) -> String {
    let kinds = [
        ("input", Some(price.input)),
        ("output", Some(price.output)),
        ("cache_read", price.cache_read),
        ("cache_write", price.cache_write),
        ("reasoning", price.reasoning),
    ];
    let kinds = kinds.into_iter().filter_map(|(kind, price)| Some(format!("{kind} {}", dollars(price?))));
    kinds.collect::<Vec<_>>().join(", ")
}

fn text(name: &str, asked: Option<&KnownModel<'_>>, listed: &[KnownModel<'_>]) -> String {
    let mut text = asked.map(KnownModel::details).unwrap_or_default();
    if asked.is_none() && listed.is_empty() {
        return format!("no model is called like `{}`; `unfazed models` lists all\n", one_line(name));
    }
    if listed.is_empty() {
        return text;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let column = |(heading, right)| TableColumn { heading, right };
    let headings = [("model", false), ("window", true), ("reply", true), ("input", true), ("output", true)];
    let rows = listed.iter().map(KnownModel::row).collect();
    text.push_str(&TextTable { columns: headings.map(column).into(), rows, cut: false }.render(out::width()));
    let models = if listed.len() == 1 { "model" } else { "models" };
    let _ = writeln!(
        text,
        "\n{} {models}; windows and replies in tokens, input and output in US dollars per million tokens",
        listed.len()
    );
    text
}

/// US dollars per million tokens, of picodollars for each.
fn dollars(picodollars: u64) -> String {
    Cost(picodollars.saturating_mul(1_000_000)).to_string()
}

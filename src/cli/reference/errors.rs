//! The classes of errors, and the rows that tell what a failure is.

use core::fmt::Write as _;

use crate::policy::{ClassSet, ErrorClass, ErrorRow, Policy};

use super::flow::code;

const HEADING: &str = "\
# Error classes and tables

This page is written by `unfazed reference --write docs/`, from the built-in policy and its tables in `policies/errors/`.
[The policy language](policy.md#errors) explains how rows are written and how the text of an error is found.

## Classes

What a failure is under the built-in policy: *retried* means that there is another attempt, if nothing else is against it
(a tool that may have had side effects is not run again); *never* that no `retry_on` changes that, only
`never_retry: {remove: [...]}`; an empty cell that nobody retries it unless a policy says so.

| class | meaning | tools | models | report |
|---|---|---|---|---|
";

const TABLES: &str = "
## Tables

The rows of your own `errors` come first. Then the tables below are asked in this order, each from its first row to its
last, whichever provider answers: the first row that matches decides. A row matches if everything it names matches, each by
any element of its list; of `words` (those with **and** between them) all must be there, in any order. Of texts, codes and
types only letters and digits are compared, whatever their case. *At fault*: the request itself is at fault, and the same
bytes are not sent to the same model again. *Wait*: so long if the server does not say.
";

/// The page.
pub(super) fn page() -> String {
    let policy = Policy::builtin();
    let mut page = HEADING.to_owned();
    let (tool, model) = (policy.tool("tool"), policy.model("model"));
    let report = Policy::from_yaml("report", "version: 1\noutput: {}\n").ok();
    let report = report.as_ref().and_then(Policy::output);
    for class in ErrorClass::ALL.iter().copied() {
        let of = |on: ClassSet, never: ClassSet| match (on.contains(class), never.contains(class)) {
            (_, true) => "never",
            (true, false) => "retried",
            (false, false) => "",
        };
        let tools = of(tool.retry.retry_on.value, tool.retry.never_retry.value);
        let models = of(model.retry.retry_on.value, model.retry.never_retry.value);
        let report =
            report.map_or("", |report| of(report.retry.retry_on.value, report.retry.never_retry.value));
        // Writing into a string does not fail.
        let _ = writeln!(page, "| `{class}` | {} | {tools} | {models} | {report} |", class.meaning());
    }
    page += TABLES;
    let mut table = "";
    for row in policy.errors().rows() {
        let Some(source) = policy.sources().get(row.origin.source) else { continue };
        if source.name() != table {
            table = source.name();
            let name = table.trim_start_matches("builtin:errors/");
            let _ = write!(page, "\n### `{name}`\n\n{}\n\n", about(source.text()));
            page += "| status | code | type | message, detail, provider | class |\n|---|---|---|---|---|\n";
        }
        page += &cells(row);
    }
    page
}

/// All that a row needs the message to speak of.
fn concepts(row: &ErrorRow) -> String {
    let any = |phrases: &Vec<String>| phrases.iter().map(|text| code(text)).collect::<Vec<_>>().join(" or ");
    row.words.iter().map(any).collect::<Vec<_>>().join(" **and** ")
}

/// What the comment at the beginning of a table says.
fn about(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix('#'));
    lines.map(str::trim).collect::<Vec<_>>().join("\n")
}

fn cells(row: &ErrorRow) -> String {
    let list = |texts: &[String]| texts.iter().map(|text| code(text)).collect::<Vec<_>>().join(", ");
    let status = row.status.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut words = vec![list(&row.message)];
    words.extend((!row.words.is_empty()).then(|| concepts(row)));
    words.extend((!row.detail.is_empty()).then(|| format!("detail: {}", list(&row.detail))));
    words.extend((!row.provider.is_empty()).then(|| format!("provider: {}", list(&row.provider))));
    words.retain(|text| !text.is_empty());
    let anything = row.matcher() == "everything";
    let words = if anything { "anything else".to_owned() } else { words.join("; ") };
    let fault = if row.request_at_fault { ", at fault" } else { "" };
    let wait = row.wait.map(|wait| format!(", wait {wait}")).unwrap_or_default();
    format!(
        "| {} | {} | {} | {words} | `{}`{fault}{wait} |\n",
        status.join(", "),
        list(&row.code),
        list(&row.kind),
        row.class
    )
}

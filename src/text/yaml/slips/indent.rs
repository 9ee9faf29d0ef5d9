//! Lines that are indented like none they could belong to.

use super::{TextLine, TextRepair, YamlSlip, helps};

/// A level of nesting: how far its lines are indented, and the first of them.
struct IndentLevel<'t> {
    indent: usize,
    first: &'t str,
}

/// The first line up to that one which fits no level.
pub(super) fn find(text: &str, lines: &[TextLine<'_>], here: usize) -> Option<YamlSlip> {
    let mut levels: Vec<IndentLevel<'_>> = Vec::new();
    // The messages on the line above, and how far a block of text below it is indented more than.
    let (mut above, mut block): (&str, Option<usize>) = ("", None);
    for (number, line) in lines.iter().enumerate().take(here.saturating_add(1)) {
        if line.is_blank() {
            continue;
        }
        let indent = line.indent();
        // Lines of a block of text have any indent they like.
        if block.is_some_and(|block| indent > block) {
            continue;
        }
        let said = line.said();
        block = said.ends_with(['|', '>']).then_some(indent);
        let deepest = levels.last().map(|level| level.indent);
        let opens = above.is_empty() || above.ends_with(':') || above.trim_start().starts_with('-');
        let wrong = match deepest {
            Some(deepest) if indent > deepest && !opens => Some(vec![deepest]),
            Some(deepest) if indent < deepest => {
                let known = levels.iter().any(|level| level.indent == indent);
                (!known).then(|| near(&levels, indent))
            }
            _ => None,
        };
        if let Some(wanted) = wrong {
            return Some(misfit(text, lines, number, &levels, &wanted));
        }
        levels.retain(|level| level.indent <= indent);
        if levels.last().is_none_or(|level| level.indent < indent) {
            levels.push(IndentLevel { indent, first: said });
        }
        above = said;
        // The keys of an entry stand below the first of them, after the dash.
        let inner = line.content().trim_start_matches(['-', ' ']);
        let after = indent.saturating_add(line.content().len().saturating_sub(inner.len()));
        if after > indent {
            levels.push(IndentLevel { indent: after, first: inner });
        }
    }
    None
}

/// The levels next to an indent: the one above it and the one below.
fn near(levels: &[IndentLevel<'_>], indent: usize) -> Vec<usize> {
    let less = levels.iter().rev().find(|level| level.indent < indent);
    let more = levels.iter().find(|level| level.indent > indent);
    less.into_iter().chain(more).map(|level| level.indent).collect()
}

fn misfit(
    text: &str,
    lines: &[TextLine<'_>],
    number: usize,
    levels: &[IndentLevel<'_>],
    wanted: &[usize],
) -> YamlSlip {
    let line = lines.get(number).copied().unwrap_or(TextLine { start: 0, text: "" });
    let indent = line.indent();
    let deeper = levels.last().is_some_and(|level| indent > level.indent);
    let message = if deeper {
        "this line is indented more than the one above it, which has a value already".to_owned()
    } else {
        format!("this line is indented by {indent}, which matches no line above it")
    };
    let beside = |wanted: &usize| {
        let first = levels.iter().find(|level| level.indent == *wanted).map_or("", |level| level.first);
        let key = first.split(':').next().unwrap_or_default().trim_start_matches([' ', '-']);
        format!("by {wanted}, in line with `{key}`")
    };
    let places: Vec<String> = wanted.iter().map(beside).collect();
    let repairs: Vec<TextRepair> =
        wanted.iter().filter_map(|wanted| moved(text, lines, number, *wanted)).collect();
    // Only a single place that makes the text readable is certain.
    let mut helping: Vec<TextRepair> = repairs.into_iter().filter(|repair| helps(text, repair)).collect();
    let only = if helping.len() == 1 { helping.pop() } else { None };
    YamlSlip {
        at: line.start.saturating_add(indent)..line.start.saturating_add(line.said().len()),
        message,
        help: vec![format!("indent it {}", places.join(", or "))],
        repair: only,
        ..YamlSlip::default()
    }
}

/// The line, and those below it that are indented as much or more, at another indent.
fn moved(text: &str, lines: &[TextLine<'_>], number: usize, wanted: usize) -> Option<TextRepair> {
    let first = lines.get(number)?;
    let indent = first.indent();
    let rest = lines.get(number..)?;
    let belongs = |line: &&TextLine<'_>| line.is_blank() || line.indent() >= indent;
    let run: Vec<&TextLine<'_>> = rest.iter().take_while(belongs).collect();
    let last = run.iter().rev().find(|line| !line.is_blank())?;
    let at = first.start..last.end();
    let line = |line: &str| {
        let content = line.trim_start_matches(' ');
        let own = line.len().saturating_sub(content.len());
        if content.trim().is_empty() {
            return line.to_owned();
        }
        format!("{}{content}", " ".repeat(own.saturating_sub(indent).saturating_add(wanted)))
    };
    let lines: Vec<String> = text.get(at.clone())?.split('\n').map(line).collect();
    Some(TextRepair { at, title: "indent it as the lines above", text: lines.join("\n") })
}

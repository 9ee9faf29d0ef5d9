//! The lines of `[…]` and `{…}`: what is at the beginning of one must be indented more than the key or the dash the
//! collection belongs to. Readers differ on the rest, and what looks like the next key may be an element. A closing
//! bracket may stand anywhere.

use super::{YamlData, YamlNode};
use crate::text::Problems;
use crate::text::{Code, Diagnostic, Span};

/// Reports the first line of each collection that is not indented enough.
pub(super) fn check(root: &YamlNode, text: &str, problems: &mut Problems) {
    FlowWalk { text, problems }.node(root, None);
}

struct FlowWalk<'a> {
    text: &'a str,
    problems: &'a mut Problems,
}

impl FlowWalk<'_> {
    /// `parent`: the column of the key or the dash the node belongs to.
    fn node(&mut self, node: &YamlNode, parent: Option<usize>) {
        let opens = self.text.as_bytes().get(node.span.start as usize);
        match &node.data {
            YamlData::Map(_) | YamlData::List(_) if matches!(opens, Some(b'{' | b'[')) => {
                if let Some(parent) = parent
                    && let Some(span) = self.outside(node, node.span, parent)
                {
                    let problem = Diagnostic::error(
                        Code::SYNTAX,
                        span,
                        "this line of `[…]` or `{…}` is not indented more than what it belongs to",
                    );
                    self.problems.push(problem.help("indent it, or close the bracket before it"));
                }
            }
            YamlData::Map(entries) => {
                for (key, value) in entries.iter() {
                    self.node(value, self.column(key.span).or(parent));
                }
            }
            YamlData::List(items) => {
                for item in items.iter() {
                    self.node(item, self.dash(item.span).or(parent));
                }
            }
            _ => {}
        }
    }

    /// The first key or value within `whole` that begins a line at the parent's column or before it.
    fn outside(&self, node: &YamlNode, whole: Span, parent: usize) -> Option<Span> {
        let wrong = |span: Span| {
            let within = span.source == whole.source && span.start > whole.start && span.end <= whole.end;
            // YAML 1.2.2, section 7.4: lines of a flow collection are indented more than the block around it.
            (within && self.indent(span).is_some_and(|indent| indent <= parent)).then_some(span)
        };
        match &node.data {
            YamlData::Map(entries) => entries.iter().find_map(|(key, value)| {
                wrong(key.span).or_else(|| wrong(value.span)).or_else(|| self.outside(value, whole, parent))
            }),
            YamlData::List(items) => {
                items.iter().find_map(|item| wrong(item.span).or_else(|| self.outside(item, whole, parent)))
            }
            _ => None,
        }
    }

    /// The column of a key at the beginning of its line, after dashes perhaps.
    fn column(&self, span: Span) -> Option<usize> {
        self.before(span, |byte| matches!(byte, b' ' | b'-'))
    }

    /// How far something that begins a line is indented.
    fn indent(&self, span: Span) -> Option<usize> {
        self.before(span, |byte| byte == b' ')
    }

    /// The column of the dash before an item.
    fn dash(&self, span: Span) -> Option<usize> {
        let start = span.start as usize;
        let spaces = self.text.get(..start)?.bytes().rev().take_while(|byte| *byte == b' ').count();
        let dash = start.checked_sub(spaces)?.checked_sub(1)?;
        let at = Span { start: u32::try_from(dash).ok()?, ..span };
        (self.text.as_bytes().get(dash) == Some(&b'-')).then(|| self.column(at)).flatten()
    }

    /// How many bytes of that kind stand between the beginning of the line and a place; `None`: others do, too.
    fn before(&self, span: Span, of: impl Fn(u8) -> bool) -> Option<usize> {
        let before = self.text.as_bytes().get(..span.start as usize)?;
        let count = before.iter().rev().take_while(|byte| of(**byte)).count();
        match before.len().checked_sub(count)?.checked_sub(1) {
            None => Some(count),
            Some(last) => matches!(before.get(last), Some(b'\n' | b'\r')).then_some(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::text::Problems;
    use crate::text::{Sources, yaml};

    fn problems(text: &str) -> Vec<String> {
        let (mut sources, mut problems) = (Sources::new(), Problems::default());
        yaml::load(&mut sources, &mut problems, "a.yaml", text.as_bytes());
        problems.into_report(sources).diagnostics().iter().map(|problem| problem.message.clone()).collect()
    }

    #[test]
    fn a_line_of_a_collection_is_indented_more_than_its_key() {
        for text in ["a: [b,\nc]\n", "a:\n  b: {c: 1,\n  d: 2}\n", "- [a,\nb]\n", "- a: [b,\n  c]\n"] {
            assert_eq!(problems(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn everything_else_is_as_it_was() {
        for text in [
            "a: [\n  b,\n  c,\n]\n",
            "a:\n  b: {\n    c: 1,\n  }\n",
            "[a,\nb]\n",
            "- [a,\n  b]\n",
            "a: &x\n  b: 1\nc: [*x,\n  *x]\n",
        ] {
            assert_eq!(problems(text), Vec::<String>::new(), "{text}");
        }
    }
}

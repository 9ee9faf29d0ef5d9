//! Renders templates without expressions directly, as there may be a hundred thousand results to render them for.

/// The pieces of a template that consists of text and names only.
pub(super) struct PlainTemplate<'t>(Vec<TemplatePiece<'t>>);

enum TemplatePiece<'t> {
    Text(&'t str),
    Name(&'t str),
}

impl<'t> PlainTemplate<'t> {
    /// `None`: the template contains more than that.
    pub(super) fn of(source: &'t str) -> Option<Self> {
        // Jinja removes a line end at the end of a template, so such a template is left to it.
        if ["{%", "{#"].iter().any(|mark| source.contains(mark)) || source.ends_with('\n') {
            return None;
        }
        let mut pieces = Vec::new();
        let mut rest = source;
        while let Some((text, after)) = rest.split_once("{{") {
            let (name, then) = after.split_once("}}")?;
            let name = name.trim_matches(' ');
            // Anything but a bare name is an expression, which only the template engine can evaluate.
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
                return None;
            }
            pieces.extend([TemplatePiece::Text(text), TemplatePiece::Name(name)]);
            rest = then;
        }
        pieces.push(TemplatePiece::Text(rest));
        Some(Self(pieces))
    }

    /// The text with these values; `None`: a name has no value.
    pub(super) fn write(&self, values: &[(&str, &str)]) -> Option<String> {
        let mut pieces = self.0.iter().map(|piece| match piece {
            TemplatePiece::Text(text) => Some(*text),
            TemplatePiece::Name(name) => {
                values.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
            }
        });
        let room = pieces.clone().flatten().map(str::len).fold(0, usize::saturating_add);
        pieces.try_fold(String::with_capacity(room), |text, piece| Some(text + piece?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::text::Template;

    const NAMES: [&str; 2] = ["tool", "shown"];

    #[test]
    fn what_is_written_is_what_the_template_would_be() {
        let values = json!({"tool": "look {{ shown }}", "shown": "<b>&\n"});
        let values = values.as_object().unwrap();
        let plain = [("tool", "look {{ shown }}"), ("shown", "<b>&\n")];
        for source in
            ["", "text", "{{tool}}", "a {{ tool }} b\n{{ shown }}{{tool}} c }} d", "{ {{ shown }} }"]
        {
            let rendered = Template::parse(source, &NAMES).unwrap().render(values).unwrap();
            assert_eq!(
                PlainTemplate::of(source).unwrap().write(&plain).as_deref(),
                Some(&*rendered),
                "{source}"
            );
        }
    }

    #[test]
    fn other_templates_are_left_to_the_engine() {
        for source in
            ["{{ tool | upper }}", "{% if tool %}x{% endif %}", "x\n", "{{- tool }}", "{# x #}", "{{ 'a' }}"]
        {
            assert!(PlainTemplate::of(source).is_none(), "{source}");
        }
        assert_eq!(PlainTemplate::of("{{ none }}").unwrap().write(&[("tool", "x")]), None);
    }
}

//! Messages to the model, written as templates and bounded in time and size.

mod scan;

use core::fmt;
use core::ops::Range;
use std::io;
use std::sync::{Arc, OnceLock};

use minijinja::{
    Environment, Error, ErrorKind, UndefinedBehavior, Value as Jinja, filters, tests as jinja_tests, value,
};
use serde_json::{Map, Value};

use super::did_you_mean::closest;

/// Instructions one rendering may take.
const FUEL: u64 = 50_000;
const MAX_OUTPUT_BYTES: usize = 64 << 10;
const NAME: &str = "message";
/// Variables of every message to the model, in addition to its own: what the session remembers.
pub(crate) const SESSION: [&str; 2] = ["feedback", "slices"];

/// A compiled template. Cloning shares it.
#[derive(Clone)]
pub struct Template(Arc<CompiledTemplate>);

struct CompiledTemplate {
    text: String,
    /// What is read of the session, with dots: `feedback.latest.message`.
    session: OnceLock<Box<[String]>>,
    /// Made when it is rendered first: most templates of a policy never are, and each is large.
    env: OnceLock<Result<Environment<'static>, Error>>,
}

/// What is wrong with a template, or why it could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// What is wrong.
    pub message: String,
    /// The bytes of the template it is about, if they are known.
    pub at: Option<Range<usize>>,
    /// What to write instead.
    pub help: Option<String>,
}

impl Template {
    /// Compiles `text`, in which only `variables` may occur.
    ///
    /// # Errors
    /// If `text` is not a template, uses an unknown name, or is larger than a template may be.
    ///
    /// ```
    /// use unfazed::text::Template;
    /// assert!(Template::parse("`{{ tool }}` failed", &["tool"]).is_ok());
    /// let error = Template::parse("`{{ tol }}` failed", &["tool"]).unwrap_err();
    /// assert_eq!(error.help.unwrap(), "did you mean `tool`?");
    /// ```
    pub fn parse(text: &str, variables: &[&str]) -> Result<Self, TemplateError> {
        // The compiler recurses, so its stack is protected before it sees the text.
        scan::scan(text)?;
        let template = base().template_from_named_str(NAME, text).map_err(|error| syntax(text, &error))?;
        let used = template.undeclared_variables(false);
        // The first mistake in the text is the one that is reported.
        let mistakes = used.iter().filter(|name| !variables.contains(&name.as_str()));
        if let Some(name) = mistakes.min_by_key(|name| (place(text, name).map(|at| at.start), *name)) {
            return Err(unknown(text, name, variables));
        }
        let reads = used.iter().any(|name| SESSION.contains(&name.as_str()));
        let session = OnceLock::from(if reads { of_session(&template) } else { Box::default() });
        Ok(Self(Arc::new(CompiledTemplate { text: text.to_owned(), session, env: OnceLock::new() })))
    }

    /// A template that ships with the product: a test parses it, so that no policy has to.
    pub(crate) fn shipped(text: &str) -> Self {
        let (session, env) = (OnceLock::new(), OnceLock::new());
        Self(Arc::new(CompiledTemplate { text: text.to_owned(), session, env }))
    }

    /// What it reads of the session, with dots: `feedback.latest.message`.
    pub(crate) fn session(&self) -> &[String] {
        self.0.session.get_or_init(|| {
            let text = &*self.0.text;
            // What does not have the words does not speak of it.
            if !SESSION.iter().any(|name| text.contains(name)) {
                return Box::default();
            }
            base()
                .template_from_named_str(NAME, text)
                .map(|template| of_session(&template))
                .unwrap_or_default()
        })
    }

    /// Whether it reads that variable of the session.
    pub(crate) fn reads(&self, name: &str) -> bool {
        self.session().iter().any(|path| path.split('.').next() == Some(name))
    }

    /// The text for these variables; what is beyond 64 KiB is cut off.
    ///
    /// # Errors
    /// If a value that is used is missing, or rendering takes too long.
    pub fn render(&self, vars: &Map<String, Value>) -> Result<String, TemplateError> {
        let mut output = CappedWriter::default();
        match self.render_into(vars, &mut output) {
            // What has been written by then is shown: half a message is better than none.
            Err(error) if !output.full => Err(failed(&error)),
            _ => Ok(output.into_text()),
        }
    }

    /// The whole text for these variables, for readers that must not get a part of it; `None`: a value that is used
    /// is missing.
    ///
    /// # Errors
    /// If the text is larger than 64 KiB, or rendering takes too long.
    ///
    /// ```
    /// use serde_json::{Map, json};
    /// use unfazed::text::Template;
    /// let template = Template::parse("--city={{ args.city }}", &["args"]).unwrap();
    /// let vars = |args| Map::from_iter([("args".to_owned(), args)]);
    /// assert_eq!(template.fill(&vars(json!({"city": "Oslo"}))).unwrap().unwrap(), "--city=Oslo");
    /// assert_eq!(template.fill(&vars(json!({}))), Ok(None));
    /// ```
    pub fn fill(&self, vars: &Map<String, Value>) -> Result<Option<String>, TemplateError> {
        let mut output = CappedWriter::default();
        match self.render_into(vars, &mut output) {
            Ok(()) => Ok(Some(output.into_text())),
            Err(_) if output.full => {
                let message = "the text is larger than 64 KiB".to_owned();
                Err(TemplateError { message, at: None, help: None })
            }
            Err(error) if matches!(error.kind(), ErrorKind::UndefinedError) => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    fn render_into(&self, vars: &Map<String, Value>, output: &mut CappedWriter) -> Result<(), Error> {
        let env = self.0.env.get_or_init(|| {
            let mut env = base().clone();
            env.add_template_owned(NAME, self.0.text.clone())?;
            Ok(env)
        });
        let env = env.as_ref().map_err(|error| Error::new(error.kind(), "the template cannot be used"))?;
        env.get_template(NAME)?.render_captured_to(value::Serde(vars), output).map(drop)
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

fn of_session(template: &minijinja::Template<'_, '_>) -> Box<[String]> {
    let of_session = |path: &String| path.split('.').next().is_some_and(|name| SESSION.contains(&name));
    let mut paths: Vec<String> = template.undeclared_variables(true).into_iter().filter(of_session).collect();
    paths.sort_unstable();
    paths.into()
}

/// What every template knows: a few filters and tests, no functions, nothing that reads files.
fn base() -> &'static Environment<'static> {
    static BASE: OnceLock<Environment<'static>> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut env = Environment::empty();
        // A missing value is an error. By default Jinja writes an empty text, which hides the mistake.
        env.set_undefined_behavior(UndefinedBehavior::Strict);
        // Fuel and not a time limit: the same template must end at the same place on every machine.
        env.set_fuel(Some(FUEL));
        env.set_recursion_limit(32);
        // With debug information, errors would quote the values of variables.
        env.set_debug(false);
        env.add_filter("upper", filters::upper);
        env.add_filter("lower", filters::lower);
        env.add_filter("title", filters::title);
        env.add_filter("capitalize", filters::capitalize);
        env.add_filter("trim", filters::trim);
        env.add_filter("length", filters::length);
        env.add_filter("first", filters::first);
        env.add_filter("last", filters::last);
        env.add_filter("default", filters::default);
        env.add_filter("round", filters::round);
        env.add_filter("int", filters::int);
        // Written here because the library's own makes the whole text before the output can refuse it.
        env.add_filter("join", join);
        env.add_filter("tojson", to_json);
        env.add_test("defined", jinja_tests::is_defined);
        env.add_test("undefined", jinja_tests::is_undefined);
        env.add_test("none", jinja_tests::is_none);
        env.add_test("string", jinja_tests::is_string);
        env.add_test("number", jinja_tests::is_number);
        env.add_test("sequence", jinja_tests::is_sequence);
        env.add_test("mapping", jinja_tests::is_mapping);
        env
    })
}

/// The elements with the separator between them; what is beyond the size of an output is left out.
#[expect(clippy::needless_pass_by_value, reason = "the types filters take")]
fn join(elements: Jinja, separator: Option<String>) -> Result<String, Error> {
    let mut joined = String::new();
    for (i, element) in elements.try_iter()?.enumerate() {
        if i > 0 {
            joined.push_str(separator.as_deref().unwrap_or(""));
        }
        joined.push_str(&element.to_string());
        if joined.len() > MAX_OUTPUT_BYTES {
            break;
        }
    }
    Ok(joined)
}

#[expect(clippy::needless_pass_by_value, reason = "the types filters take")]
fn to_json(value: Jinja) -> Result<String, Error> {
    serde_json::to_string(&value).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

/// Takes what fits and refuses the rest, which ends the rendering.
#[derive(Default)]
struct CappedWriter {
    bytes: Vec<u8>,
    full: bool,
}

impl CappedWriter {
    fn into_text(self) -> String {
        match String::from_utf8(self.bytes) {
            Ok(text) => text,
            // Cut within a character: its first bytes go too.
            Err(error) => {
                let whole = error.utf8_error().valid_up_to();
                let mut bytes = error.into_bytes();
                bytes.truncate(whole);
                String::from_utf8(bytes).unwrap_or_default()
            }
        }
    }
}

impl io::Write for CappedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MAX_OUTPUT_BYTES.saturating_sub(self.bytes.len());
        let fitting = bytes.get(..room).unwrap_or(bytes);
        self.bytes.extend_from_slice(fitting);
        if fitting.len() < bytes.len() {
            self.full = true;
            return Err(io::Error::other("the output is full"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn syntax(text: &str, error: &Error) -> TemplateError {
    let message = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    let message = match message.strip_prefix("unknown statement ") {
        Some(word) => format!("`{word}` closes nothing"),
        None => message,
    };
    let at = error.range().filter(|at| text.get(at.clone()).is_some()).or_else(|| {
        let line = error.line()?.checked_sub(1)?;
        let before: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
        Some(before..before.saturating_add(text.lines().nth(line)?.len()))
    });
    TemplateError { message, at, help: None }
}

fn unknown(text: &str, name: &str, variables: &[&str]) -> TemplateError {
    let help = match closest(name, variables.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if variables.is_empty() => "no variables are known here".to_owned(),
        None => {
            format!(
                "known here: {}",
                variables.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            )
        }
    };
    TemplateError { message: format!("`{name}` is not known here"), at: place(text, name), help: Some(help) }
}

fn failed(error: &Error) -> TemplateError {
    TemplateError { message: rendering(error), at: None, help: None }
}

/// Why a rendering failed. Values are not repeated: they may be secret.
fn rendering(error: &Error) -> String {
    match error.kind() {
        ErrorKind::OutOfFuel => "the message takes too long to render".to_owned(),
        ErrorKind::UndefinedError => "the message uses a value that is missing".to_owned(),
        kind => format!("the message cannot be rendered: {kind}"),
    }
}

/// Where `name` first occurs as a word inside a tag.
pub(crate) fn place(text: &str, name: &str) -> Option<Range<usize>> {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    text.match_indices(name).map(|(at, _)| at..at.saturating_add(name.len())).find(|at| {
        let before = text.get(..at.start).unwrap_or("");
        let after = text.get(at.end..).unwrap_or("");
        let inside =
            before.rfind(['{', '}']).is_some_and(|i| before.get(i..).is_some_and(|s| s.starts_with('{')))
                || before.rfind("{%") > before.rfind("%}");
        inside
            && !before.ends_with(part_of_name)
            && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
    })
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({:?})", self.0.text)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const KNOWN: [&str; 3] = ["tool", "problems", "attempt"];

    fn vars() -> Map<String, Value> {
        let vars = json!({"tool": "http.get", "problems": [{"pointer": "/a", "message": "is missing"}, {"pointer": "/b", "message": "<b>"}], "attempt": 2});
        vars.as_object().unwrap().clone()
    }

    fn render(text: &str) -> Result<String, String> {
        let template = Template::parse(text, &KNOWN).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        template.render(&vars()).map_err(|error| error.message)
    }

    fn refused(text: &str) -> String {
        let error = Template::parse(text, &KNOWN).expect_err(text);
        let at = error
            .at
            .map_or("nowhere".to_owned(), |at| format!("at `{}`", text.get(at).expect("whole characters")));
        format!("{at}: {}; {}", error.message, error.help.unwrap_or_default())
    }

    #[test]
    fn variables_filters_conditions_and_loops_are_rendered() {
        for (text, expected) in [
            ("plain", "plain"),
            ("`{{ tool }}` failed", "`http.get` failed"),
            (
                "{% for p in problems %}- {{ p.pointer }} {{ p.message }}\n{% endfor %}",
                "- /a is missing\n- /b <b>\n",
            ),
            ("{% if attempt > 1 %}again{% else %}first{% endif %}", "again"),
            ("{{ problems | length }} {{ tool|upper }}", "2 HTTP.GET"),
            (
                "{{ problems|tojson }}",
                r#"[{"message":"is missing","pointer":"/a"},{"message":"<b>","pointer":"/b"}]"#,
            ),
            ("{% for p in problems %}{{ loop.index }}{% endfor %}", "12"),
            ("{# note #}{{ '}}' ~ tool }}", "}}http.get"),
            ("{{ tool if tool is defined else 'x' }}", "http.get"),
        ] {
            assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_missing_value_is_an_error() {
        assert_eq!(
            render("{{ problems[0].reason }}"),
            Err("the message uses a value that is missing".to_owned())
        );
        let template = Template::parse("{{ tool }}", &KNOWN).unwrap();
        assert_eq!(
            template.render(&Map::new()).unwrap_err().message,
            "the message uses a value that is missing"
        );
    }

    #[test]
    fn slips_are_named_with_place_and_cure() {
        let texts = [
            "{{ tol }}",
            "tol {{ user }}",
            "{% for p in problem %}{{ p }}{% endfor %}",
            "{{ tool ",
            "{{ tool }",
            "{% if tool %}",
            "{% endfor %}",
            "{{ tool | uper }}",
            "{{ tool is defind }}",
            "{{ range(3) }}",
            "{{ tool.upper() }}",
            "{{ tool * 3 }}",
            "{{ {'a': 1} }}",
            "{% set x = tool %}",
            "{% include 'x' %}",
            "{% raw %}{{ x }}{% endraw %}",
            "{% fro x in problems %}",
            "{{ }}",
            "{{ 'a }}",
            "{{ tool tool }}",
            "{% for p in problems recursive %}{{ loop(p) }}{% endfor %}",
        ];
        insta::assert_snapshot!(texts.map(|text| format!("{text}\n    {}", refused(text))).join("\n"));
    }

    #[test]
    fn a_rendering_without_end_is_stopped() {
        let vars = json!({"problems": vec![1; 1000]});
        let nested = "{% for a in problems %}{% for b in problems %}{% for c in problems %}{% endfor %}{% endfor %}{% endfor %}";
        let error = Template::parse(nested, &KNOWN).unwrap().render(vars.as_object().unwrap()).unwrap_err();
        assert_eq!(error.message, "the message takes too long to render");
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let vars = json!({"tool": "é".repeat(100_000), "problems": vec!["é".repeat(1000); 1000]});
        for text in [
            "{{ tool }}",
            "x{{ tool }}",
            "x{{ problems | join(tool) }}",
            "x{% for p in problems %}{{ p }}{% endfor %}",
        ] {
            let message = Template::parse(text, &KNOWN).unwrap().render(vars.as_object().unwrap()).unwrap();
            assert!(
                (MAX_OUTPUT_BYTES - 1..=MAX_OUTPUT_BYTES).contains(&message.len()),
                "{text} {}",
                message.len()
            );
        }
    }

    #[test]
    fn hostile_texts_are_refused_on_a_small_stack() {
        let hostile = || {
            for text in [
                format!("{{{{ {}1{} }}}}", "(".repeat(2000), ")".repeat(2000)),
                format!("{{{{ 1{} }}}}", "+1".repeat(2000)),
                format!("{{{{ {}1 }}}}", "-".repeat(400)),
                format!("{{{{ {}tool }}}}", "not ".repeat(2000)),
                format!("{{{{ tool{} }}}}", ".a".repeat(200)),
                format!("{{{{ tool{} }}}}", "|upper".repeat(200)),
                "{% if tool %}".repeat(1000),
                format!("{{% if tool %}}{}{{% endif %}}", "{% elif tool %}".repeat(1000)),
                "x".repeat(17 << 10),
            ] {
                assert!(Template::parse(&text, &KNOWN).is_err(), "{}", &text[..60]);
            }
            let largest = format!("{}{}", "{% if tool %}".repeat(32), "{% endif %}".repeat(32));
            assert_eq!(render(&largest).as_deref(), Ok(""));
            assert_eq!(render(&format!("{{{{ 1{} }}}}", "+1".repeat(60))).as_deref(), Ok("61"));
        };
        std::thread::Builder::new().stack_size(2 << 20).spawn(hostile).unwrap().join().unwrap();
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([a-z{}%#'\"|.()~ \\n-]|\\{\\{|\\}\\}|\\{%|%\\}|tool|for|in|if|endif){0,30}") {
            if let Ok(template) = Template::parse(&text, &KNOWN) {
                let _ = template.render(&vars());
            }
        }
    }
}

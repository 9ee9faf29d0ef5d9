//! Words that are not used where others read them: in names of the library, in keys and texts of the language, in messages, docs and
//! comments, and on the pages.
//! Each thing has one word, that of its field, and sentences are plain: somebody does something.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A word that is avoided.
struct Avoided {
    /// Its forms.
    forms: &'static [&'static str],
    /// What to write.
    instead: &'static str,
    why: &'static str,
}

const fn avoid(forms: &'static [&'static str], instead: &'static str, why: &'static str) -> Avoided {
    Avoided { forms, instead, why }
}

/// What is avoided everywhere.
const EVERYWHERE: &[Avoided] = &[
    avoid(&["is told", "are told", "told of"], "the model reads, is informed", "who tells whom is not clear"),
    avoid(&["stands above", "goes before"], "overrides, takes precedence over", "layers have a precedence"),
    avoid(&["nobody knows", "nobody said"], "unknown, not set", "a value is missing, and not a person"),
    avoid(&["what was said"], "the reply, the message", "name the thing"),
    avoid(&["goes on"], "continues, resumes", "as `--resume`"),
    avoid(&["asleep"], "waiting", "a delay is a wait"),
    avoid(&["in force"], "effective", "as the effective policy"),
    avoid(&["hear", "hears", "heard"], "observes, is notified", "as observers in Rust"),
    avoid(&["weigh", "weighs"], "measures, counts", "tokens are counted"),
    avoid(&["judge", "judges", "judged"], "decides, checks", "the engine decides"),
    avoid(&["fate", "fates"], "outcome", "as the outcome of a tool"),
    avoid(&["surgery"], "repair, splice", "as the history is repaired"),
    avoid(&["ear", "ears"], "observer, sink", "as a progress sink"),
    avoid(&["in earnest"], "without shadow", "the key is `shadow`"),
    avoid(&["in vain"], "without effect", "say what does not happen"),
    avoid(&["lesson", "lessons"], "observation", "as a token observation"),
    avoid(&["hardly mean"], "likely mistakes", "what a lint reports"),
    avoid(&["attempt product"], "retry amplification", "the term of SRE"),
    avoid(&["is no size"], "invalid size", "say what is wrong"),
    avoid(&["another model is asked"], "fallback to the next target", "the word of LiteLLM and LangChain"),
    avoid(&["wakes", "woken"], "ends its cooldown", "models have a cooldown"),
];

/// What is avoided in names of the library only: in prose these are words like others.
const IN_NAMES: &[Avoided] = &[
    avoid(&["told", "untold", "said"], "report, record, merge", "a function says what it does"),
    avoid(&["besides"], "without, other", "a preposition without its object"),
    avoid(&["nobody", "somebody"], "none, default, no-op", "an enum has a `None`"),
    avoid(&["wake", "rests", "resting"], "cooldown", "one word for one thing"),
];

/// Where a text is, and the text in small letters with single spaces between its words.
type Text = (String, String);

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Punctuation ends a phrase; marks of code and emphasis do not.
fn words(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_alphanumeric() || c == '\'' => plain.push(c.to_ascii_lowercase()),
            c if c.is_whitespace() || "_-`*".contains(c) => plain.push(' '),
            _ => plain.push_str(" . "),
        }
    }
    format!(" {} ", plain.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The words of a name: `WindowInForce` and `window_in_force` have three.
fn words_of_name(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() {
            text.push(' ');
        }
        text.push(c);
    }
    words(&text)
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|end| end == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// What others can name: public items and fields, and the variants of public enums.
fn public_names() -> Vec<Text> {
    let mut names = Vec::new();
    for path in files(&root().join("src"), "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let mut in_enum = false;
        for (number, line) in text.lines().enumerate() {
            if line == "}" {
                in_enum = false;
            }
            let name = public_name(line).or_else(|| variant(line).filter(|_| in_enum));
            if let Some(name) = name {
                names.push((format!("{}:{}: {name}", path.display(), number + 1), words_of_name(name)));
            }
            in_enum |= line.starts_with("pub enum ");
        }
    }
    names
}

fn public_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start().strip_prefix("pub ")?;
    for before in
        ["const ", "async ", "unsafe ", "fn ", "struct ", "enum ", "trait ", "type ", "static ", "mod "]
    {
        rest = rest.strip_prefix(before).unwrap_or(rest);
    }
    leading_name(rest).filter(|name| *name != "use")
}

fn variant(line: &str) -> Option<&str> {
    let inner = line.strip_prefix("    ")?;
    leading_name(inner).filter(|name| name.starts_with(char::is_uppercase))
}

fn leading_name(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).filter(|name| !name.is_empty())
}

/// The keys, the values of enums and the descriptions of the files that people write.
fn texts_of_schemas() -> Vec<Text> {
    let mut texts = Vec::new();
    for path in files(&root().join("schemas"), "json") {
        let schema: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let file = path.display().to_string();
        collect(&schema, &file, &mut texts);
    }
    texts
}

fn collect(schema: &Value, place: &str, texts: &mut Vec<Text>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                let place = format!("{place}/{key}");
                if place.ends_with(&format!("/properties/{key}")) {
                    texts.push((place.clone(), words(key)));
                }
                match value.as_str().filter(|_| ["description", "const", "title"].contains(&key.as_str())) {
                    Some(text) => texts.push((place, words(text))),
                    None => collect(value, &place, texts),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, place, texts)),
        _ => {}
    }
}

/// The prose of the pages: their paragraphs, without what commands print and without files. The page of conformance quotes the
/// documents of others, and names of tests.
fn prose() -> Vec<Text> {
    let mut pages = files(&root().join("docs"), "md");
    pages.retain(|page| !page.ends_with("conformance.md"));
    pages.push(root().join("README.md"));
    let mut texts = Vec::new();
    for path in pages {
        let text = fs::read_to_string(&path).unwrap();
        let (mut fenced, mut paragraph, mut first) = (false, String::new(), 1);
        for (number, line) in text.lines().chain([""]).enumerate() {
            let fence = line.trim_start().starts_with("```");
            if line.trim().is_empty() || fence {
                texts.push((format!("{}:{first}", path.display()), words(&paragraph)));
                paragraph.clear();
                first = number + 2;
            } else if !fenced {
                paragraph.push_str(line);
                paragraph.push(' ');
            }
            fenced ^= fence;
        }
    }
    texts
}

/// What the code says to people: its messages and helps, its docs and its comments, but not those of its tests.
fn texts_of_code() -> Vec<Text> {
    let folders = ["src", "macros/src"].map(|folder| files(&root().join(folder), "rs"));
    let of_tests = |path: &Path| path.components().any(|part| part.as_os_str() == "tests");
    let mut texts = Vec::new();
    for path in folders.concat().iter().filter(|path| !of_tests(path) && !path.ends_with("tests.rs")) {
        let text = fs::read_to_string(path).unwrap();
        let code = text.split_once("#[cfg(test)]\nmod tests {").map_or(&*text, |(code, _)| code);
        let (mut rest, mut line) = (code, 1);
        while let Some(at) = rest.find(['"', '/', '\'']) {
            line += lines(&rest[..at]);
            rest = &rest[at..];
            let (length, text) = text_at(rest, code[..code.len() - rest.len()].ends_with(['r', '#']));
            if !text.is_empty() {
                texts.push((format!("{}:{line}", path.display()), words(&text)));
            }
            line += lines(&rest[..length]);
            rest = &rest[length..];
        }
    }
    texts
}

fn lines(text: &str) -> usize {
    text.matches('\n').count()
}

/// The comment or string that the text begins with, and its length; a character is passed over.
fn text_at(text: &str, raw: bool) -> (usize, String) {
    if text.starts_with("//") {
        let comment = text.split_inclusive('\n').take_while(|line| line.trim_start().starts_with("//"));
        let length = comment.clone().map(str::len).sum();
        let words = comment.map(|line| line.trim().trim_start_matches(['/', '!']));
        return (length, words.collect::<Vec<_>>().join(" "));
    }
    let Some(inner) = text.strip_prefix('"') else {
        let is_quote = text.starts_with("'\"'") || text.starts_with("'/'") || text.starts_with("'\\''");
        return (if is_quote { text[1..].find('\'').unwrap() + 2 } else { 1 }, String::new());
    };
    let mut escaped = false;
    let end = inner.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped && !raw;
        ends
    });
    let end = end.unwrap_or(inner.len());
    ((end + 2).min(text.len()), inner[..end].replace("\\n", " ").replace('\\', ""))
}

fn found(texts: &[Text], table: &[Avoided]) -> Vec<String> {
    let mut found = Vec::new();
    for (place, text) in texts {
        for Avoided { forms, instead, why } in table {
            let form = forms.iter().find(|form| text.contains(&format!(" {form} ")));
            if let Some(form) = form {
                found.push(format!("{place}: `{form}`: write {instead} ({why})"));
            }
        }
    }
    found
}

#[test]
fn names_keys_and_pages_have_the_words_of_their_field() {
    let names = public_names();
    let (schemas, prose, code) = (texts_of_schemas(), prose(), texts_of_code());
    assert!(names.len() > 1500, "{} public names only", names.len());
    assert!(schemas.len() > 1500, "{} texts of schemas only", schemas.len());
    assert!(prose.len() > 1500, "{} paragraphs only", prose.len());
    assert!(code.len() > 10_000, "{} comments and messages only", code.len());
    let mut all = found(&names, IN_NAMES);
    for texts in [&names, &schemas, &prose, &code] {
        all.extend(found(texts, EVERYWHERE));
    }
    assert!(all.is_empty(), "{} words:\n{}", all.len(), all.join("\n"));
}

#[test]
fn a_word_is_found_in_names_and_in_prose() {
    let names =
        vec![("a".to_owned(), words_of_name("WindowInForce")), ("b".to_owned(), words_of_name("untold"))];
    assert_eq!(found(&names, EVERYWHERE).len(), 1);
    assert_eq!(found(&names, IN_NAMES).len(), 1);
    let prose = vec![
        ("c".to_owned(), words("The model is `told` of it: goes. On")),
        ("d".to_owned(), words("a year")),
    ];
    assert_eq!(found(&prose, EVERYWHERE).len(), 1);
    let (length, comment) = text_at("// It goes\n    // on.\nlet a = 1;", false);
    assert_eq!((length, comment.trim()), (22, "It goes  on."));
    assert_eq!(text_at("\"a \\\"b\\\" c\" + d", false), (11, "a \"b\" c".to_owned()));
    assert_eq!(text_at("'\"', \"a\"", false), (3, String::new()));
    assert_eq!(public_name("    pub const fn goes_on(self) -> bool {"), Some("goes_on"));
    assert_eq!(variant("    Nobody,"), Some("Nobody"));
}

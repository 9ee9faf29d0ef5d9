//! What is proved: statements of documents, in words, and what shows that they hold.

use std::collections::HashSet;

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::policy::decode::{Decode, NodeReader, OneOrMany, Spanned, choice_of, record};
use crate::text::Place;
use crate::text::yaml::YamlNode;
use crate::text::{Code, Diagnostic, Span};

/// The longest statement, in characters.
const LONGEST: usize = 300;
/// What the id of a document is made of.
const ID: &str = "^[a-z0-9][a-z0-9-]*$";

/// A statement of a document that is shown to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvedClaim {
    /// The id of the document.
    pub document: String,
    /// The statement.
    pub statement: String,
    /// Where it is claimed.
    pub place: Place,
}

/// A statement that a test of a program shows, because no case can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalProof {
    /// The statement.
    pub claim: ProvedClaim,
    /// The file that has the test, as it was opened.
    pub file: String,
    /// The name of the test.
    pub test: String,
}

/// A document whose statements are proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProofSource {
    /// Its id.
    pub document: String,
    /// What it is.
    pub about: String,
    /// Where that is written.
    pub place: Place,
}

record! {
    /// A statement that no case can show, and the test of a program that does.
    pub(crate) struct ElsewhereRule {
        /// The document.
        pub(crate) document: DocumentId,
        /// The statement.
        pub(crate) statement: Spanned<FittingWords>,
        /// The file that has the test; the path starts at this file's folder.
        /// Example: `../kill.rs`
        pub(crate) file: Spanned<String>,
        /// The name of the test, as it stands in the file.
        /// Example: `a_session_survives_a_kill_at_any_byte`
        pub(crate) test: Spanned<String>,
    }
}

record! {
    /// A statement of a document that nothing shows, because it does not hold here.
    pub(crate) struct UnmetRule {
        /// The document.
        pub(crate) document: DocumentId,
        /// The statement, as the document means it.
        pub(crate) statement: Spanned<FittingWords>,
        /// Whether no policy can say it, or what is there does otherwise.
        pub(crate) result: UnprovedClaim,
        /// Why.
        pub(crate) because: FittingWords,
    }
}

/// How a statement of a document is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnprovedClaim {
    /// What is there does otherwise.
    DoesNotHold,
    /// No policy can say it.
    NotExpressible,
}

choice_of! {
    /// How a statement of a document is not met.
    UnprovedClaim {
        /// What is there does otherwise.
        DoesNotHold = "does_not_hold",
        /// No policy can say it.
        NotExpressible = "not_expressible",
    }
}

/// A statement of a document that is known not to be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnmetClaim {
    /// The statement.
    pub claim: ProvedClaim,
    /// How it is not met.
    pub result: UnprovedClaim,
    /// Why.
    pub because: String,
}

/// The id of a document.
#[derive(Clone, Debug)]
pub(crate) struct DocumentId(pub(crate) String);

/// Some words that fit on a line.
#[derive(Clone, Debug)]
pub(crate) struct FittingWords(pub(crate) String);

/// A statement, or several.
#[derive(Clone, Debug)]
pub(crate) struct StatementList(pub(crate) Vec<Spanned<FittingWords>>);

/// Something for each of some documents, with the places of their ids.
#[derive(Clone, Debug)]
pub(crate) struct ByDocument<T>(pub(crate) Vec<(Spanned<String>, T)>);

impl DocumentId {
    fn check(id: &str, span: Span, reader: &mut NodeReader<'_>) -> Option<()> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if id.chars().all(fits) && !id.starts_with('-') && !id.is_empty() {
            return Some(());
        }
        let problem = Diagnostic::error(Code::BAD_VALUE, span, "this is not the id of a document");
        reader.report(problem.help("an id is made of small letters, digits and `-`: `shop-handbook`"));
        None
    }
}

impl Decode for DocumentId {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let id = String::decode(node, reader)?;
        Self::check(&id, node.span, reader).map(|()| Self(id))
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": ID, "examples": ["handbook"]})
    }
}

impl Decode for FittingWords {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let text = String::decode(node, reader)?;
        let text = text.trim();
        let problem = |code, message: String| Diagnostic::error(code, node.span, message);
        if text.is_empty() {
            reader.report(problem(Code::BAD_VALUE, "this says nothing".to_owned()).help("say it in words"));
        } else if text.contains(['\n', '\r']) {
            let problem = problem(Code::BAD_VALUE, "this is more than one line".to_owned());
            reader.report(problem.help("say it in one line, or make a list of several"));
        } else if text.chars().count() > LONGEST {
            let problem = problem(Code::OUT_OF_RANGE, format!("this has more than {LONGEST} characters"));
            reader.report(problem.help("say it in fewer words, or make a list of several"));
        } else {
            return Some(Self(text.to_owned()));
        }
        None
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "minLength": 1, "maxLength": LONGEST,
            "examples": ["a tool that failed three times is not run a fourth time"],
        })
    }
}

impl Decode for StatementList {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let statements = <OneOrMany<Spanned<FittingWords>>>::decode(node, reader)?.0;
        if statements.is_empty() {
            let problem = Diagnostic::error(Code::MISSING_FIELD, node.span, "there are no statements");
            reader.report(problem.help("write one, or remove the document"));
        }
        let mut seen = HashSet::new();
        for statement in statements.iter().filter(|statement| !seen.insert(statement.value.0.as_str())) {
            let problem = Diagnostic::error(Code::DUPLICATE_KEY, statement.span, "this is said already");
            reader.report(problem.help("remove it"));
        }
        Some(Self(statements))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let line = FittingWords::schema(generator);
        json_schema!({"anyOf": [line, {"type": "array", "items": line, "minItems": 1}]})
    }
}

impl<T: Decode> Decode for ByDocument<T> {
    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let entries = reader.mapping(node)?;
        if entries.is_empty() {
            let problem = Diagnostic::error(Code::MISSING_FIELD, node.span, "this names no document");
            reader.report(problem.help("name one, or remove the key"));
        }
        // Every entry is read before any failure counts, so that all mistakes are reported.
        let decoded: Vec<_> = entries
            .iter()
            .map(|(key, value)| {
                reader.check_name(key);
                let id = DocumentId::check(&key.name, key.span, reader);
                let value = T::decode(value, reader)?;
                id.map(|()| (Spanned { value: key.name.to_string(), span: key.span }, value))
            })
            .collect();
        decoded.into_iter().collect::<Option<_>>().map(Self)
    }

    fn absent() -> Option<Self> {
        Some(Self(Vec::new()))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let values = T::schema(generator);
        json_schema!({
            "type": "object", "propertyNames": {"pattern": ID}, "additionalProperties": values, "minProperties": 1,
        })
    }
}

//! Mappings distinguished by a tag, where each form is declared in a place of its own.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::{Decode, Fields, NodeReader, ObjectSchema, join_docs};
use crate::text::yaml::{YamlKey, YamlNode};

/// One form of a mapping: the word of its tag, and the record that has its fields.
pub(crate) struct Form<T> {
    word: &'static str,
    fields: &'static [&'static str],
    decode: DecodeForm<T>,
    schema: fn(&mut SchemaGenerator, &str, &str) -> Schema,
}

type DecodeForm<T> = fn(&YamlNode, &[(YamlKey, YamlNode)], &mut NodeReader<'_>, &str) -> Option<T>;

impl<T> Form<T> {
    /// The form that has the fields of `R`, of which `M` is made.
    pub(crate) const fn of<R: Fields + Into<M>, M: Into<T>>(word: &'static str) -> Self {
        Self { word, fields: R::FIELDS, decode: decode_form::<R, M, T>, schema: form_schema::<R> }
    }

    /// Reads a mapping in the form that its tag names.
    pub(crate) fn decode(
        forms: &[Self],
        tag: &str,
        node: &YamlNode,
        reader: &mut NodeReader<'_>,
    ) -> Option<T> {
        let known: Vec<_> = forms.iter().map(|form| (form.word, form.fields)).collect();
        let entries = reader.form(node, tag, &known)?;
        let fields: Vec<&str> =
            core::iter::once(tag).chain(forms.iter().flat_map(|form| form.fields).copied()).collect();
        let (key, named) = reader.tag(node, entries, &fields, &known)?;
        let word: String = Decode::decode(named, reader)?;
        let words: Vec<&str> = forms.iter().map(|form| form.word).collect();
        let word = reader.choice(named.span, &word, &words)?;
        let form = forms.iter().find(|form| form.word == word)?;
        (form.decode)(node, entries, reader, &key.name)
    }

    /// The schema of such a mapping.
    pub(crate) fn schema(
        forms: &[Self],
        tag: &str,
        docs: &[&str],
        generator: &mut SchemaGenerator,
    ) -> Schema {
        let forms: Vec<Value> =
            forms.iter().map(|form| (form.schema)(generator, tag, form.word).to_value()).collect();
        json_schema!({"description": join_docs(docs), "oneOf": forms})
    }
}

fn decode_form<R: Fields + Into<M>, M: Into<T>, T>(
    node: &YamlNode,
    entries: &[(YamlKey, YamlNode)],
    reader: &mut NodeReader<'_>,
    tag: &str,
) -> Option<T> {
    R::decode_fields(node, entries, reader, tag).map(|fields| fields.into().into())
}

fn form_schema<R: Fields>(generator: &mut SchemaGenerator, tag: &str, word: &str) -> Schema {
    let mut object = ObjectSchema::new(R::DOCS);
    object.tag(tag, word);
    R::describe_fields(&mut object, generator);
    object.finish()
}

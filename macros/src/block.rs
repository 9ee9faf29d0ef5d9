//! A block: the table of its keys, an empty one, and the walks over its fields.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, GenericArgument, Ident, PathArguments, Result, Type};

use crate::options::{AttributeOptions, docs};

/// What a field holds.
enum FieldContent<'f> {
    /// `F::Of<T>`: the value of a key, as `T` is written.
    Key(&'f Type),
    /// `F::In<B<F>>`: a block within this one.
    Block(&'f Ident),
}

/// The code for each field.
#[derive(Default)]
struct FieldCode {
    keys: Vec<TokenStream>,
    names: Vec<String>,
    make: Vec<TokenStream>,
    map: Vec<TokenStream>,
    fold: Vec<TokenStream>,
    absent: Vec<TokenStream>,
    read: Vec<TokenStream>,
    schema: Vec<TokenStream>,
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let (Data::Struct(data), span) = (&input.data, input.ident.span()) else {
        return Err(Error::new(input.ident.span(), "a block is a struct"));
    };
    let Fields::Named(fields) = &data.fields else {
        return Err(Error::new(span, "a block has named fields"));
    };
    let (name, form) = (&input.ident, form(input)?);
    let options = AttributeOptions::read(&input.attrs, "block", &["fold"])?;
    let block_docs = docs(&input.attrs, name)?;
    let mut parts = FieldCode::default();
    for field in &fields.named {
        add(&mut parts, field, form)?;
    }
    let FieldCode { keys, names, make, map, fold, absent, read, schema } = parts;
    let (count, text) = (keys.len(), name.to_string());
    let fold_block = options
        .get("fold")
        .map_or_else(|| quote!(merged.fold_fields(layer, at)), |by_hand| quote!(#by_hand(merged, layer, at)));
    Ok(quote! {
        const _: () = {
            use crate::policy::decode::{Decode, ObjectSchema, Patch, NodeReader};
            use crate::policy::form::{
                Block, BlockDocument, Document, Form, Make, Map, Merged, NoLayer, OptionalBlock, decode_block, read_field,
            };
            use crate::policy::key::{Key, Looser};
            use crate::policy::merge::LayerPosition;
            use crate::text::yaml::YamlNode;

            static KEYS: [Key; #count] = [#(#keys),*];

            impl<#form: Form> Block for #name<#form> {
                type Form = #form;
                type As<G: Form> = #name<G>;

                fn make(maker: &mut impl Make<#form>) -> Self {
                    Self { #(#make),* }
                }

                fn map<G: Form>(&self, map: &mut impl Map<#form, G>) -> Option<#name<G>> {
                    Some(#name { #(#map),* })
                }

                fn fold(merged: &mut #name<Merged>, layer: &#name<Document>, at: &LayerPosition) {
                    #fold_block
                }
            }

            impl #name<Document> {
                const EMPTY: Self = Self { #(#absent),* };
            }

            impl BlockDocument for #name<Document> {
                const ABSENT: &'static Self = &Self::EMPTY;
                const FIELDS: &'static [&'static str] = &[#(#names),*];

                fn read(&mut self, name: &str, node: &YamlNode, reader: &mut NodeReader<'_>) {
                    match name {
                        #(#read)*
                        _ => {}
                    }
                }

                fn describe(object: &mut ObjectSchema, generator: &mut schemars::SchemaGenerator) {
                    #(#schema)*
                }
            }

            impl Decode for #name<Document> {
                const NAME: Option<&'static str> = Some(#text);
                const PART: bool = true;

                fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
                    decode_block(node, reader)
                }

                fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                    let mut object = ObjectSchema::new(&[#(#block_docs),*]);
                    Self::describe(&mut object, generator);
                    object.finish()
                }
            }

            impl Default for #name<Merged> {
                fn default() -> Self {
                    Self::make(&mut NoLayer)
                }
            }

            impl #name<Merged> {
                /// Merges the keys of one more layer.
                pub(crate) fn fold_fields(&mut self, layer: &#name<Document>, at: &LayerPosition) {
                    #(#fold;)*
                }
            }
        };
    })
}

fn add(parts: &mut FieldCode, field: &Field, form: &Ident) -> Result<()> {
    let Some(ident) = &field.ident else { return Ok(()) };
    let text = ident.to_string().trim_start_matches("r#").to_owned();
    let docs = docs(&field.attrs, ident)?;
    match holds(&field.ty, form)? {
        FieldContent::Block(block) => {
            parts.make.push(quote!(#ident: maker.block::<#block<#form>>(#text)));
            parts.map.push(quote!(#ident: map.block::<#block<#form>>(#text, &self.#ident)?));
            parts.fold.push(quote! {
                if let Some(layer) = layer.#ident.written() {
                    <#block<Merged> as Block>::fold(&mut self.#ident, layer, at)
                }
            });
            parts.absent.push(quote!(#ident: OptionalBlock::ABSENT));
            parts.schema.push(quote! {
                object.field::<OptionalBlock<#block<Document>>>(generator, #text, &[#(#docs),*], false);
            });
        }
        FieldContent::Key(leaf) => {
            let number = parts.keys.len();
            parts.keys.push(key(field, &text, leaf)?);
            parts.make.push(quote!(#ident: maker.key::<#leaf>(&KEYS[#number])));
            parts.map.push(quote!(#ident: map.key::<#leaf>(&KEYS[#number], &self.#ident)?));
            parts.fold.push(quote!(self.#ident.fold(&layer.#ident, at)));
            parts.absent.push(quote!(#ident: Patch::Absent));
            parts.schema.push(quote! {
                object.field::<Patch<#leaf>>(generator, #text, &[#(#docs),*], false);
            });
        }
    }
    parts.read.push(quote!(#text => self.#ident = read_field(name, node, reader),));
    parts.names.push(text);
    Ok(())
}

fn key(field: &Field, text: &str, leaf: &Type) -> Result<TokenStream> {
    let options = AttributeOptions::read(&field.attrs, "key", &["looser"])?;
    let looser = options.get("looser").map_or_else(|| quote!(None), |looser| quote!(Some(Looser::#looser)));
    let key = quote! {
        Key { name: #text, looser: #looser }
    };
    // What the compiler finds wrong with the type is shown at the field.
    Ok(quote_spanned!(leaf.span() => Key::checked::<#leaf>(#key)))
}

/// The parameter that stands for the form.
fn form(input: &DeriveInput) -> Result<&Ident> {
    let message = "a block has one parameter, its form: `struct RetryPolicy<F: Form = Effective>`";
    let mut parameters = input.generics.type_params();
    parameters.next().map(|form| &form.ident).ok_or_else(|| Error::new(input.ident.span(), message))
}

fn holds<'f>(ty: &'f Type, form: &Ident) -> Result<FieldContent<'f>> {
    let message =
        || format!("write `{form}::Of<Type>` for a key, or `{form}::In<Block<{form}>>` for a block");
    let error = || Error::new(ty.span(), message());
    let Type::Path(path) = ty else { return Err(error()) };
    let mut segments = path.path.segments.iter();
    let (Some(first), Some(last), None) = (segments.next(), segments.next(), segments.next()) else {
        return Err(error());
    };
    let inner = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.first(),
        _ => None,
    };
    match inner {
        Some(GenericArgument::Type(leaf)) if first.ident == *form && last.ident == "Of" => {
            Ok(FieldContent::Key(leaf))
        }
        Some(GenericArgument::Type(Type::Path(block))) if first.ident == *form && last.ident == "In" => {
            let name = block.path.segments.last().map(|segment| &segment.ident);
            name.map(FieldContent::Block).ok_or_else(error)
        }
        _ => Err(error()),
    }
}

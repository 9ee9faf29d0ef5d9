//! `#[key(looser = More)]` as options, and doc comments as texts.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, Ident, Lit, LitStr, Meta, Result, Token};

/// The options of one attribute.
pub(crate) struct AttributeOptions {
    found: Vec<(Ident, TokenStream)>,
}

impl AttributeOptions {
    /// Reads the attribute of that name. Options that are not `known` are errors.
    pub(crate) fn read(attributes: &[Attribute], name: &str, known: &[&str]) -> Result<Self> {
        let mut options = Self { found: Vec::new() };
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(name)) {
            if let Meta::Path(_) = attribute.meta {
                continue;
            }
            let read = attribute.parse_args_with(|input: ParseStream<'_>| {
                Punctuated::<_, Token![,]>::parse_terminated_with(input, option)
            })?;
            for (ident, value) in read {
                if !known.contains(&ident.to_string().as_str()) {
                    let message = format!("unknown option `{ident}`; there are {}", known.join(", "));
                    return Err(Error::new(ident.span(), message));
                }
                options.found.push((ident, value));
            }
        }
        Ok(options)
    }

    /// The tokens of an option.
    pub(crate) fn get(&self, name: &str) -> Option<&TokenStream> {
        self.found.iter().find(|(ident, _)| ident == name).map(|(_, value)| value)
    }
}

/// The lines of a doc comment. Without one, an error: it is what users read about the key.
pub(crate) fn docs(attributes: &[Attribute], of: &Ident) -> Result<Vec<LitStr>> {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Expr::Lit(literal) = &attribute.meta.require_name_value()?.value
            && let Lit::Str(line) = &literal.lit
        {
            lines.push(line.clone());
        }
    }
    if lines.is_empty() {
        return Err(Error::new(of.span(), format!("say in a doc comment what `{of}` means")));
    }
    Ok(lines)
}

/// `name = tokens up to the next comma`. The compiler reads the tokens where they are used.
fn option(input: ParseStream<'_>) -> Result<(Ident, TokenStream)> {
    let name = Ident::parse_any(input)?;
    input.parse::<Token![=]>()?;
    let mut value = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?.to_tokens(&mut value);
    }
    if value.is_empty() { Err(input.error(format!("give `{name}` a value"))) } else { Ok((name, value)) }
}

//! The names of the variants of an enum, as machines write them.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Result};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let (name, vis) = (&input.ident, &input.vis);
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(name.span(), "only the variants of an enum have names"));
    };
    let arms = data.variants.iter().map(|variant| {
        let (ident, text) = (&variant.ident, snake_case(&variant.ident.to_string()));
        match variant.fields {
            Fields::Unit => quote!(Self::#ident => #text),
            Fields::Named(_) | Fields::Unnamed(_) => quote!(Self::#ident { .. } => #text),
        }
    });
    // An enum without data is copied.
    let plain = data.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit));
    let receiver = if plain { quote!(self) } else { quote!(&self) };
    Ok(quote! {
        impl #name {
            /// Its name, as it is written in files and records.
            #vis const fn name(#receiver) -> &'static str {
                match self { #(#arms),* }
            }
        }
    })
}

/// `ReadOnly` as `read_only`.
fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

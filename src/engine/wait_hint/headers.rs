//! The headers of a response, independent of the HTTP client.

/// The maximum number of headers kept, and the maximum length of a value in bytes.
// Headers are kept with the failure: a hostile server must not fill the memory with them.
const MOST: usize = 256;
const LONGEST: usize = 1024;

/// The headers of a response. Names are in lower case.
#[derive(Clone, Debug, Default)]
pub struct ReplyHeaders(Vec<(String, String)>);

impl ReplyHeaders {
    /// Takes the headers of a response. Of a value that is too long the start is kept.
    pub fn new<'h>(headers: impl IntoIterator<Item = (&'h str, &'h [u8])>) -> Self {
        let text = |value: &'h [u8]| {
            let value = value.get(..LONGEST).unwrap_or(value);
            String::from_utf8_lossy(value).trim().to_owned()
        };
        let kept = headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), text(value)));
        Self(kept.take(MOST).collect())
    }

    /// The first value of a header; the name is in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of a header; the name is in lower case.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Bedrock's error class: `ThrottlingException:http://...`.
    pub(super) fn error_type(&self) -> Option<String> {
        let told = self.get("x-amzn-errortype")?;
        // The protocol (Smithy, `restJson1`) allows `:` with an address after the class, and `#` with a namespace
        // before it.
        let kind = told.split(':').next().unwrap_or_default().trim();
        let kind = kind.rsplit_once('#').map_or(kind, |(_, kind)| kind);
        (!kind.is_empty()).then(|| kind.to_owned())
    }
}

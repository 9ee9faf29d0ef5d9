//! Results that are too large for a model: read back piece by piece.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use serde_json::{Value, json};

use super::file_error;
use super::port::{BoxFuture, Tool, ToolInput};
use super::result_files::ResultFiles;
use super::tool::{ToolError, Tools};
use crate::engine::{ResultSpill, ToolOutcome, ToolSpec};
use crate::policy::{Effect, OverMax, Policy};

/// The most bytes that are read back at once.
const MOST: u64 = 16_000;
/// How many are, if nobody says.
const USUAL: u64 = 8_000;
/// No character has more bytes.
const CHAR_BYTES: u64 = 4;

impl ResultFiles {
    /// Why nothing can be read under a handle.
    fn missing(&self, handle: &str) -> ToolError {
        let why = if self.has_file(handle) {
            format!("what is kept under the handle `{handle}` is no text")
        } else {
            format!("nothing is kept under the handle `{handle}`")
        };
        ToolError::invalid_args(why)
    }

    /// A piece of what is kept: the text, where it ends, and how large all of it is, in bytes. Blocks.
    fn read(&self, handle: &str, offset: u64, length: u64) -> Result<(String, u64, u64), ToolError> {
        let file = self.path(handle).and_then(|path| File::open(path).ok());
        let mut file = file.ok_or_else(|| self.missing(handle))?;
        let failed = |error: io::Error| {
            ToolError::failed(format!("the result cannot be read: {}", file_error(&error)))
        };
        let of = file.metadata().map_err(failed)?.len();
        if offset >= of {
            return Err(ToolError::invalid_args(format!("the result has {of} bytes: `offset` must be less")));
        }
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(length.clamp(CHAR_BYTES, MOST)).read_to_end(&mut bytes).map_err(failed)?;
        // An offset in the middle of a character begins at the next.
        let begin = bytes.iter().position(|byte| byte & 0xc0 != 0x80).unwrap_or(bytes.len());
        let bytes = &bytes[begin..];
        let whole = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        let read = u64::try_from(begin + whole.len()).unwrap_or(u64::MAX);
        Ok((whole.to_owned(), offset.saturating_add(read), of))
    }
}

/// The tool by which a model reads what is kept.
pub(super) struct ReadResult {
    spec: ToolSpec,
    results: Arc<ResultFiles>,
}

impl ReadResult {
    pub(super) fn new(name: &str, results: Arc<ResultFiles>) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "The handle that the notice names, for example r1-0"},
                "offset": {"type": "integer", "minimum": 0, "description": "The byte to begin at; 0 if left out"},
                "length": {
                    "type": "integer", "minimum": 1, "maximum": MOST,
                    "description": format!("How many bytes to read; {USUAL} if left out"),
                },
            },
            "required": ["handle"],
            "additionalProperties": false,
        });
        let description = "Reads a piece of a result that was too large to be shown whole. Answers with the text, where it \
                           begins (`from`) and ends (`to`), and how large all of it is (`of`), in bytes. Continue at `to`.";
        let spec = ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters,
            effect: Some(Effect::ReadOnly),
        };
        Self { spec, results }
    }
}

impl Tool for ReadResult {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, input: ToolInput<'a>) -> BoxFuture<'a, ToolOutcome> {
        let number = |name, usual| input.arguments.get(name).and_then(Value::as_u64).unwrap_or(usual);
        let (offset, length) = (number("offset", 0), number("length", USUAL));
        let handle = input.arguments.get("handle").and_then(Value::as_str).unwrap_or_default().to_owned();
        let results = Arc::clone(&self.results);
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || results.read(&handle, offset, length)).await;
            let read = read.unwrap_or_else(|_| Err(ToolError::failed("reading was broken off")));
            read.map(|(text, to, of)| {
                let from = to.saturating_sub(u64::try_from(text.len()).unwrap_or_default());
                json!({"text": text, "from": from, "to": to, "of": of})
            })
            .into()
        })
    }
}

/// The tools, and those by which a model reads results that the policy has kept.
pub(super) fn with_readers(tools: &Tools, policy: &Policy, results: &Arc<ResultFiles>) -> Tools {
    let mut all = tools.clone();
    for tool in tools.iter() {
        let rules = &policy.tool(&tool.spec().name).result;
        let reader = &rules.reader.value;
        if rules.overflow.value == OverMax::Spill && all.get(reader).is_none() {
            all.push(Arc::new(ReadResult::new(reader, Arc::clone(results))));
        }
    }
    all
}

/// Keeps a result that is too large. Returns it, and its handle if it is kept.
pub(super) async fn kept(
    results: Arc<ResultFiles>,
    outcome: ToolOutcome,
    spill: ResultSpill,
) -> (ToolOutcome, Option<String>) {
    let ToolOutcome::Ok { data } = outcome else { return (outcome, None) };
    let data = Arc::new(data);
    let (shared, asked) = (Arc::clone(&data), spill.clone());
    let done = tokio::task::spawn_blocking(move || results.keep(&shared, &asked)).await;
    let handle = match done.unwrap_or_else(|broken| Err(io::Error::other(broken))) {
        Ok(true) => Some(spill.handle),
        Ok(false) => None,
        Err(error) => {
            tracing::warn!(handle = spill.handle, error = %error, "result not kept");
            None
        }
    };
    (ToolOutcome::Ok { data: Arc::unwrap_or_clone(data) }, handle)
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::host::ProgressReporter;
    use crate::policy::{SizeUnit, TextSize};

    fn spill(handle: &str, count: u64) -> ResultSpill {
        ResultSpill { handle: handle.into(), over: TextSize { count, unit: SizeUnit::Bytes } }
    }

    #[test]
    fn what_is_kept_is_read_back_piece_by_piece() {
        let results = ResultFiles::new(None);
        let text = "aä€𝄞".repeat(1000);
        assert!(results.keep(&json!(text), &spill("r1-0", 100)).unwrap());
        let (mut read, mut at) = (String::new(), 0);
        while at < text.len() as u64 {
            let (piece, to, of) = results.read("r1-0", at, 7).unwrap();
            assert_eq!(of, text.len() as u64);
            assert!(to > at && piece.len() <= 7);
            read.push_str(&piece);
            at = to;
        }
        assert_eq!(read, text);
    }

    #[test]
    fn an_offset_within_a_character_begins_at_the_next() {
        let results = ResultFiles::new(None);
        results.keep(&json!("€€"), &spill("r1-0", 1)).unwrap();
        assert_eq!(results.read("r1-0", 1, 100).unwrap().0, "€");
    }

    #[tokio::test]
    async fn a_model_is_told_where_the_text_begins_that_it_has_read() {
        let results = ResultFiles::new(None);
        results.keep(&json!("€€"), &spill("r1-0", 1)).unwrap();
        let reader = ReadResult::new("read_result", Arc::new(results));
        let arguments = json!({"handle": "r1-0", "offset": 1});
        let input = ToolInput {
            arguments: &arguments,
            attempt: 1,
            idempotency_key: "key",
            timeout: None,
            cancel: CancellationToken::new(),
            aside: ProgressReporter::default(),
        };
        let ToolOutcome::Ok { data } = reader.run(input).await else { panic!("it is read") };
        assert_eq!(data, json!({"text": "€", "from": 3, "to": 6, "of": 6}));
    }

    #[test]
    fn data_is_kept_as_json() {
        let results = ResultFiles::new(None);
        results.keep(&json!({"a": [1, "x"]}), &spill("r1-0", 1)).unwrap();
        assert_eq!(results.read("r1-0", 0, 100).unwrap().0, r#"{"a":[1,"x"]}"#);
    }

    #[test]
    fn a_result_that_is_small_enough_is_not_kept() {
        let results = ResultFiles::new(None);
        assert!(!results.keep(&json!("four"), &spill("r1-0", 4)).unwrap());
        assert!(results.read("r1-0", 0, 100).is_err());
    }

    #[test]
    fn a_handle_does_not_lead_out_of_the_folder() {
        let results = ResultFiles::new(Some("/".into()));
        for handle in ["", "../etc/passwd", "etc/passwd", "a.b", "r1\0", &"x".repeat(65)] {
            let error = results.read(handle, 0, 10).unwrap_err();
            assert!(error.to_string().contains("nothing is kept"), "{handle}");
        }
    }

    #[test]
    fn what_is_beyond_the_end_is_told_with_the_size() {
        let results = ResultFiles::new(None);
        results.keep(&json!("0123456789"), &spill("r1-0", 1)).unwrap();
        let error = results.read("r1-0", 10, 10).unwrap_err();
        assert_eq!(error.to_string(), "invalid_args: the result has 10 bytes: `offset` must be less");
    }
}

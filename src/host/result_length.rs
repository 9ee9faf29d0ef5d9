//! How long results of tools are, without a copy of them.

use std::io::{self, Write};

use serde_json::Value;

/// The bytes of a result: of a text as it is, of other data as JSON.
pub(super) fn result_length(data: &Value) -> usize {
    match data {
        Value::String(text) => text.len(),
        data => json_length(data),
    }
}

/// The bytes of a value as JSON.
pub(super) fn json_length(value: &Value) -> usize {
    #[cfg(test)]
    crate::counted::count(crate::counted::Walk::Measure);
    let mut length = JsonLength(0);
    // Counting does not fail.
    let _ = serde_json::to_writer(&mut length, value);
    length.0
}

struct JsonLength(usize);

impl Write for JsonLength {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! JSON as models write it when they write it wrong, for the benches beside this file.

/// Arguments of about `size` bytes with a bit of everything wrong.
pub(crate) fn arguments(size: usize) -> String {
    let item = "{'path': \"C:\\Users\\x\", name: \"a \"quoted\" word and a text of usual length, with\nlines\", \
                \"done\": True, \"tags\": [1, 2, 3,], /* more */},\n";
    let items = item.repeat((size / item.len()).max(1));
    format!("Here it is:\n```json\n{{\"items\": [{items}]}}\n```\n")
}

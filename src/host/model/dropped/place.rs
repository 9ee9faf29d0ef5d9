//! Places in a body, by the names that lead there.

use serde_json::{Map, Value};

/// What is at that place.
pub(in crate::host::model) fn at<'f>(fields: &'f Map<String, Value>, place: &[&str]) -> Option<&'f Value> {
    let (first, rest) = place.split_first()?;
    rest.iter().try_fold(fields.get(*first)?, |value, name| value.get(name))
}

/// The same, to change it.
pub(super) fn at_mut<'f>(fields: &'f mut Map<String, Value>, place: &[&str]) -> Option<&'f mut Value> {
    let (first, rest) = place.split_first()?;
    rest.iter().try_fold(fields.get_mut(*first)?, |value, name| value.get_mut(name))
}

/// Takes out what is at that place.
pub(in crate::host::model) fn remove<S: AsRef<str>>(fields: &mut Map<String, Value>, place: &[S]) {
    match place {
        [] => {}
        [name] => drop(fields.shift_remove(name.as_ref())),
        [name, rest @ ..] => {
            let Some(Value::Object(inner)) = fields.get_mut(name.as_ref()) else { return };
            remove(inner, rest);
            // A mapping that says nothing more goes with it.
            if inner.is_empty() {
                fields.shift_remove(name.as_ref());
            }
        }
    }
}

//! The requests that go one way and have no answer yet. Each is sent under a number of its own, so that those of a client, of
//! a server and of the relay never meet.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// The most requests of one side that the other has not answered.
const MOST_OPEN: usize = 10_000;

/// Requests without an answer.
#[derive(Debug)]
pub(super) struct RequestTable<T> {
    last: u64,
    open: BTreeMap<u64, T>,
    closed: bool,
}

impl<T> Default for RequestTable<T> {
    fn default() -> Self {
        Self { last: 0, open: BTreeMap::new(), closed: false }
    }
}

impl<T> RequestTable<T> {
    /// Takes note of a request, and gives the number it is sent under; `None`: nobody answers any more, or
    /// too many have no answer yet.
    pub(super) fn open(&mut self, request: T) -> Option<u64> {
        if self.closed || self.open.len() >= MOST_OPEN {
            return None;
        }
        self.last = self.last.saturating_add(1);
        self.open.insert(self.last, request);
        Some(self.last)
    }

    /// The number that the next request is sent under.
    pub(super) const fn next_number(&self) -> u64 {
        self.last.saturating_add(1)
    }

    /// The request of that number, if it has no answer.
    pub(super) fn get(&self, number: u64) -> Option<&T> {
        self.open.get(&number)
    }

    /// The request that an answer is to.
    pub(super) fn answered(&mut self, id: &RawValue) -> Option<T> {
        self.remove(id.get().parse().ok()?)
    }

    /// The request of that number is not waited for any more.
    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        self.open.remove(&number)
    }

    /// The only request that is not answered, if there is one only.
    pub(super) fn remove_only(&mut self) -> Option<(u64, T)> {
        if self.open.len() == 1 { self.open.pop_first() } else { None }
    }

    /// The number of the first request of that kind.
    pub(super) fn number_of(&self, is_it: impl Fn(&T) -> bool) -> Option<u64> {
        self.open.iter().find(|(_, request)| is_it(request)).map(|(number, _)| *number)
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// No request is answered any more: these were not.
    pub(super) fn close(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.closed = true;
        core::mem::take(&mut self.open).into_values()
    }

    /// Those of one kind are not answered any more.
    pub(super) fn remove_all(&mut self, are: impl Fn(&T) -> bool) -> Vec<(u64, T)> {
        let numbers: Vec<u64> =
            self.open.iter().filter(|(_, request)| are(request)).map(|(number, _)| *number).collect();
        numbers.into_iter().filter_map(|number| Some((number, self.open.remove(&number)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn an_answer_finds_its_request_once() {
        let mut table = RequestTable::default();
        assert_eq!((table.open("a"), table.open("b")), (Some(1), Some(2)));
        assert_eq!(table.number_of(|request| *request == "b"), Some(2));
        assert_eq!(table.answered(&raw("2")), Some("b"));
        for id in ["2", "3", "\"1\"", "null", "1.0", "-1"] {
            assert_eq!(table.answered(&raw(id)), None, "{id}");
        }
        assert_eq!(table.close().collect::<Vec<_>>(), ["a"]);
        assert_eq!(table.open("c"), None, "nobody would answer it");
    }
}

//! What happened in a case, for people: one line for each thing that matters, with the rules that decided below.

use serde::de::DeserializeOwned;

use super::record::{CaseRecord, RecordedMoment};
use crate::engine::{Directive, Event, Narrator, Prominence};
use crate::time::Nanos;

/// One line of a timeline: what happened or was decided, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineLine {
    /// From the start of the case.
    pub at: Nanos,
    /// What happened.
    pub text: String,
    /// The rules that decided it, each with its place.
    pub why: Vec<String>,
}

/// The timeline of a case.
pub(crate) fn timeline(record: &CaseRecord) -> Vec<TimelineLine> {
    let mut narrator = Narrator::default();
    record.moments.iter().filter_map(|moment| line(&mut narrator, moment)).collect()
}

fn line(narrator: &mut Narrator, moment: &RecordedMoment) -> Option<TimelineLine> {
    let at = moment.at;
    let told = if moment.directive {
        narrator.directive(&read::<Directive>(moment)?)
    } else {
        let Some(event) = read::<Event>(moment) else {
            // It is no event for the interpreter.
            let seq = moment.json.get("seq")?;
            return Some(TimelineLine { at, text: format!("resumed after event {seq}"), why: Vec::new() });
        };
        narrator.any_event(&event)
    };
    let is_told = told.prominence >= Prominence::Detail;
    is_told.then(|| TimelineLine { at, text: told.to_string(), why: told.because })
}

/// What hosts saw.
fn read<T: DeserializeOwned>(moment: &RecordedMoment) -> Option<T> {
    serde_json::from_value(moment.json.clone()).ok()
}

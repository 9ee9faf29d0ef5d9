//! What a guard reads of directives: few of them, and few of their fields. To make all of them values of Python costs more than
//! to decide them.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use unfazed::engine::{Directive, DirectiveKind, Directives, Note, ProposalRef, Work};

use crate::convert::given;

/// The directives as dicts: all of them whole if decisions are looked at `closely`, else those that guards and their log read.
pub(crate) fn read_by_guards<'py>(
    py: Python<'py>,
    directives: &Directives,
    closely: bool,
) -> PyResult<Bound<'py, PyList>> {
    let read = PyList::empty(py);
    for directive in &directives.0 {
        if closely {
            read.append(given(py, directive)?)?;
        } else if is_read(directive) {
            read.append(brief(py, directive)?)?;
        }
    }
    Ok(read)
}

/// Whether a channel, or a log that is not read closely, has a use for it.
fn is_read(directive: &Directive) -> bool {
    match &directive.order {
        DirectiveKind::Work(_) => true,
        DirectiveKind::Note(note) => match note {
            Note::ToolEnded { error_type, .. } => error_type.is_some(),
            Note::Append { .. }
            | Note::FinalTurn { .. }
            | Note::Refused { .. }
            | Note::TurnRetry(_)
            | Note::LoopGuard(_)
            | Note::Exhausted { .. }
            | Note::OutputAccepted { .. }
            | Note::Dropped { .. }
            | Note::Settled(_)
            | Note::ProposalRefused { .. }
            | Note::Warning { .. }
            | Note::Finish { .. } => true,
            _ => false,
        },
    }
}

fn brief<'py>(py: Python<'py>, directive: &Directive) -> PyResult<Bound<'py, PyAny>> {
    let Directive { order, because, of } = directive;
    let read = given(py, order)?;
    let fields = read.cast::<PyDict>()?;
    // Nobody is shown the reasons of what takes its course.
    let is_ordinary = match order {
        DirectiveKind::Work(work) => !matches!(work, Work::Wait(_)),
        DirectiveKind::Note(note) => {
            matches!(note, Note::Append { .. } | Note::Settled(_) | Note::Dropped { .. })
        }
    };
    if !because.is_empty() && !is_ordinary {
        fields.set_item(intern!(py, "because"), given(py, because)?)?;
    }
    if let Some(ProposalRef { proposal, call }) = of {
        let of = PyDict::new(py);
        of.set_item(intern!(py, "proposal"), proposal.0)?;
        of.set_item(intern!(py, "call"), call)?;
        fields.set_item(intern!(py, "of"), of)?;
    }
    Ok(read)
}

//! The report of a guarded run.

use core::fmt;

use serde_json::Value;

use super::{CallRefused, Guard};
use crate::engine::{DirectiveKind, Event, Note, PlannerDecision, ProposalResult, Work};
use crate::host::ProposalError;
use crate::policy::ErrorClass;
use crate::session::RetryExhausted;

/// A report that was not accepted.
#[derive(Debug)]
#[non_exhaustive]
pub enum OutputError {
    /// It does not hold: tell the model what is wrong with it, and let it try again.
    Refused(Box<CallRefused>),
    /// It does not hold, and no further attempt is asked for.
    Exhausted(Box<RetryExhausted>),
    /// The run takes no report.
    Run(Box<ProposalError>),
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Exhausted(exhausted) => exhausted.fmt(f),
            Self::Run(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OutputError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(_) | Self::Exhausted(_) => None,
            Self::Run(error) => error.source(),
        }
    }
}

impl From<ProposalError> for OutputError {
    fn from(error: ProposalError) -> Self {
        Self::Run(Box::new(error))
    }
}

impl Guard {
    /// Delivers the report as the model wrote it: JSON that is broken is repaired, and it is held against `output` of the policy.
    /// Once it is accepted, the run ends with it as soon as all other calls have ended. Without `output` any text will do.
    ///
    /// ```
    /// use unfazed::host::Guard;
    /// use unfazed::host::guard::OutputError;
    /// use unfazed::policy::Policy;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let policy = "version: 1\noutput: {schema: {type: object, required: [total]}}\n";
    /// let guard = Guard::new(Policy::from_yaml("policy.yaml", policy).unwrap());
    /// let refused = guard.output("{}").await.unwrap_err();
    /// assert!(matches!(refused, OutputError::Refused(refusal) if refusal.message.contains("total")));
    /// assert_eq!(guard.output("{'total': 12,}").await.unwrap()["total"], 12);
    /// # })
    /// ```
    ///
    /// # Errors
    /// [`OutputError::Refused`] if it does not hold, [`OutputError::Exhausted`] if that was the last attempt.
    pub async fn output(&self, report: &str) -> Result<Value, OutputError> {
        let run = &self.inner.run;
        let mut proposed = run.propose(Event::OutputProposed { output: report.to_owned() }).await?;
        let mut accepted = None;
        while let Some(directive) = proposed.next().await {
            match directive.order {
                DirectiveKind::Note(Note::OutputAccepted { output, .. }) => accepted = Some(output),
                DirectiveKind::Work(Work::Consult(consult)) => {
                    run.tell(consult.decided(PlannerDecision::TellModel))?;
                }
                DirectiveKind::Note(_) | DirectiveKind::Work(_) => {}
            }
        }
        let settled = proposed.settled()?;
        if settled.result == ProposalResult::Accepted {
            return Ok(accepted.unwrap_or_else(|| Value::String(report.to_owned())));
        }
        if let Some(exhausted) = proposed.said.exhausted.take() {
            return Err(OutputError::Exhausted(Box::new(exhausted)));
        }
        let said = core::mem::take(&mut proposed.said.guidance).into_iter();
        let message = said.chain(settled.guidance.iter().cloned()).collect::<Vec<_>>().join("\n");
        (proposed.said.text, proposed.said.refused) = (message, Some(ErrorClass::InvalidOutput));
        Err(OutputError::Refused(Box::new(proposed.refusal(&settled))))
    }
}

//! `--approve`: who answers when the policy wants a person to agree.

use std::io::{BufRead, IsTerminal};

use crate::engine::{ApprovalAnswer, ApprovalQuestion, AskPerson};
use crate::host::{Approver, BoxFuture};
use clap::ValueEnum;
use tokio::sync::{Mutex, mpsc};

use crate::cli::text::{one_line, visible};
use crate::cli::{out, question};

/// What is answered where the policy wants a person to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApproveFlag {
    /// Every call may run.
    Yes,
    /// None may.
    No,
    /// What a line on standard input says.
    Ask,
}

/// Who answers. Away from a terminal nobody does, unless it is said: then the policy decides.
pub(crate) struct TerminalApprover {
    approve: Option<ApproveFlag>,
    lines: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
}

impl TerminalApprover {
    /// The person that is asked as `--approve` says.
    pub(crate) fn new(approve: Option<ApproveFlag>) -> Self {
        let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let approve = approve.or(terminal.then_some(ApproveFlag::Ask));
        Self { approve, lines: Mutex::new(None) }
    }

    /// Asks until a line is an answer. At the end of the input there is nobody any more.
    async fn ask(&self, ask: &AskPerson) -> ApprovalAnswer {
        let mut lines = self.lines.lock().await;
        let lines = lines.get_or_insert_with(read_lines);
        if std::io::stdin().is_terminal() {
            question::discard_typed();
            while lines.try_recv().is_ok() {}
        }
        loop {
            out::say_raw(&question_text(ask));
            let Some(line) = lines.recv().await else { return ApprovalAnswer::None };
            match answer(&line, ask.question) {
                Some(answer) => return answer,
                None => out::say(&format!("`{}` is no answer\n", one_line(line.trim()))),
            }
        }
    }
}

impl Approver for TerminalApprover {
    fn ask<'a>(&'a self, ask: &'a AskPerson) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            match self.approve {
                Some(ApproveFlag::Yes) => ApprovalAnswer::Approve,
                Some(ApproveFlag::No) => ApprovalAnswer::Refuse,
                Some(ApproveFlag::Ask) => self.ask(ask).await,
                None => ApprovalAnswer::None,
            }
        })
    }
}

/// Reads standard input in a thread of its own: a question whose time is over leaves no half-read line behind, and
/// the end of the command does not wait for one.
fn read_lines() -> mpsc::UnboundedReceiver<String> {
    let (send, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The whole call: whoever agrees must have seen what to. Known secrets are not in it.
fn question_text(ask: &AskPerson) -> String {
    let arguments = visible(&format!("{:#}", ask.arguments));
    let (failed, all) = match ask.question {
        ApprovalQuestion::Run => (String::new(), ", a (yes to all further calls of it)"),
        ApprovalQuestion::RunAgain => {
            (format!("failed and may have had side effects: {}\n", one_line(&ask.message)), "")
        }
    };
    let again = if ask.question == ApprovalQuestion::RunAgain { " again" } else { "" };
    let tool = one_line(&ask.tool);
    format!("{tool} {arguments}\n{failed}Run it{again}? y (yes), n (no){all}\n")
}

/// What a line answers.
fn answer(line: &str, question: ApprovalQuestion) -> Option<ApprovalAnswer> {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(ApprovalAnswer::Approve),
        "n" | "no" => Some(ApprovalAnswer::Refuse),
        "a" | "all" | "always" if question == ApprovalQuestion::Run => Some(ApprovalAnswer::ApproveAll),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_answers_whatever_its_case() {
        assert_eq!(answer(" Y\n", ApprovalQuestion::Run), Some(ApprovalAnswer::Approve));
        assert_eq!(answer("no", ApprovalQuestion::Run), Some(ApprovalAnswer::Refuse));
        assert_eq!(answer("always", ApprovalQuestion::Run), Some(ApprovalAnswer::ApproveAll));
    }

    #[test]
    fn what_is_no_answer_is_asked_again() {
        assert_eq!(answer("", ApprovalQuestion::Run), None);
        assert_eq!(answer("maybe", ApprovalQuestion::Run), None);
    }

    #[test]
    fn a_run_that_may_have_acted_is_agreed_to_one_by_one() {
        assert_eq!(answer("a", ApprovalQuestion::RunAgain), None);
    }
}

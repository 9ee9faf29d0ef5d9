//! What people see of a run on a terminal.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::engine::{Failure, FinishReason};
use crate::host::{Agent, BoxFuture, Clock, Model, ModelRequest, RunTask, StopSwitch};
use crate::policy::{ErrorClass, Policy};

/// A terminal of any size that knows what the timeline uses of one: lines, and the command that empties the last.
#[derive(Clone, Default)]
struct TestScreen(Arc<Mutex<String>>);

impl TestScreen {
    /// What can be seen now, without colours.
    fn seen(&self) -> String {
        let text =
            anstream::adapter::strip_str(&self.0.lock().unwrap().replace("\r\x1b[2K", "\r")).to_string();
        let seen = text.split('\n').map(|line| line.rsplit('\r').next().unwrap().trim_end());
        seen.collect::<Vec<_>>().join("\n")
    }
}

impl Write for TestScreen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().push_str(std::str::from_utf8(bytes).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A model whose first answer breaks off. It looks at the screen after every piece of an answer.
struct BreakingModel {
    calls: AtomicUsize,
    status: StatusLine,
    screen: TestScreen,
    seen: Arc<Mutex<Vec<String>>>,
}

impl BreakingModel {
    async fn says(&self, request: &ModelRequest<'_>, piece: &str) {
        request.streamed.as_ref().unwrap().piece(piece.to_owned());
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.status.draw();
        let last = self.screen.seen().rsplit('\n').next().unwrap().to_owned();
        self.seen.lock().unwrap().push(last);
    }
}

impl Model for BreakingModel {
    fn call<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<ModelReply, Failure>> {
        Box::pin(async move {
            if self.calls.fetch_add(1, Ordering::Relaxed) == 0 {
                self.says(&request, "Let me th").await;
                let failure = Failure::of(ErrorClass::NetworkError, "the stream broke off");
                return Err(Failure { received: 9, ..failure });
            }
            self.says(&request, "The cheapest fli").await;
            self.says(&request, "ght is on Tuesday,\n").await;
            self.says(&request, "with a stop in Oslo.").await;
            let text = "The cheapest flight is on Tuesday,\nwith a stop in Oslo.".to_owned();
            Ok(ModelReply { text, finish: FinishReason::Stop, ..ModelReply::default() })
        })
    }
}

/// What is on the screen at the end of a run, and the last line of it after each piece.
async fn seen(streaming: bool, limits: &str) -> (String, Vec<String>) {
    let screen = TestScreen::default();
    let status = StatusLine::on(screen.clone(), || None);
    let seen = Arc::default();
    let (calls, looks) = (AtomicUsize::new(0), Arc::clone(&seen));
    let model = BreakingModel { calls, status: status.clone(), screen: screen.clone(), seen: looks };
    let policy = format!(
        "version: 1\nmodels: {{\"*\": {{retry: {{backoff: {{kind: constant, delay: 1s, jitter: none}}}}}}}}\n{limits}"
    );
    let clock = Clock::starting_at(Instant(1_000_000_000_000));
    let agent = Agent::new(Policy::from_yaml("p.yaml", &policy).unwrap()).model("main", model).clock(clock);
    let mut timeline = RunTimeline::new(screen.clone(), status, limits.is_empty());
    if streaming {
        timeline = timeline.streaming(48);
    }
    let task = RunTask { run: "r".into(), task: "Find a flight.".into(), ..RunTask::default() };
    agent.run_with(task, &mut timeline, None, StopSwitch::new()).await.unwrap();
    let (text, seen) = (screen.seen(), seen.lock().unwrap().clone());
    let (_, text) = text.split_once("task: ").unwrap();
    (text.to_owned(), seen)
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_shown_while_it_comes_and_what_is_taken_back_is_said() {
    let (screen, pieces) = seen(true, "").await;
    insta::assert_snapshot!(format!("{screen}\nafter each piece:\n{}", pieces.join("\n")));
}

#[tokio::test(start_paused = true)]
async fn without_streaming_the_answer_is_a_line_of_its_own() {
    let (screen, _) = seen(false, "").await;
    insta::assert_snapshot!(screen);
}

#[tokio::test(start_paused = true)]
async fn what_a_budget_leaves_is_said_below_the_call_that_has_it() {
    let (screen, _) = seen(false, "limits: {run: {tokens: 6000}}\n").await;
    let lines: Vec<_> = screen.lines().collect();
    let told = |line: &&str| line.contains("tokens are left");
    let calls = lines.windows(2).filter(|two| two[1].contains("tokens are left"));
    for two in calls.clone() {
        assert!(two[0].contains("→ model main") && two[0].contains("at most"), "{screen}");
    }
    let (said, mut each) = (lines.iter().filter(|line| told(line)).count(), HashSet::new());
    assert!(said > 0 && calls.count() == said, "{screen}");
    assert!(lines.into_iter().filter(told).all(|line| each.insert(line)), "said twice: {screen}");
}

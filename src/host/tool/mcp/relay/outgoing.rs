//! The lines that are to go to a server, in their order. Whoever has one never waits: a server that does not read holds up nobody
//! but those who want something of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

/// The most lines that wait for a server which does not read: as many as may be without an answer.
const MOST_LINES: usize = 10_000;
/// The most bytes of them. One line may have more, if no other waits.
const MOST_BYTES: usize = 64 << 20;
/// How long nothing was taken of a full queue before the server is of no more use than one that has ended.
const STALLED: Duration = Duration::from_secs(30);

/// Where lines go in.
#[derive(Debug)]
pub(super) struct OutgoingQueue {
    lines: mpsc::UnboundedSender<String>,
    state: Arc<Mutex<QueueState>>,
}

/// Where they come out.
#[derive(Debug)]
pub(super) struct DueLines {
    lines: mpsc::UnboundedReceiver<String>,
    state: Arc<Mutex<QueueState>>,
}

/// How full it is.
#[derive(Debug)]
struct QueueState {
    lines: usize,
    bytes: usize,
    /// What is kept until the handshake is answered; `None`: none is in flight.
    held: Option<VecDeque<String>>,
    /// When a line was taken last.
    taken: Instant,
}

/// Why a line does not go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    /// The connection has ended.
    Closed,
    /// The server does not read, and so much waits already.
    Full,
    /// The same for so long that the server cannot be expected to read again.
    Stalled,
}

/// A queue, from its one end to the other.
pub(super) fn queue() -> (OutgoingQueue, DueLines) {
    let (sender, lines) = mpsc::unbounded_channel();
    let state = QueueState { lines: 0, bytes: 0, held: None, taken: Instant::now() };
    let state = Arc::new(Mutex::new(state));
    (OutgoingQueue { lines: sender, state: Arc::clone(&state) }, DueLines { lines, state })
}

impl OutgoingQueue {
    /// Sends a line after those before it. While a handshake is in flight it is kept.
    pub(super) fn send(&self, line: String) -> Result<(), Unsent> {
        let mut state = self.state();
        let line = state.admit(line)?;
        match &mut state.held {
            Some(held) => held.push_back(line),
            None => self.pass(line)?,
        }
        Ok(())
    }

    /// Sends a line that a handshake does not hold back: an answer to what the server has asked.
    pub(super) fn send_at_once(&self, line: String) -> Result<(), Unsent> {
        let mut state = self.state();
        let line = state.admit(line)?;
        self.pass(line)
    }

    /// Sends the request that begins the conversation. What comes after it is kept until [`OutgoingQueue::open`].
    pub(super) fn begin(&self, line: String) -> Result<(), Unsent> {
        let mut state = self.state();
        let line = state.admit(line)?;
        state.held.get_or_insert_default();
        self.pass(line)
    }

    /// The handshake is answered: what was kept goes out.
    pub(super) fn open(&self) {
        let mut state = self.state();
        for line in state.held.take().into_iter().flatten() {
            // Who asked learns the end of the connection from there.
            let _ = self.pass(line);
        }
    }

    /// Whether no handshake is in flight.
    pub(super) fn is_open(&self) -> bool {
        self.state().held.is_none()
    }

    fn pass(&self, line: String) -> Result<(), Unsent> {
        self.lines.send(line).map_err(|_| Unsent::Closed)
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// Takes note of a line, which ends with a line break from now on, if there is a place for it.
    fn admit(&mut self, mut line: String) -> Result<String, Unsent> {
        if !line.ends_with('\n') {
            line.push('\n');
        }
        let bytes = self.bytes.saturating_add(line.len());
        if self.lines >= MOST_LINES || (self.lines > 0 && bytes > MOST_BYTES) {
            let is_stalled = self.held.is_none() && self.taken.elapsed() >= STALLED;
            return Err(if is_stalled { Unsent::Stalled } else { Unsent::Full });
        }
        if self.lines == 0 {
            self.taken = Instant::now();
        }
        (self.lines, self.bytes) = (self.lines.saturating_add(1), bytes);
        Ok(line)
    }
}

impl DueLines {
    /// The next line; `None`: there will be none.
    pub(super) async fn recv(&mut self) -> Option<String> {
        let line = self.lines.recv().await?;
        Some(self.taken(line))
    }

    /// The next line, if there is one already.
    pub(super) fn try_recv(&mut self) -> Option<String> {
        let line = self.lines.try_recv().ok()?;
        Some(self.taken(line))
    }

    fn taken(&self, line: String) -> String {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.lines = state.lines.saturating_sub(1);
        state.bytes = state.bytes.saturating_sub(line.len());
        state.taken = Instant::now();
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(lines: &mut DueLines) -> Vec<String> {
        std::iter::from_fn(|| lines.try_recv()).map(|line| line.trim().to_owned()).collect()
    }

    #[tokio::test]
    async fn what_follows_a_handshake_waits_for_its_answer_but_for_answers() {
        let (queue, mut lines) = queue();
        queue.send("before".into()).unwrap();
        queue.begin("initialize".into()).unwrap();
        queue.send("initialized".into()).unwrap();
        queue.send("request".into()).unwrap();
        queue.send_at_once("answer".into()).unwrap();
        assert_eq!(due(&mut lines), ["before", "initialize", "answer"]);
        queue.open();
        queue.send("next".into()).unwrap();
        assert_eq!(due(&mut lines), ["initialized", "request", "next"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_takes_no_more_until_lines_are_taken() {
        let (queue, mut lines) = queue();
        queue.send("x".repeat(MOST_BYTES + 1)).expect("the first is taken, however long");
        assert_eq!(queue.send("y".into()), Err(Unsent::Full));
        due(&mut lines);
        for _ in 0..MOST_LINES {
            queue.send("y".into()).unwrap();
        }
        assert_eq!(queue.send("y".into()), Err(Unsent::Full));
        tokio::time::advance(STALLED).await;
        assert_eq!(queue.send("y".into()), Err(Unsent::Stalled));
        lines.recv().await.unwrap();
        queue.send("y".into()).unwrap();
        drop(lines);
        queue.open();
        assert_eq!(queue.send("y".into()), Err(Unsent::Full));
    }
}

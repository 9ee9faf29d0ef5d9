//! Standard input and output, with a thread each: the end of the command does not wait for a line that never comes, nor for a
//! client that does not read.

use std::io::{self, BufReader, Write};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::cli::lines::{self, InputLine};

/// How many lines wait to be taken. Whoever writes more waits too.
const WAITING: usize = 64;

/// The lines of standard input as they come.
pub(super) fn read() -> mpsc::Receiver<io::Result<InputLine>> {
    let (sender, taken) = mpsc::channel(WAITING);
    std::thread::spawn(move || {
        let (mut input, mut number) = (BufReader::new(io::stdin().lock()), 0);
        while let Some(line) = lines::next(&mut input, &mut number, lines::MOST_OF_HELLO).transpose() {
            let failed = line.is_err();
            if sender.blocking_send(line).is_err() || failed {
                return;
            }
        }
    });
    taken
}

/// Writes lines to standard output as they come, those at once that are there at once. The token is cancelled when there are no
/// more, or nobody reads them.
pub(super) fn write(mut lines: mpsc::Receiver<String>) -> CancellationToken {
    let end = CancellationToken::new();
    let ended = end.clone();
    std::thread::spawn(move || {
        let mut stdout = io::stdout().lock();
        while let Some(line) = lines.blocking_recv() {
            let mut text = line.into_bytes();
            text.push(b'\n');
            while let Ok(line) = lines.try_recv() {
                text.extend_from_slice(line.as_bytes());
                text.push(b'\n');
            }
            if stdout.write_all(&text).and_then(|()| stdout.flush()).is_err() {
                break;
            }
        }
        ended.cancel();
    });
    end
}

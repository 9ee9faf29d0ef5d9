//! How many files a server may have open: each connection is one.

use crate::cli::out;

/// What all connections of clients want, those to models, and some files besides.
#[cfg(unix)]
const WANTED: u64 = 4096;

/// The most connections of clients, however many files a process may open.
const MOST_CONNECTIONS: usize = 2048;

/// How many connections of clients may be open at once: where files are few, half of them, as each client's request may need a
/// connection to a model.
pub(super) fn most_connections() -> usize {
    #[cfg(unix)]
    {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let half = files.map_or(usize::MAX, |files| usize::try_from(files / 2).unwrap_or(usize::MAX));
        half.clamp(1, MOST_CONNECTIONS)
    }
    #[cfg(not(unix))]
    MOST_CONNECTIONS
}

/// Has the system let this process open as many files as it may, and warns where that is too few for all connections. Many systems
/// begin with 1,024, for the sake of programs that use `select`.
pub(in crate::cli) fn raise_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        let may = if raised.is_ok() { maximum } else { current };
        // `None` is without a limit.
        if let Some(may) = may.filter(|may| *may < WANTED) {
            out::say(&format!(
                "warning: this process may open {may} files, and all connections want {WANTED}; raise the hard limit (`ulimit -Hn`, `LimitNOFILE`)\n"
            ));
        }
    }
}

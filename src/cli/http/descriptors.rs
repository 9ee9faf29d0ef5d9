//! How many files a server may have open: each connection is one.

use crate::cli::out;

/// What all connections of clients want, those to models, and some files besides.
#[cfg(unix)]
const WANTED: u64 = 4096;

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

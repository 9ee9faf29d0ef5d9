//! Which sessions are meant: by agent, by status, by time.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::store::{SessionInfo, SessionStatus};
use crate::time::{Instant, Nanos};

/// Which sessions are meant.
#[derive(clap::Args, Default)]
pub(in crate::cli) struct SessionFilter {
    /// Those of the agent of that name.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Those whose last run stands there: `new`, `running`, `broken_off`, `reported`, `answered`, `failed`, `stopped`.
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<SessionStatus>,
    /// Those written at that time or later: a date, a time, or how long ago (`2026-11-21`, `2026-11-21T08:00:00Z`, `7d`).
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Instant>,
    /// Those written before that time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    before: Option<Instant>,
}

impl SessionFilter {
    /// Whether anything is said.
    pub(in crate::cli) const fn is_given(&self) -> bool {
        self.agent.is_some() || self.status.is_some() || self.since.is_some() || self.before.is_some()
    }

    /// Whether the session is one of them.
    pub(in crate::cli) fn takes(&self, info: &SessionInfo) -> bool {
        self.agent.as_ref().is_none_or(|agent| info.meta.agent.as_ref() == Some(agent))
            && self.status.is_none_or(|status| info.meta.status == status)
            && self.since.is_none_or(|since| info.updated >= since)
            && self.before.is_none_or(|before| info.updated < before)
    }
}

fn status(name: &str) -> Result<SessionStatus, String> {
    SessionStatus::ALL.into_iter().find(|status| status.name() == name).ok_or_else(|| {
        let names = SessionStatus::ALL.map(SessionStatus::name);
        format!("write one of `{}`", names.join("`, `"))
    })
}

fn time(text: &str) -> Result<Instant, String> {
    if let Ok(ago) = humantime::parse_duration(text) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        return Ok(Instant(Nanos::from_std(now.saturating_sub(ago)).0));
    }
    let whole = if text.len() == "2026-11-21".len() { format!("{text}T00:00:00Z") } else { text.to_owned() };
    let time = humantime::parse_rfc3339_weak(&whole).map_err(
        |_| "write a date, a time in UTC, or how long ago: `2026-11-21`, `2026-11-21T08:00:00Z`, `7d`",
    )?;
    Ok(Instant(Nanos::from_std(time.duration_since(UNIX_EPOCH).unwrap_or_default()).0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_so_long_ago() {
        let day = time("2026-11-21").unwrap();
        assert_eq!(day.to_rfc3339(), "2026-11-21T00:00:00.000Z");
        assert_eq!(time("2026-11-21T08:00:00Z").unwrap().since(day), Nanos::from_secs(8 * 3600));
        assert_eq!(time("2026-11-21 08:00:00").unwrap().since(day), Nanos::from_secs(8 * 3600));
        assert!(time("1h").unwrap() > time("1d").unwrap());
        assert!(time("yesterday").unwrap_err().contains("how long ago"));
    }
}

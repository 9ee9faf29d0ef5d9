//! Where gateways meet that share what their keys use and what they find of providers: in the database of sessions.

use std::path::Path;
use std::sync::Arc;

use crate::cli::exit::CommandFailure;
use crate::cli::out;
use crate::cli::sessions::SessionPlace;
use crate::host::gateway::Gateway;
use crate::host::reached::ReachedState;
use crate::host::{SharedState, SharedStateError};

/// Where the gateways of one name meet.
pub(super) struct MeetingPlace {
    port: Arc<dyn SharedState>,
    /// The database, without user and password.
    place: String,
    /// The name of the gateway's file: files of other names are other gateways.
    name: String,
}

impl MeetingPlace {
    /// The place for gateways of that file; `None`: sessions are kept in a folder.
    pub(super) async fn find(sessions: &SessionPlace, file: &Path) -> Result<Option<Self>, CommandFailure> {
        let Some((place, port)) = sessions.shared_state().await? else { return Ok(None) };
        let name = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        Ok(Some(Self { port, place, name }))
    }

    /// The gateway, which shares there with the others.
    pub(super) fn join(self, gateway: Gateway) -> Gateway {
        let Self { port, place, name } = self;
        out::say(&format!("shares  {place} with the gateways named `{name}`\n"));
        let listener = move |error: Option<&SharedStateError>| match error {
            Some(error) => out::say(&format!(
                "warning: {place} is out of reach ({error}); this gateway uses what it knows, and counts by itself\n"
            )),
            None => out::say(&format!("note: {place} is within reach again; the gateways share\n")),
        };
        gateway.share(ReachedState::new(port, Box::new(listener)), &name)
    }
}

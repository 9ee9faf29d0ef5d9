//! A key in a file that others write anew, as Kubernetes does with the tokens that it mounts.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use super::text::read;
use crate::engine::Failure;
use crate::host::{BoxFuture, KeySupplier, SuppliedKey, file_error, off_thread, read_file};
use crate::policy::ErrorClass;

/// How often it is looked at: Kubernetes writes a token anew once a fifth of its life is left, ten minutes at least.
const LOOK: Duration = Duration::from_secs(60);
/// The most bytes of it.
const MOST: u64 = 64 * 1024;

/// A key in a file, which is read again every minute, before the key expires if it is a JSON Web Token, and when a server
/// refuses it.
#[derive(Clone, Debug)]
pub struct FileKey {
    path: PathBuf,
}

impl FileKey {
    /// What is in that file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn read(&self) -> Result<SuppliedKey, Failure> {
        let path = self.path.display();
        let refused = |what: String| Failure::of(ErrorClass::AuthError, what);
        let bytes = read_file(&self.path, MOST)
            .map_err(|error| refused(format!("cannot read the key from {path}: {}", file_error(&error))))?;
        let text = String::from_utf8_lossy(&bytes);
        // What is no token is sent as it is, as a key of the environment.
        let (key, expires) = read(&text).unwrap_or_else(|_| (SecretString::from(text.trim()), None));
        if text.trim().is_empty() {
            return Err(refused(format!("{path} is empty; it should hold the key")));
        }
        Ok(SuppliedKey { key, expires, ask_again: Some(LOOK) })
    }
}

impl KeySupplier for FileKey {
    fn supply(&self) -> BoxFuture<'_, Result<SuppliedKey, Failure>> {
        Box::pin(async {
            let file = self.clone();
            off_thread(move || file.read()).await
        })
    }
}

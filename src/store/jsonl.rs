//! The store of sessions as files. Files are read and written outside of the runtime's threads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::folder::SessionFolder;
use super::log_file::LogFile;
use super::{
    FsyncMode, LineVisitor, RecordStream, SessionId, SessionInfo, SessionListing, SessionLog, SessionMeta,
    Store, StoreError, StoreFuture, record_stream,
};
use crate::engine::{LogHeader, RecordLine};
use crate::host::{BoxFuture, off_thread};

/// A store of sessions as files in a folder.
#[derive(Clone, Debug)]
pub struct JsonlStore(SessionFolder);

/// The open log of a session. File operations run in order, and each one to its end.
struct JsonlLog {
    file: Arc<Mutex<LogFile>>,
    place: String,
}

impl JsonlStore {
    /// Stores sessions in `dir`, which is made, readable by its owner only, when the first session begins.
    pub fn new(dir: impl Into<PathBuf>, fsync: FsyncMode) -> Self {
        Self(SessionFolder { dir: dir.into(), fsync })
    }

    /// The path of the session with this id.
    pub fn path(&self, id: &SessionId) -> PathBuf {
        self.0.path(id)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SessionFolder) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        let folder = self.0.clone();
        Box::pin(off_thread(move || work(&folder)))
    }
}

impl Store for JsonlStore {
    fn place(&self) -> String {
        self.dir().display().to_string()
    }

    fn place_of(&self, id: &SessionId) -> String {
        self.path(id).display().to_string()
    }

    fn create<'a>(
        &'a self,
        id: &'a SessionId,
        header: &'a LogHeader,
    ) -> StoreFuture<'a, Box<dyn SessionLog>> {
        let (id, header) = (id.clone(), header.clone());
        let made = self.with(move |folder| folder.create(&id, &header));
        Box::pin(async move { Ok(JsonlLog::boxed(made.await?)) })
    }

    fn open_with<'a>(
        &'a self,
        id: &'a SessionId,
        mut each: LineVisitor,
    ) -> StoreFuture<'a, Box<dyn SessionLog>> {
        let id = id.clone();
        let opened = self.with(move |folder| folder.open_with(&id, &mut *each));
        Box::pin(async move { Ok(JsonlLog::boxed(opened.await?)) })
    }

    fn read<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, RecordStream> {
        let id = id.clone();
        let records = self.with(move |folder| folder.read(&id));
        Box::pin(async move { Ok(record_stream(records.await?)) })
    }

    fn list(&self) -> StoreFuture<'_, SessionListing> {
        self.with(SessionFolder::list)
    }

    fn info<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, SessionInfo> {
        let id = id.clone();
        self.with(move |folder| folder.info(&id))
    }

    fn search<'a>(&'a self, sessions: &'a [SessionId], text: &'a str) -> StoreFuture<'a, Vec<SessionId>> {
        let (sessions, text) = (sessions.to_vec(), text.to_owned());
        self.with(move |folder| Ok(folder.search(&sessions, &text)))
    }

    fn rename<'a>(&'a self, id: &'a SessionId, title: &'a str) -> StoreFuture<'a, ()> {
        let (id, title) = (id.clone(), title.to_owned());
        self.with(move |folder| folder.rename(&id, &title))
    }

    fn delete<'a>(&'a self, id: &'a SessionId) -> StoreFuture<'a, ()> {
        let id = id.clone();
        self.with(move |folder| folder.delete(&id))
    }
}

impl JsonlLog {
    fn boxed(file: LogFile) -> Box<dyn SessionLog> {
        let place = file.path.display().to_string();
        Box::new(Self { file: Arc::new(Mutex::new(file)), place })
    }

    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LogFile) -> T + Send + 'static,
    ) -> BoxFuture<'static, T> {
        let file = Arc::clone(&self.file);
        Box::pin(off_thread(move || work(&mut file.lock().unwrap_or_else(PoisonError::into_inner))))
    }
}

impl SessionLog for JsonlLog {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn append(&mut self, lines: Vec<RecordLine>) -> StoreFuture<'_, ()> {
        self.with(move |file| file.append(&lines))
    }

    fn turn_ended(&mut self) -> StoreFuture<'_, ()> {
        self.with(LogFile::turn_ended)
    }

    fn keep_state(&mut self, state: Vec<u8>) -> StoreFuture<'_, ()> {
        self.with(move |file| file.keep_state(&state))
    }

    fn kept_states(&mut self) -> BoxFuture<'_, Vec<Vec<u8>>> {
        self.with(|file| file.kept_states())
    }

    fn meta(&mut self) -> BoxFuture<'_, Option<SessionMeta>> {
        self.with(|file| file.meta())
    }

    fn set_meta(&mut self, meta: SessionMeta) -> StoreFuture<'_, ()> {
        self.with(move |file| file.set_meta(&meta))
    }
}

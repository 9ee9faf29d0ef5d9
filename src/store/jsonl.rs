//! Sessions as files: `<folder>/<id>.jsonl`, readable by their owner alone, one writer at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list;
use super::read::{ReadError, read_log};
use super::scan::{End, Scan};
use super::search;
use super::{
    Line, Listing, SessionId, SessionInfo, SessionLog, SessionMeta, Store, StoreError, beside, written,
};
use crate::engine::{LogHeader, Record, RecordError, RecordRef};

/// So much of a log is read at once.
const READ_AHEAD: usize = 256 << 10;

/// When what was written is made safe against a loss of power. A killed process loses nothing either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fsync {
    /// Whenever the system sees fit.
    Never,
    /// At the end of every turn.
    #[default]
    Turn,
    /// After every event.
    Event,
}

/// Keeps sessions as files in a folder.
#[derive(Clone, Debug)]
pub struct JsonlStore {
    dir: PathBuf,
    fsync: Fsync,
}

/// The open log of a session; the lock ends with the file.
#[derive(Debug)]
struct JsonlLog {
    file: File,
    path: PathBuf,
    fsync: Fsync,
    /// Where the last whole record ends.
    length: u64,
    /// A write failed and its remains could not be cut off yet.
    torn: bool,
    /// Reused from append to append.
    lines: Vec<u8>,
    /// What was kept last: the next state is kept beside it.
    state: Vec<u8>,
}

impl JsonlStore {
    /// Sessions in `dir`, which is made, for its owner alone, when the first session begins.
    pub fn new(dir: impl Into<PathBuf>, fsync: Fsync) -> Self {
        Self { dir: dir.into(), fsync }
    }

    /// Where the session of that id is.
    pub fn path(&self, id: &SessionId) -> PathBuf {
        self.dir.join(format!("{id}.jsonl"))
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn make_dir(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.dir)
    }

    /// So that the file itself survives a loss of power.
    fn sync_dir(&self) -> io::Result<()> {
        if self.fsync == Fsync::Never || cfg!(not(unix)) { Ok(()) } else { File::open(&self.dir)?.sync_all() }
    }

    fn log(&self, file: File, path: PathBuf, length: u64) -> JsonlLog {
        JsonlLog { file, path, fsync: self.fsync, length, torn: false, lines: Vec::new(), state: Vec::new() }
    }
}

impl Store for JsonlStore {
    fn place(&self) -> String {
        self.dir.display().to_string()
    }

    fn place_of(&self, id: &SessionId) -> PathBuf {
        self.path(id)
    }

    fn create(&self, id: &SessionId, header: &LogHeader) -> Result<Box<dyn SessionLog>, StoreError> {
        let path = self.path(id);
        self.make_dir().map_err(|source| io_error("make the folder", &self.dir, source))?;
        let file = options().create_new(true).open(&path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists { id: id.clone(), path: path.clone() },
            _ => io_error("make", &path, source),
        })?;
        let mut log = self.log(file, path.clone(), 0);
        let locked = lock(&log.file, id, &path);
        let written = locked.and_then(|()| log.append(&[RecordRef::Session(header)])).and_then(|()| {
            log.turn_ended()?;
            self.sync_dir().map_err(|source| StoreError::Write { path: path.clone(), source })
        });
        if let Err(error) = written {
            // A session without a header would be of no use to anybody.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        // It is no worse to know nothing of a session than to have none.
        let _ = log.set_meta(&SessionMeta::of(header));
        Ok(Box::new(log))
    }

    fn open_with(
        &self,
        id: &SessionId,
        each: &mut dyn FnMut(Line<'_>) -> Result<(), RecordError>,
    ) -> Result<Box<dyn SessionLog>, StoreError> {
        let path = self.path(id);
        check_file(id, &path)?;
        let file = options().open(&path).map_err(|source| io_error("open", &path, source))?;
        lock(&file, id, &path)?;
        let mut scan = Scan::new(BufReader::with_capacity(READ_AHEAD, &file));
        while let Some(line) = scan.next() {
            let told = line.map(&mut *each).map_err(|error| read_error(error, &path))?;
            told.map_err(|error| read_error(scan.damaged(error), &path))?;
        }
        let (end, whole, appended) = (scan.end(), scan.whole(), scan.appended());
        let state = beside::read(&list::state_path(&path)).unwrap_or_default();
        let mut log = JsonlLog { state: state.trim_ascii_end().to_vec(), ..self.log(file, path, appended) };
        match end {
            // What was appended last is not there as a whole: it was never begun.
            _ if whole > appended => log.cut_off()?,
            Some(End::Unended) => {
                log.lines.push(b'\n');
                log.write_lines()?;
            }
            Some(End::Torn) => log.cut_off()?,
            _ => {}
        }
        Ok(Box::new(log))
    }

    fn read(
        &self,
        id: &SessionId,
    ) -> Result<Box<dyn Iterator<Item = Result<Record, StoreError>> + Send>, StoreError> {
        let path = self.path(id);
        check_file(id, &path)?;
        let file = File::open(&path).map_err(|source| io_error("open", &path, source))?;
        let records = read_log(BufReader::new(file));
        Ok(Box::new(records.map(move |record| record.map_err(|error| read_error(error, &path)))))
    }

    fn list(&self) -> Result<Listing, StoreError> {
        list::list(&self.dir)
    }

    fn info(&self, id: &SessionId) -> Result<SessionInfo, StoreError> {
        let path = self.path(id);
        check_file(id, &path)?;
        list::info(id, &path)
    }

    fn search(&self, sessions: &[SessionId], text: &str) -> Result<Vec<SessionId>, StoreError> {
        let paths: Vec<_> = sessions.iter().map(|id| self.path(id)).collect();
        let found = search::Query::new(text).files(&paths);
        Ok(sessions.iter().zip(found).filter(|(_, found)| *found).map(|(id, _)| id.clone()).collect())
    }

    fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError> {
        let path = self.path(id);
        let SessionInfo { meta, .. } = self.info(id)?;
        let meta = SessionMeta { title: title.to_owned(), named: true, ..meta };
        list::write_meta(&path, &meta, self.fsync != Fsync::Never)
            .map_err(|source| io_error("write", &list::meta_path(&path), source))
    }

    fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        let path = self.path(id);
        check_file(id, &path)?;
        let file = options().open(&path).map_err(|source| io_error("open", &path, source))?;
        lock(&file, id, &path)?;
        // The log goes last: what cannot be deleted is still there to be deleted again.
        for path in [path.with_extension("results"), list::state_path(&path), list::meta_path(&path)] {
            beside::remove(&path).map_err(|source| io_error("delete", &path, source))?;
        }
        beside::remove(&path).map_err(|source| io_error("delete", &path, source))
    }
}

impl SessionLog for JsonlLog {
    fn append(&mut self, records: &[RecordRef<'_>]) -> Result<(), StoreError> {
        self.lines.clear();
        for record in records {
            written::add(*record, &mut self.lines).map_err(|why| self.unwritable(why))?;
        }
        let before = self.length;
        self.write_lines()?;
        if self.fsync != Fsync::Event {
            return Ok(());
        }
        self.sync().inspect_err(|_| {
            // Nobody knows what of it is on the disk.
            (self.length, self.torn) = (before, true);
            let _ = self.cut_off();
        })
    }

    fn turn_ended(&mut self) -> Result<(), StoreError> {
        if self.fsync == Fsync::Turn { self.sync() } else { Ok(()) }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn keep_state(&mut self, state: &[u8]) -> Result<(), StoreError> {
        let path = list::state_path(&self.path);
        beside::replace(&path, &[&self.state, b"\n", state, b"\n"], false)
            .map_err(|source| io_error("write", &path, source))?;
        self.state.clear();
        self.state.extend_from_slice(state);
        Ok(())
    }

    fn kept_states(&self) -> Vec<Vec<u8>> {
        let kept = beside::read(&list::state_path(&self.path)).unwrap_or_default();
        kept.split(|byte| *byte == b'\n').filter(|state| !state.is_empty()).map(<[u8]>::to_vec).collect()
    }

    fn meta(&self) -> Option<SessionMeta> {
        // Where it is lost, the log knows it.
        list::read_meta(&self.path).or_else(|| list::of_log(&self.path).ok())
    }

    fn set_meta(&mut self, meta: &SessionMeta) -> Result<(), StoreError> {
        let given = list::read_meta(&self.path).filter(|known| known.named);
        let titled = given.map(|known| SessionMeta { title: known.title, named: true, ..meta.clone() });
        // The log has it all, should it be lost.
        list::write_meta(&self.path, titled.as_ref().unwrap_or(meta), false)
            .map_err(|source| io_error("write", &list::meta_path(&self.path), source))
    }
}

impl JsonlLog {
    /// Writes all lines or, after an error, none.
    fn write_lines(&mut self) -> Result<(), StoreError> {
        self.check_linked()?;
        if self.torn {
            self.cut_off()?;
        }
        if let Err(source) = (&self.file).write_all(&self.lines) {
            self.torn = true;
            // If this fails as well, the next append tries again; and readers leave out a torn end.
            let _ = self.cut_off();
            return Err(self.write_error(source));
        }
        self.length += self.lines.len() as u64;
        Ok(())
    }

    /// What is added to a file that was deleted is lost with it; and what is added to one that somebody else has moved or
    /// written to is not found again, or cannot be read.
    fn check_linked(&self) -> Result<(), StoreError> {
        let stat = self.file.metadata().map_err(|source| self.write_error(source))?;
        let changed = |how| Err(StoreError::Changed { path: self.path.clone(), how });
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            if stat.nlink() == 0 {
                return Err(StoreError::Deleted { path: self.path.clone() });
            }
            let same = |there: &fs::Metadata| (there.dev(), there.ino()) == (stat.dev(), stat.ino());
            if !fs::metadata(&self.path).is_ok_and(|there| same(&there)) {
                return changed("was moved");
            }
        }
        // What this process could not write as a whole is cut off next.
        match stat.len() {
            length if length < self.length => changed("was cut off by somebody else"),
            length if length > self.length && !self.torn => changed("was added to by somebody else"),
            _ => Ok(()),
        }
    }

    /// Drops what stands behind the last whole record.
    fn cut_off(&mut self) -> Result<(), StoreError> {
        self.file.set_len(self.length).map_err(|source| self.write_error(source))?;
        self.torn = false;
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|source| self.write_error(source))
    }

    fn write_error(&self, source: io::Error) -> StoreError {
        StoreError::Write { path: self.path.clone(), source }
    }

    fn unwritable(&self, why: String) -> StoreError {
        StoreError::Unwritable { path: self.path.clone(), why }
    }
}

/// How a log is opened for writing.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

pub(super) fn lock(file: &File, id: &SessionId, path: &Path) -> Result<(), StoreError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => StoreError::InUse { id: id.clone() },
        TryLockError::Error(source) => io_error("lock", path, source),
    })
}

/// A log is a plain file: to open a pipe could wait for ever.
fn check_file(id: &SessionId, path: &Path) -> Result<(), StoreError> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() => Ok(()),
        Ok(_) => Err(io_error("open", path, io::Error::other("it is not a file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(StoreError::NotFound { id: id.clone(), path: path.to_owned() })
        }
        Err(source) => Err(io_error("open", path, source)),
    }
}

pub(super) fn io_error(what: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { what, path: path.to_owned(), source }
}

pub(super) fn read_error(error: ReadError, path: &Path) -> StoreError {
    match error {
        ReadError::Io { source, .. } => io_error("read", path, source),
        ReadError::Damaged { line, source } => StoreError::Damaged { path: path.to_owned(), line, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Directive, Directives, Envelope, Event, Note, Order, ToolOutcome, WorkId};
    use crate::time::Instant;
    use serde_json::{Value, json};

    struct Scene {
        store: JsonlStore,
        id: SessionId,
        dir: tempfile::TempDir,
    }

    fn scene() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let store = JsonlStore::new(dir.path().join("a/b"), Fsync::Turn);
        Scene { store, id: "trip".parse().unwrap(), dir }
    }

    impl Scene {
        fn create(&self) -> Box<dyn SessionLog> {
            self.store.create(&self.id, &header()).unwrap()
        }

        fn read(&self) -> Vec<Record> {
            self.store.read(&self.id).unwrap().map(Result::unwrap).collect()
        }

        fn written(&self) -> String {
            fs::read_to_string(self.store.path(&self.id)).unwrap()
        }

        fn write(&self, text: &str) {
            fs::create_dir_all(self.store.path(&self.id).parent().unwrap()).unwrap();
            fs::write(self.store.path(&self.id), text).unwrap();
        }

        /// The message without the folder's name.
        fn said<T>(&self, result: Result<T, StoreError>) -> String {
            let said = result.err().unwrap().to_string();
            said.replace(self.dir.path().to_str().unwrap(), "DIR")
        }
    }

    fn header() -> LogHeader {
        LogHeader::new("run", "policy", Instant(7))
    }

    fn state(seq: u64) -> RecordRef<'static> {
        RecordRef::State { seq, hash: "h" }
    }

    #[test]
    fn a_session_reads_back_as_it_was_written() {
        let scene = scene();
        let event = Event::Cancelled { reason: "enough".into() };
        let envelope = Envelope { seq: 1, now: Instant(8), event };
        let note = Order::Note(Note::Warning { message: "two\nlines".into() });
        let list = Directives(vec![Directive { order: note, because: vec![], of: None }]);
        let mut log = scene.create();
        log.append(&[
            RecordRef::Event(&envelope),
            RecordRef::Directives { seq: 1, policy: "p", list: &list },
        ])
        .unwrap();
        log.append(&[state(1)]).unwrap();
        log.turn_ended().unwrap();
        let expected = [
            Record::Session(header()),
            Record::Event(envelope),
            Record::Directives { seq: 1, policy: "p".into(), list },
            Record::State { seq: 1, hash: "h".into() },
        ];
        assert_eq!(scene.read(), expected);
    }

    #[test]
    fn a_session_goes_on_where_it_ended() {
        let scene = scene();
        drop(scene.create());
        scene.store.open(&scene.id).unwrap().append(&[state(1)]).unwrap();
        scene.store.open(&scene.id).unwrap().append(&[state(2)]).unwrap();
        assert_eq!(scene.read().len(), 3);
    }

    #[cfg(unix)]
    #[test]
    fn a_session_is_private_to_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let scene = scene();
        let log = scene.create();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(log.path()), mode(log.path().parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn a_second_writer_is_refused_until_the_first_is_done() {
        let scene = scene();
        let log = scene.create();
        assert_eq!(
            scene.said(scene.store.open(&scene.id)),
            "session `trip` is in use by another process; wait for it to end, or start a new session"
        );
        drop(log);
        assert!(scene.store.open(&scene.id).is_ok());
    }

    #[test]
    fn a_session_can_be_read_while_it_is_written() {
        let scene = scene();
        let _log = scene.create();
        assert_eq!(scene.read().len(), 1);
    }

    #[test]
    fn what_is_not_there_and_what_is_there_already_is_named() {
        let scene = scene();
        let missing = "there is no session `trip`: `DIR/a/b/trip.jsonl` does not exist";
        assert_eq!(scene.said(scene.store.open(&scene.id)), missing);
        assert_eq!(scene.said(scene.store.read(&scene.id)), missing);
        drop(scene.create());
        assert_eq!(
            scene.said(scene.store.create(&scene.id, &header())),
            "there is a session `trip` already: `DIR/a/b/trip.jsonl`; open it, or choose another id"
        );
    }

    #[test]
    fn a_folder_in_the_place_of_a_session_is_no_session() {
        let scene = scene();
        fs::create_dir_all(scene.store.path(&scene.id)).unwrap();
        assert_eq!(
            scene.said(scene.store.open(&scene.id)),
            "cannot open `DIR/a/b/trip.jsonl`: it is not a file"
        );
    }

    #[test]
    fn a_session_killed_at_any_byte_goes_on() {
        let scene = scene();
        let mut log = scene.create();
        let header = scene.written().len();
        log.append(&[state(1), state(2)]).unwrap();
        drop(log);
        let whole = scene.written();
        for cut in header..=whole.len() {
            scene.write(&whole[..cut]);
            let survived = scene.read().len();
            scene.store.open(&scene.id).unwrap().append(&[state(3)]).unwrap();
            assert_eq!(scene.read().len(), survived + 1, "cut at {cut}");
            assert!(scene.written().lines().last().unwrap().contains("\"seq\":3,\"hash\":\"h\""));
        }
    }

    #[test]
    fn a_damaged_session_is_left_as_it_is() {
        let scene = scene();
        drop(scene.create());
        let damaged = scene.written() + "not a record\n" + "{\"v\":1,";
        scene.write(&damaged);
        let said = scene.said(scene.store.open(&scene.id));
        assert!(
            said.starts_with("session `DIR/a/b/trip.jsonl` is damaged at line 2: it is not a record: "),
            "{said}"
        );
        assert_eq!(scene.written(), damaged);
    }

    #[test]
    fn the_state_before_the_next_is_kept_also_when_the_session_goes_on() {
        let scene = scene();
        let mut log = scene.create();
        log.keep_state(b"one").unwrap();
        log.keep_state(b"two").unwrap();
        drop(log);
        let mut log = scene.store.open(&scene.id).unwrap();
        log.keep_state(b"three").unwrap();
        assert!(log.kept_states().ends_with(&[b"two".to_vec(), b"three".to_vec()]));
        // From now on there are two again.
        log.keep_state(b"four").unwrap();
        assert_eq!(log.kept_states(), [b"three".to_vec(), b"four".to_vec()]);
    }

    #[test]
    fn a_log_that_others_change_under_a_run_gets_nothing_more() {
        let changed = |change: &dyn Fn(&Scene, &Path)| {
            let scene = scene();
            let mut log = scene.create();
            log.append(&[state(1)]).unwrap();
            change(&scene, log.path());
            scene.said(log.append(&[state(2)]))
        };
        let rest = "while it was being written: `DIR/a/b/trip.jsonl`; nothing more is added to it";
        let cut = changed(&|_, path| options().open(path).unwrap().set_len(20).unwrap());
        assert_eq!(cut, format!("the log of the session was cut off by somebody else {rest}"));
        let longer = changed(&|_, path| options().open(path).unwrap().write_all(b"{}\n").unwrap());
        assert_eq!(longer, format!("the log of the session was added to by somebody else {rest}"));
        if cfg!(unix) {
            let moved = changed(&|_, path| fs::rename(path, path.with_extension("old")).unwrap());
            assert_eq!(moved, format!("the log of the session was moved {rest}"));
            let replaced = changed(&|scene, path| {
                let text = scene.written();
                fs::rename(path, path.with_extension("old")).unwrap();
                fs::write(path, text).unwrap();
            });
            assert_eq!(replaced, moved);
        }
    }

    #[test]
    fn a_last_line_end_that_was_changed_is_found_before_anything_is_appended() {
        let scene = scene();
        scene.create().append(&[state(1)]).unwrap();
        let whole = scene.written();
        for end in [" ", "\t", "\r", "\0", "J"] {
            let changed = format!("{}{end}", whole.trim_end());
            scene.write(&changed);
            assert!(scene.said(scene.store.open(&scene.id)).contains("is damaged at line 2"), "{end:?}");
            assert_eq!(scene.written(), changed);
        }
    }

    #[test]
    fn directives_without_the_state_they_were_written_with_are_cut_off() {
        let scene = scene();
        let list = Directives::default();
        let mut log = scene.create();
        log.append(&[state(1)]).unwrap();
        let whole = scene.written();
        log.append(&[RecordRef::Directives { seq: 2, policy: "p", list: &list }]).unwrap();
        drop(log);
        drop(scene.store.open(&scene.id).unwrap());
        assert_eq!(scene.written(), whole);
    }

    #[test]
    fn a_record_too_deep_to_be_read_again_is_not_written() {
        let scene = scene();
        let mut log = scene.create();
        let data = (0..118).fold(json!("[[["), |inner, _| Value::Array(vec![inner]));
        let work: WorkId = serde_json::from_value(json!(1)).unwrap();
        let deep = |data| Event::ToolFinished {
            work,
            outcome: ToolOutcome::Ok { data },
            run: crate::engine::RunFacts::default(),
        };
        let envelope = |event| Envelope { seq: 1, now: Instant(0), event };
        let fits = envelope(deep(data.clone()));
        let too_deep = envelope(deep(json!([data])));
        let said = scene.said(log.append(&[state(1), RecordRef::Event(&too_deep)]));
        let expected = "cannot write to session `DIR/a/b/trip.jsonl`: a record is nested deeper than 120 levels; what it held before is kept";
        assert_eq!(said, expected);
        log.append(&[RecordRef::Event(&fits)]).unwrap();
        assert_eq!(scene.read().len(), 2);
    }

    #[test]
    fn a_record_too_long_to_be_read_again_is_not_written() {
        let scene = scene();
        let hash = "h".repeat(64 * 1024 * 1024);
        let said = scene.said(scene.create().append(&[RecordRef::State { seq: 1, hash: &hash }]));
        assert!(
            said.contains("a record is longer than 67108864 bytes; what it held before is kept"),
            "{said}"
        );
        assert_eq!(scene.read().len(), 1);
    }

    #[test]
    fn every_way_to_sync_keeps_the_session() {
        for fsync in [Fsync::Never, Fsync::Turn, Fsync::Event] {
            let mut scene = scene();
            scene.store.fsync = fsync;
            let mut log = scene.create();
            log.append(&[state(1)]).unwrap();
            log.turn_ended().unwrap();
            assert_eq!(scene.read().len(), 2, "{fsync:?}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let store = JsonlStore::new(file.path().join("sessions"), Fsync::Never);
        let said = store.create(&SessionId::generate(), &header()).err().unwrap().to_string();
        assert!(
            said.starts_with("cannot make the folder `") && said.contains("a part of its path is no folder"),
            "{said}"
        );
    }

    /// A process whose files may not grow beyond 512 bytes is as good as a full disk.
    #[cfg(unix)]
    #[test]
    fn a_full_disk_loses_nothing_that_was_written() {
        let this = std::env::current_exe().unwrap();
        let limited =
            "trap '' XFSZ; ulimit -f 1; exec \"$0\" --ignored --exact store::jsonl::tests::on_a_full_disk";
        let output = std::process::Command::new("sh").args(["-c", limited]).arg(this).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[cfg(unix)]
    #[test]
    #[ignore = "runs inside `a_full_disk_loses_nothing_that_was_written`"]
    fn on_a_full_disk() {
        let scene = scene();
        let mut log = scene.create();
        let hash = "h".repeat(512);
        let said = scene.said(log.append(&[state(1), RecordRef::State { seq: 2, hash: &hash }]));
        let expected =
            "cannot write to session `DIR/a/b/trip.jsonl`: File too large; what it held before is kept";
        assert_eq!(said, expected);
        assert_eq!(scene.read(), [Record::Session(header())]);
        assert!(scene.written().ends_with("}\n"));
        log.append(&[state(1)]).unwrap();
        assert_eq!(scene.read().len(), 2);
    }
}

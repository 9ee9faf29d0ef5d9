//! Sessions as files: `<folder>/<id>.jsonl`, readable by their owner only, one writer at a time. All functions block.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use super::log_file::{LogFile, options};
use super::read::read_log;
use super::scan::{LogEnd, LogScan};
use super::{
    FsyncMode, SessionId, SessionInfo, SessionListing, SessionMeta, StoreError, VerifiedLine, beside, list,
    lock, search,
};
use crate::engine::{LogHeader, Record, RecordError, RecordLine, RecordRef};

/// The size of the read buffer, in bytes.
const READ_AHEAD: usize = 256 << 10;

/// A folder of sessions.
#[derive(Clone, Debug)]
pub(super) struct SessionFolder {
    pub(super) dir: PathBuf,
    pub(super) fsync: FsyncMode,
}

impl SessionFolder {
    /// The path of the session with this id.
    pub(super) fn path(&self, id: &SessionId) -> PathBuf {
        self.dir.join(format!("{id}.jsonl"))
    }

    fn make_dir(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        // Sessions hold what users said and tools returned.
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.dir)
    }

    /// Syncs the folder, so that a new file survives a loss of power.
    fn sync_dir(&self) -> io::Result<()> {
        if self.fsync == FsyncMode::Never || cfg!(not(unix)) {
            Ok(())
        } else {
            // The entry in the folder needs an fsync(2) of its own.
            File::open(&self.dir)?.sync_all()
        }
    }

    fn log(&self, file: File, path: PathBuf, length: u64) -> LogFile {
        LogFile { file, path, fsync: self.fsync, length, torn: false, lines: Vec::new(), state: Vec::new() }
    }

    pub(super) fn create(&self, id: &SessionId, header: &LogHeader) -> Result<LogFile, StoreError> {
        let path = self.path(id);
        self.make_dir().map_err(|source| StoreError::io("make the folder", self.dir.display(), source))?;
        let file = options().create_new(true).open(&path).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => {
                StoreError::Exists { id: id.clone(), place: path.display().to_string() }
            }
            _ => StoreError::io("make", path.display(), source),
        })?;
        let mut log = self.log(file, path.clone(), 0);
        let written = lock(&log.file, id, &path).and_then(|()| {
            let line = RecordLine::new(RecordRef::Session(header));
            log.append(&[
                line.map_err(|source| StoreError::Unwritable { place: path.display().to_string(), source })?
            ])?;
            log.turn_ended()?;
            self.sync_dir().map_err(|source| StoreError::Write { place: path.display().to_string(), source })
        });
        if let Err(error) = written {
            // A session without a header would be useless.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        // The sidecar file only speeds up lists: without it the log is read instead, so the session can start.
        let _ = log.set_meta(&SessionMeta::of(header));
        Ok(log)
    }

    pub(super) fn open_with(
        &self,
        id: &SessionId,
        each: &mut dyn FnMut(VerifiedLine<'_>) -> Result<(), RecordError>,
    ) -> Result<LogFile, StoreError> {
        let path = self.path(id);
        check_file(id, &path)?;
        let file = options().open(&path).map_err(|source| StoreError::io("open", path.display(), source))?;
        // Locked before it is read: otherwise a writer could append lines after the part that was read.
        lock(&file, id, &path)?;
        let mut scan = LogScan::new(BufReader::with_capacity(READ_AHEAD, &file));
        while let Some(line) = scan.next() {
            let told = line.map(&mut *each).map_err(|error| StoreError::read(error, path.display()))?;
            told.map_err(|error| StoreError::read(scan.damaged(error), path.display()))?;
        }
        let (end, whole, appended) = (scan.end(), scan.whole(), scan.appended());
        let state = beside::read(&list::state_path(&path)).unwrap_or_default();
        let mut log = LogFile { state: state.trim_ascii_end().to_vec(), ..self.log(file, path, appended) };
        match end {
            // The last append is incomplete, so its caller never got a confirmation: all of it is removed.
            _ if whole > appended => log.cut_off()?,
            // The record is whole and only its line end is missing.
            Some(LogEnd::Unended) => {
                log.lines.push(b'\n');
                log.write_lines()?;
            }
            Some(LogEnd::Torn) => log.cut_off()?,
            _ => {}
        }
        Ok(log)
    }

    pub(super) fn read(
        &self,
        id: &SessionId,
    ) -> Result<impl Iterator<Item = Result<Record, StoreError>> + Send + use<>, StoreError> {
        let path = self.path(id);
        check_file(id, &path)?;
        let file = File::open(&path).map_err(|source| StoreError::io("open", path.display(), source))?;
        let records = read_log(BufReader::new(file));
        Ok(records.map(move |record| record.map_err(|error| StoreError::read(error, path.display()))))
    }

    pub(super) fn list(&self) -> Result<SessionListing, StoreError> {
        list::list(&self.dir)
    }

    pub(super) fn info(&self, id: &SessionId) -> Result<SessionInfo, StoreError> {
        let path = self.path(id);
        check_file(id, &path)?;
        list::info(id, &path)
    }

    pub(super) fn search(&self, sessions: &[SessionId], text: &str) -> Vec<SessionId> {
        let paths: Vec<_> = sessions.iter().map(|id| self.path(id)).collect();
        let found = search::TextQuery::new(text).files(&paths);
        sessions.iter().zip(found).filter(|(_, found)| *found).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn rename(&self, id: &SessionId, title: &str) -> Result<(), StoreError> {
        let path = self.path(id);
        let SessionInfo { meta, .. } = self.info(id)?;
        let meta = SessionMeta { title: title.to_owned(), named: true, ..meta };
        list::write_meta(&path, &meta, self.fsync != FsyncMode::Never)
            .map_err(|source| StoreError::io("write", list::meta_path(&path).display(), source))
    }

    pub(super) fn delete(&self, id: &SessionId) -> Result<(), StoreError> {
        let path = self.path(id);
        check_file(id, &path)?;
        let file = options().open(&path).map_err(|source| StoreError::io("open", path.display(), source))?;
        lock(&file, id, &path)?;
        // The log is deleted last: if the deletion fails, it can be repeated.
        for path in [path.with_extension("results"), list::state_path(&path), list::meta_path(&path)] {
            beside::remove(&path).map_err(|source| StoreError::io("delete", path.display(), source))?;
        }
        beside::remove(&path).map_err(|source| StoreError::io("delete", path.display(), source))
    }
}

fn lock(file: &File, id: &SessionId, path: &Path) -> Result<(), StoreError> {
    lock::lock(file).map_err(|error| match error {
        TryLockError::WouldBlock => StoreError::InUse { id: id.clone() },
        TryLockError::Error(source) => StoreError::io("lock", path.display(), source),
    })
}

/// Checks that a log is a plain file: opening a pipe could wait for ever.
fn check_file(id: &SessionId, path: &Path) -> Result<(), StoreError> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() => Ok(()),
        Ok(_) => Err(StoreError::io("open", path.display(), io::Error::other("it is not a file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(StoreError::NotFound { id: id.clone(), place: path.display().to_string() })
        }
        Err(source) => Err(StoreError::io("open", path.display(), source)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::engine::{Directive, DirectiveKind, Directives, Envelope, Event, Note};
    use crate::time::Instant;

    struct LogScene {
        store: SessionFolder,
        id: SessionId,
        dir: tempfile::TempDir,
    }

    fn scene() -> LogScene {
        let dir = tempfile::tempdir().unwrap();
        let store = SessionFolder { dir: dir.path().join("a/b"), fsync: FsyncMode::Turn };
        LogScene { store, id: "trip".parse().unwrap(), dir }
    }

    impl LogScene {
        fn create(&self) -> LogFile {
            self.store.create(&self.id, &header()).unwrap()
        }

        fn open(&self) -> Result<LogFile, StoreError> {
            self.store.open_with(&self.id, &mut |_| Ok(()))
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

    fn add(log: &mut LogFile, records: &[RecordRef<'_>]) -> Result<(), StoreError> {
        let lines: Vec<_> = records.iter().map(|record| RecordLine::new(*record).unwrap()).collect();
        log.append(&lines)
    }

    fn state(seq: u64) -> RecordRef<'static> {
        RecordRef::State { seq, hash: "h" }
    }

    #[test]
    fn a_session_reads_back_as_it_was_written() {
        let scene = scene();
        let event = Event::Cancelled { reason: "enough".into() };
        let envelope = Envelope { seq: 1, now: Instant(8), event };
        let note = DirectiveKind::Note(Note::Warning { message: "two\nlines".into() });
        let list = Directives(vec![Directive { order: note, because: vec![], of: None }]);
        let mut log = scene.create();
        add(
            &mut log,
            &[RecordRef::Event(&envelope), RecordRef::Directives { seq: 1, policy: "p", list: &list }],
        )
        .unwrap();
        add(&mut log, &[state(1)]).unwrap();
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
        add(&mut scene.open().unwrap(), &[state(1)]).unwrap();
        add(&mut scene.open().unwrap(), &[state(2)]).unwrap();
        assert_eq!(scene.read().len(), 3);
    }

    #[cfg(unix)]
    #[test]
    fn a_session_is_private_to_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let scene = scene();
        let log = scene.create();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&log.path), mode(log.path.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn a_second_writer_is_refused_until_the_first_is_done() {
        let scene = scene();
        let log = scene.create();
        assert_eq!(
            scene.said(scene.open()),
            "session `trip` is in use by another process; wait for it to end, or start a new session"
        );
        drop(log);
        assert!(scene.open().is_ok());
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
        assert_eq!(scene.said(scene.open()), missing);
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
        assert_eq!(scene.said(scene.open()), "cannot open `DIR/a/b/trip.jsonl`: it is not a file");
    }

    #[test]
    fn a_session_killed_at_any_byte_goes_on() {
        let scene = scene();
        let mut log = scene.create();
        let header = scene.written().len();
        add(&mut log, &[state(1), state(2)]).unwrap();
        drop(log);
        let whole = scene.written();
        for cut in header..=whole.len() {
            scene.write(&whole[..cut]);
            let survived = scene.read().len();
            add(&mut scene.open().unwrap(), &[state(3)]).unwrap();
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
        let said = scene.said(scene.open());
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
        let mut log = scene.open().unwrap();
        log.keep_state(b"three").unwrap();
        assert!(log.kept_states().ends_with(&[b"two".to_vec(), b"three".to_vec()]));
        // From now on there are two again.
        log.keep_state(b"four").unwrap();
        assert_eq!(log.kept_states(), [b"three".to_vec(), b"four".to_vec()]);
    }

    #[test]
    fn a_log_that_others_change_under_a_run_gets_nothing_more() {
        let changed = |change: &dyn Fn(&LogScene, &Path)| {
            let scene = scene();
            let mut log = scene.create();
            add(&mut log, &[state(1)]).unwrap();
            change(&scene, &log.path.clone());
            scene.said(add(&mut log, &[state(2)]))
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
        add(&mut scene.create(), &[state(1)]).unwrap();
        let whole = scene.written();
        for end in [" ", "\t", "\r", "\0", "J"] {
            let changed = format!("{}{end}", whole.trim_end());
            scene.write(&changed);
            assert!(scene.said(scene.open()).contains("is damaged at line 2"), "{end:?}");
            assert_eq!(scene.written(), changed);
        }
    }

    #[test]
    fn directives_without_the_state_they_were_written_with_are_cut_off() {
        let scene = scene();
        let list = Directives::default();
        let mut log = scene.create();
        add(&mut log, &[state(1)]).unwrap();
        let whole = scene.written();
        add(&mut log, &[RecordRef::Directives { seq: 2, policy: "p", list: &list }]).unwrap();
        drop(log);
        drop(scene.open().unwrap());
        assert_eq!(scene.written(), whole);
    }

    #[test]
    fn every_way_to_sync_keeps_the_session() {
        for fsync in [FsyncMode::Never, FsyncMode::Turn, FsyncMode::Event] {
            let mut scene = scene();
            scene.store.fsync = fsync;
            let mut log = scene.create();
            add(&mut log, &[state(1)]).unwrap();
            log.turn_ended().unwrap();
            assert_eq!(scene.read().len(), 2, "{fsync:?}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let store = SessionFolder { dir: file.path().join("sessions"), fsync: FsyncMode::Never };
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
            "trap '' XFSZ; ulimit -f 1; exec \"$0\" --ignored --exact store::folder::tests::on_a_full_disk";
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
        let said = scene.said(add(&mut log, &[state(1), RecordRef::State { seq: 2, hash: &hash }]));
        let expected =
            "cannot write to session `DIR/a/b/trip.jsonl`: File too large; what it held before is kept";
        assert_eq!(said, expected);
        assert_eq!(scene.read(), [Record::Session(header())]);
        assert!(scene.written().ends_with("}\n"));
        add(&mut log, &[state(1)]).unwrap();
        assert_eq!(scene.read().len(), 2);
    }
}

//! `unfazed run --attach`: images and documents that come with a task.

use std::process::Output;

use crate::command;

const AGENT: &str = "version: 1\nmodels: {main: {api: scripted, script: model.yaml}}\nsession: {dir: kept}\n";

fn run(folder: &tempfile::TempDir, args: &[&str]) -> Output {
    std::fs::write(folder.path().join("agent.yaml"), AGENT).unwrap();
    std::fs::write(folder.path().join("model.yaml"), "version: 1\nreplies: [{text: A fox.}]\n").unwrap();
    let args = [&["run", "agent.yaml"], args].concat();
    command::unfazed(folder.path(), &args).output().unwrap()
}

#[test]
fn a_file_comes_with_the_task_and_is_kept_beside_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let image = b"\x89PNG\r\n\x1a\nfox";
    std::fs::write(folder.path().join("photo.txt"), image).unwrap();
    let output = run(&folder, &["--attach", "photo.txt", "what is it?"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "A fox.\n", "{output:?}");
    let (mut log, mut kept) = (String::new(), Vec::new());
    for entry in std::fs::read_dir(folder.path().join("kept")).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            kept.extend(std::fs::read_dir(path).unwrap().flatten().map(|file| file.path()));
        } else if path.extension().is_some_and(|end| end == "jsonl") {
            log = std::fs::read_to_string(path).unwrap();
        }
    }
    let line =
        "what is it?\\n\\n[image photo.txt, image/png, 11 bytes: not shown, kept under the handle \\\"a-";
    assert!(log.contains(line), "{log}");
    let [file] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!(file.extension().unwrap(), "png");
    assert_eq!(std::fs::read(file).unwrap(), image);
}

#[test]
fn what_cannot_be_attached_is_told_before_anything_begins() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.pdf"), "notes").unwrap();
    let told = |args: &[&str]| {
        let output = run(&folder, args);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let other = told(&["--attach", "notes.pdf", "what is it?"]);
    let why = "cannot attach notes.pdf: `notes.pdf` is neither an image (PNG, JPEG, GIF or WebP) nor a PDF, by its content";
    assert!(other.contains(why), "{other}");
    let missing = told(&["--attach", "gone.png", "what is it?"]);
    assert!(missing.contains("cannot read gone.png: there is no such file"), "{missing}");
    let alone = command::unfazed(folder.path(), &["run", "--resume", "latest", "--attach", "notes.pdf"])
        .output()
        .unwrap();
    let alone = String::from_utf8(alone.stderr).unwrap();
    assert!(alone.contains("--attach comes with a task: say what is to be done next"), "{alone}");
    let both = told(&["what is it?", "--task", "t"]);
    assert!(both.contains("cannot be used with"), "{both}");
}

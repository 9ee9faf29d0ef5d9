//! The commands of the guide print what it says.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::blocks::{self, Block};
use super::{pages, read, root};

#[test]
fn every_command_prints_what_is_shown() {
    let write = std::env::var_os("UNFAZED_WRITE_GUIDE").is_some();
    let mut ran = 0;
    for page in pages() {
        let blocks = blocks::of(&page);
        if !blocks.iter().any(|block| block.words == "console") {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        // Readers have a checkout.
        std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples")).unwrap();
        let mut anew = read(&page);
        for block in &blocks {
            if block.words.starts_with("yaml") {
                let path = folder.path().join(block.name());
                if block.words == "yaml written" {
                    anew = written_by_a_command(block, &fs::read_to_string(&path).unwrap(), anew, write);
                } else {
                    fs::write(path, &block.text).unwrap();
                }
            }
            if block.words != "console" {
                continue;
            }
            let (said, commands) = play(block, folder.path());
            ran += commands;
            if write {
                anew = anew.replacen(
                    &format!("```console\n{}```", block.text),
                    &format!("```console\n{said}```"),
                    1,
                );
            } else {
                assert!(
                    said == block.text,
                    "{}: it prints\n\n{said}\nUNFAZED_WRITE_GUIDE=1 writes it into the page",
                    block.place()
                );
            }
        }
        if write {
            fs::write(root().join(&page), anew).unwrap();
        }
    }
    assert!(ran > 10, "only {ran} commands were found");
}

/// What a command has written is shown below it as it is, under its name.
fn written_by_a_command(block: &Block, text: &str, page: String, write: bool) -> String {
    let shown = format!("# {}\n{text}", block.name());
    if write {
        return page.replacen(
            &format!("```{}\n{}```", block.words, block.text),
            &format!("```{}\n{shown}```", block.words),
            1,
        );
    }
    assert!(shown == block.text, "{}: the command writes\n\n{shown}", block.place());
    page
}

/// The block as it would be shown, and how many commands it has.
fn play(block: &Block, folder: &Path) -> (String, usize) {
    let (mut said, mut commands) = (String::new(), 0);
    for command in block.text.lines().filter_map(|line| line.strip_prefix("$ ")) {
        assert!(command.starts_with("unfazed "), "{}: `{command}` is none of unfazed's", block.place());
        let output = Command::new("sh")
            .args(["-c", &format!("{command} 2>&1")])
            .current_dir(folder)
            .env_clear()
            .env("PATH", path())
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let _ = write!(said, "$ {command}\n{}", text.trim_end_matches('\n'));
        if !text.is_empty() {
            said.push('\n');
        }
        if let Some(code) = output.status.code().filter(|code| *code != 0) {
            let _ = writeln!(said, "[{code}]");
        }
        commands += 1;
    }
    (said, commands)
}

/// Where `unfazed` is found before anything else.
fn path() -> std::ffi::OsString {
    let own = Path::new(env!("CARGO_BIN_EXE_unfazed")).parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&others))).unwrap()
}

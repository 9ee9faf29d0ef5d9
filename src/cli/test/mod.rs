//! `unfazed test`: cases written in YAML, played in virtual time.

mod conformance;
mod human;
mod json;
mod junit;
mod lcov;
mod update;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::cases::{CaseVerdict, PolicyCoverage, SuiteLoader, TestCase, TestSuite};
use crate::text::Report;
use regex::Regex;

use super::exit::{CommandFailure, ExitStatus};
use super::format::OutputFormat;
use super::{files, out};

/// Plays test cases for policies, in virtual time: what is waited, told, run, refused, and why
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed test                                  # every *.test.yaml below the current folder
  unfazed test tests/cases --run 'breaker'
  unfazed test policies/ --coverage=90 --lcov lcov.info
  unfazed test retry.test.yaml --update         # writes the exact numbers anew
  unfazed test tests/cases --conformance docs/conformance.md")]
pub(crate) struct TestArgs {
    /// Test files, or folders: of those the files `*.test.yaml`, and everything below `tests/cases/`.
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,
    /// Plays only the cases whose `FILE: NAME` this matches.
    #[arg(long, value_name = "REGEX")]
    run: Option<Regex>,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
    /// Writes the result as `JUnit` XML into this file, too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Lists the values of the policy files that never decided anything; with a number, fails below that percentage.
    #[arg(long, value_name = "MIN", num_args = 0..=1, require_equals = true, default_missing_value = "0",
          value_parser = clap::value_parser!(u8).range(0..=100))]
    coverage: Option<u8>,
    /// Writes the coverage in lcov's format into this file.
    #[arg(long, value_name = "FILE")]
    lcov: Option<PathBuf>,
    /// Writes a page into this file: which statements of which documents the cases prove.
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
    conformance: Option<PathBuf>,
    /// Writes `attempts`, `delays`, `turns` and `elapsed` that do not hold anew, if they stand on one line.
    #[arg(long)]
    update: bool,
}

/// A test file, and what became of it.
struct PlayedFile {
    name: String,
    /// Its cases; none if it cannot be used.
    suite: Option<TestSuite>,
    /// Why it cannot be used.
    broken: Option<BrokenFile>,
    /// The cases that were played, by their number in the file.
    verdicts: Vec<(usize, CaseVerdict)>,
}

/// Why a test file cannot be used.
enum BrokenFile {
    /// It cannot be read.
    Unread(CommandFailure),
    /// It, or a file it names, has mistakes.
    Mistakes(Vec<Report>),
}

impl PlayedFile {
    fn cases(&self) -> impl Iterator<Item = (&TestCase, &CaseVerdict)> {
        let cases = self.suite.as_ref().map_or(&[][..], TestSuite::cases);
        self.verdicts.iter().filter_map(|(index, verdict)| Some((cases.get(*index)?, verdict)))
    }

    fn broken(name: String, broken: BrokenFile) -> Self {
        match &broken {
            BrokenFile::Unread(error) => out::tell(error),
            BrokenFile::Mistakes(reports) => reports.iter().for_each(|report| out::say(&report.human(true))),
        }
        Self { name, suite: None, broken: Some(broken), verdicts: Vec::new() }
    }
}

pub(crate) fn run(args: &TestArgs) -> Result<ExitStatus, CommandFailure> {
    let mut coverage = (args.coverage.is_some() || args.lcov.is_some()).then(PolicyCoverage::new);
    let all = play_all(args, coverage.as_mut())?;
    let broken = || all.iter().filter_map(|played| played.broken.as_ref());
    let played: usize = all.iter().map(|played| played.verdicts.len()).sum();
    if played == 0 && broken().next().is_none() {
        out::say("there are no cases to play there\n");
        return Ok(ExitStatus::Nothing);
    }
    if let Some(path) = &args.junit {
        write(path, &junit::document(&all))?;
    }
    if let (Some(path), Some(coverage)) = (&args.lcov, &coverage) {
        write(path, &lcov::document(coverage))?;
    }
    let proved = match &args.conformance {
        Some(path) => prove(&all, path, &args.paths)?,
        None => true,
    };
    let shown = coverage.as_ref().filter(|_| args.coverage.is_some());
    match args.format {
        OutputFormat::Human => human::print(&all, shown)?,
        OutputFormat::Json => out::raw(&format!("{:#}\n", json::document(&all, shown)))?,
    }
    let failed = all.iter().flat_map(PlayedFile::cases).any(|(_, verdict)| !verdict.passed());
    let bare = shown.zip(args.coverage).and_then(|(coverage, least)| below(coverage, least));
    if let Some(why) = &bare {
        out::say(&format!("{why}\n"));
    }
    Ok(if broken().any(|broken| matches!(broken, BrokenFile::Unread(_))) {
        ExitStatus::Usage
    } else if failed || bare.is_some() || !proved || broken().next().is_some() {
        ExitStatus::Problem
    } else {
        ExitStatus::Clean
    })
}

/// Writes the page of what is proved. `false`: it would not be complete, and why has been said.
fn prove(all: &[PlayedFile], page: &Path, paths: &[PathBuf]) -> Result<bool, CommandFailure> {
    let problems = conformance::problems(all);
    let broken = all.iter().any(|played| played.broken.is_some());
    if broken || !problems.is_empty() {
        for problem in &problems {
            out::say(&format!("{problem}\n"));
        }
        out::say(&format!("{} is not written: it would not be complete\n", page.display()));
        return Ok(false);
    }
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let command = format!("unfazed test {} --conformance {}", paths.join(" "), page.display());
    write(page, &conformance::document(all, page, &command))?;
    Ok(true)
}

/// Plays all cases that are wanted. A file that cannot be used does not keep the others from being played.
fn play_all(
    args: &TestArgs,
    mut coverage: Option<&mut PolicyCoverage>,
) -> Result<Vec<PlayedFile>, CommandFailure> {
    let mut loader = SuiteLoader::new(open);
    let mut all = Vec::new();
    for path in test_files(&args.paths)? {
        let name = path.display().to_string();
        let bytes = match files::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                all.push(PlayedFile::broken(name, BrokenFile::Unread(error)));
                continue;
            }
        };
        match loader.read(&name, &bytes) {
            Ok(suite) => {
                for report in suite.warnings() {
                    out::say(&format!("{report}\n"));
                }
                let mut played = play(suite, args.run.as_ref(), coverage.as_deref_mut());
                if args.update {
                    update::rewrite(&path, &bytes, &mut played)?;
                }
                all.push(played);
            }
            Err(reports) => all.push(PlayedFile::broken(name, BrokenFile::Mistakes(reports))),
        }
    }
    Ok(all)
}

fn play(suite: TestSuite, wanted: Option<&Regex>, mut coverage: Option<&mut PolicyCoverage>) -> PlayedFile {
    let mut verdicts = Vec::new();
    for (index, case) in suite.cases().iter().enumerate() {
        let named = || format!("{}: {}", suite.name(), case.name());
        if wanted.is_some_and(|wanted| !wanted.is_match(&named())) {
            continue;
        }
        let verdict = match &mut coverage {
            Some(coverage) => case.run_counted(coverage),
            None => case.run(),
        };
        verdicts.push((index, verdict));
    }
    PlayedFile { name: suite.name().to_owned(), suite: Some(suite), broken: None, verdicts }
}

/// What is wrong with a test file, and with the policies it names, or likely not meant.
pub(crate) fn problems(name: &str, bytes: &[u8]) -> Vec<Report> {
    match SuiteLoader::new(open).read(name, bytes) {
        Ok(suite) => suite.warnings().to_vec(),
        Err(reports) => reports,
    }
}

/// Opens a file that a test file names.
fn open(test: &str, path: &str) -> Result<(String, Vec<u8>), String> {
    let path = Path::new(test).parent().unwrap_or(Path::new("")).join(path);
    let bytes = files::read(&path).map_err(|error| error.to_string())?;
    Ok((path.display().to_string(), bytes))
}

/// The test files that are meant, each once: files as they are named, of folders those that are tests.
fn test_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CommandFailure> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let (below, failed) = files::expand(std::slice::from_ref(path));
            if let Some(error) = failed.into_iter().next() {
                return Err(error);
            }
            found.extend(below.into_iter().filter(|path| is_test(path)).map(plain));
        } else {
            found.push(path.clone());
        }
    }
    let mut seen = HashSet::new();
    // What cannot be found is reported when it is read.
    found.retain(|path| seen.insert(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())));
    Ok(found)
}

fn is_test(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let cases = path.parent().is_some_and(|parent| {
        let parts: Vec<_> = parent.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        parts.windows(2).any(|pair| pair == ["tests", "cases"])
    });
    name.ends_with(".test.yaml") || name.ends_with(".test.yml") || (cases && !name.ends_with(".policy.yaml"))
}

/// Without the `./` of the current folder.
fn plain(path: PathBuf) -> PathBuf {
    path.strip_prefix(".").map(Path::to_path_buf).unwrap_or(path)
}

/// Why the coverage is less than is asked for, if it is.
fn below(coverage: &PolicyCoverage, least: u8) -> Option<String> {
    let (all, won) = coverage.count();
    if all == 0 && least > 0 {
        return Some(format!(
            "the coverage is below {least} %: the cases name no policy file (`policy`), and rules that stand in the \
             test files themselves are not counted"
        ));
    }
    let enough = won.saturating_mul(100) >= all.saturating_mul(usize::from(least));
    (!enough).then(|| format!("the coverage is below {least} %"))
}

fn write(path: &Path, text: &str) -> Result<(), CommandFailure> {
    std::fs::write(path, text)
        .map_err(|error| CommandFailure::io(format!("cannot write {}", path.display()), error))
}

//! `unfazed test`: cases written in YAML, played in virtual time.

mod human;
mod json;
mod junit;
mod lcov;
mod update;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use regex::Regex;
use unfazed::cases::{Case, Coverage, Loader, Suite, Verdict};
use unfazed::policy::Report;

use super::exit::{Exit, Failed};
use super::{files, out};

/// Plays test cases for policies, in virtual time: what is waited, told, run, refused, and why
#[derive(clap::Args)]
#[command(after_help = "Examples:
  unfazed test                                  # every *.test.yaml below the current folder
  unfazed test tests/cases --run 'breaker'
  unfazed test policies/ --coverage=90 --lcov lcov.info
  unfazed test retry.test.yaml --update         # writes the exact delays and attempts anew")]
pub(crate) struct Args {
    /// Test files, or folders: of those the files `*.test.yaml`, and everything below `tests/cases/`.
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,
    /// Plays only the cases whose `FILE: NAME` this matches.
    #[arg(long, value_name = "REGEX")]
    run: Option<Regex>,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Writes the result as `JUnit` XML into this file, too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Shows which values of the policy files never won in any case; with a number, fails below that percentage.
    #[arg(long, value_name = "MIN", num_args = 0..=1, require_equals = true, default_missing_value = "0",
          value_parser = clap::value_parser!(u8).range(0..=100))]
    coverage: Option<u8>,
    /// Writes the coverage in lcov's format into this file.
    #[arg(long, value_name = "FILE")]
    lcov: Option<PathBuf>,
    /// Writes `delays` and `attempts` that do not hold anew, where no comment is lost.
    #[arg(long)]
    update: bool,
}

/// How the result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Human,
    /// One JSON document.
    Json,
}

/// A test file and the verdicts on its cases.
struct Played {
    suite: Suite,
    /// The cases that were played, by their number in the file.
    verdicts: Vec<(usize, Verdict)>,
}

impl Played {
    fn cases(&self) -> impl Iterator<Item = (&Case, &Verdict)> {
        self.verdicts.iter().filter_map(|(index, verdict)| Some((self.suite.cases().get(*index)?, verdict)))
    }
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failed> {
    let mut loader = Loader::new(open);
    let mut coverage = (args.coverage.is_some() || args.lcov.is_some()).then(Coverage::new);
    let mut all = Vec::new();
    let mut broken = false;
    for path in test_files(&args.paths)? {
        let bytes = files::read(&path)?;
        let name = path.display().to_string();
        match loader.read(&name, &bytes) {
            Ok(suite) => {
                let mut played = play(suite, args.run.as_ref(), coverage.as_mut());
                if args.update {
                    update::rewrite(&path, &bytes, &mut played)?;
                }
                all.push(played);
            }
            Err(reports) => {
                broken = true;
                for report in reports {
                    out::say(&report.human(true));
                }
            }
        }
    }
    let played: usize = all.iter().map(|played| played.verdicts.len()).sum();
    if played == 0 && !broken {
        out::say("there are no cases to play there\n");
        return Ok(Exit::Nothing);
    }
    if let Some(path) = &args.junit {
        write(path, &junit::document(&all))?;
    }
    if let (Some(path), Some(coverage)) = (&args.lcov, &coverage) {
        write(path, &lcov::document(coverage))?;
    }
    let shown = coverage.as_ref().filter(|_| args.coverage.is_some());
    match args.format {
        Format::Human => human::print(&all, shown, broken)?,
        Format::Json => out::raw(&format!("{:#}\n", json::document(&all, shown)))?,
    }
    let failed = all.iter().flat_map(Played::cases).any(|(_, verdict)| !verdict.passed());
    let bare = match (shown, args.coverage) {
        (Some(coverage), Some(least)) => below(coverage, least),
        _ => false,
    };
    if bare && args.format == Format::Human {
        out::say(&format!("the coverage is below {} %\n", args.coverage.unwrap_or_default()));
    }
    Ok(if failed || broken || bare { Exit::Problem } else { Exit::Clean })
}

fn play(suite: Suite, wanted: Option<&Regex>, mut coverage: Option<&mut Coverage>) -> Played {
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
    Played { suite, verdicts }
}

/// What is wrong with a test file, and with the policies it names.
pub(crate) fn problems(name: &str, bytes: &[u8]) -> Vec<Report> {
    Loader::new(open).read(name, bytes).err().unwrap_or_default()
}

/// Opens a file that a test file names.
fn open(test: &str, path: &str) -> Result<(String, Vec<u8>), String> {
    let path = Path::new(test).parent().unwrap_or(Path::new("")).join(path);
    let bytes = files::read(&path).map_err(|error| error.to_string())?;
    Ok((path.display().to_string(), bytes))
}

/// The test files that are meant: files as they are named, of folders those that are tests.
fn test_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failed> {
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
    found.dedup();
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

fn below(coverage: &Coverage, least: u8) -> bool {
    let (all, won) = coverage.count();
    won.saturating_mul(100) < all.saturating_mul(usize::from(least))
}

fn write(path: &Path, text: &str) -> Result<(), Failed> {
    std::fs::write(path, text).map_err(|error| Failed::io(format!("cannot write {}", path.display()), error))
}

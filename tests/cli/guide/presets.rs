//! The pages about other systems name values that are in effect under their presets.

use regex::Regex;
use unfazed::analysis::ComparedNames;
use unfazed::policy::{Loader, Policy};

use super::read;

/// The presets; what takes precedence over one for its page; how many values its page names at least.
const PRESETS: &[(&str, &str, usize)] = &[
    ("supyagent", "", 10),
    ("localcowork", "", 12),
    ("swarm-sdk", "", 5),
    ("ai-agent", "output: {}\n", 15),
    ("weakincentives", "", 3),
];

#[test]
fn what_is_said_to_stand_in_a_preset_is_in_force_under_it() {
    let value =
        Regex::new(r"`((?:retry|tools|models|turn|history|context|session)(?:\.[a-z_*]+)+)(?:: ([^`]+))?`")
            .unwrap();
    for (name, above, least) in PRESETS {
        let base = format!("version: 1\nextends: builtin:presets/{name}\n{above}");
        let preset = policy(&base, "").unwrap();
        let mut values = 0;
        for row in read(&format!("docs/from-{name}.md")).lines().filter(|line| line.starts_with('|')) {
            let here = row.trim_end_matches('|').rsplit('|').next().unwrap();
            for found in value.captures_iter(here) {
                let (path, said) = (&found[1], found.get(2).map(|said| said.as_str()));
                // To say it again changes nothing; a key that stands without a value has to be one of the language.
                let again = match said {
                    Some(said) => policy(&base, &nested(path, said)),
                    None => {
                        policy(&base, &nested(path, "null")).or_else(|_| policy(&base, &nested(path, "{}")))
                    }
                };
                let again = again.unwrap_or_else(|problem| panic!("{name}: {path}: {problem}"));
                if said.is_some() {
                    let differs = preset.diff(&again, &ComparedNames::default());
                    assert!(differs.is_empty(), "{name}: `{path}` is another: {}", differs.human());
                    values += 1;
                }
            }
        }
        assert!(values >= *least, "docs/from-{name}.md: only {values} values were found");
    }
}

/// The policy, and another one above it.
fn policy(base: &str, above: &str) -> Result<Policy, String> {
    let mut find = |_: &str, path: &str| Err(format!("there is no {path}"));
    let mut files = vec![("base.yaml".to_owned(), base.to_owned())];
    if !above.is_empty() {
        files.push(("above.yaml".to_owned(), format!("version: 1\n{above}\n")));
    }
    Loader::new().load_with(&mut find, files).map_err(|report| report.human(false))
}

/// `turn.max_turns` and `10` as `"turn": {"max_turns": 10}`.
fn nested(path: &str, value: &str) -> String {
    let (first, rest) = path.split_once('.').unwrap();
    let inner = rest.rsplit('.').fold(value.to_owned(), |value, key| format!("{{\"{key}\": {value}}}"));
    format!("{first}: {inner}")
}

//! Fields that do not exist: misspelled, of another mapping, of an earlier version, or as another library calls them.

use super::{NodeReader, QUOTED, UNKNOWN, list};
use crate::policy::meaning::{self, CountedUnit};
use crate::text::did_you_mean::{closest, is_certain};
use crate::text::excerpt;
use crate::text::yaml::{YamlData, YamlKey, YamlNode};
use crate::text::{Code, Diagnostic, Span};

impl NodeReader<'_> {
    /// The field that a key names. An unknown one is reported; if it can only mean a known one, its value is read as that
    /// one's.
    pub fn field<'f>(
        &mut self,
        key: &YamlKey,
        fields: &[&'f str],
        entries: &[(YamlKey, YamlNode)],
    ) -> Option<&'f str> {
        let known = fields.iter().find(|field| **field == &*key.name).copied();
        known.or_else(|| self.unknown_field(key, fields, entries))
    }

    /// Reports a field that does not exist; gives the one that is certainly meant.
    pub fn unknown_field<'f>(
        &mut self,
        key: &YamlKey,
        fields: &[&'f str],
        entries: &[(YamlKey, YamlNode)],
    ) -> Option<&'f str> {
        let problem = Diagnostic::error(
            Code::UNKNOWN_FIELD,
            key.span,
            format!("unknown field `{}`", excerpt(&key.name, QUOTED)),
        );
        if let Some(now) = meaning::renamed_key(&key.name, fields) {
            return self.renamed(key, now, entries);
        }
        if self.findings.problems().is_crowded() {
            self.findings.push(problem);
            return None;
        }
        let no_string = |problem: &Diagnostic| problem.code == Code::KEY_TYPE && problem.span == key.span;
        if let Some(problem) = self.findings.problems_mut().recent(no_string) {
            // The key is no string (`no:`, `1:`), which has been reported. With quotes it would still be an unknown
            // field.
            problem.fix = None;
            problem.help = vec![format!("expected one of {}", list(fields))];
            return None;
        }
        let (name, known) = (&*key.name, || fields.iter().copied());
        let near = closest(name, known());
        let sure = near.is_some_and(|near| is_certain(name, near, known()));
        let sense = meaning::field(name, fields);
        // A field of another mapping, or a word with a meaning elsewhere, is not a misspelling of what it looks
        // like.
        let home = if sure || sense.is_some() { None } else { self.home(name) };
        let near = near.filter(|_| sure || (home.is_none() && !meaning::is_known(name)));
        let mut certain = None;
        let problem = match (near, sense) {
            (Some(meant), sense) if sure || sense.is_none() => {
                let mut problem = problem.meant(key.span, name, meant, known());
                if let Some((first, _)) = self.there_already(meant, entries) {
                    // Keys of a mapping are unique (YAML 1.2.2, section 3.2.1.1), so the repair would be a new
                    // mistake.
                    problem.fix = None;
                    problem = problem.also(first.span, format!("`{meant}` is here already"));
                } else if let Some(other) = meaning::rival(key, meant, fields, entries) {
                    // Two keys may be meant for this field, and it can be only one of them.
                    problem.fix = None;
                    problem = problem.also(other.span, format!("this may be meant for `{meant}` too"));
                }
                certain = problem.fix.is_some().then_some(meant);
                if certain.is_none() {
                    self.lose(meant);
                }
                problem
            }
            (_, Some(sense)) => {
                self.lose(sense.here);
                self.translated(problem, key, &sense, (fields, entries))
            }
            _ if home.is_some() => {
                self.lose(name);
                problem.help_if(home)
            }
            // Compose files keep shared blocks under `x-` keys; here no key is ignored.
            _ if name.starts_with("x-") => problem.help(
                "there is no place for shared blocks: write one as `&name` where it is used first, and `*name` elsewhere; or use a pattern for several names",
            ),
            _ => {
                // An unknown field may have been meant for any value, so whatever that could silence is not
                // reported.
                self.lose(UNKNOWN);
                problem.help(format!("expected one of {}", list(fields)))
            }
        };
        self.findings.push(problem);
        certain
    }

    /// Reports a field by its name of another time; its value is read as that of the field, unless that is there too.
    fn renamed<'f>(
        &mut self,
        key: &YamlKey,
        now: &'f str,
        entries: &[(YamlKey, YamlNode)],
    ) -> Option<&'f str> {
        let problem =
            Diagnostic::error(Code::UNKNOWN_FIELD, key.span, format!("`{}` is now `{now}`", key.name));
        let twice = self.there_already(now, entries).map(|(first, _)| first.span);
        let (problem, taken) = match twice {
            Some(first) => (problem.also(first, format!("`{now}` is here already")), None),
            None => (problem.fix(key.span, "write the new name", now), Some(now)),
        };
        if taken.is_none() {
            self.lose(now);
        }
        self.findings.push(problem);
        taken
    }

    /// Where a field that is not known here belongs.
    fn home(&mut self, name: &str) -> Option<String> {
        self.known_homes.get_or_insert_with(self.homes).help(name)
    }

    /// A field that has another name elsewhere; a number of attempts is put right with it.
    fn translated(
        &mut self,
        problem: Diagnostic,
        key: &YamlKey,
        sense: &meaning::KnownField,
        (fields, entries): (&[&str], &[(YamlKey, YamlNode)]),
    ) -> Diagnostic {
        let value = entries.iter().find(|(other, _)| other.span == key.span).map(|(_, value)| value);
        let number = value.and_then(|value| match &value.data {
            // A larger number is one of milliseconds, or a slip.
            YamlData::Number(number) => number.as_u64().filter(|number| *number < 1_000),
            _ => None,
        });
        // Polly, Istio and others count retries. Here the first attempt counts too, so their number is one less.
        let (counted, what) = match (sense.counts, number) {
            (CountedUnit::Retries, Some(number)) => {
                (number.saturating_add(1), format!("{number} retries are"))
            }
            (CountedUnit::Attempts, Some(number)) if number > 0 => (number, "write".to_owned()),
            _ => return problem.help(sense.help),
        };
        let text = match sense.here {
            "retry" => format!("retry: {{max_attempts: {counted}}}"),
            here => format!("{here}: {counted}"),
        };
        let problem = problem.help(format!("the first attempt counts too: {what} `{text}`"));
        let Some(value) = value.filter(|_| self.there_already(sense.here, entries).is_none()) else {
            return problem;
        };
        // Only a key and its value side by side are replaced as a whole: a comment between them would be lost.
        let plain = |between: &str| between.trim_matches([' ', '"', '\'']) == ":";
        let whole = Span { end: value.span.end, ..key.span };
        let between = self.text(Span { start: key.span.end, end: value.span.start, ..key.span });
        // Another spelling of the same field is there too, and it is open which of them counts.
        let is_rival = |name: &str| {
            !fields.contains(&name)
                && meaning::field(name, fields).is_some_and(|other| other.here == sense.here)
        };
        let rivals = entries.iter().filter(|(other, _)| is_rival(&other.name)).count();
        if plain(between) && rivals == 1 {
            problem.fix(whole, "write it as it is counted here", text)
        } else {
            problem
        }
    }

    /// The entry that has that name, or will have it once it is repaired.
    fn there_already<'n>(
        &mut self,
        name: &str,
        entries: &'n [(YamlKey, YamlNode)],
    ) -> Option<&'n (YamlKey, YamlNode)> {
        let exact = entries.iter().find(|(other, _)| &*other.name == name);
        exact.or_else(|| {
            let repaired = |problem: &Diagnostic| {
                problem.code == Code::UNKNOWN_FIELD
                    && problem.fix.as_ref().is_some_and(|fix| fix.text == name)
                    && entries.iter().any(|(other, _)| other.span == problem.span)
            };
            let span = self.findings.problems_mut().recent(repaired)?.span;
            entries.iter().find(|(other, _)| other.span == span)
        })
    }
}

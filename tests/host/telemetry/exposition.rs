//! A reader of Prometheus' text format, version 0.0.4, that takes nothing it need not take.

use std::collections::{BTreeMap, BTreeSet};

/// The families of metrics, by name.
pub(crate) type Families = BTreeMap<String, Family>;

/// One metric with all its series.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) samples: Vec<Sample>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
    /// The value as it stands there.
    pub(crate) written: String,
}

/// Reads an exposition, or says which line breaks which rule.
pub(crate) fn read(text: &str) -> Result<Families, String> {
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("the last line does not end".into());
    }
    let mut families = Families::new();
    let mut current = String::new();
    let mut helped = BTreeSet::new();
    for line in text.lines() {
        let broken = |rule: &str| format!("{rule}: {line}");
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, _) = help.split_once(' ').ok_or_else(|| broken("help without a text"))?;
            if !helped.insert(name.to_owned()) {
                return Err(broken("helped twice"));
            }
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').ok_or_else(|| broken("type without a kind"))?;
            if !["counter", "gauge", "histogram"].contains(&kind) {
                return Err(broken("unknown kind"));
            }
            name.clone_into(&mut current);
            let family = Family { kind: kind.to_owned(), samples: Vec::new() };
            if !is_name(name) || families.insert(name.to_owned(), family).is_some() {
                return Err(broken("typed twice, or no name"));
            }
        } else {
            let sample = sample(line).ok_or_else(|| broken("no sample"))?;
            let family = families.get_mut(&current).ok_or_else(|| broken("a sample before its type"))?;
            let suffix =
                sample.name.strip_prefix(&current).ok_or_else(|| broken("among another's samples"))?;
            let fits = match family.kind.as_str() {
                "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
                _ => suffix.is_empty(),
            };
            let again = |other: &Sample| other.name == sample.name && other.labels == sample.labels;
            if !fits || family.samples.iter().any(again) {
                return Err(broken("the same series twice, or none of this metric"));
            }
            family.samples.push(sample);
        }
    }
    for (name, family) in &families {
        if family.kind == "histogram" {
            histogram(name, family)?;
        }
    }
    Ok(families)
}

/// Buckets grow, end with `+Inf`, and that is the count.
fn histogram(name: &str, family: &Family) -> Result<(), String> {
    let mut series: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    let is = |sample: &&Sample, suffix: &str| sample.name == format!("{name}{suffix}");
    for bucket in family.samples.iter().filter(|sample| is(sample, "_bucket")) {
        let mut labels = bucket.labels.clone();
        let le = labels.remove("le").ok_or_else(|| format!("{name}: a bucket without `le`"))?;
        let le =
            if le == "+Inf" { f64::INFINITY } else { le.parse().map_err(|_| format!("{name}: le={le}"))? };
        series.entry(labels).or_default().push((le, bucket.value));
    }
    for (labels, buckets) in series {
        let of = |suffix: &str| {
            let found = family.samples.iter().find(|sample| is(sample, suffix) && sample.labels == labels);
            found.map(|sample| sample.value).ok_or_else(|| format!("{name}{suffix} is not there: {labels:?}"))
        };
        of("_sum")?;
        let grow = buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
        if !grow || buckets.last().copied() != Some((f64::INFINITY, of("_count")?)) {
            return Err(format!("{name}: the buckets are {buckets:?}"));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    name.chars().all(legal) && name.starts_with(|c: char| !c.is_ascii_digit())
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = value(after)?;
            if !is_name(label) || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            match after.split_at_checked(1)? {
                (",", after) => rest = after,
                ("}", after) => {
                    rest = after;
                    break;
                }
                _ => return None,
            }
        }
    }
    let written = rest.strip_prefix(' ')?.to_owned();
    let value = written.parse().ok()?;
    is_name(name).then(|| Sample { name: name.to_owned(), labels, value, written })
}

/// The value of a label up to its closing quote, and what follows.
fn value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return text.get(at + 1..).map(|rest| (value, rest)),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

#[test]
fn what_breaks_a_rule_is_not_read() {
    let good = "# HELP a help\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 2\na_sum 3\na_count 2\n";
    read(good).unwrap();
    for (from, to) in [
        ("le=\"+Inf\"} 2", "le=\"+Inf\"} 3"),
        ("le=\"1\"} 1", "le=\"1\"} 5"),
        ("a_sum 3\n", ""),
        ("# TYPE a histogram\n", ""),
        ("a_count 2\n", "a_count 2"),
        ("a_count 2", "a_count 2\na_count 2"),
        ("a_count 2", "b 2"),
        ("le=\"1\"", "le=\"\\x\""),
    ] {
        let broken = good.replace(from, to);
        assert_ne!(broken, good);
        read(&broken).unwrap_err();
    }
}

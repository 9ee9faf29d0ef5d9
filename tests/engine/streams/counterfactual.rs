//! The counterfactual law: a decision names at most three reasons, and each of them is a value that decided. Write another
//! legal value in the place that is named, and the decision is another one.
//!
//! - A decision is a directive without its reasons: what is done, to which call or model, with which delay and which message.
//!   How attempts ended is one decision with what is done about it ([`decision`]).
//! - The policy changes for the event that brought the decision, and for nothing before it: the state is the one that the policy
//!   as it is written made. What the state keeps was decided earlier, and is changed from that event on ([`Decided::events`]).
//! - Each reason is tried alone. Where none of several matters alone, each of them would have been enough, and they are changed
//!   together. A reason that is idle both ways fails the law.
//! - Of one value in two places (a limit and the value it holds back) one place is named. Changing it leaves the decision to the
//!   other place, which is named then.
//! - A server can ask for a longer wait than anybody can write as a limit ([`LONGEST`]): no other limit would allow it.
//! - What decides without standing in the policy has no key, so it is no reason, and a decision that rests on it alone names
//!   none: the deadline of a host, the window that a provider named when it refused a request, the value of a planner (which
//!   names its own layer), a call that no tool takes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::OnceLock;

use serde_json::{Map, Value};
use unfazed::engine::{DecisionReason, Directives, DriveMode, Envelope, State};
use unfazed::policy::{LayerKind, Policy};
use unfazed::text::yaml::{YamlData, YamlNode};
use unfazed::text::{Place, Problems, Sources, Span, yaml};

use super::count::streams;
use super::host::{Host, fresh_state, interpreter};
use super::other_values::{PathStep, other_values};
use super::policies::{POLICIES, made};
use super::tape::Tape;
use super::{CHOICES, STEPS, count};

/// The built-in values as a file of its own, below the policy: so they can be changed like all others.
const BUILTIN: &str = include_str!("../../../policies/default.yaml");
/// The most reasons of a decision.
const MOST: usize = 3;
/// The longest length that a policy can have: 366 days, in nanoseconds.
const LONGEST: u64 = 366 * 24 * 60 * 60 * 1_000_000_000;
/// In how many streams a rule is tried once as the reason of one kind of decision: one in so many of all.
const ONE_IN: u32 = 32;

/// Notes that say how attempts ended. What is done about it, the step says after them: that is one decision with the note.
const ENDS: [&str; 5] = ["tool_ended", "output_refused", "reject_turn", "turn_retracted", "exhausted"];

/// What the grammar writes that replaces what a model reads of a refusal, whatever the call was refused for.
const CHECKS: [&str; 2] = [", check: slice < 3", ", check: slice < 1"];

/// A value of a file: where it is written, and what it is.
struct Written {
    place: Place,
    path: Vec<PathStep>,
    range: Range<usize>,
    value: Value,
}

/// A file of a policy.
struct File {
    name: &'static str,
    text: String,
    values: Vec<Written>,
}

impl File {
    fn new(name: &'static str, text: String) -> Self {
        let mut sources = Sources::new();
        let (_, root) = yaml::load(&mut sources, &mut Problems::default(), name, text.as_bytes());
        let mut values = Vec::new();
        collect(&sources, &root.unwrap(), &[], &mut values);
        Self { name, text, values }
    }

    fn builtin() -> &'static Self {
        static FILE: OnceLock<File> = OnceLock::new();
        FILE.get_or_init(|| Self::new("builtin.yaml", BUILTIN.to_owned()))
    }

    /// The value of a place, which is that of its key where that has the place.
    fn at(&self, place: &Place) -> &Written {
        let found = self.values.iter().find(|written| written.place == *place);
        found.unwrap_or_else(|| panic!("no value is written at {place:?}"))
    }

    /// Its text with other values.
    fn with(&self, changes: &[Change<'_>]) -> String {
        let mut here: Vec<(Range<usize>, &Value)> = changes
            .iter()
            .filter(|(place, _)| place.file == self.name)
            .map(|(place, value)| (self.at(place).range.clone(), *value))
            .collect();
        here.sort_by_key(|(range, _)| core::cmp::Reverse(range.start));
        let mut text = self.text.clone();
        for (range, value) in here {
            let end = if text[range.clone()].ends_with('\n') { "\n" } else { "" };
            text.replace_range(range, &format!("{value}{end}"));
        }
        text
    }
}

fn without_masks(text: &str) -> String {
    CHECKS.iter().fold(text.to_owned(), |text, check| text.replace(check, ""))
}

/// All values below a node, those of keys first by the place of the key.
fn collect(sources: &Sources, node: &YamlNode, path: &[PathStep], values: &mut Vec<Written>) {
    let written = |span: Span, node: &YamlNode, path: &[PathStep]| Written {
        place: sources.place_of(span),
        path: path.to_vec(),
        range: node.span.start as usize..node.span.end as usize,
        value: node.to_json(),
    };
    match &node.data {
        YamlData::Map(entries) => {
            for (key, value) in entries.iter() {
                let path = [path, &[PathStep::Key(key.name.to_string())]].concat();
                values.push(written(key.span, value, &path));
                collect(sources, value, &path, values);
                values.push(written(value.span, value, &path));
            }
        }
        YamlData::List(items) => {
            for item in items.iter() {
                let path = [path, &[PathStep::Item]].concat();
                values.push(written(item.span, item, &path));
                collect(sources, item, &path, values);
            }
        }
        _ => {}
    }
}

/// A place and what is written there instead.
type Change<'c> = (&'c Place, &'c Value);

/// The files of a policy, and the policies that come of other values in them.
struct Files {
    own: File,
    changed: RefCell<HashMap<String, Option<Policy>>>,
}

impl Files {
    fn of(number: usize) -> Self {
        Self { own: File::new("policy.yaml", made(number).text.clone()), changed: RefCell::default() }
    }

    fn all(&self) -> [&File; 2] {
        [File::builtin(), &self.own]
    }

    fn file(&self, place: &Place) -> &File {
        let file = self.all().into_iter().find(|file| file.name == place.file);
        file.unwrap_or_else(|| panic!("{place:?} is in no file of the policy"))
    }

    fn policy(&self) -> Policy {
        self.load(&[], false).unwrap_or_else(|| panic!("it does not load:\n{}", self.own.text))
    }

    /// Whether a reducer may object to what was decided.
    fn is_masked(&self) -> bool {
        CHECKS.iter().any(|check| self.own.text.contains(check))
    }

    /// The same policy with other values; `None`: one of them is not legal. Unmasked: no reducer objects.
    fn with(&self, changes: &[Change<'_>], unmasked: bool) -> Option<Policy> {
        let key = format!("{unmasked} {changes:?}");
        self.changed.borrow_mut().entry(key).or_insert_with(|| self.load(changes, unmasked)).clone()
    }

    fn load(&self, changes: &[Change<'_>], unmasked: bool) -> Option<Policy> {
        let files = self.all().map(|file| {
            let text = file.with(changes);
            (file.name.to_owned(), if unmasked { without_masks(&text) } else { text })
        });
        Policy::load(files.into()).ok()
    }

    /// What can be written at the place of a reason instead of what is.
    fn others(&self, because: &DecisionReason) -> Vec<Value> {
        let written = self.file(&because.place).at(&because.place);
        other_values(&written.path, &written.value, &because.facts)
    }
}

/// One event of a stream: the state before it, and what was decided.
struct Moment {
    before: State,
    envelope: String,
    decided: Vec<Value>,
}

fn moments(policy: &Policy, host: &Host) -> Vec<Moment> {
    let interpreter = interpreter(policy);
    let mut state = fresh_state();
    let moment = |line: &String| {
        let before = state.clone();
        let directives = interpreter.step(&mut state, serde_json::from_str(line).unwrap());
        Moment { before, envelope: line.clone(), decided: list(&directives) }
    };
    host.events.iter().map(moment).collect()
}

fn list(directives: &Directives) -> Vec<Value> {
    serde_json::to_value(directives).unwrap().as_array().unwrap().clone()
}

fn kind(directive: &Value) -> &str {
    directive["directive"].as_str().unwrap()
}

/// What is decided, without the reasons, in words or as a name, without how many attempts there could be, and without the numbers
/// of work: so an attempt that ends for another reason is the same decision.
fn bare(directive: &Value) -> Value {
    let mut bare = directive.clone();
    let fields = bare.as_object_mut().unwrap();
    for field in ["because", "reason", "max_attempts", "log_message", "sources", "work"] {
        fields.remove(field);
    }
    for (inner, field) in [("feedback", "max_attempts"), ("exhausted", "reason")] {
        if let Some(Value::Object(inner)) = fields.get_mut(inner) {
            inner.remove(field);
        }
    }
    bare
}

/// A decision: a directive; for the end of an attempt also what is done about it, up to what is about another call.
fn decision(decided: &[Value], which: usize) -> Vec<Value> {
    let one = &decided[which];
    let mut decision = vec![bare(one)];
    if ENDS.contains(&kind(one)) {
        let is_other = |other: &Value| {
            kind(other) == kind(one) || (other.get("call").is_some() && other.get("call") != one.get("call"))
        };
        let next = decided[which + 1..].iter().take_while(|other| !is_other(other));
        decision.extend(next.filter(|other| kind(other) != "metric").map(bare));
    }
    decision
}

/// A decision of a stream.
struct Decided<'m> {
    moments: &'m [Moment],
    at: usize,
    which: usize,
}

impl Decided<'_> {
    fn directive(&self) -> &Value {
        &self.moments[self.at].decided[self.which]
    }

    /// What is decided at its event, if that policy decides from another event on.
    fn decided(&self, from: usize, policy: &Policy) -> Vec<Value> {
        let interpreter = interpreter(policy);
        let mut state = self.moments[from].before.clone();
        let mut decided = Vec::new();
        for moment in &self.moments[from..=self.at] {
            let envelope: Envelope = serde_json::from_str(&moment.envelope).unwrap();
            decided = list(&interpreter.step(&mut state, envelope));
        }
        decided
    }

    /// The events from which on a value may have decided: this one; the one that brought the call it is about; and those since
    /// which the state has what was decided then: the reason itself, a breaker with the rules it began under, or a report.
    fn events(&self, because: &DecisionReason) -> Vec<usize> {
        let directive = self.directive();
        // An attempt that was the last names its tool in its action.
        let action =
            directive["exhausted"]["action"].as_str().and_then(|action| action.strip_prefix("tool "));
        let tool = directive["tool"].as_str().or(action).unwrap_or_default();
        let is_kept = |fields: &Map<String, Value>| is_reason(fields, because);
        let has_breaker =
            |fields: &Map<String, Value>| fields.get("breakers").is_some_and(|all| all.get(tool).is_some());
        let has_report = |fields: &Map<String, Value>| fields.get("pending").is_some_and(Value::is_object);
        let mut events = vec![self.at];
        events.extend(self.since(&is_kept));
        if because.rule.starts_with("breaker.") {
            events.extend(self.since(&has_breaker));
        }
        if directive["source"] == "pending" {
            events.extend(self.since(&has_report));
        }
        if kind(directive) == "refused" {
            let announces = |moment: &Moment| moment.decided.iter().any(|one| kind(one) == "final_turn");
            events.extend((0..self.at).rev().find(|at| announces(&self.moments[*at])));
        }
        if let Some(call) = directive["call"].as_str() {
            let call = format!("\"{call}\"");
            let has_call = |at: &usize| self.state(*at).to_string().contains(&call);
            events.extend((0..self.at).rev().find(|at| !has_call(at)));
        }
        events
    }

    fn state(&self, at: usize) -> Value {
        serde_json::to_value(&self.moments[at].before).unwrap()
    }

    /// The event since which the state has an object of which that holds.
    fn since(&self, holds: &dyn Fn(&Map<String, Value>) -> bool) -> Option<usize> {
        (0..=self.at).rev().find(|at| !has(&self.state(*at), holds)).filter(|at| *at < self.at)
    }

    /// Whether other values in those places make it another decision, or leave it to another place: of the same value in two
    /// places one is named, and the other one is then. Under the policy as it is, or where no reducer objects.
    fn depends_on(&self, reasons: &[&DecisionReason], files: &Files) -> bool {
        let masks = [false, true].into_iter().take(1 + usize::from(files.is_masked()));
        let events: BTreeSet<usize> = reasons.iter().flat_map(|because| self.events(because)).collect();
        masks.into_iter().any(|unmasked| {
            events.iter().rev().any(|from| {
                let before = self.decided(*from, &files.with(&[], unmasked).unwrap());
                changes(reasons, files).any(|values| {
                    let changes: Vec<Change<'_>> =
                        reasons.iter().zip(&values).map(|(because, value)| (&because.place, value)).collect();
                    let policy = files.with(&changes, unmasked);
                    policy
                        .is_some_and(|policy| self.is_other(&before, &self.decided(*from, &policy), reasons))
                })
            })
        })
    }

    /// Whether it is decided less often than before, for reasons in those places. What was not decided before says nothing.
    fn is_other(&self, before: &[Value], after: &[Value], reasons: &[&DecisionReason]) -> bool {
        let mine = |one: &Value| {
            kind(one) == kind(self.directive()) && one.get("call") == self.directive().get("call")
        };
        let count = |list: &[Value], decided: &[Value]| {
            let is = |which: &usize| {
                mine(&list[*which])
                    && decision(list, *which) == decided
                    && reasons.iter().all(|because| names(&list[*which], because))
            };
            (0..list.len()).filter(is).count()
        };
        (0..before.len()).filter(|which| mine(&before[*which])).any(|which| {
            let decided = decision(before, which);
            count(after, &decided) < count(before, &decided)
        })
    }

    /// The reasons that it names without depending on them.
    fn idle(&self, reasons: &[&DecisionReason], files: &Files) -> Vec<String> {
        let alone = |because: &&&DecisionReason| !self.depends_on(&[*because], files);
        let idle: Vec<&DecisionReason> = reasons.iter().filter(alone).copied().collect();
        if idle.len() > 1 && self.depends_on(&idle, files) {
            return Vec::new();
        }
        idle.iter().map(|because| because.rule.clone()).collect()
    }
}

/// All values that can be written in the places of several reasons, each with each.
fn changes(reasons: &[&DecisionReason], files: &Files) -> impl Iterator<Item = Vec<Value>> {
    let others: Vec<Vec<Value>> = reasons.iter().map(|because| files.others(because)).collect();
    let all: usize = others.iter().map(Vec::len).product();
    (0..all).map(move |mut number| {
        let pick = |values: &Vec<Value>| {
            let value = values[number % values.len()].clone();
            number /= values.len();
            value
        };
        others.iter().map(pick).collect()
    })
}

/// Whether a state has an object somewhere of which that holds.
fn has(state: &Value, holds: &dyn Fn(&Map<String, Value>) -> bool) -> bool {
    match state {
        Value::Object(fields) => holds(fields) || fields.values().any(|value| has(value, holds)),
        Value::Array(list) => list.iter().any(|value| has(value, holds)),
        _ => false,
    }
}

/// Whether it is that reason, as a state keeps it.
fn is_reason(fields: &Map<String, Value>, because: &DecisionReason) -> bool {
    let is = |field: &str, text: &str| fields.get(field).and_then(Value::as_str) == Some(text);
    fields.contains_key("spot") && is("rule", &because.rule) && is("value", &because.value)
}

/// Whether a decision names the place of a reason: the line, as a value on it may be longer now.
fn names(directive: &Value, because: &DecisionReason) -> bool {
    let is_it = |named: &Value| {
        named["rule"] == *because.rule
            && named["place"]["file"] == *because.place.file
            && named["place"]["line"] == because.place.line
    };
    directive["because"].as_array().into_iter().flatten().any(is_it)
}

/// A reason beside those that decided is found: otherwise the law would hold whatever the decisions name.
#[test]
fn a_value_that_did_not_decide_is_found() {
    let mut found = 0;
    for seed in 0..40 {
        let mut t = Tape::new(Tape::from_seed(seed).rest(CHOICES));
        let files = Files::of(t.below(POLICIES));
        let policy = files.policy();
        let host = played(&policy, DriveMode::Turns, &mut t);
        let moments = moments(&policy, &host);
        let named = moments.iter().enumerate().find_map(|(at, moment)| {
            let which = moment.decided.iter().position(|one| one.get("because").is_some())?;
            Some((at, which))
        });
        let Some((at, which)) = named else { continue };
        let planted = planted(&files);
        let idle = Decided { moments: &moments, at, which }.idle(&[&planted], &files);
        assert_eq!(idle, [planted.rule], "{}", moments[at].decided[which]);
        found += 1;
    }
    assert!(found >= 10, "{found} decisions only");
}

/// A value that decides about nothing but the length of a repaired argument.
fn planted(files: &Files) -> DecisionReason {
    let key = PathStep::Key("max_argument_chars".into());
    let own = files.all().into_iter().rev();
    let written =
        own.flat_map(|file| &file.values).find(|written| written.path.last() == Some(&key)).unwrap();
    DecisionReason {
        rule: "history.max_argument_chars".into(),
        value: written.value.to_string(),
        layer: LayerKind::Global,
        place: written.place.clone(),
        facts: Vec::new(),
    }
}

/// A server asks for 584 years, and a limit ends the wait: of a layer, or one that `max_attempts: unlimited` needs.
#[test]
fn a_wait_beyond_every_limit_needs_no_other_limit() {
    let of_a_layer = [
        56980, 1380, 26838, 20440, 1859, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64859, 48405, 0, 0, 0, 0, 0,
        15383, 55269, 32600, 948, 34632, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 27531, 23052, 23780, 1, 0, 0, 0, 0,
        0, 0, 17515, 113, 12160, 6600, 37547,
    ];
    let of_a_call = [
        16908, 5003, 9882, 0, 0, 0, 0, 0, 0, 220, 52437, 41694, 0, 1640, 14966, 0, 0, 2886, 0, 13640, 0, 0,
        0, 0, 0, 58147, 60010, 16770, 392, 0, 73, 0, 846, 0, 0, 0, 0, 900, 0, 0, 16082, 0, 0, 0, 0, 0, 35635,
        20576, 27302, 0, 0, 0, 0, 0, 0, 5612, 4028, 24592, 2586, 19283,
    ];
    held(of_a_layer.into(), &Tried::default());
    held(of_a_call.into(), &Tried::default());
}

fn played(policy: &Policy, drive: DriveMode, t: &mut Tape) -> Host {
    let mut host = Host::start(policy, drive, t);
    for _ in 0..STEPS {
        if !host.act(t) {
            return host;
        }
    }
    panic!("law 3: the run does not end");
}

/// How often each rule was tried as the reason of each kind of decision.
type Tried = RefCell<BTreeMap<(String, String), u32>>;

/// Whether a limit of time ended a wait that is longer than any limit can be, and cannot be `unlimited` there: a layer of limits
/// has no such word, and `max_attempts: unlimited` needs a `deadline`.
fn is_beyond_limits(envelope: &str, because: &DecisionReason, files: &Files) -> bool {
    let event: Value = serde_json::from_str(envelope).unwrap();
    let failure = event.get("failure").unwrap_or(&event["outcome"]["failure"]);
    let limits = ["deadline", "total_delay", "run_delay"];
    limits.iter().any(|limit| because.rule.ends_with(limit))
        && failure["retry_after"]["wait"].as_u64().is_some_and(|wait| wait > LONGEST)
        && files.with(&[(&because.place, &Value::from("unlimited"))], false).is_none()
}

/// Plays a stream of random events under a policy of the grammar, and holds its decisions against the law. Returns how many
/// events it had, and how many decisions were compared.
fn held(choices: Vec<u16>, tried: &Tried) -> (usize, usize) {
    let mut t = Tape::new(choices);
    let files = Files::of(t.below(POLICIES));
    let drive = if t.once_in(3) { DriveMode::Calls } else { DriveMode::Turns };
    let policy = files.policy();
    let host = played(&policy, drive, &mut t);
    let moments = moments(&policy, &host);
    let (mut here, mut compared) = (BTreeSet::new(), 0);
    for (at, moment) in moments.iter().enumerate() {
        for (which, directive) in moment.decided.iter().enumerate() {
            let named = directive.get("because").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
            let named: Vec<DecisionReason> = serde_json::from_value(named).unwrap();
            assert!(named.len() <= MOST, "more than {MOST} reasons: {directive}");
            let decides = |because: &&DecisionReason| {
                because.layer != LayerKind::Planner && !is_beyond_limits(&moment.envelope, because, &files)
            };
            let reasons: Vec<&DecisionReason> = named.iter().filter(decides).collect();
            let mut is_new = |because: &&DecisionReason| {
                let key = (kind(directive).to_owned(), because.rule.clone());
                let times = tried.borrow().get(&key).copied().unwrap_or_default();
                times < streams().div_ceil(ONE_IN) && here.insert(key)
            };
            if reasons.iter().filter(|because| is_new(because)).count() == 0 {
                continue;
            }
            let idle = Decided { moments: &moments, at, which }.idle(&reasons, &files);
            assert!(idle.is_empty(), "{idle:?} did not decide {directive}\nafter {}", moment.envelope);
            compared += 1;
        }
    }
    for key in here {
        *tried.borrow_mut().entry(key).or_default() += 1;
    }
    (host.events.len(), compared)
}

#[test]
fn a_decision_names_values_that_decided_and_at_most_three() {
    let law = "a decision names values that decided, and at most three";
    let (tried, compared) = (Tried::default(), Cell::new(0));
    count::holds(law, file!(), CHOICES, |choices| {
        let (events, decisions) = held(choices, &tried);
        compared.set(compared.get() + decisions);
        events
    });
    let (decisions, kinds) = (compared.get(), tried.borrow().len());
    println!("law: {decisions} decisions compared, of {kinds} kinds of decision and rule: {law}");
    assert!(decisions >= streams() as usize, "{decisions} decisions were compared");
}

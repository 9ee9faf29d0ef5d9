//! Runs whose tools end in an order of our own; while they are in flight time stands still.

use serde::Serialize;
use serde_json::Value;
use unfazed::context::{ByteEstimate, measure};
use unfazed::engine::{ApprovalAnswer, AwaitedStep, DriveMode, Event, PlannerDecision, Work};
use unfazed::session::Message;

use super::host::Host;
use super::meter::is_check;
use super::policies::{Made, POLICIES, made};
use super::tape::Tape;

/// Turns of a run, at most; then it is cancelled.
const MODEL_CALLS: u32 = 12;

/// What has to be the same whichever tool ends first: the state at the end and the messages.
#[derive(Serialize)]
pub(crate) struct Ending {
    state: Value,
    messages: Vec<Message>,
}

impl Ending {
    /// The number of events differs where the run ends before all of them have come.
    fn of(host: Host) -> Ending {
        let mut state = serde_json::to_value(&host.state).unwrap();
        state["seq"] = 0.into();
        Ending { state, messages: host.conversation }
    }

    /// The state without the counters of work and of runs of tools: how much had begun when calls were cut short depends
    /// on the order.
    fn without_work(&self) -> Value {
        let mut state = self.state.clone();
        state["work"]["last"] = 0.into();
        if let Some(calls) = state.pointer_mut("/spending/tool_calls") {
            *calls = 0.into();
        }
        state
    }

    fn is_cut_short(&self) -> bool {
        self.messages.iter().any(|message| cut_short(message).is_some())
    }
}

/// Holds two ways of one run against each other.
pub(crate) fn same(one: &Ending, other: &Ending) {
    let messages = || one.messages.iter().zip(&other.messages);
    let agreed =
        one.messages.len() == other.messages.len() && messages().all(|(one, other)| agree(one, other));
    let alike = if one.is_cut_short() || other.is_cut_short() {
        one.without_work() == other.without_work()
    } else {
        one.state == other.state
    };
    if agreed && alike {
        return;
    }
    let [one, other] = [one, other].map(|ending| serde_json::to_string_pretty(ending).unwrap());
    let lines = one.lines().zip(other.lines()).enumerate().filter(|(_, (one, other))| one != other);
    let lines: Vec<String> =
        lines.take(20).map(|(at, (one, other))| format!("{at}: {one} | {other}")).collect();
    panic!("law 9: the order in which tools end makes a difference:\n{}", lines.join("\n"));
}

/// Where a run ends in the middle, the model learns what is known then: of a call that has ended its result, of one that
/// is in flight or waits that the run was interrupted. Nothing else may differ.
fn agree(one: &Message, other: &Message) -> bool {
    let answers = |message: &Message, to: &str| matches!(message, Message::Tool { call, .. } if call == to);
    let differ_as_they_may = || {
        cut_short(one).is_some_and(|call| answers(other, &call))
            || cut_short(other).is_some_and(|call| answers(one, &call))
    };
    one == other || differ_as_they_may()
}

/// The call that had no result when its run ended.
fn cut_short(message: &Message) -> Option<String> {
    match message {
        Message::Tool { call, text, error: true, .. } => {
            text.contains("The run was interrupted").then(|| call.clone())
        }
        _ => None,
    }
}

/// Says which of the calls in flight ends next. They are reported in the order of their ids.
pub(crate) type Pick<'a> = &'a mut dyn FnMut(&[usize]) -> usize;

/// A run: how a model answers and how a tool ends depends on nothing but the turn, the call and the attempt. Says how
/// many events it had, too.
pub(crate) fn run(choices: &[u16], drive: DriveMode, pick: Pick<'_>) -> (Ending, usize) {
    let mut t = Tape::new(choices.to_vec());
    let policy = &unpaced(t.below(POLICIES)).policy;
    let mut host = Host::start(policy, drive, &mut t);
    let seed = t.below(1 << 16) as u64 * 100_000;
    if drive == DriveMode::Calls {
        let calls = host.calls_of_a_reply(&mut t);
        host.tell(Event::ToolsProposed { calls, turn: None });
    }
    let mut models = 0;
    while !host.open.is_empty() {
        let event = match host.open.iter().position(|work| call_of(&host, work).is_none()) {
            Some(at) if models < MODEL_CALLS => {
                let work = host.open.remove(at);
                models += u32::from(matches!(work, Work::CallModel(_)));
                if let Work::Wait(wait) = &work {
                    host.now = wait.until;
                }
                answer(&mut host, work, seed + u64::from(models))
            }
            Some(_) => Event::Cancelled { reason: "enough".into() },
            None => {
                host.open.sort_by_cached_key(Work::id);
                let calls: Vec<usize> = host.open.iter().filter_map(|work| call_of(&host, work)).collect();
                let mut sorted = calls.clone();
                sorted.sort_unstable();
                let next = sorted[pick(&sorted)];
                let at = calls.iter().position(|call| *call == next).unwrap();
                let work = host.open.remove(at);
                answer(&mut host, work, seed + 50_000)
            }
        };
        host.tell(event);
    }
    let events = host.events.len();
    (Ending::of(host), events)
}

/// The policy of that number, or the next one without a pace of tools: calls that wait for their turn need time to pass, and
/// when they start is when others did.
fn unpaced(number: usize) -> &'static Made {
    let mut numbers = (0..POLICIES).map(|next| made((number + next) % POLICIES));
    numbers.find(|made| !made.text.contains("\n    pace: ")).unwrap()
}

/// The number of the call a piece of work is about; `None`: nothing else can continue before it is answered. People are
/// among these: what depends on when they answer is no matter of the tools.
fn call_of(host: &Host, work: &Work) -> Option<usize> {
    match work {
        Work::RunTool(run) => Some(number(&run.call)),
        Work::Wait(wait) => {
            let Some(AwaitedStep::Call(call)) = host.state.awaited(wait) else { return None };
            Some(number(call.id))
        }
        _ => None,
    }
}

/// The digits of an id: one call has others than all others.
fn number(call: &str) -> usize {
    call.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

fn answer(host: &mut Host, work: Work, seed: u64) -> Event {
    match work {
        Work::PrepareTurn(turn) => turn.prepared(measure(&ByteEstimate, &host.conversation, &[])),
        Work::CallModel(call) => host.answer_model(call, &mut Tape::from_seed(seed)),
        Work::RunTool(run) => {
            let attempt = if is_check(&run) { 9 } else { run.attempt.into() };
            let call = number(&run.call) as u64;
            host.answer_tool(run, &mut Tape::from_seed(seed + call * 10 + attempt))
        }
        Work::Wait(wait) => wait.fired(),
        Work::Ask(ask) => {
            let answers = [ApprovalAnswer::Approve, ApprovalAnswer::Refuse, ApprovalAnswer::None];
            let answer = Tape::from_seed(seed + number(&ask.call) as u64).of(&answers);
            host.answer_person(ask, answer)
        }
        Work::Consult(consult) => consult.decided(PlannerDecision::TellModel),
        work => host.answer_other(work, &mut Tape::from_seed(seed)),
    }
}

/// All orders of so many things.
pub(crate) fn permutations(of: usize) -> Vec<Vec<usize>> {
    if of == 0 {
        return vec![Vec::new()];
    }
    let insert = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, of - 1);
        order
    };
    let smaller = permutations(of - 1);
    smaller.iter().flat_map(|order| (0..of).map(move |at| insert(order, at))).collect()
}

//! Histories of clients, and what must hold of them whatever fails: the checks of
//! `cluster_history`.
//!
//! | object | operations | must hold |
//! |---|---|---|
//! | counter | `INCR` | no reply twice; per client the replies grow; all increments acknowledged are counted, those refused are not |
//! | set | `SADD` | all members acknowledged are there, none refused |
//! | queue | `RPUSH`, `LPOP` | as for sets, and no element is popped twice |
//! | register | `SET` by one client, `GET` by all | no client reads backwards, nor before its own writes |
//! | pair | `RPUSH` to two lists in `MULTI` | both lists are equal |

use std::collections::{HashMap, HashSet};

/// Kind of an object, and of its key.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    Counter,
    Set,
    Queue,
    Register,
    Pair,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Counter, Kind::Set, Kind::Queue, Kind::Register, Kind::Pair];
}

/// Object of a history.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Object {
    pub kind: Kind,
    pub number: u32,
}

/// Outcome of an operation as the client knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Executed; the number in the reply, 0 for nil.
    Done(u64),
    /// An error that promises that nothing was executed.
    Refused,
    /// The connection ended, or the error says that it is not known.
    Unknown,
}

/// Operation of a client. Values written are different within an object, and grow per client.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub object: Object,
    /// The value written; none for a read or a pop.
    pub value: Option<u64>,
    pub outcome: Outcome,
}

/// Contents of the objects at rest: a counter's or register's number, or the elements.
pub type Contents = HashMap<Object, Vec<u64>>;

/// Returns each violation in a sentence.
///
/// `histories` has one history per client; the writer of register `n` is client `n` modulo their
/// number. `second` holds the other list of each pair.
pub fn check(histories: &[Vec<Operation>], contents: &Contents, second: &Contents) -> Vec<String> {
    let mut violations = Vec::new();
    for (object, content) in contents {
        let of_object: Vec<Vec<Operation>> = histories
            .iter()
            .map(|all| all.iter().copied().filter(|one| one.object == *object).collect())
            .collect();
        let found = match object.kind {
            Kind::Counter => check_counter(&of_object, content[0]),
            Kind::Register => {
                let writer = object.number as usize % histories.len();
                check_register(&of_object, writer, content[0])
            }
            Kind::Set | Kind::Queue | Kind::Pair => check_elements(&of_object, content),
        };
        violations.extend(found.into_iter().map(|found| format!("{object:?}: {found}")));
        if object.kind == Kind::Pair && second.get(object) != Some(content) {
            violations.push(format!("{object:?}: the two lists differ"));
        }
    }
    violations
}

fn check_counter(histories: &[Vec<Operation>], last: u64) -> Vec<String> {
    let (mut violations, mut replies, mut unknown) = (Vec::new(), Vec::new(), 0);
    for history in histories {
        let begin = replies.len();
        for operation in history {
            match operation.outcome {
                Outcome::Done(reply) => replies.push(reply),
                Outcome::Unknown => unknown += 1,
                Outcome::Refused => {}
            }
        }
        if !replies[begin..].is_sorted() {
            violations.push("a client saw it decrease".into());
        }
    }
    let (done, most) = (replies.len() as u64, replies.iter().max().copied().unwrap_or(0));
    if replies.iter().collect::<HashSet<_>>().len() < replies.len() {
        violations.push("a number was returned twice".into());
    }
    if last < done.max(most) {
        violations.push(format!("{last} at the end; {done} acknowledged, up to {most}"));
    }
    if last > done + unknown {
        violations.push(format!("{last} at the end; {done} acknowledged, {unknown} not known"));
    }
    violations
}

fn check_register(histories: &[Vec<Operation>], writer: usize, last: u64) -> Vec<String> {
    let mut violations = Vec::new();
    let refused: HashSet<u64> = written(histories, |outcome| outcome == Outcome::Refused);
    let is_refused_seen = |seen: u64, violations: &mut Vec<String>| {
        if refused.contains(&seen) {
            violations.push(format!("{seen} was refused and is there"));
        }
    };
    for (client, history) in histories.iter().enumerate() {
        let mut least = 0;
        for operation in history {
            match (operation.value, operation.outcome) {
                (Some(value), Outcome::Done(_)) => least = value,
                (None, Outcome::Done(seen)) if seen < least => {
                    violations.push(format!("client {client} read {seen} after {least}"));
                }
                (None, Outcome::Done(seen)) => {
                    least = seen;
                    is_refused_seen(seen, &mut violations);
                }
                _ => {}
            }
        }
        if last < least {
            violations.push(format!("{last} at the end; client {client} has seen {least}"));
        }
        if client != writer && history.iter().any(|operation| operation.value.is_some()) {
            violations.push(format!("client {client} writes a register of another"));
        }
    }
    is_refused_seen(last, &mut violations);
    violations
}

/// Values whose writing had such an outcome.
fn written(histories: &[Vec<Operation>], is_such: impl Fn(Outcome) -> bool) -> HashSet<u64> {
    let such = histories.iter().flatten().filter(|operation| is_such(operation.outcome));
    such.filter_map(|operation| operation.value).collect()
}

fn check_elements(histories: &[Vec<Operation>], content: &[u64]) -> Vec<String> {
    let mut violations = Vec::new();
    let pops = histories.iter().flatten().filter(|operation| operation.value.is_none());
    let (mut popped, mut unknown_pops) = (Vec::new(), 0);
    for pop in pops {
        match pop.outcome {
            Outcome::Done(0) | Outcome::Refused => {}
            Outcome::Done(element) => popped.push(element),
            Outcome::Unknown => unknown_pops += 1,
        }
    }
    let mut seen = HashSet::new();
    for element in content.iter().chain(&popped) {
        if !seen.insert(*element) {
            violations.push(format!("{element} is there twice, or was popped and is there"));
        }
    }
    let done = written(histories, |outcome| matches!(outcome, Outcome::Done(_)));
    let unknown = written(histories, |outcome| outcome == Outcome::Unknown);
    let missing: Vec<_> = done.difference(&seen).collect();
    if missing.len() > unknown_pops {
        let (count, some) = (missing.len(), &missing[..missing.len().min(5)]);
        violations.push(format!(
            "{count} of {} acknowledged are missing, such as {some:?}; {unknown_pops} pops are not known",
            done.len()
        ));
    }
    for element in seen.iter().filter(|seen| !done.contains(seen) && !unknown.contains(seen)) {
        violations.push(format!("{element} was refused, or never sent, and is there"));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Done, Refused, Unknown};
    use super::*;

    const fn object(kind: Kind) -> Object {
        Object { kind, number: 0 }
    }

    fn history(kind: Kind, operations: &[(Option<u64>, Outcome)]) -> Vec<Operation> {
        let object = object(kind);
        operations.iter().map(|&(value, outcome)| Operation { object, value, outcome }).collect()
    }

    /// Violations of the histories of two clients.
    fn violations(
        kind: Kind,
        clients: [&[(Option<u64>, Outcome)]; 2],
        content: &[u64],
    ) -> Vec<String> {
        let contents = Contents::from([(object(kind), content.to_vec())]);
        check(&clients.map(|one| history(kind, one)), &contents, &contents)
    }

    #[track_caller]
    fn assert_found(found: &[String], part: &str) {
        assert!(found.len() == 1 && found[0].contains(part), "{part}: {found:?}");
    }

    #[test]
    fn counters() {
        let check = |clients, last| violations(Kind::Counter, clients, &[last]);
        let first: &[_] = &[(Some(1), Done(1)), (Some(2), Refused), (Some(3), Done(3))];
        let second: &[_] = &[(Some(1), Done(2)), (Some(2), Unknown)];
        assert!(check([first, second], 3).is_empty());
        assert!(check([first, second], 4).is_empty());
        assert_found(&check([first, second], 2), "2 at the end; 3 acknowledged, up to 3");
        assert_found(&check([first, second], 5), "5 at the end; 3 acknowledged, 1 not known");
        assert_found(&check([first, &[(Some(1), Done(3))]], 3), "returned twice");
        assert_found(&check([&[(Some(1), Done(2)), (Some(2), Done(1))], &[]], 2), "decrease");
    }

    #[test]
    fn sets_and_queues() {
        let check = |clients, content: &[u64]| violations(Kind::Queue, clients, content);
        let first: &[_] = &[(Some(1), Done(1)), (Some(2), Refused), (Some(3), Unknown)];
        let second: &[_] = &[(None, Done(0)), (Some(11), Done(2)), (None, Done(1))];
        assert!(check([first, second], &[11]).is_empty());
        assert!(check([first, second], &[11, 3]).is_empty());
        assert_found(&check([first, second], &[]), "1 of 2 acknowledged are missing, such as [11]");
        assert_found(&check([first, second], &[11, 1]), "1 is there twice");
        assert_found(&check([first, second], &[11, 2]), "2 was refused");
        let two: &[_] = &[(Some(11), Done(2)), (None, Done(1)), (None, Unknown)];
        assert!(check([first, two], &[]).is_empty(), "the pop may have been executed");
        let twice: &[_] = &[(None, Done(1)), (None, Done(1))];
        assert_found(&check([first, twice], &[]), "1 is there twice");
    }

    #[test]
    fn registers() {
        let check = |clients, last| violations(Kind::Register, clients, &[last]);
        let writer: &[_] = &[(Some(1), Done(0)), (Some(2), Unknown), (None, Done(1))];
        let reader: &[_] = &[(None, Done(0)), (None, Done(2)), (None, Done(2))];
        assert!(check([writer, reader], 2).is_empty());
        assert_found(&check([writer, reader], 1), "1 at the end; client 1 has seen 2");
        let backwards: &[_] = &[(None, Done(2)), (None, Done(1))];
        assert_found(&check([writer, backwards], 2), "client 1 read 1 after 2");
        let before_own: &[_] = &[(Some(1), Done(0)), (Some(2), Done(0)), (None, Done(1))];
        assert_found(&check([before_own, &[]], 2), "client 0 read 1 after 2");
        assert_found(&check([&[(Some(1), Refused)], &[]], 1), "1 was refused");
    }

    #[test]
    fn pairs() {
        let histories = [history(Kind::Pair, &[(Some(1), Done(1))])];
        let full = Contents::from([(object(Kind::Pair), vec![1])]);
        let empty = Contents::from([(object(Kind::Pair), vec![])]);
        assert!(check(&histories, &full, &full).is_empty());
        assert_found(&check(&histories, &full, &empty), "the two lists differ");
    }
}

//! Client connection to one node: pipelined commands, replies in order.

use crate::content::{Content, Family};
use crate::names::parse;
use crate::witness::{Positions, Witness};
use crate::workload::{Check, Op, Watch};
use petrel_cluster::{Identity, Need, slot_of};
use petrel_resp::Value;
use std::collections::VecDeque;

/// Maximum number of pipelined commands.
pub const PIPELINE_MAX: usize = 6;

/// State of a command.
pub enum State {
    /// Not executed yet.
    Waiting,
    /// Forwarded to another node.
    Away,
    /// Executed here; the reply waits until the changes that it shows are safe.
    Held {
        /// These changes.
        needs: Box<[Need]>,
        /// The state afterwards.
        done: Box<State>,
    },
    /// Has its reply.
    Done {
        /// The reply.
        reply: Vec<u8>,
        /// Observed positions of slots.
        seen: Vec<(u16, u64)>,
        /// Time of execution, by the clock of its node.
        now_ms: i64,
        /// Whether its effects are known: not if it was never executed, or that is unknown.
        is_known: bool,
    },
}

/// A command of a connection.
pub struct Pending {
    /// Number of the command.
    pub token: u64,
    /// The command.
    pub op: Op,
    /// State of the command.
    pub state: State,
}

/// A client connection.
#[derive(Default)]
pub struct Connection {
    /// Commands without a reply, in order.
    pub pending: VecDeque<Pending>,
    seen: Positions,
}

impl Connection {
    /// The first command that can be executed or forwarded now. Earlier commands of its slots must
    /// have their replies, unless that rule is disabled.
    pub fn next(
        &self,
        reads_past_writes: bool,
        mut reads_here: impl FnMut(&Op) -> bool,
    ) -> Option<usize> {
        let at = self.pending.iter().position(|pending| matches!(pending.state, State::Waiting))?;
        let op = &self.pending[at].op;
        if reads_past_writes {
            return Some(at);
        }
        let is_open = |pending: &&Pending| matches!(pending.state, State::Away);
        let shares =
            |pending: &Pending| pending.op.slots.iter().any(|slot| op.slots.contains(slot));
        let reads_here = !op.reads.is_empty() && reads_here(op);
        let ends_watch = matches!(op.watch, Some(Watch::End(_)));
        let waits = self.pending.iter().take(at).filter(is_open).any(|pending| {
            // Forwarded commands keep their order on the way.
            let is_changed = ends_watch || pending.op.is_across || op.slots != pending.op.slots;
            pending.op.may_wait() || shares(pending) && (reads_here || is_changed)
        });
        (!waits).then_some(at)
    }

    /// Releases replies of commands that were executed here, once their changes are safe.
    pub fn release(&mut self, is_safe: impl Fn(Need) -> bool) {
        for pending in &mut self.pending {
            if let State::Held { needs, done } = &mut pending.state
                && needs.iter().all(|need| is_safe(*need))
            {
                let waiting = Box::new(State::Waiting);
                pending.state = *std::mem::replace(done, waiting);
            }
        }
    }

    /// Delivers and checks the replies that are due; returns their number.
    pub fn reply(&mut self, by: Identity, witness: &mut Witness) -> u64 {
        let mut replies = 0;
        while let Some(Pending { state: State::Done { .. }, .. }) = self.pending.front() {
            let Some(Pending { op, state, .. }) = self.pending.pop_front() else { break };
            let State::Done { reply, seen, now_ms, is_known } = state else { break };
            replies += 1;
            let is_known = is_known && !seen.iter().any(|&seen| witness.is_lost(seen));
            for (slot, at) in &seen {
                let before = self.seen.entry(*slot).or_default();
                *before = (*at).max(*before);
            }
            let reply = parse(&reply);
            for (at, (db, key)) in op.reads.iter().enumerate().filter(|_| is_known) {
                let content = content_of(&op, at, key, &reply);
                witness.read_in_order(&mut self.seen, (&(*db, key.clone()), &content), now_ms);
            }
            if is_known {
                // The reply to a timeout waits for the first slot only.
                let has_waited = reply == Value::Null && op.slots.len() > 1;
                let shown = if has_waited { &seen[..seen.len().min(1)] } else { &seen };
                witness.acknowledged(shown);
                check(by, &op, (&op.check, &reply), &seen, witness);
            }
        }
        replies
    }
}

/// Content of the `at`th key in the reply to a read.
pub fn content_of(op: &Op, at: usize, key: &[u8], reply: &Value) -> Content {
    let family = Family::of(key).unwrap_or(Family::Text);
    match reply {
        Value::Array(values) if op.reads.len() > 1 => {
            Content::of_reply(family, values.get(at).unwrap_or(&Value::Null))
        }
        reply => Content::of_reply(family, reply),
    }
}

fn check(
    by: Identity,
    op: &Op,
    (checks, reply): (&Check, &Value),
    seen: &[(u16, u64)],
    witness: &mut Witness,
) {
    if let (Value::Array(values), 2) = (reply, op.reads.len())
        && values.first() != values.get(1)
    {
        witness.violation(format!("{by:?} reads half of a transaction: {values:?}"));
    }
    let position = |key: &[u8]| {
        let of_key = seen.iter().find(|(slot, _)| *slot == slot_of(key));
        of_key.or(seen.first()).copied()
    };
    let Some(first) = seen.first() else { return };
    match checks {
        Check::Nothing => {}
        Check::Each(checks) => {
            if let Value::Array(values) = reply
                && values.len() == checks.len()
            {
                for one in checks.iter().zip(values) {
                    check(by, op, one, seen, witness);
                }
            }
        }
        Check::Logged(key, item) => {
            witness.logged(key, item.clone(), position(&key.1).unwrap_or(*first));
        }
        Check::Unique(key) => {
            let item = match reply {
                Value::Integer(n) => n.to_string().into_bytes(),
                Value::Bulk(text) => text.to_vec(),
                // A command that was blocked names the key in its reply.
                Value::Array(named) => match &named[..] {
                    [Value::Bulk(of), Value::Bulk(text)] => {
                        let at = position(of).unwrap_or(*first);
                        return witness.unique(&(key.0, of.to_vec()), text.to_vec(), at);
                    }
                    _ => return,
                },
                _ => return,
            };
            witness.unique(key, item, position(&key.1).unwrap_or(*first));
        }
    }
}

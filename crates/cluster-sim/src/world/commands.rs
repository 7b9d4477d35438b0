//! Clients' commands: local execution, forwarding, and replies.

use super::{Fault, Member};
use crate::connection::{State, content_of};
use crate::machine::Machine;
use crate::names::parse;
use crate::outcome::Outcome;
use crate::witness::Witness;
use crate::workload::{Op, Watch, is_flush};
use petrel_cluster::lanes::note_slots;
use petrel_cluster::mutation::is_endless;
use petrel_cluster::wire::Tag;
use petrel_cluster::{Call, ClusterNode, Identity, Reply, Route};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Whether a command reads keys that are present as copies.
pub(super) fn has_copies(core: &ClusterNode, machine: &mut Machine, op: &Op) -> bool {
    // Copies of several slots are not of one moment.
    !op.reads.is_empty()
        && op.slots.len() == 1
        && core.may_read_copies(&op.slots)
        && op.reads.iter().all(|(db, key)| machine.has(*db, key))
}

/// Executes or forwards a client's command; none if it has to wait.
pub(super) fn start(
    member: &mut Member,
    (connection, token): (usize, u64),
    op: &Op,
    witness: &Rc<RefCell<Witness>>,
) -> Option<State> {
    let identity = member.core.identity();
    let now_ms = member.machine.now_ms;
    let done = |reply, seen, is_known| Some(State::Done { reply, seen, now_ms, is_known });
    if let Some(Watch::End(client)) = op.watch {
        member.core.unwatch(op.slots[0], client, &mut member.machine);
        return done(b"+OK\r\n".to_vec(), Vec::new(), false);
    }
    let client = match op.watch {
        Some(Watch::Of(client)) => Some(client),
        _ => None,
    };
    // Reading an expired key removes it.
    member.machine.compare_survivors();
    let route = match op.reads.is_empty() || op.is_across {
        true => member.core.route(&op.slots),
        false if has_copies(&member.core, &mut member.machine, op) => Route::Here,
        false => member.core.route_read(&op.slots),
    };
    // Every primary flushes in steps, also for its own clients.
    if route != Route::Here || is_flush(&op.commands) {
        return match route {
            Route::Apart if !member.core.has_chains() => {
                done(b"-CROSSSLOT\r\n".to_vec(), Vec::new(), false)
            }
            Route::At(_) | Route::Here | Route::Apart => {
                let Op { db, is_transaction, ref slots, ref commands, .. } = *op;
                let (slots, commands) = (slots.clone(), commands.clone());
                let slot = slots[0];
                let only_reads = !op.reads.is_empty();
                let wants_copies = only_reads && !is_transaction && slots.len() == 1;
                let call = Call { slots, db, is_transaction, client, commands, ..Call::default() };
                // Copies that arrive would invalidate the keys.
                let is_known = match route {
                    Route::At(primary) => member.core.knows_interests().contains(primary),
                    _ => route == Route::Here,
                };
                let tracks = only_reads && is_known && caches(member, token);
                if tracks {
                    member.machine.begin_caching(Some(token), &op.reads);
                }
                let wants_copies = wants_copies && !tracks;
                let call = Call { wants_copies, tracks, ..call };
                let oseq = member.core.forward(token, call, &mut member.machine).ok()?;
                let tag = Tag { origin: identity, slot, oseq };
                member.away.insert(token, (connection, tag));
                Some(State::Away)
            }
            _ => None,
        };
    }
    execute_here(member, (client, token), op, witness)
}

/// Whether the command of this token is one of a caching client.
fn caches(member: &Member, token: u64) -> bool {
    member.core.is_partial() && token.is_multiple_of(3)
}

/// Executes a client's command at its node; the reply waits until the changes that it shows are
/// safe.
fn execute_here(
    member: &mut Member,
    (client, token): (Option<u64>, u64),
    op: &Op,
    witness: &Rc<RefCell<Witness>>,
) -> Option<State> {
    let (identity, now_ms) = (member.core.identity(), member.machine.now_ms);
    let held = |core: &ClusterNode, reply, seen| {
        let done = State::Done { reply, seen, now_ms, is_known: true };
        let needs = core.lanes().needs_of(&op.slots);
        let is_held = !needs.is_empty();
        Some(if is_held { State::Held { needs, done: Box::new(done) } } else { done })
    };
    let commands: Vec<Vec<&[u8]>> =
        op.commands.iter().map(|command| command.iter().map(Vec::as_slice).collect()).collect();
    let slot = op.slots[0];
    let before = member.machine.position(slot);
    note_slots(&op.slots);
    member.machine.note_slots(&op.slots);
    let reply = member.machine.run_of((identity, client), op.db, op.is_transaction, &commands);
    member.machine.report();
    if op.reads.is_empty() {
        let seen: Vec<(u16, u64)> =
            op.slots.iter().map(|&slot| (slot, witness.borrow().last(slot))).collect();
        witness.borrow_mut().has_seen(identity, &seen);
        if member.machine.position(slot) > before {
            member.record_written(slot);
        }
        return held(&member.core, reply, seen);
    }
    let (value, mut seen) = (parse(&reply), Vec::new());
    for (at, (db, key)) in op.reads.iter().enumerate() {
        let content = content_of(op, at, key, &value);
        let is_primary = member.machine.is_primary(petrel_cluster::slot_of(key));
        let key = (*db, key.clone());
        if caches(member, token) {
            member.machine.begin_caching(None, std::slice::from_ref(&key));
            member.machine.cache(None, key.clone(), content.clone());
        }
        seen.push(witness.borrow_mut().read(identity, (&key, &content), now_ms, is_primary));
    }
    if member.machine.wrong == Some(Fault::ReadsUnsafe) {
        return Some(State::Done { reply, seen, now_ms, is_known: true });
    }
    held(&member.core, reply, seen)
}

/// Delivers replies to forwarded commands to their connections; false if there are none.
pub(super) fn take_replies(
    member: &mut Member,
    witness: &Rc<RefCell<Witness>>,
    outcome: &mut Outcome,
) -> bool {
    for (waiter, reply) in member.machine.ended() {
        member.core.end_of_wait(waiter.tag, &waiter.slots, Some(reply));
    }
    let mut replies = VecDeque::from(member.core.take_replies());
    let has_replies = !replies.is_empty();
    while let Some((token, reply)) = replies.pop_front().filter(|_| !is_endless()) {
        match reply {
            Reply::Parked(_) => {
                member.parked.insert(token);
                outcome.parked += 1;
                continue;
            }
            Reply::Again(call) => {
                member.parked.remove(&token);
                outcome.again += 1;
                let slot = call.slots[0];
                let Some((_, tag)) = member.away.get_mut(&token) else { continue };
                let before = *tag;
                // The new tag is registered before the command can be executed.
                let Ok(oseq) = member.core.forward(token, *call, &mut member.machine) else {
                    continue;
                };
                *tag = Tag { slot, oseq, ..before };
                witness.borrow_mut().forwarded_again(before, *tag);
                member.machine.report();
                replies.extend(member.core.take_replies());
                continue;
            }
            _ => drop(member.parked.remove(&token)),
        }
        let Some((connection, tag)) = member.away.remove(&token) else {
            witness.borrow_mut().violation(format!("an answer to no command: {token}"));
            continue;
        };
        cache_reply(member, (connection, token), &reply);
        let pending = member.connections[connection].pending.iter_mut();
        let mut pending = pending.filter(|pending| pending.token == token);
        let Some(pending) = pending.next() else { continue };
        let now_ms = member.machine.now_ms;
        let (identity, mut witness) = (member.core.identity(), witness.borrow_mut());
        pending.state = match reply {
            Reply::Bytes(reply) => match witness.answered(identity, tag) {
                Some((seen, now_ms)) => {
                    check_read(identity, &pending.op, (&reply, &seen, now_ms), &mut witness);
                    State::Done { reply, seen, now_ms, is_known: true }
                }
                None => State::Done { reply, seen: Vec::new(), now_ms, is_known: false },
            },
            reply => {
                outcome.unknown += u64::from(reply == Reply::Unknown);
                let reply = format!("-{}\r\n", reply.error().unwrap_or_default()).into_bytes();
                State::Done { reply, seen: Vec::new(), now_ms, is_known: false }
            }
        };
    }
    has_replies
}

/// Lets the client that caches the reply to a forwarded command do so.
fn cache_reply(member: &mut Member, (connection, token): (usize, u64), reply: &Reply) {
    if !member.machine.is_caching(token) {
        return;
    }
    let pending = member.connections[connection].pending.iter();
    let op = pending.into_iter().find(|pending| pending.token == token).map(|it| it.op.clone());
    if let (Reply::Bytes(reply), Some(op)) = (reply, op) {
        let value = parse(reply);
        for (at, (db, key)) in op.reads.iter().enumerate() {
            let content = content_of(&op, at, key, &value);
            member.machine.cache(Some(token), (*db, key.clone()), content);
        }
    }
    member.machine.end_caching(token);
}

/// Checks the result of a read that the primary has executed.
fn check_read(
    by: Identity,
    op: &Op,
    (reply, seen, now_ms): (&[u8], &[(u16, u64)], i64),
    witness: &mut Witness,
) {
    let value = parse(reply);
    for (at, (db, key)) in op.reads.iter().enumerate() {
        let content = content_of(op, at, key, &value);
        let slot = petrel_cluster::slot_of(key);
        if let Some(&(_, at)) = seen.iter().find(|(of, _)| *of == slot) {
            witness.read_at(by, (&(*db, key.clone()), &content), now_ms, at);
        }
    }
}

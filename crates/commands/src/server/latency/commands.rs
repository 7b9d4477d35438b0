//! LATENCY.

use super::{Event, graph, report};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::server::help::help;
use crate::server::stats::Durations;
use crate::spec::{Command, CommandSpec, Locks};
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[CommandSpec::container(
    &meta::LATENCY,
    &[
        CommandSpec::new(&meta::LATENCY_DOCTOR, doctor).locking(Locks::Itself),
        CommandSpec::new(&meta::LATENCY_GRAPH, graph).locking(Locks::Itself),
        CommandSpec::new(&meta::LATENCY_HELP, help).locking(Locks::Itself),
        CommandSpec::new(&meta::LATENCY_HISTOGRAM, histogram).locking(Locks::Itself),
        CommandSpec::new(&meta::LATENCY_HISTORY, history).locking(Locks::Itself),
        CommandSpec::new(&meta::LATENCY_LATEST, latest).locking(Locks::Itself),
        CommandSpec::new(&meta::LATENCY_RESET, reset).locking(Locks::Itself),
    ],
)];

/// `LATENCY DOCTOR`
fn doctor(ctx: &mut Ctx<'_>) -> Outcome {
    let shared = &ctx.exec.shared;
    let text = report::write(
        &shared.latency.snapshot(),
        shared.latency.threshold_millis(),
        shared.slowlog.threshold(),
    );
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// `LATENCY GRAPH event`
fn graph(ctx: &mut Ctx<'_>) -> Outcome {
    let Some((name, event)) = event(ctx) else {
        let text: [&[u8]; 3] = [b"ERR No samples available for event '", ctx.arg(2), b"'"];
        return Err(Fail::new(text.concat()));
    };
    let text = graph::draw(name, &event, super::now());
    ctx.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// `LATENCY HISTORY event`
fn history(ctx: &mut Ctx<'_>) -> Outcome {
    let samples = event(ctx).map(|(_, event)| event.samples).unwrap_or_default();
    ctx.reply.array(samples.len());
    for sample in samples {
        ctx.reply.array(2);
        ctx.reply.integer(sample.at as i64);
        ctx.reply.integer(sample.millis as i64);
    }
    Ok(())
}

/// The event at argument 2, in any case.
fn event(ctx: &Ctx<'_>) -> Option<(&'static str, Event)> {
    let wanted = ctx.arg(2);
    let events = ctx.exec.shared.latency.snapshot();
    events.into_iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(wanted))
}

/// `LATENCY LATEST`; in Valkey's dialect with the sum and the number of samples.
fn latest(ctx: &mut Ctx<'_>) -> Outcome {
    let events = ctx.exec.shared.latency.snapshot();
    let with_sums = ctx.dialect().is_valkey();
    ctx.reply.array(events.len());
    for (name, event) in events {
        let latest = event.samples.back().copied().unwrap_or_default();
        ctx.reply.array(if with_sums { 6 } else { 4 });
        ctx.reply.bulk(name.as_bytes());
        ctx.reply.integer(latest.at as i64);
        ctx.reply.integer(latest.millis as i64);
        ctx.reply.integer(event.max_millis as i64);
        if with_sums {
            ctx.reply.integer(event.sum_millis as i64);
            ctx.reply.integer(event.count as i64);
        }
    }
    Ok(())
}

/// `LATENCY RESET [event ...]`
fn reset(ctx: &mut Ctx<'_>) -> Outcome {
    let latency = &ctx.exec.shared.latency;
    let names = &ctx.args()[2..];
    let forgotten = if names.is_empty() {
        latency.reset_all()
    } else {
        names.iter().filter(|name| latency.reset(name)).count()
    };
    ctx.number(forgotten as i64)
}

/// `LATENCY HISTOGRAM [command ...]`
fn histogram(ctx: &mut Ctx<'_>) -> Outcome {
    let shared = ctx.exec.shared.clone();
    let names = &ctx.args()[2..];
    let mut commands: Vec<Command> = Vec::new();
    if names.is_empty() {
        commands.extend(shared.registry.all());
    }
    for command in names.iter().filter_map(|name| shared.registry.find_full(name)) {
        commands.push(command);
        commands.extend(shared.registry.subcommands(command));
    }
    let called: Vec<(u16, Durations)> = commands
        .iter()
        .map(|command| (command.index, shared.durations(command.index)))
        .filter(|(_, durations)| durations.total() > 0)
        .collect();

    ctx.reply.map(called.len());
    for (index, durations) in &called {
        ctx.reply.bulk(shared.registry.full_name(*index).as_bytes());
        ctx.reply.map(2);
        ctx.reply.bulk(b"calls");
        ctx.reply.integer(durations.total() as i64);
        ctx.reply.bulk(b"histogram_usec");
        let steps = steps(durations);
        ctx.reply.map(steps.len());
        for (micros, count) in steps {
            ctx.reply.integer(micros as i64);
            ctx.reply.integer(count as i64);
        }
    }
    Ok(())
}

/// Cumulative histogram: number of calls up to a duration. The steps are powers of two of 1,024 ns,
/// labelled like Redis's with the upper end of the bucket that begins there in a histogram of two
/// significant digits. Steps without calls are left out.
fn steps(durations: &Durations) -> Vec<(u64, u64)> {
    let mut steps = Vec::new();
    let (mut before, mut nanos) = (0, 1024u64);
    while before < durations.total() {
        // Durations beyond the largest bucket count in it.
        let count = if nanos >= 1 << 40 { durations.total() } else { durations.at_most(nanos) };
        if count > before {
            steps.push(((nanos + nanos / 128 - 1) / 1000, count));
        }
        before = count;
        nanos *= 2;
    }
    steps
}

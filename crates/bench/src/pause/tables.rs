//! The report on paper.

use super::{Gets, PauseArgs, Results};
use crate::report::{Document, Table, rounded};
use crate::server::Transport;

/// The Markdown document.
pub fn document(results: &Results, args: &PauseArgs) -> Document {
    let mut document = Document::new("Removing one large value");
    document.paragraph(&format!(
        "GETs one by one over {} connections ({}) with {} us between them, while one value of {} elements (a string: {} \
         bytes) is removed: {} windows of {} s each with and without it. {} server threads. {}",
        args.connections,
        if args.tcp { Transport::Tcp } else { Transport::Unix },
        args.gap,
        results.elements,
        results.string_bytes,
        args.rounds,
        args.seconds,
        results.server_threads,
        if results.real_time {
            "The client and the threads that answer it had real-time priority (SCHED_FIFO)."
        } else {
            "All threads had the priority of any other program."
        },
    ));
    document.items(results.commands.iter().cloned());
    document.paragraph(
        "Milliseconds, without / with the removal; \"turn\" is the longest turn of an event loop as the server says \
         (`eventloop_duration_max` of `INFO DEBUG`).",
    );
    let header = [
        "server",
        "value",
        "removed by",
        "command",
        "p50",
        "p99",
        "p99.9",
        "longest",
        "above 1 ms",
        "above 2 ms",
        "turn",
    ];
    let mut table = Table::new(header);
    for cell in &results.cells {
        let both =
            |part: fn(&Gets) -> String| format!("{} / {}", part(&cell.alone), part(&cell.during));
        table.row([
            cell.server.clone(),
            cell.kind.name().to_owned(),
            cell.way.name().to_owned(),
            rounded(Some(cell.command_ms), 2),
            both(|gets| rounded(Some(gets.p50_ms), 3)),
            both(|gets| rounded(Some(gets.p99_ms), 3)),
            both(|gets| rounded(Some(gets.p999_ms), 3)),
            both(|gets| rounded(Some(gets.max_ms), 2)),
            both(|gets| gets.above_1ms.to_string()),
            both(|gets| gets.above_2ms.to_string()),
            both(|gets| rounded(gets.turn_max_ms, 2)),
        ]);
    }
    document.table(&table);
    results.machine.describe(&mut document);
    document
}

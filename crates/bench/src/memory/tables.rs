//! The memory report as Markdown.

use super::{Report, Row};
use crate::report::{Document, Table, rounded};

/// The report as a document.
pub fn document(report: &Report) -> Document {
    let mut document = Document::new("Memory");
    document.paragraph("Measured with `petrel-bench memory`.");
    report.machine.describe(&mut document);
    document.heading(2, "Configuration");
    document.items([
        format!("{} keys of {} bytes.", report.keys, report.key_size),
        format!("{} server threads, a fresh server for each cell.", report.server_threads),
        "Resident memory is Rss of /proc/PID/smaps_rollup once it rests.".to_owned(),
    ]);
    document.items(report.commands.iter().cloned());

    document.heading(2, "Bytes per key over the empty server");
    document.table(&sizes(report, |row| (!row.ttl).then_some(row.bytes_per_key)));
    if report.rows.iter().any(|row| row.ttl) {
        document.heading(2, &format!("The same with a TTL of {} s", report.ttl_s));
        document.table(&sizes(report, |row| row.ttl.then_some(row.bytes_per_key)));
        document.heading(2, "What a TTL adds (bytes per key)");
        document.table(&sizes(report, |row| {
            let plain = report.rows.iter().find(|plain| {
                !plain.ttl && plain.server == row.server && plain.values == row.values
            })?;
            row.ttl.then_some(row.bytes_per_key - plain.bytes_per_key)
        }));
    }
    if report.rows.iter().any(|row| row.deleted.is_some()) {
        deleting(report, &mut document);
    }
    let problems: Vec<String> = report.rows.iter().filter_map(problem).collect();
    document.heading(2, "Self-checks");
    if problems.is_empty() {
        document.paragraph("Every key was stored and those looked up afterwards were there.");
    } else {
        document.items(problems);
    }
    document
}

fn problem(row: &Row) -> Option<String> {
    let problems = row.problems.join("; ");
    (!problems.is_empty()).then(|| format!("{}, {} B: {problems}", row.server, row.values))
}

fn deleting(report: &Report, document: &mut Document) {
    document.heading(2, &format!("After deleting {} % of the keys", report.delete_percent));
    document.paragraph(&format!(
        "Growth over the empty server that is left (after at most {} s), over the growth of a \
         fresh server that was given only the keys that stayed.",
        report.settle_s
    ));
    document.table(&cells(report, |row| Some(format!("{:.2}x", row.deleted.as_ref()?.ratio))));
    document.heading(3, "Seconds until it rested");
    document.table(&cells(report, |row| Some(format!("{:.1}", row.deleted.as_ref()?.settled_s))));
}

/// A table of one number per server and size, with the empty server's memory.
fn sizes(report: &Report, figure: impl Fn(&Row) -> Option<f64>) -> Table {
    cells(report, |row| figure(row).map(|value| rounded(Some(value), 0)))
}

fn cells(report: &Report, text: impl Fn(&Row) -> Option<String>) -> Table {
    let unique = |name: fn(&Row) -> &String| {
        let mut names: Vec<&String> = Vec::new();
        for row in &report.rows {
            if !names.contains(&name(row)) {
                names.push(name(row));
            }
        }
        names
    };
    let values = unique(|row| &row.values);
    let mut header = vec!["value bytes".to_owned()];
    header.extend(values.iter().map(|values| (*values).clone()));
    header.push("empty MB".to_owned());
    let mut table = Table::new(header);
    for server in unique(|row| &row.server) {
        let rows = || report.rows.iter().filter(|row| row.server == *server);
        let mut line = vec![server.clone()];
        for values in &values {
            let cell = rows().filter(|row| row.values == **values).find_map(&text);
            line.push(cell.unwrap_or_else(|| "–".to_owned()));
        }
        let empty = crate::report::median(rows().map(|row| row.empty as f64 / 1e6));
        line.push(rounded(empty, 1));
        table.row(line);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Deleted;
    use crate::report::Machine;

    fn row(server: &str, ttl: bool, bytes_per_key: f64) -> Row {
        let deleted = (!ttl).then_some(Deleted {
            keys_left: 100,
            after: 3_000_000,
            settled_s: 0.5,
            fresh_growth: 1_000_000,
            ratio: 1.25,
        });
        Row {
            server: server.to_owned(),
            values: "32".to_owned(),
            ttl,
            empty: 6_200_000,
            loaded: 8_000_000,
            bytes_per_key,
            deleted,
            problems: Vec::new(),
        }
    }

    #[test]
    fn the_tables_of_a_report() {
        let report = Report {
            machine: Machine::here(),
            keys: 1000,
            key_size: 16,
            server_threads: 2,
            delete_percent: 90,
            settle_s: 20,
            ttl_s: 86_400,
            commands: Vec::new(),
            rows: vec![row("a", false, 76.4), row("a", true, 84.4), row("b", false, 120.0)],
        };
        let document = document(&report);
        let text = document.text();
        assert!(text.contains("| value bytes | 32 | empty MB |\n| --- | --- | --- |\n| a | 76 | 6.2 |\n| b | 120 | 6.2 |"), "{text}");
        assert!(text.contains("| a | 8 | 6.2 |\n| b | – | 6.2 |"), "{text}");
        assert!(text.contains("| a | 1.25x | 6.2 |"), "{text}");
    }
}

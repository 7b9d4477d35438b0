//! The connections report as Markdown and plots.

use super::{Report, Row};
use crate::report::{Document, LineChart, Series, Table, ratio, rounded};

/// The report as a document.
pub fn document(report: &Report) -> Document {
    let mut document = Document::new("Connections");
    document.paragraph("Measured with `petrel-bench connections`.");
    report.machine.describe(&mut document);
    configuration(report, &mut document);
    if !report.idle.is_empty() {
        idle(report, &mut document);
    }
    curve(report, &mut document);
    alone(report, &mut document);
    let problems = report.rows.iter().flat_map(|row| {
        let cell = format!("{}, {} connections", row.server, row.held);
        row.problems.iter().map(move |problem| format!("{cell}: {problem}"))
    });
    let problems: Vec<String> = problems.collect();
    document.heading(2, "Self-checks");
    if problems.is_empty() {
        document.paragraph("Little's law held within 5 %, no errors, every GET was right.");
    } else {
        document.items(problems);
    }
    document
}

fn configuration(report: &Report, document: &mut Document) {
    let active = match report.active {
        0 => "all of them active".to_owned(),
        active => format!("{active} of them active"),
    };
    document.heading(2, "Configuration");
    document.items([
        format!("{}; limit on open files per process: {}.", report.transport, report.open_files),
        format!("All connections open, each has sent a PING; {active}."),
        format!(
            "GET, {} keys with values of {} B, pipeline {}, {} server threads.",
            report.keys, report.values, report.pipeline, report.server_threads
        ),
        format!("{} s per number, medians of {} rounds.", report.seconds, report.rounds),
    ]);
    document.items(report.commands.iter().cloned());
}

fn idle(report: &Report, document: &mut Document) {
    document.heading(2, "Memory per idle connection");
    document.paragraph(
        "Growth of resident memory on a fresh server, each connection having sent one PING. \
         User memory: what the kernel holds for a socket is not in it.",
    );
    let mut table = Table::new(["System", "connections held", "bytes each", "stopped by"]);
    for idle in &report.idle {
        table.row([
            idle.server.clone(),
            idle.held.to_string(),
            format!("{:.0}", idle.bytes_per_connection),
            idle.stopped_by.clone().unwrap_or_default(),
        ]);
    }
    document.table(&table);
}

fn curve(report: &Report, document: &mut Document) {
    document.heading(2, "Over the number of open connections");
    document.paragraph(
        "`fair` is the number of replies of the slowest active connection over the fastest's.",
    );
    for server in servers(report) {
        document.heading(3, &server);
        let mut table = Table::new([
            "open",
            "active",
            "ops/s",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "max ms",
            "CPU us/op",
            "client us/op",
            "fair",
            "RSS MB",
            "stopped by",
        ]);
        for row in report.rows.iter().filter(|row| row.server == server) {
            let figure = |value: f64, decimals| rounded(row.measured().then_some(value), decimals);
            let ms = |us: f64| figure(us / 1000.0, 3);
            table.row([
                row.held.to_string(),
                row.active.to_string(),
                figure(row.throughput, 0),
                ms(row.latency.p50_us),
                ms(row.latency.p99_us),
                ms(row.latency.p999_us),
                ms(row.latency.max_us),
                figure(row.server_cpu_us, 2),
                figure(row.client_cpu_us, 2),
                figure(row.slowest_to_fastest, 2),
                rounded(row.rss.map(|rss| rss as f64 / 1e6), 1),
                row.stopped_by.clone().unwrap_or_default(),
            ]);
        }
        document.table(&table);
    }
}

/// The same active connections alone and among all.
fn alone(report: &Report, document: &mut Document) {
    if report.active == 0 {
        return;
    }
    let mut table = Table::new(["System", "open", "ops/s alone", "ops/s among all", "ratio"]);
    let mut any = false;
    for server in servers(report) {
        let rows = || report.rows.iter().filter(|row| row.server == server && row.measured());
        let Some(alone) = rows().find(|row| row.held == report.active) else { continue };
        let Some(all) = rows().rfind(|row| row.held > report.active) else { continue };
        any = true;
        table.row([
            server.clone(),
            all.held.to_string(),
            format!("{:.0}", alone.throughput),
            format!("{:.0}", all.throughput),
            ratio(Some(all.throughput), Some(alone.throughput)),
        ]);
    }
    if any {
        document.heading(2, &format!("{} active connections alone and among all", report.active));
        document.table(&table);
    }
}

/// Each chart as a file name and its content.
pub fn plots(report: &Report) -> Vec<(String, String)> {
    type Kind = (&'static str, &'static str, &'static str, bool, fn(&Row) -> f64);
    let kinds: [Kind; 4] = [
        ("throughput", "Throughput", "operations per second", false, |row| row.throughput),
        ("p50", "p50 latency", "milliseconds", true, |row| row.latency.p50_us / 1000.0),
        ("p99", "p99 latency", "milliseconds", true, |row| row.latency.p99_us / 1000.0),
        ("p999", "p99.9 latency", "milliseconds", true, |row| row.latency.p999_us / 1000.0),
    ];
    let plot = |(file, title, unit, y_log, figure): Kind| {
        let series = servers(report).into_iter().map(|server| {
            let rows = report.rows.iter().filter(|row| row.server == server);
            let values = rows.map(|row| (row.held as f64, figure(row))).collect();
            Series { name: server, values }
        });
        let active = match report.active {
            0 => "all active".to_owned(),
            active => format!("up to {active} active"),
        };
        let chart = LineChart {
            title: format!("{title} over open connections ({active})"),
            y_label: unit.to_owned(),
            x_label: "open connections".to_owned(),
            y_log,
            series: series.collect(),
        };
        (format!("connections-{file}.svg"), chart.render())
    };
    kinds.into_iter().map(plot).collect()
}

fn servers(report: &Report) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in &report.rows {
        if !names.contains(&row.server) {
            names.push(row.server.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Latency;
    use crate::report::Machine;
    use crate::server::Transport;

    fn row(held: usize, throughput: f64) -> Row {
        Row {
            server: "a".to_owned(),
            count: held,
            held,
            active: held.min(10),
            throughput,
            latency: Latency { p50_us: 15.0, p99_us: 42.0, ..Latency::default() },
            server_cpu_us: 1.5,
            client_cpu_us: 1.0,
            rss: Some(8_000_000),
            slowest_to_fastest: 0.9,
            stopped_by: None,
            problems: Vec::new(),
        }
    }

    #[test]
    fn a_row_that_broke_shows_dashes_and_does_not_count_as_all() {
        let report = Report {
            machine: Machine::here(),
            transport: Transport::Unix,
            open_files: 20_000,
            counts: vec![10, 100, 1000],
            active: 10,
            pipeline: 1,
            keys: 1,
            values: "1".to_owned(),
            server_threads: 1,
            rounds: 1,
            seconds: 1.0,
            commands: Vec::new(),
            idle: Vec::new(),
            rows: vec![row(10, 1000.0), row(100, 900.0), row(1000, 0.0)],
        };
        let document = document(&report);
        let text = document.text();
        assert!(text.contains("| 100 | 10 | 900 | 0.015 | 0.042 | 0.000 |"), "{text}");
        assert!(text.contains("| 1000 | 10 | – | – | – |"), "{text}");
        assert!(text.contains("| a | 100 | 1000 | 900 | 0.90x |"), "{text}");
        assert!(plots(&report)[0].1.matches("<circle").count() == 2);
    }
}

//! The matrix as Markdown, in the form of the tables it is compared with: a table per pipeline and
//! number of threads, SET and GET beside each other, each against the base.

use super::options::{Command, Options};
use super::result::{CellKey, Figures, Report};
use crate::report::{Document, Table, change, ratio, rounded};

/// A figure that has tables of its own.
struct Metric {
    title: &'static str,
    note: &'static str,
    /// Ends the column names, as in `Sets p99`.
    suffix: &'static str,
    decimals: usize,
    /// Whether the base is compared with.
    compared: bool,
    figure: fn(&Figures) -> f64,
}

const METRICS: [Metric; 8] = [
    Metric {
        title: "Throughput",
        note: "Operations per second. Higher is better.",
        suffix: "",
        decimals: 0,
        compared: true,
        figure: |figures| figures.throughput,
    },
    Metric {
        title: "Server CPU per operation (us)",
        note: "User and system time of the server process with all its threads. Lower is better; \
               the figure that a shared machine disturbs least.",
        suffix: " CPU",
        decimals: 3,
        compared: true,
        figure: |figures| figures.server_cpu_us,
    },
    Metric {
        title: "p50 latency (ms)",
        note: "Lower is better.",
        suffix: " p50",
        decimals: 3,
        compared: true,
        figure: |figures| figures.latency.p50_us / 1000.0,
    },
    Metric {
        title: "p99 latency (ms)",
        note: "Lower is better.",
        suffix: " p99",
        decimals: 3,
        compared: true,
        figure: |figures| figures.latency.p99_us / 1000.0,
    },
    Metric {
        title: "p99.9 latency (ms)",
        note: "Lower is better.",
        suffix: " p99.9",
        decimals: 3,
        compared: true,
        figure: |figures| figures.latency.p999_us / 1000.0,
    },
    Metric {
        title: "Largest latency (ms)",
        note: "Median over the rounds of each round's largest.",
        suffix: " max",
        decimals: 3,
        compared: false,
        figure: |figures| figures.latency.max_us / 1000.0,
    },
    Metric {
        title: "Client CPU per operation (us)",
        note: "CPU time of the load generator's threads.",
        suffix: " client CPU",
        decimals: 3,
        compared: false,
        figure: |figures| figures.client_cpu_us,
    },
    Metric {
        title: "Resident memory of the server (MB)",
        note: "After the cell.",
        suffix: " RSS",
        decimals: 1,
        compared: false,
        figure: |figures| figures.rss / 1e6,
    },
];

/// The report as a document.
pub fn document(report: &Report) -> Document {
    let mut document = Document::new("Benchmarks");
    let base = &report.options.base;
    document.paragraph(&format!(
        "Measured with `petrel-bench matrix`. Results vary with hardware and kernel. \
         {base} is the baseline for comparison."
    ));
    report.machine.describe(&mut document);
    configuration(report, &mut document);
    ratios(report, &mut document);
    for metric in &METRICS {
        let against = if metric.compared { format!(" ({base} baseline)") } else { String::new() };
        document.heading(2, &format!("{}{against}", metric.title));
        document.paragraph(metric.note);
        tables(report, metric, &mut document);
    }
    checks(report, &mut document);
    document
}

fn configuration(report: &Report, document: &mut Document) {
    let options = &report.options;
    document.heading(2, "Configuration");
    let extent = match options.operations {
        Some(count) => format!("{count} operations per cell and round"),
        None => format!(
            "{} s per cell and round after {} s of warm-up",
            options.seconds, options.warmup_s
        ),
    };
    let loop_kind = match options.rate {
        Some(rate) => format!("open loop, {rate} requests per second"),
        None => "closed loop".to_owned(),
    };
    let workloads = report.workloads().into_iter();
    let workloads =
        workloads.map(|(values, keys)| format!("{keys} keys with values of {values} B"));
    document.items([
        format!(
            "Client: {} threads, {} connections, {}, {loop_kind}.",
            options.client_threads, options.connections, options.transport
        ),
        format!(
            "{}; keys of {} bytes, {} order.",
            workloads.collect::<Vec<_>>().join("; "),
            options.key_size,
            format!("{:?}", options.key_order).to_lowercase()
        ),
        format!("{extent}; medians of {} rounds, servers in turn within each.", options.rounds),
        state(options),
        "`vs` is `(system - base) / base`. Servers that run commands on one thread are also \
         shown with one I/O thread, where that is not the setting anyway."
            .to_owned(),
    ]);
    document.items(report.commands.iter().cloned());
}

fn state(options: &Options) -> String {
    let text = if options.fresh {
        "Every cell has a fresh server: SET stores into an empty one, GET loads from one that \
         holds all keys."
    } else {
        "The servers hold all keys: SET stores over them with other lengths, GET finds each. \
         Idle servers are stopped."
    };
    text.to_owned()
}

/// Base against the best of the others, against pogocache and against the bare loops.
fn ratios(report: &Report, document: &mut Document) {
    let base = &report.options.base;
    document.heading(2, &format!("Ratios of {base}"));
    document.paragraph(
        "Throughput: higher is better. CPU and p99: lower is better. The best peer is that of \
         the cell, whatever its number of I/O threads; bare loops are no peers.",
    );
    for (values, keys) in report.workloads() {
        for threads in &report.options.server_threads {
            let servers = report.servers(&values, *threads);
            let floors = servers.iter().filter(|name| name.starts_with("floor-"));
            let mut header = vec!["Cell".to_owned(), "throughput / best peer".to_owned()];
            header.push("p99 / best peer".to_owned());
            header.push("CPU / best peer".to_owned());
            header.push("CPU / pogocache".to_owned());
            header.extend(floors.clone().map(|floor| format!("CPU / {floor}")));
            let mut table = Table::new(header);
            for command in &report.options.commands {
                for pipeline in &report.options.pipelines {
                    let key = CellKey {
                        values: values.clone(),
                        keys,
                        threads: *threads,
                        command: *command,
                        pipeline: *pipeline,
                    };
                    table.row(ratio_row(report, &key, &servers));
                }
            }
            document.heading(3, &format!("Values of {values} B, {threads} threads"));
            document.table(&table);
        }
    }
}

fn ratio_row(report: &Report, key: &CellKey, servers: &[String]) -> Vec<String> {
    let base = &report.options.base;
    let own = report.figures(key, base);
    let own_variant = format!("{base} (1 thread)");
    let peers: Vec<Figures> = servers
        .iter()
        .filter(|name| *name != base && **name != own_variant && !name.starts_with("floor-"))
        .filter_map(|name| report.figures(key, name))
        .collect();
    let lowest = |figure: fn(&Figures) -> f64| peers.iter().map(figure).reduce(f64::min);
    let highest = peers.iter().map(|figures| figures.throughput).reduce(f64::max);
    let cpu = |name: &str| report.figures(key, name).map(|figures| figures.server_cpu_us);
    let mut row = vec![
        format!("{} P{}", key.command, key.pipeline),
        ratio(own.map(|own| own.throughput), highest),
        ratio(own.map(|own| own.latency.p99_us), lowest(|figures| figures.latency.p99_us)),
        ratio(own.map(|own| own.server_cpu_us), lowest(|figures| figures.server_cpu_us)),
        ratio(own.map(|own| own.server_cpu_us), cpu("pogocache")),
    ];
    for floor in servers.iter().filter(|name| name.starts_with("floor-")) {
        row.push(ratio(own.map(|own| own.server_cpu_us), cpu(floor)));
    }
    row
}

fn tables(report: &Report, metric: &Metric, document: &mut Document) {
    let workloads = report.workloads();
    for (values, keys) in &workloads {
        for pipeline in &report.options.pipelines {
            if workloads.len() > 1 {
                document.heading(3, &format!("Values of {values} B, pipeline {pipeline}"));
            } else {
                document.heading(3, &format!("Pipeline {pipeline}"));
            }
            for threads in &report.options.server_threads {
                document.heading(4, &format!("{threads} Threads"));
                let key = CellKey {
                    values: values.clone(),
                    keys: *keys,
                    threads: *threads,
                    command: Command::Set,
                    pipeline: *pipeline,
                };
                document.table(&table(report, metric, &key));
            }
        }
    }
}

fn table(report: &Report, metric: &Metric, key: &CellKey) -> Table {
    let base = &report.options.base;
    let mut header = vec!["System".to_owned()];
    for command in &report.options.commands {
        let name = if *command == Command::Set { "Sets" } else { "Gets" };
        header.push(format!("{name}{}", metric.suffix));
        if metric.compared {
            header.push(format!("vs {base} ({name})"));
        }
    }
    let mut table = Table::new(header);
    for server in report.servers(&key.values, key.threads) {
        let mut row = vec![server.clone()];
        for command in &report.options.commands {
            let key = CellKey { command: *command, ..key.clone() };
            let figure = |server: &str| report.figures(&key, server).map(|f| (metric.figure)(&f));
            let value = figure(&server);
            row.push(rounded(value, metric.decimals));
            if metric.compared {
                row.push(change(value, figure(base)));
            }
        }
        table.row(row);
    }
    table
}

/// Which measurements are doubtful, and why.
fn checks(report: &Report, document: &mut Document) {
    document.heading(2, "Self-checks");
    document.paragraph(
        "Each measurement is checked: Little's law (throughput x mean latency = connections x \
         pipeline) within 5 %, slowest connection at least half as fast as the fastest, no error \
         replies, every GET a value of the length that was stored.",
    );
    let mut table = Table::new(["Cell", "System", "Round", "Problem"]);
    let (mut total, mut doubtful) = (0, 0);
    for cell in &report.cells {
        let key = &cell.key;
        let name = format!(
            "{} P{}, {} threads, values {}",
            key.command, key.pipeline, key.threads, key.values
        );
        for (number, round) in cell.rounds.iter().enumerate() {
            total += 1;
            doubtful += usize::from(!round.problems.is_empty());
            for problem in &round.problems {
                let round = (number + 1).to_string();
                table.row([name.clone(), cell.server.clone(), round, problem.clone()]);
            }
        }
    }
    if doubtful == 0 {
        document.paragraph(&format!("All {total} measurements passed."));
    } else {
        document.paragraph(&format!("{doubtful} of {total} measurements are doubtful:"));
        document.table(&table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::options::MatrixArgs;
    use crate::matrix::result::{Cell, Measurement};
    use crate::report::Machine;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: MatrixArgs,
    }

    fn cell(server: &str, command: Command, throughputs: [f64; 3]) -> Cell {
        let key =
            CellKey { values: "1-1024".to_owned(), keys: 10, threads: 2, command, pipeline: 1 };
        let mut cell = Cell::new(key, server);
        for throughput in throughputs {
            cell.rounds.push(Measurement {
                throughput,
                server_cpu_us: Some(100_000.0 / throughput),
                complete: true,
                ..Measurement::default()
            });
        }
        cell.rounds.push(Measurement::failed("it broke".to_owned()));
        cell
    }

    #[test]
    fn tables_have_the_form_of_the_reference() {
        let words = "x --peer petrel=p{port} --peer pogocache=q{port} --servers petrel,pogocache \
                     --pipelines 1 --server-threads 2";
        let line =
            <Line as clap::Parser>::try_parse_from(words.split(' ').filter(|w| !w.is_empty()));
        let options = line.unwrap().args.resolve().unwrap();
        let cells = vec![
            cell("petrel", Command::Set, [100_000.0, 50_000.0, 200_000.0]),
            cell("pogocache", Command::Set, [80_000.0; 3]),
            cell("petrel", Command::Get, [120_000.0; 3]),
            cell("pogocache", Command::Get, [126_000.0; 3]),
        ];
        let report = Report::new(Machine::here(), options, Vec::new(), cells);
        let document = document(&report);
        let text = document.text();
        let want = "### Pipeline 1\n\n#### 2 Threads\n\n\
            | System | Sets | vs petrel (Sets) | Gets | vs petrel (Gets) |\n\
            | --- | --- | --- | --- | --- |\n\
            | petrel | 100000 | +0.0% | 120000 | +0.0% |\n\
            | pogocache | 80000 | -20.0% | 126000 | +5.0% |\n";
        assert!(text.contains(want), "{text}");
        assert!(text.contains("| SET P1 | 1.25x | – | 0.80x | 0.80x |"), "{text}");
        assert!(text.contains("4 of 16 measurements are doubtful"), "{text}");
        assert!(text.contains("| SET P1, 2 threads, values 1-1024 | petrel | 4 | it broke |"));
    }
}

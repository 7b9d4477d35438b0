//! The matrix as plots: bars over the pipelines, one chart per figure, command and threads.

use super::options::Command;
use super::result::{CellKey, Figures, Report};
use crate::report::{BarChart, Series};

/// File name, title, unit and figure of each kind of chart.
type Kind = (&'static str, &'static str, &'static str, fn(&Figures) -> f64);

const KINDS: [Kind; 4] = [
    ("throughput", "Throughput", "operations per second", |figures| figures.throughput),
    ("server-cpu", "Server CPU per operation", "microseconds", |figures| figures.server_cpu_us),
    ("p99", "p99 latency", "milliseconds", |figures| figures.latency.p99_us / 1000.0),
    ("p999", "p99.9 latency", "milliseconds", |figures| figures.latency.p999_us / 1000.0),
];

/// Each chart as a file name and its content.
pub fn plots(report: &Report) -> Vec<(String, String)> {
    let mut plots = Vec::new();
    for (values, keys) in report.workloads() {
        for threads in &report.options.server_threads {
            for command in &report.options.commands {
                for kind in &KINDS {
                    plots.push(plot(report, kind, &values, keys, *threads, *command));
                }
            }
        }
    }
    plots
}

fn plot(
    report: &Report,
    (file, title, unit, figure): &Kind,
    values: &str,
    keys: u64,
    threads: usize,
    command: Command,
) -> (String, String) {
    let pipelines = &report.options.pipelines;
    let figure_of = |server: &str, pipeline: usize| {
        let values = values.to_owned();
        let key = CellKey { values, keys, threads, command, pipeline };
        report.figures(&key, server).map(|figures| figure(&figures))
    };
    let series = report.servers(values, threads).into_iter().map(|server| Series {
        values: pipelines.iter().map(|pipeline| figure_of(&server, *pipeline)).collect(),
        name: server,
    });
    let chart = BarChart {
        title: format!("{title}: {command}, values of {values} B, {threads} server threads"),
        y_label: (*unit).to_owned(),
        may_be_log: *file != "throughput",
        x_label: "pipeline (requests in flight per connection)".to_owned(),
        categories: pipelines.iter().map(usize::to_string).collect(),
        series: series.collect(),
    };
    let command = command.to_string().to_lowercase();
    (format!("matrix-{file}-{command}-{values}-{threads}t.svg"), chart.render())
}

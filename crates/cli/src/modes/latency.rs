//! `--latency`: the time of `PING`; `--intrinsic-latency`: that of the machine alone.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use super::checked;
use crate::cli::Cli;
use crate::format::Form;

/// Pause between two samples.
const PAUSE: Duration = Duration::from_millis(10);
/// Default interval of `--latency-history`.
const HISTORY: Duration = Duration::from_secs(15);

/// Times of samples, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    count: u64,
    min: u128,
    max: u128,
    sum: u128,
}

impl Samples {
    fn add(&mut self, time: Duration) {
        let time = time.as_millis();
        self.min = if self.count == 0 { time } else { self.min.min(time) };
        self.max = self.max.max(time);
        self.sum += time;
        self.count += 1;
    }

    fn average(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    fn shown(&self, form: Form) -> String {
        let Self { count, min, max, .. } = self;
        let average = self.average();
        match form {
            Form::Typed => format!("min: {min}, max: {max}, avg: {average:.2} ({count} samples)"),
            Form::Raw => format!("{min} {max} {average:.2} {count}"),
            Form::Csv => format!("{min},{max},{average:.2},{count}"),
            Form::Json | Form::QuotedJson => {
                format!(r#"{{"min": {min}, "max": {max}, "avg": {average:.2}, "count": {count}}}"#)
            }
        }
    }
}

/// Measures without end on a terminal; elsewhere for one interval. With a history, each interval
/// has a line.
pub fn latency(cli: &mut Cli, has_history: bool) -> Result<(), String> {
    let form = cli.form();
    let is_live = form == Form::Typed;
    let default = if has_history { HISTORY } else { Duration::from_secs(1) };
    let interval = cli.options.interval.unwrap_or(default);
    let mut samples = Samples::default();
    let mut begin = Instant::now();
    let mut out = io::stdout();
    loop {
        let sent = Instant::now();
        checked("PING", cli.call(&[b"PING"])?)?;
        samples.add(sent.elapsed());
        if is_live && out.is_terminal() {
            print!("\x1b[0G\x1b[2K{}", samples.shown(form));
        }
        if begin.elapsed() >= interval {
            match (is_live, has_history) {
                (true, true) if out.is_terminal() => {
                    println!(" -- {:.2} seconds range", begin.elapsed().as_secs_f64());
                }
                (true, true) => {
                    let line = samples.shown(form);
                    println!("{line} -- {:.2} seconds range", begin.elapsed().as_secs_f64());
                }
                (true, false) if out.is_terminal() => {}
                (_, true) => println!("{}", samples.shown(form)),
                (_, false) => {
                    println!("{}", samples.shown(form));
                    return Ok(());
                }
            }
            if has_history {
                (samples, begin) = (Samples::default(), Instant::now());
            }
        }
        if out.flush().is_err() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Measures for how long this process is not run at worst, by a loop that does nothing else.
pub fn intrinsic_latency(seconds: u64) {
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut worst, mut runs, begin) = (Duration::ZERO, 0u64, Instant::now());
    let mut last = Instant::now();
    while last < end {
        let now = Instant::now();
        let gap = now - last;
        if gap > worst {
            worst = gap;
            println!("Max latency so far: {} microseconds.", worst.as_micros());
        }
        last = now;
        runs += 1;
    }
    let average = begin.elapsed().as_micros() as f64 / runs.max(1) as f64;
    println!(
        "\n{runs} total runs (avg latency: {average:.4} microseconds / {:.2} nanoseconds per run).",
        average * 1000.0
    );
    println!(
        "Worst run took {:.0}x longer than the average latency.",
        worst.as_micros() as f64 / average
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_in_each_form() {
        let mut samples = Samples::default();
        for time in [2, 5, 2] {
            samples.add(Duration::from_millis(time));
        }
        assert_eq!(samples.shown(Form::Typed), "min: 2, max: 5, avg: 3.00 (3 samples)");
        assert_eq!(samples.shown(Form::Csv), "2,5,3.00,3");
        assert!(samples.shown(Form::Json).starts_with("{\"min\": 2, "));
    }
}

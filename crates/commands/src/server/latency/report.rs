//! LATENCY DOCTOR: a report on the events in prose.

use super::Event;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Writes the report; `threshold_millis` is that of the monitor (0: off), `slow_nanos` that of the
/// slow log (`u64::MAX`: off).
pub(super) fn write(
    events: &BTreeMap<&'static str, Event>,
    threshold_millis: u64,
    slow_nanos: u64,
) -> String {
    if threshold_millis == 0 && events.is_empty() {
        return "The latency monitor is off. Turn it on with \
            CONFIG SET latency-monitor-threshold <milliseconds>.\n"
            .to_owned();
    }
    if events.is_empty() {
        return format!("No event took {threshold_millis} ms or longer. Nothing to report.\n");
    }
    let mut text = "Events above the latency threshold were observed:\n\n".to_owned();
    for (number, (name, event)) in events.iter().enumerate() {
        describe(&mut text, number + 1, name, event);
    }
    text.push_str("\nAdvice:\n\n");
    for line in advice(events, threshold_millis, slow_nanos) {
        writeln!(text, "- {line}").ok();
    }
    text
}

fn describe(text: &mut String, number: usize, name: &str, event: &Event) {
    let count = event.samples.len().max(1) as f64;
    let average = event.samples.iter().map(|sample| sample.millis as f64).sum::<f64>() / count;
    let deviations = event.samples.iter().map(|sample| (sample.millis as f64 - average).abs());
    let deviation = deviations.sum::<f64>() / count;
    let first = event.samples.front().map_or(0, |sample| sample.at);
    let last = event.samples.back().map_or(0, |sample| sample.at);
    let period = last.saturating_sub(first) as f64 / (count - 1.0).max(1.0);
    writeln!(
        text,
        "{number}. {name}: {count} latency spikes (average {average:.0} ms, mean deviation \
         {deviation:.0} ms, period {period:.1} s). Worst ever: {} ms.",
        event.max_millis
    )
    .ok();
}

fn advice(
    events: &BTreeMap<&'static str, Event>,
    threshold_millis: u64,
    slow_nanos: u64,
) -> Vec<String> {
    let mut lines = Vec::new();
    let of_commands = events.keys().any(|name| name.ends_with("command"));
    if of_commands && slow_nanos == u64::MAX {
        lines.push(format!(
            "The slow log is off: CONFIG SET slowlog-log-slower-than {} shows which commands are slow.",
            threshold_millis.saturating_mul(1000)
        ));
    } else if of_commands && slow_nanos / 1_000_000 > threshold_millis {
        lines.push(format!(
            "The slow log misses some of these commands: CONFIG SET slowlog-log-slower-than {}.",
            threshold_millis.saturating_mul(1000)
        ));
    }
    if of_commands {
        lines.push("SLOWLOG GET lists the slow commands with their arguments.".to_owned());
        lines.push(
            "Commands over all keys (KEYS, FLUSHALL SYNC) and over very large values take long: \
             prefer SCAN, FLUSHALL ASYNC and smaller values."
                .to_owned(),
        );
    }
    lines.push(
        "A machine that swaps, or whose processors are shared, delays everything: compare with \
         the load of the system at the times of LATENCY HISTORY."
            .to_owned(),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::super::Sample;
    use super::*;

    #[test]
    fn reports() {
        let mut events = BTreeMap::new();
        assert!(write(&events, 0, 0).contains("monitor is off"));
        assert!(write(&events, 100, 0).contains("No event took 100 ms"));
        let samples = [(10, 100), (20, 200), (30, 300)];
        let samples = samples.iter().map(|&(at, millis)| Sample { at, millis }).collect();
        events.insert("command", Event { samples, max_millis: 900, ..Event::default() });
        let text = write(&events, 100, u64::MAX);
        for part in
            ["1. command: 3 ", "average 200 ms", "deviation 67 ms", "period 10.0 s", "900 ms"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(text.contains("slowlog-log-slower-than 100000"), "{text}");
    }
}

//! LATENCY GRAPH: the samples of an event as a bar chart of characters, with the age below each
//! bar.

use super::Event;
use std::fmt::Write;

/// Maximum number of bars: the newest samples.
const COLUMNS_MAX: usize = 80;
const ROWS: u64 = 4;
/// Bar heights that a character can show within a row.
const LEVELS: u64 = 3;

/// Draws an event with samples; `now` is Unix time in seconds.
pub(super) fn draw(name: &str, event: &Event, now: u64) -> String {
    let skipped = event.samples.len().saturating_sub(COLUMNS_MAX);
    let samples: Vec<_> = event.samples.iter().skip(skipped).collect();
    let high = event.samples.iter().map(|sample| sample.millis).max().unwrap_or(0);
    let low = event.samples.iter().map(|sample| sample.millis).min().unwrap_or(0);
    let mut text = String::new();
    let all_time = event.max_millis;
    writeln!(text, "{name} - high {high} ms, low {low} ms (all time high {all_time} ms)").ok();
    writeln!(text, "{}", "-".repeat(COLUMNS_MAX)).ok();

    let heights: Vec<u64> = samples
        .iter()
        .map(|sample| match high - low {
            0 => 1,
            range => {
                ((sample.millis - low) as u128 * u128::from(ROWS * LEVELS - 1) / u128::from(range))
                    as u64
                    + 1
            }
        })
        .collect();
    for row in (0..ROWS).rev() {
        let bars = heights.iter().map(|height| match height.saturating_sub(row * LEVELS) {
            0 => ' ',
            1 => '_',
            2 => 'o',
            3 => '#',
            _ => '|',
        });
        writeln!(text, "{}", bars.collect::<String>()).ok();
    }
    text.push('\n');

    let ages: Vec<String> =
        samples.iter().map(|sample| age(now.saturating_sub(sample.at))).collect();
    for line in 0..ages.iter().map(String::len).max().unwrap_or(0) {
        let column = |age: &String| char::from(*age.as_bytes().get(line).unwrap_or(&b' '));
        writeln!(text, "{}", ages.iter().map(column).collect::<String>().trim_end()).ok();
    }
    text
}

/// Formats an age in the largest unit that is at least 1.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sample;
    use super::*;

    #[test]
    fn bars_are_as_high_as_the_samples() {
        let millis = [1, 5, 12, 8];
        let samples =
            millis.iter().zip(0..).map(|(&millis, i)| Sample { at: 1000 + 30 * i, millis });
        let event = Event { samples: samples.collect(), max_millis: 40, ..Event::default() };
        let lines = [
            "command - high 12 ms, low 1 ms (all time high 40 ms)",
            &"-".repeat(80),
            "  # ",
            "  |o",
            " o||",
            "_|||",
            "",
            "1131",
            "mm1s",
            "  s",
            "",
        ];
        assert_eq!(draw("command", &event, 1091), lines.join("\n"));
    }

    #[test]
    fn extremes_are_drawn() {
        for millis in [0, u64::MAX] {
            let samples =
                (0..200).map(|at| Sample { at, millis: if at % 2 == 0 { 0 } else { millis } });
            let event =
                Event { samples: samples.collect(), max_millis: millis, ..Event::default() };
            let text = draw("e", &event, u64::MAX);
            assert!(text.lines().skip(1).all(|line| line.len() <= COLUMNS_MAX));
        }
    }
}

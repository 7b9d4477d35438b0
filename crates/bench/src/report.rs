//! Results on paper: Markdown, JSON, SVG, and the machine they were measured on.

mod machine;
mod markdown;
mod svg;

use std::fs;
use std::path::Path;

use serde::Serialize;

pub use machine::Machine;
pub use markdown::{Document, Table, change, ratio, rounded};
pub use svg::{BarChart, LineChart, Series};

/// Writes `NAME.json`, `NAME.md` and the plots into `directory`, which is made if it is not there,
/// and prints the Markdown. Each plot is a file name and its content.
pub fn write(
    directory: &Path,
    name: &str,
    data: &impl Serialize,
    document: &Document,
    plots: &[(String, String)],
) -> Result<(), String> {
    let failed =
        |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
    let put = |file: &str, text: &str| {
        let path = directory.join(file);
        fs::write(&path, text).map_err(|error| failed(&path, &error))
    };
    let mut json = serde_json::to_string_pretty(data).map_err(|error| error.to_string())?;
    json.push('\n');
    put(&format!("{name}.json"), &json)?;
    put(&format!("{name}.md"), document.text())?;
    for (file, svg) in plots {
        put(file, svg)?;
    }
    println!("{}", document.text());
    eprintln!("written to {}", directory.display());
    Ok(())
}

/// The median; for an even number of values the mean of the middle two. `None` without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, f64::NAN, 3.0]), Some(2.5));
    }
}

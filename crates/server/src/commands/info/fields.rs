//! The fields of `INFO` that are metrics: rows of `fields.txt`.

/// A field of `INFO` that is a metric.
pub(crate) struct Field {
    pub name: &'static str,
    /// Name of the metric without `petrel_`.
    pub metric: &'static str,
    /// Type of the metric: `gauge` or `counter`.
    pub kind: &'static str,
    /// Unit of the field; `-` is none.
    unit: &'static str,
    pub help: &'static str,
}

/// Units of fields: the metric's unit, and the number of the field's units in it.
const UNITS: [(&str, &str, f64); 6] = [
    ("seconds", "seconds", 1.0),
    ("milliseconds", "seconds", 1e3),
    ("microseconds", "seconds", 1e6),
    ("bytes", "bytes", 1.0),
    ("kibibytes", "bytes", 1.0 / 1024.0),
    ("percent", "ratio", 100.0),
];

/// The unit of fields that hold `ok` or `err`, `up` or `down`.
const STATUS: &str = "status";

impl Field {
    /// Value of the metric for the field's text; none for a word. A status is 1 if all is well.
    pub fn base_value(&self, text: &str) -> Option<String> {
        if self.unit == STATUS {
            let is_well = matches!(text, "ok" | "up");
            return (!text.is_empty()).then(|| u8::from(is_well).to_string());
        }
        let text = text.trim_end_matches('%');
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite())?;
        let divisor = UNITS.iter().find(|(unit, ..)| *unit == self.unit).map_or(1.0, |row| row.2);
        // Integers beyond the precision of a float stay exact.
        Some(if divisor == 1.0 { text.to_owned() } else { (number / divisor).to_string() })
    }
}

/// All fields, in `INFO`'s order.
pub(crate) fn fields() -> impl Iterator<Item = Field> {
    let rows = include_str!("fields.txt").lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|mut row| {
        let mut word = || {
            let (word, rest) = row.split_once(' ')?;
            row = rest.trim_start();
            Some(word)
        };
        let (name, metric, kind, unit) = (word()?, word()?, word()?, word()?);
        Some(Field { name, metric, kind, unit, help: row })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::fmt::Write;
    use std::fs;
    use std::path::Path;

    /// Appends the texts of the source files in a folder and those below.
    fn read_sources(folder: &Path, text: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read_sources(&path, text);
            } else if path.extension().is_some_and(|end| end == "rs") {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }

    /// Fields with composed names.
    const COMPOSED: &str = "acl_access_denied_";

    #[test]
    fn rows_are_whole_and_their_fields_exist() {
        let mut sources = String::new();
        read_sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut sources);
        let literals: HashSet<&str> = sources.split('"').collect();
        let (mut names, mut metrics) = (HashSet::new(), HashSet::new());
        for Field { name, metric, kind, unit, help } in fields() {
            assert!(names.insert(name) && metrics.insert(metric), "{name} has two rows");
            assert!(matches!(kind, "gauge" | "counter"), "{name}");
            let base = UNITS.iter().find(|row| row.0 == unit);
            assert!(matches!(unit, "-" | STATUS) || base.is_some(), "{name}: {unit}");
            let family = metric.strip_suffix("_total");
            assert_eq!(family.is_some(), kind == "counter", "{name}: {metric}");
            let is_named = |(_, unit, _): &(&str, &'static str, f64)| {
                family.unwrap_or(metric).split('_').next_back() == Some(unit)
            };
            assert!(base.is_none_or(is_named), "{name}: {metric} ends in its unit");
            let is_short = |word| matches!(word, "sec" | "ms" | "us" | "kb" | "kbps" | "bits");
            assert!(!metric.split('_').any(is_short), "{metric}: promtool asks for base units");
            assert!(
                help.starts_with(|c: char| c.is_alphabetic()) && !help.ends_with('.'),
                "{name}"
            );
            assert!(literals.contains(name) || name.starts_with(COMPOSED), "INFO has no {name}");
        }
    }

    #[test]
    fn the_page_of_metrics_is_up_to_date() {
        let mut page = String::from(HEAD);
        for field in fields() {
            let Field { name, metric, kind, help, .. } = field;
            let _ = writeln!(page, "| `petrel_{metric}` | {kind} | `{name}` | {help} |");
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        if std::env::var_os("PETREL_REGENERATE").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let present = std::fs::read_to_string(path).unwrap_or_default();
        assert!(present == page, "PETREL_REGENERATE=1 cargo test -p petrel-server metrics");
    }

    #[test]
    fn values_are_in_base_units() {
        let value = |name: &str, text: &str| {
            let field = fields().find(|field| field.name == name).unwrap();
            field.base_value(text)
        };
        assert_eq!(value("used_memory_peak_perc", "87.50%").as_deref(), Some("0.875"));
        assert_eq!(value("server_time_usec", "1500000").as_deref(), Some("1.5"));
        let exact = "9007199254740993";
        assert_eq!(value("total_net_input_bytes", exact).as_deref(), Some(exact));
        assert_eq!(value("instantaneous_input_kbps", "1.50").as_deref(), Some("1536"));
        assert_eq!(value("used_memory", "word"), None);
        assert_eq!(value("master_link_status", "up").as_deref(), Some("1"));
        assert_eq!(value("aof_last_write_status", "err").as_deref(), Some("0"));
        assert_eq!(value("cluster_state", ""), None);
    }

    const HEAD: &str = "\
# Metrics

Fields of `INFO` that `/metrics` shows ([monitoring](monitoring.md)), in seconds, bytes and ratios
as OpenMetrics asks. A metric is absent while `INFO` has no such field: those of a replica's link,
of loading, of backups, of the log and of a cluster. \"None here\" means that the field is always 0,
for tools that expect it.

| metric | type | field | is |
|---|---|---|---|
";
}

//! The fields of `INFO` that are metrics: rows of `fields.txt`.

/// A field of `INFO` that is a metric.
pub(crate) struct Field {
    pub name: &'static str,
    /// Type of the metric: `gauge` or `counter`.
    pub kind: &'static str,
    /// Unit of the value; `-` is none.
    pub unit: &'static str,
    help: &'static str,
}

impl Field {
    /// Help text: a sentence with the unit.
    pub fn help(&self) -> String {
        match self.unit {
            "-" => format!("{}.", self.help),
            unit => format!("{}, in {unit}.", self.help),
        }
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
        let (name, kind, unit) = (word()?, word()?, word()?);
        Some(Field { name, kind, unit, help: row })
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
        let mut names = HashSet::new();
        for Field { name, kind, unit, help } in fields() {
            assert!(names.insert(name), "{name} has two rows");
            assert!(matches!(kind, "gauge" | "counter"), "{name}");
            assert!(unit == "-" || unit.ends_with('s') || unit == "percent", "{name}");
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
            let _ =
                writeln!(page, "| `petrel_{}` | {} | {} |", field.name, field.kind, field.help());
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        if std::env::var_os("PETREL_REGENERATE").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let present = std::fs::read_to_string(path).unwrap_or_default();
        assert!(present == page, "PETREL_REGENERATE=1 cargo test -p petrel-server metrics");
    }

    const HEAD: &str = "\
# Metrics

Fields of `INFO` that `/metrics` shows, with `petrel_` before their names ([monitoring](monitoring.md)).
A field is absent while `INFO` has none: those of a replica's link, of loading, of backups, of the log
and of a cluster. \"None here\" means that the field is always 0, for tools that expect it.

| metric | type | is |
|---|---|---|
";
}

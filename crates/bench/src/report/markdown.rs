//! Markdown text and tables.

use std::fmt::Write;

use serde::Serialize;

/// A Markdown document under construction.
#[derive(Clone, Debug, Default)]
pub struct Document(String);

impl Document {
    /// A document that begins with a title.
    pub fn new(title: &str) -> Document {
        Document(format!("# {title}\n"))
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// A heading of `level` (1 is the title's).
    pub fn heading(&mut self, level: usize, text: &str) {
        let _ = writeln!(self.0, "\n{} {text}", "#".repeat(level));
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.0, "\n{text}");
    }

    /// A list.
    pub fn items(&mut self, items: impl IntoIterator<Item = String>) {
        self.0.push('\n');
        for item in items {
            let _ = writeln!(self.0, "- {item}");
        }
    }

    /// A picture in a file beside the document.
    pub fn image(&mut self, alt: &str, file: &str) {
        let _ = writeln!(self.0, "\n![{alt}]({file})");
    }

    /// A table.
    pub fn table(&mut self, table: &Table) {
        self.0.push('\n');
        let mut line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            let _ = writeln!(self.0, "| {} |", cells.join(" | "));
        };
        line(&table.header);
        line(&vec!["---".to_owned(); table.header.len()]);
        for row in &table.rows {
            line(row);
        }
    }
}

/// A table of text.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Table {
        Table { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

/// Difference of `value` from `base` in per cent with a sign; a dash if one is missing.
pub fn change(value: Option<f64>, base: Option<f64>) -> String {
    match (value, base) {
        (Some(value), Some(base)) if base > 0.0 => {
            format!("{:+.1}%", (value - base) / base * 100.0 + 0.0)
        }
        _ => "–".to_owned(),
    }
}

/// `value / base` with two decimals; a dash where one is missing.
pub fn ratio(value: Option<f64>, base: Option<f64>) -> String {
    match (value, base) {
        (Some(value), Some(base)) if base > 0.0 => format!("{:.2}x", value / base),
        _ => "–".to_owned(),
    }
}

/// A number with `decimals` digits after the point; a dash if it is missing.
pub fn rounded(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_with_a_table() {
        let mut document = Document::new("Title");
        document.heading(2, "Part");
        document.items(["one".to_owned()]);
        let mut table = Table::new(["System", "Sets"]);
        table.row(["a|b", "1"]);
        document.table(&table);
        assert_eq!(
            document.text(),
            "# Title\n\n## Part\n\n- one\n\n| System | Sets |\n| --- | --- |\n| a\\|b | 1 |\n"
        );
    }

    #[test]
    fn numbers() {
        assert_eq!(change(Some(110.0), Some(100.0)), "+10.0%");
        assert_eq!(change(Some(100.0), Some(100.0)), "+0.0%");
        assert_eq!(change(None, Some(100.0)), "–");
        assert_eq!(ratio(Some(1.0), Some(4.0)), "0.25x");
        assert_eq!(rounded(Some(1.26), 1), "1.3");
    }
}

//! Tables of a result file, as views describe them.

use super::markdown::{Table, change, ratio, rounded};
use crate::experiment::{Better, Cells, Description, FIGURE, Figure, SERVER, View};
use crate::result::{Results, Row};

/// Heads the column of the best of the other servers.
const BEST_PEER: &str = "best peer";

/// Values of some axes.
pub type Place = Vec<(&'static str, String)>;

/// A result file with its description.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub description: &'static Description,
    pub results: &'a Results,
}

/// Table of a view.
#[derive(Debug)]
pub struct Section {
    /// Heading; empty for the only table of a view.
    pub heading: String,
    /// Values of the axes.
    pub place: Place,
}

impl<'a> Reader<'a> {
    /// A reader of a file.
    pub fn new(results: &'a Results) -> Reader<'a> {
        Reader { description: Description::named(&results.experiment), results }
    }

    /// The tables of a view, those without any figure left out.
    pub fn sections(&self, view: &View) -> Vec<Section> {
        let places = self.places(view, &view.sections).into_iter();
        let filled = places.filter(|place| {
            let rows = self.results.rows.iter().filter(|row| matches(row, place));
            let figures = self.figures(view, place);
            let mut values = rows.flat_map(|row| {
                figures.iter().filter_map(|figure| row.figure(figure.name, figure.over_rounds))
            });
            values.next().is_some()
        });
        filled.map(|place| Section { heading: self.heading(&place), place }).collect()
    }

    /// Makes a table of a view. `with_spread` adds the spread of the rounds.
    pub fn table(&self, view: &View, section: &Section, with_spread: bool) -> Table {
        let rows = self.places(view, &view.rows);
        let mut columns = self.places(view, &view.columns);
        if view.cells == Cells::Ratio {
            columns.retain(|place| value(place, SERVER) != Some(&self.results.base));
            let mut best = columns.clone();
            best.iter_mut().for_each(|place| set(place, SERVER, BEST_PEER));
            best.dedup();
            columns.splice(0..0, best);
        }
        let mut header: Vec<String> =
            view.rows.iter().map(|axis| axis.replace(FIGURE, "")).collect();
        for column in &columns {
            header.push(self.label(column));
            if view.cells == Cells::Versus {
                header.push(format!("vs {}", self.results.base));
            }
        }
        let mut table = Table::new(header);
        for row in &rows {
            let mut cells: Vec<String> = row.iter().map(|part| self.part(part)).collect();
            let labels = cells.len();
            for column in &columns {
                let place = [section.place.clone(), row.clone(), column.clone()].concat();
                cells.extend(self.cells(view, &place, with_spread));
            }
            if cells[labels..].iter().any(|cell| !cell.starts_with('–')) {
                table.row(cells);
            }
        }
        table
    }

    /// All combinations of the values of some axes that the file has.
    pub fn places(&self, view: &View, axes: &[&'static str]) -> Vec<Place> {
        let mut places: Vec<Place> = vec![Vec::new()];
        for axis in axes {
            let values = self.values(view, axis);
            // Files of runs from before there was such an axis have none.
            if values.is_empty() {
                continue;
            }
            let longer = |place: &Place| {
                let place = place.clone();
                let with = move |value: &String| {
                    let mut place = place.clone();
                    place.push((*axis, value.clone()));
                    place
                };
                values.iter().map(with).collect::<Vec<_>>()
            };
            places = places.iter().flat_map(longer).collect();
        }
        places.retain(|place| self.results.rows.iter().any(|row| matches(row, place)));
        places
    }

    /// The values of an axis in the order of the run.
    fn values(&self, view: &View, axis: &str) -> Vec<String> {
        let mut values: Vec<String> = match axis {
            FIGURE => return view.figures.iter().map(|name| (*name).to_owned()).collect(),
            SERVER => self.results.servers.iter().map(|server| server.name.clone()).collect(),
            _ => Vec::new(),
        };
        for value in self.results.rows.iter().filter_map(|row| row.point.get(axis)) {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        values
    }

    /// The figures at a place: the one that it names, else those of the view.
    pub fn figures(&self, view: &View, place: &Place) -> Vec<&'static Figure> {
        match value(place, FIGURE) {
            Some(name) => self.description.figure(name).into_iter().collect(),
            None => view.figures.iter().filter_map(|name| self.description.figure(name)).collect(),
        }
    }

    /// The number of a figure at a place.
    pub fn number(&self, figure: &Figure, place: &Place) -> Option<f64> {
        let row = self.results.rows.iter().find(|row| matches(row, place))?;
        row.figure(figure.name, figure.over_rounds)
    }

    /// Spread of the rounds of a figure at a place, see [`Row::spread`].
    pub fn spread(&self, figure: &Figure, place: &Place) -> Option<f64> {
        self.results.rows.iter().find(|row| matches(row, place))?.spread(figure.name)
    }

    fn cells(&self, view: &View, place: &Place, with_spread: bool) -> Vec<String> {
        let Some(figure) = self.figures(view, place).first().copied() else { return Vec::new() };
        let own = self.number(figure, place);
        let server = value(place, SERVER).map_or("", String::as_str);
        let mut text = rounded(own, figure.decimals);
        let loses = server == self.results.base && self.loses(figure, place);
        let bold = |text: String, loses: bool| if loses { format!("**{text}**") } else { text };
        match view.cells {
            Cells::Value => {
                let spread = self.spread(figure, place);
                if let Some(spread) = spread.filter(|_| with_spread && own.is_some()) {
                    text.push_str(&format!(" ±{:.0}%", spread * 100.0));
                }
                vec![bold(text, loses)]
            }
            Cells::Versus => {
                let base = self.number(figure, &at(place, SERVER, &self.results.base));
                vec![bold(text, loses), change(own, base)]
            }
            Cells::Ratio => {
                let base = self.number(figure, &at(place, SERVER, &self.results.base));
                let other = match server {
                    BEST_PEER => self.best_peer(figure, place),
                    _ => own,
                };
                let is_rival = server == BEST_PEER || self.is_rival(server);
                let loses = base
                    .zip(other)
                    .is_some_and(|(own, other)| is_rival && is_worse(own, other, figure.better));
                vec![bold(ratio(base, other), loses)]
            }
            Cells::Against(axis, reference) => {
                let reference = self.number(figure, &at(place, axis, reference));
                vec![bold(format!("{text} ({})", ratio(own, reference)), loses)]
            }
        }
    }

    /// Whether the base server is worse than the best of the others.
    pub fn loses(&self, figure: &Figure, place: &Place) -> bool {
        let own = self.number(figure, &at(place, SERVER, &self.results.base));
        let best = self.best_peer(figure, place);
        own.zip(best).is_some_and(|(own, best)| is_worse(own, best, figure.better))
    }

    /// The best figure of the other servers at a place; bare loops are no servers.
    pub fn best_peer(&self, figure: &Figure, place: &Place) -> Option<f64> {
        let rivals = self.results.servers.iter().filter(|server| self.is_rival(&server.name));
        let numbers =
            rivals.filter_map(|server| self.number(figure, &at(place, SERVER, &server.name)));
        match figure.better {
            Better::Less => numbers.reduce(f64::min),
            Better::More => numbers.reduce(f64::max),
            Better::Neither => None,
        }
    }

    /// Whether a server is a rival: neither the base server, nor a variant of it (its name as a
    /// prefix), nor a bare loop.
    pub fn is_rival(&self, name: &str) -> bool {
        let facts = self.results.servers.iter().find(|server| server.name == name);
        facts.is_some_and(|facts| !facts.is_floor && !name.starts_with(&self.results.base))
    }

    fn heading(&self, place: &Place) -> String {
        let several = |(axis, _): &&(&'static str, String)| {
            let mut values = self.results.rows.iter().filter_map(|row| row.point.get(*axis));
            let first = values.next();
            *axis == FIGURE || *axis == SERVER || values.any(|value| Some(value) != first)
        };
        place.iter().filter(several).map(|part| self.part(part)).collect::<Vec<_>>().join(", ")
    }

    /// A place in words.
    pub fn label(&self, place: &Place) -> String {
        place.iter().map(|part| self.part(part)).collect::<Vec<_>>().join(" ")
    }

    fn part(&self, (axis, value): &(&'static str, String)) -> String {
        match (*axis, self.description.figure(value)) {
            (FIGURE, Some(figure)) => title(figure),
            _ => {
                let label = self.description.axis_label(axis, value);
                let processors = self.results.machine.processors;
                // Threads that share processors are no measure of how something scales.
                match axis == &"threads" && value.parse().is_ok_and(|n: usize| n > processors) {
                    true => format!("{label} on {processors} processors"),
                    false => label,
                }
            }
        }
    }
}

/// A figure's title with its unit.
pub fn title(figure: &Figure) -> String {
    match figure.unit {
        "" => figure.title.to_owned(),
        unit => format!("{} ({unit})", figure.title),
    }
}

/// Whether a row lies at a place; figures are in every row.
fn matches(row: &Row, place: &Place) -> bool {
    place.iter().all(|(axis, value)| match *axis {
        FIGURE => true,
        SERVER => row.server == *value || value == BEST_PEER,
        axis => row.point.get(axis) == Some(value),
    })
}

fn value<'p>(place: &'p Place, axis: &str) -> Option<&'p String> {
    place.iter().find(|(name, _)| *name == axis).map(|(_, value)| value)
}

fn set(place: &mut Place, axis: &'static str, value: &str) {
    place.retain(|(name, _)| *name != axis);
    place.push((axis, value.to_owned()));
}

/// A place with another value of one axis.
fn at(place: &Place, axis: &'static str, value: &str) -> Place {
    let mut place = place.clone();
    set(&mut place, axis, value);
    place
}

fn is_worse(own: f64, other: f64, better: Better) -> bool {
    match better {
        Better::Less => own > other,
        Better::More => own < other,
        Better::Neither => false,
    }
}

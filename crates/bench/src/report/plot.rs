//! Plots of a result file, as views describe them: grouped bars and lines, in SVG.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use serde::Serialize;

use super::table::{Place, Reader, Section, title as figure_title};
use crate::experiment::{Figure, Plot, SERVER, View};
use crate::result::Results;

const WIDTH: u32 = 900;
const HEIGHT: u32 = 440;
const LEGEND: u32 = 190;

/// Ratio of the largest to the smallest value from which an axis is logarithmic.
const LOG_FROM: f64 = 50.0;

/// Colours that stay apart for colour-blind readers (after Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x5f, 0x5f, 0x5f),
    RGBColor(0xb8, 0xa8, 0x00),
];

/// A named series of points.
#[derive(Debug, Serialize)]
struct Series {
    name: String,
    /// x, y and half the range of the rounds, 0 for a single one. In a bar chart x is the number of
    /// the category.
    points: Vec<[f64; 3]>,
}

/// A plot.
#[derive(Debug, Serialize)]
pub struct Chart {
    title: String,
    x_label: String,
    y_label: String,
    /// Names of the groups of a bar chart; empty for lines.
    categories: Vec<String>,
    /// Whether lines stand over a logarithmic horizontal axis.
    is_x_log: bool,
    series: Vec<Series>,
    /// Instead of series.
    surface: Option<Surface>,
}

/// Heights over a grid: `z[y][x]`.
#[derive(Debug, Serialize)]
struct Surface {
    x: Vec<f64>,
    y: Vec<f64>,
    z: Vec<Vec<Option<f64>>>,
}

/// The file of the plot of a section of a view.
pub fn plot_name(results: &Results, view: usize, section: usize) -> String {
    format!("{}-{}-{}.svg", results.name(), view + 1, section + 1)
}

/// The file of the points of a surface.
pub fn data_name(results: &Results, view: usize, section: usize) -> String {
    format!("{}-{}-{}.dat", results.name(), view + 1, section + 1)
}

/// Every plot of a file as a file name and its content; of surfaces the points.
pub fn plots(results: &Results) -> Vec<(String, String)> {
    let reader = Reader::new(results);
    let mut plots = Vec::new();
    for (number, view) in reader.description.views.iter().enumerate() {
        let Some(plot) = view.plot else { continue };
        for (place, section) in reader.sections(view).iter().enumerate() {
            let chart = chart(&reader, view, plot, section);
            plots.push(match &chart.surface {
                None => (plot_name(results, number, place), chart.render()),
                Some(surface) => (data_name(results, number, place), surface.for_gnuplot()),
            });
        }
    }
    plots
}

/// The plot of a section of a view.
pub fn chart(reader: &Reader<'_>, view: &View, plot: Plot, section: &Section) -> Chart {
    let title = [view.title, &section.heading].join(" ").trim().to_owned();
    let section = &section.place;
    if let Plot::Surface { x_max } = plot {
        return surface(reader, view, section, x_max, title);
    }
    let by_rows = view.rows.contains(&SERVER);
    let (own, across) = match by_rows {
        true => (&view.rows, &view.columns),
        false => (&view.columns, &view.rows),
    };
    let (names, places) = (reader.places(view, own), reader.places(view, across));
    let figure = reader.figures(view, section).first().copied();
    let series = |name: &Place| -> Series {
        let label = reader.label(name);
        let Some(figure) = figure else { return Series { name: label, points: Vec::new() } };
        let points = places.iter().enumerate().filter_map(|(number, place)| {
            let x = match plot {
                Plot::Lines => place.last()?.1.parse().ok()?,
                _ => number as f64,
            };
            let place = [section.clone(), name.clone(), place.clone()].concat();
            let y = reader.number(figure, &place)?;
            Some([x, y, y * reader.spread(figure, &place).unwrap_or(0.0)])
        });
        Series { name: label, points: points.collect() }
    };
    let bars = plot == Plot::Bars;
    Chart {
        title,
        x_label: across.join(", "),
        y_label: figure.map(figure_title).unwrap_or_default(),
        categories: places.iter().filter(|_| bars).map(|place| reader.label(place)).collect(),
        is_x_log: plot == Plot::Lines,
        series: names.iter().map(series).filter(|series| !series.points.is_empty()).collect(),
        surface: None,
    }
}

/// Rows become x, figures become y: the percentile that a figure's name ends with.
fn surface(reader: &Reader<'_>, view: &View, section: &Place, x_max: f64, title: String) -> Chart {
    let x_of = |place: &Place| place.last()?.1.parse::<f64>().ok().filter(|x| *x <= x_max);
    let rows = reader.places(view, &view.rows).into_iter();
    let rows: Vec<(f64, Place)> = rows.filter_map(|row| Some((x_of(&row)?, row))).collect();
    let figures = view.figures.iter().filter_map(|name| {
        Some((name.trim_start_matches('q').parse().ok()?, reader.description.figure(name)?))
    });
    let figures: Vec<(f64, &Figure)> = figures.collect();
    let height = |figure: &Figure, row: &Place| {
        reader.number(figure, &[section.clone(), row.clone()].concat())
    };
    let line = |figure: &Figure| rows.iter().map(|(_, row)| height(figure, row)).collect();
    let surface = Surface {
        x: rows.iter().map(|(x, _)| *x).collect(),
        y: figures.iter().map(|(percentile, _)| *percentile).collect(),
        z: figures.iter().map(|(_, figure)| line(figure)).collect(),
    };
    let (x_label, y_label) = (view.rows.join(", "), "ms".to_owned());
    let (categories, series) = (Vec::new(), Vec::new());
    Chart { title, x_label, y_label, categories, is_x_log: true, series, surface: Some(surface) }
}

impl Surface {
    /// Lines `x y z`, a block for each x: `splot "FILE" using 1:2:3 with lines`.
    fn for_gnuplot(&self) -> String {
        let mut text = "# connections percentile milliseconds\n".to_owned();
        for (column, x) in self.x.iter().enumerate() {
            for (y, line) in self.y.iter().zip(&self.z) {
                if let Some(z) = line[column] {
                    text.push_str(&format!("{x} {y} {z}\n"));
                }
            }
            text.push('\n');
        }
        text
    }
}

/// An axis: its range, whether it is logarithmic, and its ticks.
#[derive(Clone, Debug)]
struct Axis {
    is_log: bool,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// An axis for these values, from zero unless it is logarithmic.
    fn new(values: impl Iterator<Item = f64> + Clone, may_be_log: bool) -> Axis {
        let high = values.clone().fold(0.0, f64::max);
        let low = values.filter(|value| *value > 0.0).fold(f64::MAX, f64::min).min(high);
        if may_be_log && high > low * LOG_FROM && low > 0.0 {
            let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
            let ticks: Vec<f64> = (first..=last).map(|power| 10f64.powi(power)).collect();
            return Axis { is_log: true, low: 10f64.powi(first), high: 10f64.powi(last), ticks };
        }
        let top = if high > 0.0 { high } else { 1.0 };
        let power = 10f64.powf((top / 5.0).log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
        let step = steps.into_iter().find(|step| *step >= top / 5.0).unwrap_or(top);
        let count = (top / step - 1e-9).ceil() as u32;
        let ticks = (0..=count).map(|tick| f64::from(tick) * step).collect();
        Axis { is_log: false, low: 0.0, high: f64::from(count) * step, ticks }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = match self.is_log {
            true => (value / self.low).log10() / (self.high / self.low).log10(),
            false => (value - self.low) / (self.high - self.low),
        };
        // A value that a logarithm cannot show lies on the axis.
        from + (share.clamp(0.0, 1.0) * f64::from(to - from)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

impl Chart {
    fn render(&self) -> String {
        let mut svg = String::new();
        // Drawing into a string does not fail; an empty plot would show it.
        let drawn = self.draw(SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)));
        drawn.map(|()| svg).unwrap_or_else(|error| format!("<!-- {error} --><svg></svg>"))
    }

    fn draw(&self, backend: SVGBackend<'_>) -> Result<(), Box<dyn std::error::Error + '_>> {
        let root = backend.into_drawing_area();
        root.fill(&WHITE)?;
        let (left, right) = root.split_horizontally(WIDTH - LEGEND);
        let values = self.series.iter().flat_map(|series| &series.points);
        let y = Axis::new(values.clone().map(|point| point[1]), true);
        let x = match self.categories.len() {
            0 => Axis::new(values.map(|point| point[0]), self.is_x_log),
            count => {
                let ticks = (0..count).map(|number| number as f64 + 0.5).collect();
                Axis { is_log: false, low: 0.0, high: count as f64, ticks }
            }
        };
        let mut chart = ChartBuilder::on(&left)
            .caption(&self.title, ("sans-serif", 17))
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(66)
            .build_cartesian_2d(x, y.clone())?;
        let x_label = |place: &f64| match self.categories.get(*place as usize) {
            Some(name) => name.clone(),
            None => short(*place),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .x_label_formatter(&x_label)
            .y_label_formatter(&|place| short(*place))
            .label_style(("sans-serif", 13))
            .draw()?;
        let width = 0.84 / self.series.len().max(1) as f64;
        for (number, Series { points, .. }) in self.series.iter().enumerate() {
            let points = points.iter().map(|&[x, y, _]| (x, y));
            let colour = COLOURS[number % COLOURS.len()];
            if self.categories.is_empty() {
                let line = LineSeries::new(points.clone(), colour.stroke_width(2));
                chart.draw_series(line)?;
                chart.draw_series(points.map(|at| Circle::new(at, 3, colour.filled())))?;
            } else {
                chart.draw_series(points.map(|(group, value)| {
                    let from = group + 0.08 + width * number as f64;
                    let corners = [(from, y.low), (from + width * 0.94, value)];
                    Rectangle::new(corners, colour.filled())
                }))?;
            }
        }
        self.legend(&right)?;
        root.present()?;
        Ok(())
    }

    fn legend(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
    ) -> Result<(), Box<dyn std::error::Error + '_>> {
        for (number, Series { name, .. }) in self.series.iter().enumerate() {
            let y = 46 + 20 * number as i32;
            let colour = COLOURS[number % COLOURS.len()];
            let mark = Rectangle::new([(6, y), (18, y + 12)], colour.filled());
            area.draw(&mark).map_err(|error| error.to_string())?;
            let text = Text::new(name.clone(), (24, y), ("sans-serif", 13));
            area.draw(&text).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// A number in few characters: 1500000 is 1.5M.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "K"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.4}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(values: Vec<(f64, f64)>) -> String {
        let points = values.into_iter().map(|(x, y)| [x, y, 0.0]).collect();
        let chart = Chart {
            title: "a < b".to_owned(),
            x_label: "pipeline".to_owned(),
            y_label: "us".to_owned(),
            categories: vec!["P1".to_owned(), "P10".to_owned()],
            is_x_log: false,
            series: vec![Series { name: "one".to_owned(), points }],
            surface: None,
        };
        chart.render()
    }

    #[test]
    fn bars_leave_gaps_and_become_logarithmic() {
        let linear = bars(vec![(0.0, 100.0)]);
        assert!(linear.contains("a &lt; b") && linear.contains("P10"), "{linear}");
        let count = |svg: &str| svg.matches("#D55E00").count();
        assert_eq!(count(&linear), 2, "one bar and its mark in the legend: {linear}");
        let log = bars(vec![(0.0, 100.0), (1.0, 0.5)]);
        assert_eq!(count(&log), 3);
        assert!(!linear.contains("0.1\n") && log.contains("0.1\n"), "begins below the smallest");
    }

    #[test]
    fn axes_end_on_round_numbers() {
        let axis = |values: &[f64]| Axis::new(values.iter().copied(), true);
        assert_eq!(axis(&[930.0]).high, 1000.0);
        assert_eq!(axis(&[]).high, 1.0);
        let log = axis(&[3.0, 450.0]);
        assert_eq!((log.low, log.high), (1.0, 1000.0));
        assert_eq!([0.5, 10.0, 1000.0].map(|value| log.map(&value, (0, 300))), [0, 100, 300]);
        assert_eq!(axis(&[0.0, 450.0]).high, 500.0);
        assert_eq!(short(1_500_000.0), "1.5M");
        assert_eq!(short(0.25), "0.25");
    }
}

//! Charts as SVG text: grouped bars and lines, with axes, grid and legend.

use std::fmt::Write;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 180.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
const PLOT_WIDTH: f64 = WIDTH - LEFT - RIGHT;

/// A bar chart becomes logarithmic when its largest value is so many times its smallest.
const LOG_FROM: f64 = 50.0;

/// Colours that stay apart for colour-blind readers (after Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5f5f5f", "#b8a800"];

/// A named row of values.
#[derive(Clone, Debug)]
pub struct Series<T> {
    /// As the legend shows it.
    pub name: String,
    /// The values.
    pub values: Vec<T>,
}

/// Bars in groups: one group per category, one bar per series.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// Above the chart.
    pub title: String,
    /// Beside the vertical axis.
    pub y_label: String,
    /// Under the horizontal axis.
    pub x_label: String,
    /// Whether the vertical axis may be logarithmic, which it is when bars would be too small to see.
    pub may_be_log: bool,
    /// Names of the groups.
    pub categories: Vec<String>,
    /// One value per category; `None` leaves a gap.
    pub series: Vec<Series<Option<f64>>>,
}

/// Lines over a logarithmic horizontal axis.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// Above the chart.
    pub title: String,
    /// Beside the vertical axis.
    pub y_label: String,
    /// Under the horizontal axis.
    pub x_label: String,
    /// Whether the vertical axis is logarithmic, too.
    pub y_log: bool,
    /// Points (x, y), x ascending; points that are not above zero are left out.
    pub series: Vec<Series<(f64, f64)>>,
}

impl BarChart {
    /// The chart as an SVG document.
    pub fn render(&self) -> String {
        let y = self.axis();
        let mut svg = Canvas::new(&self.title, &self.x_label, &self.y_label);
        svg.y_axis(&y);
        let group = PLOT_WIDTH / self.categories.len().max(1) as f64;
        let bar = group * 0.84 / self.series.len().max(1) as f64;
        for (place, category) in self.categories.iter().enumerate() {
            let left = LEFT + group * place as f64;
            svg.x_label(left + group / 2.0, category);
            for (number, series) in self.series.iter().enumerate() {
                let Some(value) = series.values.get(place).copied().flatten() else { continue };
                let x = left + group * 0.08 + bar * number as f64;
                svg.bar(
                    x,
                    y.place(value),
                    bar * 0.94,
                    number,
                    &format!("{}: {value}", series.name),
                );
            }
        }
        svg.finish(self.series.iter().map(|series| series.name.as_str()))
    }
}

impl BarChart {
    fn axis(&self) -> Axis {
        let values = self.series.iter().flat_map(|series| &series.values).flatten();
        let values = values.copied().filter(|value| *value > 0.0);
        let (low, high) =
            values.fold((f64::MAX, 0.0), |(l, h): (f64, f64), v| (l.min(v), h.max(v)));
        if self.may_be_log && high > low * LOG_FROM {
            Axis::log(low * 0.999, high)
        } else {
            Axis::linear(high)
        }
    }
}

impl LineChart {
    /// The chart as an SVG document.
    pub fn render(&self) -> String {
        let good = |(x, y): &(f64, f64)| *x > 0.0 && *y > 0.0;
        let points = || self.series.iter().flat_map(|series| &series.values).copied().filter(good);
        let range = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let (x_low, x_high) = range(&mut points().map(|(x, _)| x));
        let (y_low, y_high) = range(&mut points().map(|(_, y)| y));
        let y = if self.y_log { Axis::log(y_low, y_high) } else { Axis::linear(y_high) };
        let mut svg = Canvas::new(&self.title, &self.x_label, &self.y_label);
        svg.y_axis(&y);
        let span = (x_high / x_low).log10().max(1e-9);
        let x_place = |x: f64| LEFT + 12.0 + (x / x_low).log10() / span * (PLOT_WIDTH - 24.0);
        let mut ticks: Vec<f64> = points().map(|(x, _)| x).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let mut edge = f64::MIN;
        for tick in ticks {
            if x_place(tick) - edge > 40.0 {
                edge = x_place(tick);
                svg.x_label(edge, &short(tick));
            }
        }
        for (number, series) in self.series.iter().enumerate() {
            let places = series.values.iter().copied().filter(good);
            let places: Vec<_> = places.map(|(px, py)| (x_place(px), y.place(py))).collect();
            svg.line(&places, number);
        }
        svg.finish(self.series.iter().map(|series| series.name.as_str()))
    }
}

/// A vertical axis.
#[derive(Debug)]
struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
    log: bool,
}

impl Axis {
    /// From zero to a round number at or above `top`.
    fn linear(top: f64) -> Axis {
        let top = if top.is_finite() && top > 0.0 { top } else { 1.0 };
        let rough = top / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough)
            .unwrap_or(10.0 * power);
        let count = (top / step - 1e-9).ceil().max(1.0) as usize;
        let ticks: Vec<f64> = (0..=count).map(|tick| tick as f64 * step).collect();
        Axis { low: 0.0, high: count as f64 * step, ticks, log: false }
    }

    /// Over whole decades around `low` and `high`.
    fn log(low: f64, high: f64) -> Axis {
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        let first = low.log10().floor() as i32;
        let last = (high.log10().ceil() as i32).max(first + 1);
        let ticks = (first..=last).map(|power| 10f64.powi(power)).collect();
        Axis { low: 10f64.powi(first), high: 10f64.powi(last), ticks, log: true }
    }

    fn place(&self, value: f64) -> f64 {
        let share = if self.log {
            ((value / self.low).log10() / (self.high / self.low).log10()).max(0.0)
        } else {
            (value - self.low) / (self.high - self.low)
        };
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }
}

/// The document while it is drawn.
#[derive(Debug)]
struct Canvas(String);

impl Canvas {
    fn new(title: &str, x_label: &str, y_label: &str) -> Canvas {
        let mut svg = Canvas(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        ));
        svg.text(LEFT, 26.0, "start", "font-size=\"16\" font-weight=\"bold\"", title);
        let middle = LEFT + PLOT_WIDTH / 2.0;
        svg.text(middle, HEIGHT - 16.0, "middle", "", x_label);
        let half = (TOP + HEIGHT - BOTTOM) / 2.0;
        let turn = format!("transform=\"rotate(-90 18 {half:.1})\"");
        svg.text(18.0, half, "middle", &turn, y_label);
        svg
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, attributes: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {attributes}>{text}</text>"
        );
    }

    fn y_axis(&mut self, axis: &Axis) {
        for tick in &axis.ticks {
            let (y, end) = (axis.place(*tick), WIDTH - RIGHT);
            let _ = writeln!(
                self.0,
                "<line x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>"
            );
            self.text(LEFT - 8.0, y + 4.0, "end", "", &short(*tick));
        }
        let (bottom, end) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let _ = writeln!(
            self.0,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{end}\" fill=\"none\" stroke=\"#333333\"/>"
        );
    }

    fn x_label(&mut self, x: f64, text: &str) {
        self.text(x, HEIGHT - BOTTOM + 18.0, "middle", "", text);
    }

    fn bar(&mut self, x: f64, y: f64, width: f64, number: usize, hint: &str) {
        let height = (HEIGHT - BOTTOM - y).max(0.0);
        let (colour, hint) = (COLOURS[number % COLOURS.len()], escape(hint));
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{colour}\"><title>{hint}</title></rect>"
        );
    }

    fn line(&mut self, places: &[(f64, f64)], number: usize) {
        let colour = COLOURS[number % COLOURS.len()];
        let points: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        let _ = writeln!(
            self.0,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        );
        for (x, y) in places {
            let _ =
                writeln!(self.0, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
    }

    fn finish<'a>(mut self, names: impl Iterator<Item = &'a str>) -> String {
        let x = WIDTH - RIGHT + 16.0;
        for (number, name) in names.enumerate() {
            let y = TOP + 8.0 + 20.0 * number as f64;
            let (colour, top) = (COLOURS[number % COLOURS.len()], y - 10.0);
            let _ = writeln!(
                self.0,
                "<rect x=\"{x}\" y=\"{top:.1}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
            );
            self.text(x + 18.0, y, "start", "", name);
        }
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// A number in few characters: 1500000 is 1.5M.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "K"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_with_values_and_gaps_stay_empty() {
        let mut chart = BarChart {
            may_be_log: true,
            title: "a < b".to_owned(),
            y_label: "y".to_owned(),
            x_label: "x".to_owned(),
            categories: vec!["P1".to_owned(), "P10".to_owned()],
            series: vec![Series { name: "one".to_owned(), values: vec![Some(100.0), None] }],
        };
        let svg = chart.render();
        assert!(svg.contains("a &lt; b") && svg.contains(">P10<"));
        assert_eq!(svg.matches("<title>").count(), 1);
        assert!(svg.contains("height=\"350.0\""), "the largest value reaches the top: {svg}");
        chart.series[0].values[1] = Some(0.5);
        assert!(chart.render().contains(">0.1<"), "a logarithmic axis begins below the smallest");
    }

    #[test]
    fn lines_leave_out_what_a_logarithm_cannot_show() {
        let values = vec![(1.0, 10.0), (100.0, 0.0), (1000.0, 1000.0)];
        let chart = LineChart {
            title: String::new(),
            y_label: String::new(),
            x_label: String::new(),
            y_log: true,
            series: vec![Series { name: "s".to_owned(), values }],
        };
        assert_eq!(chart.render().matches("<circle").count(), 2);
    }

    #[test]
    fn axes_end_on_round_numbers() {
        assert_eq!(Axis::linear(930.0).high, 1000.0);
        assert_eq!(Axis::linear(0.0).high, 1.0);
        assert_eq!((Axis::log(3.0, 450.0).low, Axis::log(3.0, 450.0).high), (1.0, 1000.0));
        assert_eq!(short(1_500_000.0), "1.5M");
        assert_eq!(short(0.25), "0.25");
    }
}

//! Search areas: containment of positions, and the cells of the grid that cover an area.

use super::geohash::{Bounds, Cell, EARTH_RADIUS_M, PRECISION_MAX, Position};
use std::ops::Range;

/// Half the length of the equator, in meters.
const HALF_EQUATOR_M: f64 = 20_037_726.37;

/// Shape of an area.
#[derive(Clone, Debug)]
pub enum Shape {
    /// All positions within a distance of the center, in meters.
    Circle {
        /// The distance.
        radius_m: f64,
    },
    /// Positions within half of both lengths of the center, in meters.
    Box {
        /// Length from west to east.
        width_m: f64,
        /// Length from south to north.
        height_m: f64,
    },
    /// Positions inside a polygon with sides that are straight on the map.
    Polygon {
        /// The corners in order; the last is joined to the first.
        vertices: Vec<Position>,
    },
}

/// A shape around a center.
#[derive(Clone, Debug)]
pub struct Area {
    center: Position,
    shape: Shape,
}

impl Area {
    /// A circle or a box around a position.
    pub fn around(center: Position, shape: Shape) -> Self {
        Area { center, shape }
    }

    /// A polygon. Distances are measured from the middle of its corners.
    pub fn polygon(vertices: Vec<Position>) -> Self {
        Area { center: middle(&vertices), shape: Shape::Polygon { vertices } }
    }

    /// Distance from the center in meters, if the position is in the area.
    pub fn distance_inside_m(&self, place: &Position) -> Option<f64> {
        let inside = match &self.shape {
            Shape::Circle { radius_m } => {
                let distance = self.center.distance_m(place);
                return (distance <= *radius_m).then_some(distance);
            }
            Shape::Box { width_m, height_m } => {
                let beside = Position { latitude: place.latitude, ..self.center };
                self.center.latitude_distance_m(place) <= height_m / 2.0
                    && beside.distance_m(place) <= width_m / 2.0
            }
            Shape::Polygon { vertices } => encloses(vertices, place),
        };
        inside.then(|| self.center.distance_m(place))
    }

    /// Ranges of scores that together contain every member of the area, center first.
    pub fn score_ranges(&self) -> Vec<Range<u64>> {
        let bounds = self.bounds();
        let mut precision = self.precision(&bounds);
        let mut within = Cell::of(&self.center, precision).bounds();
        // Cells may be too narrow towards the poles.
        while precision > 1 && !neighbors_cover(&within, &bounds) {
            precision -= 1;
            within = Cell::of(&self.center, precision).bounds();
        }
        let cell = Cell::of(&self.center, precision);
        let reaches = |east: i32, north: i32| {
            precision < 2
                || (east <= 0 || within.east <= bounds.east)
                    && (east >= 0 || within.west >= bounds.west)
                    && (north <= 0 || within.north <= bounds.north)
                    && (north >= 0 || within.south >= bounds.south)
        };
        let mut cells = Vec::with_capacity(DIRECTIONS.len());
        for (east, north) in DIRECTIONS {
            let neighbor = cell.neighbor(east, north);
            if reaches(east, north) && !cells.contains(&neighbor) {
                cells.push(neighbor);
            }
        }
        cells.into_iter().map(Cell::scores).collect()
    }

    /// Number of halvings of the map after which a cell and its eight neighbors cover the area, or
    /// nearly.
    fn precision(&self, bounds: &Bounds) -> u32 {
        let radius_m = self.radius_m(bounds);
        let mut precision = PRECISION_MAX as i32;
        if radius_m > 0.0 {
            let mut reach = radius_m;
            precision = -1;
            while reach < HALF_EQUATOR_M && precision < PRECISION_MAX as i32 {
                reach *= 2.0;
                precision += 1;
            }
        }
        // Degrees of longitude are shorter near the poles.
        let latitude = self.center.latitude.abs();
        precision -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        precision.clamp(1, PRECISION_MAX as i32) as u32
    }

    /// Radius of a circle around the area.
    fn radius_m(&self, bounds: &Bounds) -> f64 {
        match &self.shape {
            Shape::Circle { radius_m } => *radius_m,
            Shape::Box { width_m, height_m } => (width_m / 2.0).hypot(height_m / 2.0),
            Shape::Polygon { .. } => {
                let Bounds { west, east, south, north } = *bounds;
                let corners = [(west, south), (west, north), (east, south), (east, north)];
                let distances = corners.map(|(longitude, latitude)| {
                    self.center.distance_m(&Position { longitude, latitude })
                });
                distances.into_iter().fold(0.0, f64::max)
            }
        }
    }

    /// A bounding rectangle of the area, which may reach beyond the edges of the map.
    fn bounds(&self) -> Bounds {
        let (width_m, height_m) = match &self.shape {
            Shape::Circle { radius_m } => (radius_m * 2.0, radius_m * 2.0),
            Shape::Box { width_m, height_m } => (*width_m, *height_m),
            Shape::Polygon { vertices } => return bounds_of(vertices),
        };
        let Position { longitude, latitude } = self.center;
        let north = (height_m / 2.0 / EARTH_RADIUS_M).to_degrees();
        // The box is as wide as `width_m` even at its parallel nearest to the pole, where that
        // takes the most degrees.
        let farthest = latitude.abs() + north;
        let east = if farthest < 90.0 {
            (width_m / 2.0 / EARTH_RADIUS_M / farthest.to_radians().cos()).to_degrees()
        } else {
            // The area contains the pole, so it spans all longitudes.
            180.0
        };
        Bounds {
            west: longitude - east,
            east: longitude + east,
            south: latitude - north,
            north: latitude + north,
        }
    }
}

/// The cell itself and its neighbors (east, north), in the order of the search.
const DIRECTIONS: [(i32, i32); 9] =
    [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

/// Whether a cell and its neighbors cover the bounds. Neighbors may wrap around the edges of the
/// map.
fn neighbors_cover(within: &Bounds, bounds: &Bounds) -> bool {
    let (width, height) = (within.east - within.west, within.north - within.south);
    within.west - width <= bounds.west
        && within.east + width >= bounds.east
        && within.south - height <= bounds.south
        && within.north + height >= bounds.north
}

/// The point of the globe below the mean of positions in space.
fn middle(places: &[Position]) -> Position {
    let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
    for place in places {
        let (longitude, latitude) = (place.longitude.to_radians(), place.latitude.to_radians());
        x += latitude.cos() * longitude.cos();
        y += latitude.cos() * longitude.sin();
        z += latitude.sin();
    }
    Position { longitude: y.atan2(x).to_degrees(), latitude: z.atan2(x.hypot(y)).to_degrees() }
}

fn bounds_of(places: &[Position]) -> Bounds {
    let least = |of: fn(&Position) -> f64| places.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&Position) -> f64| places.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    Bounds {
        west: least(|place| place.longitude),
        east: most(|place| place.longitude),
        south: least(|place| place.latitude),
        north: most(|place| place.latitude),
    }
}

/// Whether a line from the position to the east crosses the sides of a polygon an odd number of
/// times.
fn encloses(vertices: &[Position], place: &Position) -> bool {
    let Some(mut from) = vertices.last() else { return false };
    let mut inside = false;
    for to in vertices {
        if (from.latitude > place.latitude) != (to.latitude > place.latitude) {
            let share = (place.latitude - to.latitude) / (from.latitude - to.latitude);
            let crossing = (from.longitude - to.longitude) * share + to.longitude;
            inside ^= place.longitude < crossing;
        }
        from = to;
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(longitude: f64, latitude: f64) -> Position {
        Position { longitude, latitude }
    }

    #[test]
    fn polygons() {
        let square = [(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)];
        let area = Area::polygon(square.map(|(x, y)| place(x, y)).to_vec());
        // As observed in Valkey 9.
        let distance = area.distance_inside_m(&Position::of_score(3_379_881_761_160_527.0));
        assert_eq!(distance.map(|m| format!("{m:.4}")).as_deref(), Some("2113.5207"));
        assert!(area.distance_inside_m(&place(10.1, 5.0)).is_none());
        assert!(area.distance_inside_m(&place(5.0, -0.1)).is_none());
        // A bay is outside.
        let bay = [(0.0, 0.0), (10.0, 0.0), (5.0, 5.0), (10.0, 10.0), (0.0, 10.0)];
        let area = Area::polygon(bay.map(|(x, y)| place(x, y)).to_vec());
        assert!(area.distance_inside_m(&place(9.0, 5.0)).is_none());
        assert!(area.distance_inside_m(&place(4.0, 5.0)).is_some());
    }

    #[test]
    fn boxes_are_as_wide_at_every_latitude() {
        let area =
            Area::around(place(15.0, 60.0), Shape::Box { width_m: 400_000.0, height_m: 400_000.0 });
        assert!(area.distance_inside_m(&place(15.0, 61.79)).is_some());
        assert!(area.distance_inside_m(&place(15.0, 61.81)).is_none());
        assert!(area.distance_inside_m(&place(18.5, 60.0)).is_some());
        assert!(area.distance_inside_m(&place(18.7, 60.0)).is_none());
        assert!(area.distance_inside_m(&place(18.7, 61.5)).is_some());
    }

    #[test]
    fn a_world_is_searched_once() {
        let area = Area::around(place(0.0, 0.0), Shape::Circle { radius_m: 3e7 });
        let ranges = area.score_ranges();
        assert_eq!(ranges.len(), 4);
        assert_eq!(ranges.iter().map(|range| range.end - range.start).sum::<u64>(), 1 << 52);
        assert_eq!(
            Area::around(place(9.0, 9.0), Shape::Circle { radius_m: 0.0 })
                .precision(&bounds_of(&[])),
            26
        );
    }

    fn places() -> impl Strategy<Value = Position> {
        (-180.0..180.0, -85.0..85.0).prop_map(|(longitude, latitude)| place(longitude, latitude))
    }

    fn areas() -> impl Strategy<Value = Area> {
        prop_oneof![
            (places(), 1.0..7.0).prop_map(|(center, scale)| {
                Area::around(center, Shape::Circle { radius_m: 10f64.powf(scale) })
            }),
            (places(), 1.0..6.5, 1.0..6.5).prop_map(|(center, width, height)| {
                let (width_m, height_m) = (10f64.powf(width), 10f64.powf(height));
                Area::around(center, Shape::Box { width_m, height_m })
            }),
            prop::collection::vec(places(), 3..8).prop_map(Area::polygon),
        ]
    }

    proptest! {
        #[test]
        fn ranges_do_not_overlap(area in areas()) {
            let mut ranges = area.score_ranges();
            ranges.sort_by_key(|range| range.start);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }

        /// Away from the poles and the edges of the map, where the way around is shorter.
        #[test]
        fn what_is_inside_is_in_a_range(
            longitude in -120.0..120.0,
            latitude in -60.0..60.0,
            scale in 0.0..5.5_f64,
            angle in 0.0..std::f64::consts::TAU,
            share in 0.0..0.999_f64,
            boxed: bool,
        ) {
            let (center, radius_m) = (place(longitude, latitude), 10f64.powf(scale));
            let shape = if boxed {
                Shape::Box { width_m: 2.0 * radius_m, height_m: radius_m }
            } else {
                Shape::Circle { radius_m }
            };
            let area = Area::around(center, shape);
            let reach = (share * radius_m / EARTH_RADIUS_M).to_degrees();
            let near = place(
                longitude + reach * f64::cos(angle) / latitude.to_radians().cos(),
                latitude + reach * f64::sin(angle),
            );
            if area.distance_inside_m(&near).is_some() {
                let score = near.score();
                prop_assert!(area.score_ranges().iter().any(|range| range.contains(&score)));
            }
        }
    }
}

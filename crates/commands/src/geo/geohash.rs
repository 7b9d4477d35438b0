//! Geohashes: positions on the globe as alternating bits of longitude and latitude, each of which
//! halves the cell.
//!
//! The score of a member is a cell of 26 halvings in each direction: 52 bits, which a double holds
//! exactly. Latitudes are limited like the square map of Web Mercator (EPSG:3857). The geohash
//! text, which other programs read, spans all latitudes (<https://en.wikipedia.org/wiki/Geohash>).

use std::ops::Range;

/// Number of halvings of a score in each direction.
pub const PRECISION_MAX: u32 = 26;
/// The largest latitude that can be stored, in degrees.
pub const LATITUDE_MAX: f64 = 85.05112878;
/// The largest longitude, in degrees.
pub const LONGITUDE_MAX: f64 = 180.0;
/// Radius of the Earth, in meters.
pub const EARTH_RADIUS_M: f64 = 6_372_797.560856;

/// Characters of a geohash text; the last one has no bits left and is always 0.
const TEXT_LEN: usize = 11;
const TEXT_ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// A position on the globe, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Degrees east of Greenwich.
    pub longitude: f64,
    /// Degrees north of the equator.
    pub latitude: f64,
}

/// A rectangle of the map, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Minimum longitude.
    pub west: f64,
    /// Maximum longitude.
    pub east: f64,
    /// Minimum latitude.
    pub south: f64,
    /// Maximum latitude.
    pub north: f64,
}

/// A cell of the grid that results from halving the map `precision` times in each direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cell {
    /// Column, from the west.
    x: u32,
    /// Row, from the south.
    y: u32,
    precision: u32,
}

impl Position {
    /// Whether the position is on the map.
    pub fn is_valid(&self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// Distance in meters on a sphere (haversine formula).
    pub fn distance_m(&self, other: &Self) -> f64 {
        let v = ((other.longitude.to_radians() - self.longitude.to_radians()) / 2.0).sin();
        if v == 0.0 {
            return self.latitude_distance_m(other);
        }
        let (from, to) = (self.latitude.to_radians(), other.latitude.to_radians());
        let u = ((to - from) / 2.0).sin();
        let a = u * u + from.cos() * to.cos() * v * v;
        2.0 * EARTH_RADIUS_M * a.sqrt().asin()
    }

    /// Distance in meters along a meridian.
    pub fn latitude_distance_m(&self, other: &Self) -> f64 {
        EARTH_RADIUS_M * (other.latitude.to_radians() - self.latitude.to_radians()).abs()
    }

    /// The score of a member at this valid position. At the eastern and the northern edge it is
    /// above those of all cells.
    pub fn score(&self) -> u64 {
        let cell = Cell {
            x: index(self.longitude, LONGITUDE_MAX, PRECISION_MAX),
            y: index(self.latitude, LATITUDE_MAX, PRECISION_MAX),
            precision: PRECISION_MAX,
        };
        cell.bits()
    }

    /// The middle of the cell of a score. A score of no cell is truncated to 64 bits as x86
    /// processors do, so that the result is Redis's; such positions are at the edges of the map.
    pub fn of_score(score: f64) -> Self {
        const TOP: u64 = 1 << 63;
        let cut = |score: f64| {
            let fits = score >= i64::MIN as f64 && score < TOP as f64;
            if fits { score as i64 as u64 } else { TOP }
        };
        let bits = if score < TOP as f64 { cut(score) } else { cut(score - TOP as f64) ^ TOP };
        Cell::of_bits(bits).middle()
    }

    /// The geohash text.
    pub fn text(&self) -> [u8; TEXT_LEN] {
        let cell = Cell {
            x: index(self.longitude, LONGITUDE_MAX, PRECISION_MAX),
            y: index(self.latitude, 90.0, PRECISION_MAX),
            precision: PRECISION_MAX,
        };
        let bits = cell.bits();
        let mut text = [b'0'; TEXT_LEN];
        for (i, character) in text[..TEXT_LEN - 1].iter_mut().enumerate() {
            *character = TEXT_ALPHABET[(bits >> (47 - 5 * i) & 31) as usize];
        }
        text
    }
}

impl Cell {
    /// The cell of a valid position.
    pub fn of(place: &Position, precision: u32) -> Self {
        let last = (1 << precision) - 1;
        Cell {
            x: index(place.longitude, LONGITUDE_MAX, precision).min(last),
            y: index(place.latitude, LATITUDE_MAX, precision).min(last),
            precision,
        }
    }

    fn of_bits(bits: u64) -> Self {
        Cell { x: gathered(bits >> 1), y: gathered(bits), precision: PRECISION_MAX }
    }

    /// Alternating bits of latitude and longitude; that of longitude is the higher one of each
    /// pair.
    fn bits(self) -> u64 {
        spread(self.x) << 1 | spread(self.y)
    }

    /// The cell `east` columns to the east and `north` rows to the north; wraps around the edges of
    /// the map.
    pub fn neighbor(self, east: i32, north: i32) -> Self {
        let mask = (1 << self.precision) - 1;
        Cell {
            x: self.x.wrapping_add_signed(east) & mask,
            y: self.y.wrapping_add_signed(north) & mask,
            precision: self.precision,
        }
    }

    /// The edges of the cell.
    pub fn bounds(self) -> Bounds {
        let cells = f64::from(1 << self.precision);
        let edge = |index: f64, max: f64| -max + index / cells * (max - -max);
        let (x, y) = (f64::from(self.x), f64::from(self.y));
        Bounds {
            west: edge(x, LONGITUDE_MAX),
            east: edge(x + 1.0, LONGITUDE_MAX),
            south: edge(y, LATITUDE_MAX),
            north: edge(y + 1.0, LATITUDE_MAX),
        }
    }

    fn middle(self) -> Position {
        let Bounds { west, east, south, north } = self.bounds();
        Position {
            longitude: ((west + east) / 2.0).clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: ((south + north) / 2.0).clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// The scores of all positions in the cell.
    pub fn scores(self) -> Range<u64> {
        let shift = 2 * (PRECISION_MAX - self.precision);
        self.bits() << shift..(self.bits() + 1) << shift
    }
}

/// Index of a coordinate's part if `-max ..= max` is divided into `2^precision` parts. The upper
/// end has an index beyond the last part.
fn index(coordinate: f64, max: f64, precision: u32) -> u32 {
    let share = (coordinate - -max) / (max - -max);
    (share * f64::from(1 << precision)) as u32
}

/// Inserts a zero above each bit.
fn spread(bits: u32) -> u64 {
    let mut wide = u64::from(bits);
    for (shift, mask) in SPREAD {
        wide = (wide | wide << shift) & mask;
    }
    wide
}

/// Gathers the even bits.
fn gathered(bits: u64) -> u32 {
    let mut packed = bits & SPREAD[4].1;
    for i in (0..4).rev() {
        packed = (packed | packed >> SPREAD[i + 1].0) & SPREAD[i].1;
    }
    (packed | packed >> SPREAD[0].0) as u32
}

/// Masks and shifts that separate runs of 16, 8, 4, 2 bits and single ones.
const SPREAD: [(u32, u64); 5] = [
    (16, 0x0000_ffff_0000_ffff),
    (8, 0x00ff_00ff_00ff_00ff),
    (4, 0x0f0f_0f0f_0f0f_0f0f),
    (2, 0x3333_3333_3333_3333),
    (1, 0x5555_5555_5555_5555),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn place(longitude: f64, latitude: f64) -> Position {
        Position { longitude, latitude }
    }

    const PALERMO: Position = Position { longitude: 13.361389, latitude: 38.115556 };
    const CATANIA: Position = Position { longitude: 15.087269, latitude: 37.502669 };

    /// As observed in Redis 8.
    #[test]
    fn scores_and_middles() {
        assert_eq!(PALERMO.score(), 3_479_099_956_230_698);
        assert_eq!(CATANIA.score(), 3_479_447_370_796_909);
        assert_eq!(place(-180.0, -LATITUDE_MAX).score(), 0);
        assert_eq!(place(180.0, LATITUDE_MAX).score(), 13_510_798_882_111_488);
        assert_eq!(
            Position::of_score(PALERMO.score() as f64),
            place(13.361389338970184, 38.1155563954963)
        );
        assert_eq!(Position::of_score(13_510_798_882_111_488.0), place(180.0, LATITUDE_MAX));
        assert_eq!(Position::of_score(0.0), place(-179.99999731779099, -85.05112751263943));
    }

    /// As observed in Redis 8.
    #[test]
    fn texts() {
        let text = |score: u64| {
            String::from_utf8(Position::of_score(score as f64).text().to_vec()).unwrap()
        };
        assert_eq!(text(PALERMO.score()), "sqc8b49rny0");
        assert_eq!(text(CATANIA.score()), "sqdtr74hyu0");
        assert_eq!(text(13_510_798_882_111_488), "bp05b5048p0");
        assert_eq!(text(0), "00bh0hbj200");
    }

    #[test]
    fn distances() {
        let [palermo, catania] =
            [PALERMO, CATANIA].map(|place| Position::of_score(place.score() as f64));
        assert_eq!(format!("{:.4}", palermo.distance_m(&catania)), "166274.1516");
        assert_eq!(palermo.distance_m(&palermo), 0.0);
        let quarter = place(0.0, 0.0).distance_m(&place(90.0, 0.0));
        assert!((quarter - EARTH_RADIUS_M * std::f64::consts::FRAC_PI_2).abs() < 1e-6);
    }

    #[test]
    fn bits_take_turns() {
        for bits in [0, 1, 2, 0x0155_5555, 0x02aa_aaaa, 0x03ff_ffff, 0x0400_0000] {
            assert_eq!(gathered(spread(bits)), bits);
        }
        assert_eq!((spread(0b101), spread(0b11)), (0b10001, 0b101));
    }

    #[test]
    fn cells_have_neighbors_around_the_edges() {
        let cell = Cell::of(&place(179.9, 0.1), 2);
        assert_eq!((cell.x, cell.y), (3, 2));
        let neighbor = cell.neighbor(1, -1);
        assert_eq!((neighbor.x, neighbor.y), (0, 1));
        assert_eq!(neighbor.bounds().west, -180.0);
        assert_eq!(cell.bounds().south, 0.0);
        let scores = cell.scores();
        assert!(scores.contains(&place(179.9, 0.1).score()));
        assert!(!scores.contains(&place(89.9, 0.1).score()));
    }

    proptest::proptest! {
        #[test]
        fn a_score_leads_back_to_its_place(
            longitude in -180.0..180.0,
            latitude in -85.05..85.05,
            precision in 1..=26_u32,
        ) {
            let place = Position { longitude, latitude };
            let back = Position::of_score(place.score() as f64);
            // Cells are 0.6 by 0.3 meters.
            proptest::prop_assert!(place.distance_m(&back) < 0.4);
            proptest::prop_assert_eq!(back.score(), place.score());
            let cell = Cell::of(&place, precision);
            proptest::prop_assert!(cell.scores().contains(&place.score()));
            let Bounds { west, east, south, north } = cell.bounds();
            proptest::prop_assert!(west <= longitude && longitude <= east);
            proptest::prop_assert!(south <= latitude && latitude <= north);
        }
    }
}

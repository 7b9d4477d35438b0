//! Places on the earth as numbers of 52 bits, with rectangles as ranges (Morton, "A computer
//! oriented geodetic data base", 1966).

use crate::structures::numbers::{Range, parse_number};
use std::ops::Bound;

/// Bits of a coordinate.
const BITS: u32 = 26;

/// Cells of an axis.
const CELLS: f64 = (1u64 << BITS) as f64;

/// Largest longitude and latitude that have a number.
const LONGITUDE_MAX: f64 = 180.0;
const LATITUDE_MAX: f64 = 85.05112878;

/// Radius of the earth in metres, as Redis's geo commands have it.
const RADIUS_M: f64 = 6_372_797.560856;

/// Share by which rectangles are larger than needed: distances are rounded.
const MARGIN: f64 = 1.001;

/// A text that is no place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BadPlace {
    /// Not two numbers.
    Text,
    /// The numbers are no coordinates.
    Coordinates(f64, f64),
}

impl BadPlace {
    /// Text of the error.
    pub fn text(self) -> String {
        match self {
            BadPlace::Text => "Invalid geo string".into(),
            BadPlace::Coordinates(longitude, latitude) => {
                format!("Invalid geo coordinates: {longitude:.6}, {latitude:.6}")
            }
        }
    }
}

/// Parses a place, `longitude,latitude` or with a blank between them, into its number.
///
/// # Errors
/// If the text is no place.
pub fn parse_place(text: &[u8]) -> Result<f64, BadPlace> {
    let at = text.iter().position(|byte| matches!(byte, b',' | b' ')).ok_or(BadPlace::Text)?;
    let (longitude, latitude) = (coordinate(&text[..at])?, coordinate(&text[at + 1..])?);
    let is_within = |value: f64, most: f64| (-most..=most).contains(&value);
    match is_within(longitude, LONGITUDE_MAX) && is_within(latitude, LATITUDE_MAX) {
        true => Ok(number_of(longitude, latitude)),
        false => Err(BadPlace::Coordinates(longitude, latitude)),
    }
}

/// Error of the first text that is no place.
pub fn bad_place<'t>(mut texts: impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
    let bad = texts.find_map(|text| parse_place(text).err()).unwrap_or(BadPlace::Text);
    bad.text().into_bytes()
}

/// Reads a coordinate as C does: blanks may precede it, and an empty text is 0.
fn coordinate(text: &[u8]) -> Result<f64, BadPlace> {
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return Ok(0.0);
    }
    parse_number(text).ok_or(BadPlace::Text)
}

/// The cell of a value on an axis.
fn cell(value: f64, most: f64) -> u64 {
    // The upper end belongs to the last cell.
    ((value + most) / (2.0 * most) * CELLS).clamp(0.0, CELLS - 1.0) as u64
}

fn number_of(longitude: f64, latitude: f64) -> f64 {
    let bits = spread(cell(latitude, LATITUDE_MAX)) | spread(cell(longitude, LONGITUDE_MAX)) << 1;
    bits as f64
}

/// Puts a zero before each bit.
fn spread(bits: u64) -> u64 {
    (0..BITS).fold(0, |spread, bit| spread | (bits >> bit & 1) << (2 * bit))
}

/// Longitude and latitude of the centre of a place's cell.
fn centre_of(number: f64) -> (f64, f64) {
    let bits = number as u64;
    let gathered = |bits: u64| (0..BITS).fold(0, |cell, bit| cell | (bits >> (2 * bit) & 1) << bit);
    let value = |cell: u64, most: f64| (cell as f64 + 0.5) / CELLS * (2.0 * most) - most;
    (value(gathered(bits >> 1), LONGITUDE_MAX), value(gathered(bits), LATITUDE_MAX))
}

/// A circle on the earth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circle {
    /// Longitude of the centre in degrees.
    pub longitude: f64,
    /// Latitude of the centre in degrees.
    pub latitude: f64,
    /// Radius in metres.
    pub radius_m: f64,
}

impl Circle {
    /// Whether a place is in the circle.
    pub fn contains(&self, place: f64) -> bool {
        let (longitude, latitude) = centre_of(place);
        distance_m((self.longitude, self.latitude), (longitude, latitude)) <= self.radius_m
    }

    /// Ranges of numbers that contain all places of the circle: at most nine, which do not overlap.
    /// None if the circle is too large for that.
    pub fn ranges(&self) -> Option<Vec<Range>> {
        let angle = self.radius_m / RADIUS_M * MARGIN;
        let height = angle.to_degrees();
        let outermost = self.latitude.abs() + height;
        if !(0.0..85.0).contains(&outermost) {
            return None;
        }
        // The circle's widest place is nearer to the pole than its centre (asin(sin r / cos lat)).
        let sine = angle.sin() / self.latitude.to_radians().cos();
        let width = if sine < 1.0 { sine.asin().to_degrees() * MARGIN } else { return None };
        // Cells of this many bits of an axis are as large as the circle's radius.
        let bits = |size: f64, most: f64| (2.0 * most / size).log2().floor();
        let bits = bits(width, LONGITUDE_MAX).min(bits(height, LATITUDE_MAX)).min(f64::from(BITS));
        if bits < 2.0 {
            return None;
        }
        let bits = bits as u32;
        let (count, shift) = (1i64 << bits, BITS - bits);
        let x = (cell(self.longitude, LONGITUDE_MAX) >> shift) as i64;
        let y = (cell(self.latitude, LATITUDE_MAX) >> shift) as i64;
        let mut firsts: Vec<u64> = Vec::with_capacity(9);
        for (dx, dy) in (-1..=1).flat_map(|dx| (-1..=1).map(move |dy| (dx, dy))) {
            if (0..count).contains(&(y + dy)) {
                let (x, y) = ((x + dx).rem_euclid(count) as u64, (y + dy) as u64);
                firsts.push(spread(y << shift) | spread(x << shift) << 1);
            }
        }
        firsts.sort_unstable();
        firsts.dedup();
        let len = 1u64 << (2 * shift);
        let ranges = firsts.into_iter().map(|first| Range {
            min: Bound::Included(first as f64),
            max: Bound::Excluded((first + len) as f64),
        });
        Some(ranges.collect())
    }
}

/// Distance of two places of longitude and latitude.
fn distance_m((lon_a, lat_a): (f64, f64), (lon_b, lat_b): (f64, f64)) -> f64 {
    let (lat_a, lat_b) = (lat_a.to_radians(), lat_b.to_radians());
    let u = ((lat_b - lat_a) / 2.0).sin();
    let v = ((lon_b - lon_a).to_radians() / 2.0).sin();
    2.0 * RADIUS_M * (u * u + lat_a.cos() * lat_b.cos() * v * v).sqrt().min(1.0).asin()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_are_those_of_redis() {
        let good: [&[u8]; 8] =
            [b"1,2", b"1 2", b"1, 2", b"1e1,2", b"0x10,1", b"1,", b"+1,-2", b"180,85.05112878"];
        for text in good {
            assert!(parse_place(text).is_ok(), "{}", String::from_utf8_lossy(text));
        }
        let bad: [&[u8]; 10] =
            [b" 1,2", b"1,2 ", b"1;2", b"1", b"a", b"", b"1,2,3", b"1 ,2", b"1,,2", b"1\t2"];
        for text in bad {
            assert_eq!(parse_place(text), Err(BadPlace::Text), "{}", String::from_utf8_lossy(text));
        }
        let text = parse_place(b"181,2").unwrap_err().text();
        assert_eq!(text, "Invalid geo coordinates: 181.000000, 2.000000");
        assert!(matches!(parse_place(b"inf,1"), Err(BadPlace::Coordinates(..))));
    }

    proptest! {
        #[test]
        fn ranges_have_all_places_of_a_circle(
            longitude in -180.0..180.0f64,
            latitude in -85.0..85.0f64,
            magnitude in 0.0..7.5f64,
            places in prop::collection::vec((-1.5..1.5f64, -1.5..1.5f64), 1..60),
        ) {
            let radius_m = 10f64.powf(magnitude);
            let circle = Circle { longitude, latitude, radius_m };
            let Some(ranges) = circle.ranges() else { return Ok(()) };
            prop_assert!(ranges.len() <= 9);
            let degrees = (radius_m / RADIUS_M).to_degrees();
            for (dx, dy) in places {
                // Near the circle, on either side of the date line.
                let lon = longitude + dx * degrees / latitude.to_radians().cos();
                let lon = (lon + 540.0).rem_euclid(360.0) - 180.0;
                let lat = (latitude + dy * degrees).clamp(-LATITUDE_MAX, LATITUDE_MAX);
                let place = number_of(lon, lat);
                let found = ranges.iter().filter(|range| range.contains(place)).count();
                prop_assert!(found <= 1);
                if circle.contains(place) {
                    prop_assert_eq!(found, 1, "{} {}", lon, lat);
                }
            }
        }

        #[test]
        fn a_number_keeps_its_place(lon in -180.0..180.0f64, lat in -85.0..85.0f64) {
            let (x, y) = centre_of(number_of(lon, lat));
            prop_assert!((x - lon).abs() < 6e-6 && (y - lat).abs() < 3e-6);
            prop_assert_eq!(number_of(x, y), number_of(lon, lat));
        }
    }
}

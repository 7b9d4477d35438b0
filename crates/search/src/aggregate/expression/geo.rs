//! Distances of places.

use super::error::EvalError;
use crate::aggregate::value::Value;

/// Radius of the earth in metres, as Redis's geo commands have it.
const RADIUS_M: f64 = 6_372_797.560856;

type Place = (f64, f64);

/// `geodistance(a, b)`: each place is a text `longitude,latitude` or two numbers.
pub(super) fn distance(
    arguments: &[Value],
    bad_count: impl Fn() -> EvalError,
) -> Result<Value, EvalError> {
    let (a, b) = match arguments {
        [a, b] => (place(a)?, place(b)?),
        [a @ Value::Text(_), lon, lat] => (place(a)?, (coordinate(lon)?, coordinate(lat)?)),
        [lon, lat, b @ Value::Text(_)] => ((coordinate(lon)?, coordinate(lat)?), place(b)?),
        [a, b, c, d] => ((coordinate(a)?, coordinate(b)?), (coordinate(c)?, coordinate(d)?)),
        _ => return Err(bad_count()),
    };
    let metres = haversine(a, b);
    Ok(Value::Number((metres * 100.0).round() / 100.0))
}

fn bad_place() -> EvalError {
    EvalError::new("Invalid geo string")
}

fn coordinate(value: &Value) -> Result<f64, EvalError> {
    value.number().ok_or_else(bad_place)
}

/// Without a second number the place is nowhere.
fn place(value: &Value) -> Result<Place, EvalError> {
    let text = match value {
        Value::Number(_) => return Ok((f64::NAN, f64::NAN)),
        Value::Text(text) => text,
        Value::Null | Value::Array(_) | Value::Several(_) => return Err(bad_place()),
    };
    let number = |text: &[u8]| {
        let text = std::str::from_utf8(text).ok()?;
        text.trim_ascii().parse::<f64>().ok()
    };
    match text.iter().position(|byte| matches!(byte, b',' | b' ')) {
        None => number(text).map(|_| (f64::NAN, f64::NAN)).ok_or_else(bad_place),
        Some(at) => {
            let parts = (number(&text[..at]), number(&text[at + 1..]));
            let (Some(lon), Some(lat)) = parts else { return Err(bad_place()) };
            Ok((lon, lat))
        }
    }
}

fn haversine((lon_a, lat_a): Place, (lon_b, lat_b): Place) -> f64 {
    let (lat_a, lat_b) = (lat_a.to_radians(), lat_b.to_radians());
    let u = ((lat_b - lat_a) / 2.0).sin();
    let v = ((lon_b.to_radians() - lon_a.to_radians()) / 2.0).sin();
    2.0 * RADIUS_M * (u * u + lat_a.cos() * lat_b.cos() * v * v).sqrt().asin()
}

//! Geographic indexes: sorted sets whose scores are geohashes.

#![allow(dead_code)]

mod area;
mod geohash;

//! The client against real servers, and against hostile ones.

mod basics;
mod crossing;
mod hostile;
mod near;
mod servers;
mod threads;
mod together;

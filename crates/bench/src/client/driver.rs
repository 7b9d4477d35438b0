//! The process in which our own client is measured.

use std::sync::atomic::Ordering::Relaxed;

use petrel_client::{Commands, blocking};
use petrel_embedded::Engine;

use super::libraries::{Petrel, PetrelLent, PetrelNear};
use super::measure::{Answer, Counts, Course, OVER, Operation, Order, asynchronous, checked};
use crate::random::Random;
use crate::sys::text;

/// Name of the hidden subcommand.
pub const DRIVER: &str = "drive-client";

/// Measures as an order says, and prints the answer.
pub fn drive(order: &str) -> Result<(), String> {
    let order: Order = serde_json::from_str(order).map_err(|error| error.to_string())?;
    let answer = match (order.client.as_str(), order.operation) {
        ("petrel", Operation::Near) => asynchronous::<PetrelNear>(&order),
        ("petrel-lent", Operation::Near) => asynchronous::<PetrelLent>(&order),
        ("petrel", _) => asynchronous::<Petrel>(&order),
        ("petrel-threads", Operation::Set | Operation::Get) => threads(&order),
        ("petrel-embedded", Operation::Embedded) => embedded(&order),
        (name, operation) => Err(format!("{name} has no {operation} here")),
    }?;
    println!("{}", serde_json::to_string(&answer).map_err(|error| error.to_string())?);
    Ok(())
}

/// Measures the client for plain threads.
fn threads(order: &Order) -> Result<Answer, String> {
    let course = Course::new(order);
    let client = blocking::Client::connect(&format!("redis://{}", order.address)).map_err(text)?;
    on_threads(order, &course, |key| match order.operation {
        Operation::Set => client.set(key, &course.value).run().map_err(text),
        _ => checked(client.get(key).run().map_err(text)?.map_or(0, |value| value.len()), order),
    })
}

/// Measures an engine in this process.
fn embedded(order: &Order) -> Result<Answer, String> {
    let course = Course::new(order);
    let engine = Engine::default();
    let client = engine.client();
    course.keys.iter().try_for_each(|key| client.set(key, &course.value).run()).map_err(text)?;
    on_threads(order, &course, |key| {
        checked(client.get(key).run().map_err(text)?.map_or(0, |value| value.len()), order)
    })
}

/// Lets each task have a thread of its own.
fn on_threads(
    order: &Order,
    course: &Course,
    operate: impl Fn(&str) -> Result<(), String> + Sync,
) -> Result<Answer, String> {
    let work = |seed: u64| {
        let (mut counts, mut random) = (Counts::default(), Random::new(seed));
        loop {
            let phase = course.phase.load(Relaxed);
            if phase == OVER {
                return Ok(counts);
            }
            operate(course.key(&mut random))?;
            counts[usize::from(phase)] += 1;
        }
    };
    std::thread::scope(|scope| {
        let (work, tasks) = (&work, 0..order.tasks as u64);
        let threads: Vec<_> = tasks.map(|seed| scope.spawn(move || work(seed))).collect();
        let answer = course.run(order);
        answer.with(threads.into_iter().map(crate::sys::joined))
    })
}

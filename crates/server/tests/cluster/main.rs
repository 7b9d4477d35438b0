//! Several servers in one process as members of a cluster, over a simulated network with delays and
//! broken links.

mod apart;
mod arrays;
mod aux_states;
mod bench;
mod blocking;
mod few;
mod labels;
mod lives;
mod logs;
mod network;
mod pipelines;
mod pubsub;
mod scripts;
mod shares;
mod sketches;
mod slots;
mod tally;
mod transactions;
mod value_type;
mod value_type_spread;
mod whole;

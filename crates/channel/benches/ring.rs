//! What the ring costs.
fn main() {}

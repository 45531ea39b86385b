//! recut
fn main() {}

//! What the fuzz targets share: the file an input is written to, archives around an input, a mutator that knows JSON, and
//! everything the program does with a model between opening and running it.

pub mod archive;
pub mod exercise;
pub mod mutate;
pub mod scratch;

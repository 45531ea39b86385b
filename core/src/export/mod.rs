//! Writers: DOT.

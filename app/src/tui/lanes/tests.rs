//! Layout properties.

//! Per-node times and their aggregation.

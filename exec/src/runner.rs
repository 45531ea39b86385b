//! Runs the partitions of a plan.

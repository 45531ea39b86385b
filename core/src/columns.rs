//! Data columns: numbers or texts that a file brings along for its nodes, beyond what the graph itself says (a profile of
//! another tool, a compiler's decision), shown beside the nodes.

use std::sync::Arc;

use crate::graph::NodeId;

/// One column of data about the nodes of the main graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name; unique within a model.
    pub name: String,
    /// Unit of its numbers (`us`, `MiB`), where one is given.
    pub unit: Option<String>,
    /// What it holds.
    pub data: ColumnData,
}

/// Entries of a [`Column`], one per node of the main graph; `None` where it has none.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnData {
    /// Finite numbers.
    Numbers(Box<[Option<f64>]>),
    /// Texts.
    Texts(Box<[Option<Arc<str>>]>),
}

/// One entry of a [`Column`].
#[derive(Clone, Debug, PartialEq)]
pub enum Entry<'a> {
    /// A number.
    Number(f64),
    /// A text.
    Text(&'a str),
}

impl Column {
    /// The entry of a node.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<Entry<'_>> {
        match &self.data {
            ColumnData::Numbers(v) => v.get(node.index()).copied().flatten().map(Entry::Number),
            ColumnData::Texts(v) => v.get(node.index())?.as_deref().map(Entry::Text),
        }
    }

    /// The number of a node, in a column of numbers.
    #[must_use]
    pub fn number(&self, node: NodeId) -> Option<f64> {
        match &self.data {
            ColumnData::Numbers(v) => v.get(node.index()).copied().flatten(),
            ColumnData::Texts(_) => None,
        }
    }

    /// The largest number; 0 where none is above it, and for texts.
    #[must_use]
    pub fn largest(&self) -> f64 {
        match &self.data {
            ColumnData::Numbers(v) => v.iter().flatten().copied().fold(0.0, f64::max),
            ColumnData::Texts(_) => 0.0,
        }
    }

    /// Name and unit as a heading: `latency (us)`.
    #[must_use]
    pub fn heading(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{} ({unit})", self.name),
            None => self.name.clone(),
        }
    }
}

/// A number of a column in few characters: whole numbers in full, others with six significant digits, very large and very
/// small ones in scientific notation.
#[must_use]
pub fn number_text(x: f64) -> String {
    let size = x.abs();
    if x == 0.0 {
        return "0".to_owned();
    }
    if x.fract() == 0.0 && size < 1e15 {
        return format!("{x}");
    }
    if !(1e-4..1e9).contains(&size) {
        return format!("{x:.3e}");
    }
    // Digits behind the point so that six are shown in all.
    let before = size.log10().floor();
    let decimals = (5.0 - before).clamp(0.0, 9.0) as usize;
    let text = format!("{x:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_true() {
        let cases = [
            (0.0, "0"),
            (12.0, "12"),
            (-3.5, "-3.5"),
            (0.1, "0.1"),
            (1234.5678, "1234.57"),
            (0.000_123_456_7, "0.000123457"),
            (1e-9, "1.000e-9"),
            (123_456_789.5, "123456790"),
            (2.5e12 + 0.5, "2.500e12"),
            (4e14, "400000000000000"),
            (1e30, "1.000e30"),
        ];
        for (x, text) in cases {
            assert_eq!(number_text(x), text);
        }
    }
}

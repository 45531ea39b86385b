//! Compressed adjacency: the one form in which edges are kept.

/// Lists of ids of every element, in one allocation (compressed sparse rows).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Csr {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Csr {
    /// Rows `0..rows` from `(row, item)` pairs; items of a row keep the order of the pairs.
    ///
    /// # Panics
    /// If a pair names a row outside `0..rows`, or there are more than `u32::MAX` pairs.
    #[must_use]
    pub fn from_pairs(rows: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0u32; rows + 1];
        for (row, _) in pairs.clone() {
            starts[row as usize + 1] += 1;
        }
        for i in 0..rows {
            starts[i + 1] = starts[i + 1].checked_add(starts[i]).expect("importers cap graphs at u32::MAX edges");
        }
        let mut next = starts.clone();
        let mut items = vec![0u32; starts[rows] as usize];
        for (row, item) in pairs {
            let at = &mut next[row as usize];
            items[*at as usize] = item;
            *at += 1;
        }
        Self { starts, items }
    }

    /// Rows that lie one after the other in `items`; `starts` holds where each begins, and the end of the last.
    pub(crate) fn from_rows(starts: Vec<u32>, items: Vec<u32>) -> Self {
        debug_assert_eq!(starts.last().map_or(0, |&e| e as usize), items.len());
        Self { starts, items }
    }

    /// Where rows begin, and their items: to use the memory again.
    pub(crate) fn into_parts(self) -> (Vec<u32>, Vec<u32>) {
        (self.starts, self.items)
    }

    /// Rows and items exchanged: row `i` of the result lists, ascending, the rows that hold `i`. Items are below `rows`.
    pub(crate) fn transposed(&self, rows: usize) -> Self {
        let mut starts = vec![0u32; rows + 1];
        for &item in &self.items {
            starts[item as usize + 1] += 1;
        }
        for i in 0..rows {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut items = vec![0u32; self.items.len()];
        for (row, range) in self.iter_rows().enumerate() {
            for &item in range {
                let at = &mut next[item as usize];
                items[*at as usize] = row as u32;
                *at += 1;
            }
        }
        Self { starts, items }
    }

    /// Rows and items as `of` maps them onto `0..rows`: each item of a row once, ascending, and never the row itself.
    pub(crate) fn contracted(&self, rows: usize, of: &[u32]) -> Self {
        let edges = self.iter_rows().zip(of).flat_map(|(row, &to)| row.iter().map(move |&item| (to, of[item as usize])));
        let all = Self::from_pairs(rows, edges.filter(|(a, b)| a != b));
        let (mut starts, mut items) = (Vec::with_capacity(rows + 1), Vec::with_capacity(all.len()));
        starts.push(0);
        for row in all.iter_rows() {
            let begin = items.len();
            items.extend_from_slice(row);
            Self::close_row(&mut items, begin);
            starts.push(items.len() as u32);
        }
        Self { starts, items }
    }

    /// Sorts the last row, which begins at `begin`, and leaves each item once.
    pub(crate) fn close_row(items: &mut Vec<u32>, begin: usize) {
        match items[begin..] {
            [] | [_] => {}
            [a, b] if a < b => {}
            _ => {
                items[begin..].sort_unstable();
                let mut kept = begin + 1;
                for i in begin + 1..items.len() {
                    if items[i] != items[kept - 1] {
                        items[kept] = items[i];
                        kept += 1;
                    }
                }
                items.truncate(kept);
            }
        }
    }

    /// All rows in order.
    pub(crate) fn iter_rows(&self) -> impl DoubleEndedIterator<Item = &[u32]> + ExactSizeIterator + Clone {
        self.starts.windows(2).map(|w| &self.items[w[0] as usize..w[1] as usize])
    }

    /// Items of `row`.
    #[must_use]
    pub fn row(&self, row: usize) -> &[u32] {
        &self.items[self.starts[row] as usize..self.starts[row + 1] as usize]
    }

    /// Items of all rows, one row after the other.
    #[must_use]
    pub fn items(&self) -> &[u32] {
        &self.items
    }

    /// Position in [`Csr::items`] at which `row` begins.
    #[must_use]
    pub fn start(&self, row: usize) -> usize {
        self.starts[row] as usize
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Number of items in all rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no row has an item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

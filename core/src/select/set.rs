//! Sets of nodes, as bits.

use crate::graph::NodeId;

/// A set of nodes of the main graph, as a bit per node.
///
/// It knows the span of words that may hold members, so that walking over a set of few neighbouring nodes (most marks
/// name one) does not cost a pass over the whole graph.
#[derive(Clone, Debug, Default)]
pub struct NodeSet {
    words: Vec<u64>,
    len: usize,
    /// Words outside `span.0..span.1` are zero.
    span: (usize, usize),
}

impl NodeSet {
    /// The empty set over `nodes` nodes.
    #[must_use]
    pub fn empty(nodes: usize) -> Self {
        Self { words: vec![0; nodes.div_ceil(64)], len: nodes, span: (0, 0) }
    }

    /// All of `nodes` nodes.
    #[must_use]
    pub fn full(nodes: usize) -> Self {
        let words = nodes.div_ceil(64);
        let mut set = Self { words: vec![u64::MAX; words], len: nodes, span: (0, words) };
        set.trim();
        set
    }

    /// Nodes the set ranges over (members or not).
    #[must_use]
    pub fn universe(&self) -> usize {
        self.len
    }

    fn spanned(&self) -> &[u64] {
        &self.words[self.span.0..self.span.1]
    }

    fn widen(&mut self, from: usize, to: usize) {
        self.span = if self.span.0 == self.span.1 { (from, to) } else { (self.span.0.min(from), self.span.1.max(to)) };
    }

    /// Adds `node`; says whether it was new.
    pub fn insert(&mut self, node: NodeId) -> bool {
        let (word, bit) = (node.index() / 64, 1u64 << (node.index() % 64));
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.widen(word, word + 1);
        new
    }

    /// Removes `node`.
    pub fn remove(&mut self, node: NodeId) {
        self.words[node.index() / 64] &= !(1u64 << (node.index() % 64));
    }

    /// Whether `node` is in it.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.words.get(node.index() / 64).is_some_and(|w| w >> (node.index() % 64) & 1 == 1)
    }

    /// Number of members.
    #[must_use]
    pub fn count(&self) -> usize {
        self.spanned().iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spanned().iter().all(|&w| w == 0)
    }

    /// Members in topological order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.spanned().iter().enumerate().flat_map(|(i, &w)| {
            let first = (self.span.0 + i) * 64;
            std::iter::successors((w != 0).then_some(w), |w| Some(w & (w - 1)).filter(|&w| w != 0))
                .map(move |w| NodeId::new(first + w.trailing_zeros() as usize))
        })
    }

    /// Whether the two sets share a member.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        let (from, to) = (self.span.0.max(other.span.0), self.span.1.min(other.span.1));
        (from..to).any(|i| self.words[i] & other.words[i] != 0)
    }

    /// Adds every member of `other`.
    pub fn union_with(&mut self, other: &Self) {
        if other.span.0 < other.span.1 {
            let (from, to) = (other.span.0, other.span.1.min(self.words.len()));
            self.words[from..to].iter_mut().zip(&other.words[from..to]).for_each(|(a, b)| *a |= b);
            self.widen(from, to);
        }
    }

    /// Keeps only members of `other`.
    pub fn intersect_with(&mut self, other: &Self) {
        for i in self.span.0..self.span.1 {
            self.words[i] &= other.words.get(i).copied().unwrap_or(0);
        }
    }

    /// Removes every member of `other`.
    pub fn subtract(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= !b);
    }

    /// Turns members into non-members and the reverse.
    pub fn complement(&mut self) {
        self.words.iter_mut().for_each(|w| *w = !*w);
        self.span = (0, self.words.len());
        self.trim();
    }

    /// The bits, 64 nodes a word.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    fn trim(&mut self) {
        if let (Some(last), true) = (self.words.last_mut(), !self.len.is_multiple_of(64)) {
            *last &= (1 << (self.len % 64)) - 1;
        }
    }
}

impl PartialEq for NodeSet {
    fn eq(&self, other: &Self) -> bool {
        (self.len, &self.words) == (other.len, &other.words)
    }
}

impl Eq for NodeSet {}

impl FromIterator<NodeId> for NodeSet {
    /// The set ranges over the nodes up to the largest member.
    fn from_iter<T: IntoIterator<Item = NodeId>>(iter: T) -> Self {
        let ids: Vec<NodeId> = iter.into_iter().collect();
        let mut set = Self::empty(ids.iter().map(|n| n.index() + 1).max().unwrap_or(0));
        for id in ids {
            set.insert(id);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sets_of_bits_are_sets(n in 1usize..300, ops in proptest::collection::vec((0u8..6, 0usize..300, 0usize..300), 0..30)) {
            let (mut bits, mut plain) = (NodeSet::empty(n), BTreeSet::new());
            for (op, a, b) in ops {
                let (a, b) = (a % n, b % n);
                let range: BTreeSet<usize> = (a.min(b)..a.max(b)).step_by(7).collect();
                let mut other = NodeSet::empty(n);
                range.iter().for_each(|&i| { other.insert(NodeId::new(i)); });
                match op {
                    0 => prop_assert_eq!(bits.insert(NodeId::new(a)), plain.insert(a)),
                    1 => { bits.remove(NodeId::new(a)); plain.remove(&a); }
                    2 => { bits.union_with(&other); plain.extend(&range); }
                    3 => { bits.intersect_with(&other); plain.retain(|i| range.contains(i)); }
                    4 => { bits.subtract(&other); plain.retain(|i| !range.contains(i)); }
                    _ => { bits.complement(); plain = (0..n).filter(|i| !plain.contains(i)).collect(); }
                }
                prop_assert_eq!(bits.iter().map(NodeId::index).collect::<Vec<_>>(), plain.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!((bits.count(), bits.is_empty()), (plain.len(), plain.is_empty()));
                prop_assert_eq!(bits.intersects(&other), plain.iter().any(|i| range.contains(i)));
                prop_assert!((0..n).all(|i| bits.contains(NodeId::new(i)) == plain.contains(&i)));
                let mut again = NodeSet::empty(n);
                plain.iter().for_each(|&i| { again.insert(NodeId::new(i)); });
                prop_assert_eq!(&bits, &again);
            }
        }
    }
}

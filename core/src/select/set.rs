//! Sets of nodes, as bits.

use crate::graph::NodeId;

/// A set of nodes of the main graph, as a bit per node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet {
    words: Vec<u64>,
    len: usize,
}

impl NodeSet {
    /// The empty set over `nodes` nodes.
    #[must_use]
    pub fn empty(nodes: usize) -> Self {
        Self { words: vec![0; nodes.div_ceil(64)], len: nodes }
    }

    /// All of `nodes` nodes.
    #[must_use]
    pub fn full(nodes: usize) -> Self {
        let mut set = Self { words: vec![u64::MAX; nodes.div_ceil(64)], len: nodes };
        set.trim();
        set
    }

    /// Nodes the set ranges over (members or not).
    #[must_use]
    pub fn universe(&self) -> usize {
        self.len
    }

    /// Adds `node`; says whether it was new.
    pub fn insert(&mut self, node: NodeId) -> bool {
        let (word, bit) = (node.index() / 64, 1u64 << (node.index() % 64));
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
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
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    /// Members in topological order.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &w)| {
            std::iter::successors((w != 0).then_some(w), |w| Some(w & (w - 1)).filter(|&w| w != 0))
                .map(move |w| NodeId((i * 64) as u32 + w.trailing_zeros()))
        })
    }

    /// Adds every member of `other`.
    pub fn union_with(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
    }

    /// Keeps only members of `other`.
    pub fn intersect_with(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= b);
    }

    /// Removes every member of `other`.
    pub fn subtract(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= !b);
    }

    /// Turns members into non-members and the reverse.
    pub fn complement(&mut self) {
        self.words.iter_mut().for_each(|w| *w = !*w);
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

//! petgraph's algorithms over our own adjacency. Only those that do not recurse may be used: a 20,000-deep chain must
//! pass, and petgraph's `tarjan_scc` and `is_cyclic_directed` have one call frame per level.

use petgraph::Direction;
use petgraph::visit::{GraphBase, GraphRef, IntoNeighbors, IntoNeighborsDirected, IntoNodeIdentifiers, VisitMap, Visitable};

use super::Csr;

/// A directed graph whose edges run from what is read to who reads it.
#[derive(Clone, Copy)]
pub(crate) struct Digraph<'a> {
    nodes: &'a [u32],
    preds: &'a Csr,
    succs: &'a Csr,
}

impl<'a> Digraph<'a> {
    /// The graph of `nodes`, which are rows of both `preds` and `succs` and have their neighbours among themselves.
    pub(crate) const fn new(nodes: &'a [u32], preds: &'a Csr, succs: &'a Csr) -> Self {
        Self { nodes, preds, succs }
    }

    /// Strongly connected components, each after those it reads from.
    pub(crate) fn components(self) -> Vec<Vec<u32>> {
        let mut components = petgraph::algo::kosaraju_scc(self);
        // They come in postorder of the edges: readers first.
        components.reverse();
        components
    }
}

impl GraphBase for Digraph<'_> {
    type EdgeId = ();
    type NodeId = u32;
}

impl GraphRef for Digraph<'_> {}

impl<'a> IntoNeighbors for Digraph<'a> {
    type Neighbors = std::iter::Copied<std::slice::Iter<'a, u32>>;

    fn neighbors(self, node: u32) -> Self::Neighbors {
        self.succs.row(node as usize).iter().copied()
    }
}

impl<'a> IntoNeighborsDirected for Digraph<'a> {
    type NeighborsDirected = std::iter::Copied<std::slice::Iter<'a, u32>>;

    fn neighbors_directed(self, node: u32, direction: Direction) -> Self::NeighborsDirected {
        let side = match direction {
            Direction::Outgoing => self.succs,
            Direction::Incoming => self.preds,
        };
        side.row(node as usize).iter().copied()
    }
}

impl<'a> IntoNodeIdentifiers for Digraph<'a> {
    type NodeIdentifiers = std::iter::Copied<std::slice::Iter<'a, u32>>;

    fn node_identifiers(self) -> Self::NodeIdentifiers {
        self.nodes.iter().copied()
    }
}

impl Visitable for Digraph<'_> {
    type Map = Visited;

    fn visit_map(&self) -> Visited {
        Visited(vec![false; self.preds.rows()])
    }

    fn reset_map(&self, map: &mut Visited) {
        map.0.clear();
        map.0.resize(self.preds.rows(), false);
    }
}

/// Which nodes an algorithm has seen.
pub(crate) struct Visited(Vec<bool>);

impl VisitMap<u32> for Visited {
    fn visit(&mut self, node: u32) -> bool {
        !std::mem::replace(&mut self.0[node as usize], true)
    }

    fn is_visited(&self, node: &u32) -> bool {
        self.0[*node as usize]
    }

    fn unvisit(&mut self, node: u32) -> bool {
        std::mem::replace(&mut self.0[node as usize], false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn components(n: usize, edges: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let succs = Csr::from_pairs(n, edges.iter().copied());
        let preds = succs.transposed(n);
        let nodes: Vec<u32> = (0..n as u32).collect();
        let mut found = Digraph::new(&nodes, &preds, &succs).components();
        found.iter_mut().for_each(|c| c.sort_unstable());
        found
    }

    #[test]
    fn circles_are_one_component_each_in_the_order_of_the_data() {
        let found = components(6, &[(0, 1), (1, 2), (2, 1), (2, 3), (3, 4), (4, 3), (4, 5)]);
        assert_eq!(found, [vec![0], vec![1, 2], vec![3, 4], vec![5]]);
    }

    #[test]
    fn a_deep_chain_does_not_overflow_the_stack() {
        let n = 200_000u32;
        let edges: Vec<(u32, u32)> = (1..n).map(|i| (i - 1, i)).collect();
        assert_eq!(components(n as usize, &edges).len(), n as usize);
    }
}

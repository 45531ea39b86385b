//! The hash that tells whether a config was made for this graph.

use sha2::{Digest, Sha256};

use crate::graph::{Graph, ValueKind};
use crate::model::Model;

/// SHA-256 of the graph's structure, in hexadecimal: operators, wiring, names, and the types and shapes of inputs and
/// weights. Neither the weights' content nor anything that inference adds changes it.
#[must_use]
pub fn graph_sha256(model: &Model) -> String {
    let mut hash = Hasher(Sha256::new());
    hash.number(1);
    let mut graphs = vec![&model.graph];
    while let Some(graph) = graphs.pop() {
        hash.graph(graph);
        graphs.extend(graph.nodes().iter().flat_map(|n| n.bodies.iter()).map(|b| &b.graph));
    }
    hash.0.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

struct Hasher(Sha256);

impl Hasher {
    fn number(&mut self, n: usize) {
        self.0.update((n as u64).to_le_bytes());
    }

    /// Texts are told apart by their length, so that no two sequences of them hash alike.
    fn text(&mut self, s: &str) {
        self.number(s.len());
        self.0.update(s.as_bytes());
    }

    fn graph(&mut self, graph: &Graph) {
        self.number(graph.nodes().len());
        for id in graph.node_ids() {
            let node = graph.node(id);
            self.text(graph.stable_id(id));
            self.text(&node.op.domain);
            self.text(&node.op.name);
            self.text(&node.op.overload);
            for values in [&node.inputs, &node.outputs] {
                self.number(values.len());
                for v in values {
                    self.text(v.map_or("", |v| &graph.value(v).name));
                }
            }
            self.number(node.bodies.len());
        }
        self.number(graph.values().len());
        for value in graph.values().iter().filter(|v| matches!(v.kind, ValueKind::Input { .. } | ValueKind::Initializer(_))) {
            self.text(&value.name);
            self.text(&value.dtype.map_or(String::new(), |d| d.to_string()));
            self.text(&value.shape.to_string());
        }
        self.number(graph.outputs().len());
        for &v in graph.outputs() {
            self.text(&graph.value(v).name);
        }
    }
}

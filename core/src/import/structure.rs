//! A hash of what a model computes, its weights' values aside.

use sha2::{Digest, Sha256};

use crate::graph::{AttrValue, Graph, Node, ValueKind};
use crate::model::Model;
use crate::shape::Shape;
use crate::weights::WeightRef;

impl Model {
    /// SHA-256, in hex, of the graph's structure: operators, attributes, wiring, names and shapes, not the weights'
    /// bytes. The same file always gives the same; configs and reports note it to tell whether the graph is another one.
    #[must_use]
    pub fn graph_sha256(&self) -> String {
        let mut h = Hash(Sha256::new());
        h.text("recut graph 1");
        for (domain, version) in &self.opsets {
            h.text(domain);
            h.int(*version);
        }
        h.graph(&self.graph);
        h.0.finalize().iter().fold(String::with_capacity(64), |mut hex, b| {
            use std::fmt::Write;
            let _ = write!(hex, "{b:02x}");
            hex
        })
    }
}

/// Feeds a hash so that no two different structures feed it the same bytes: every part has its length or kind before it.
struct Hash(Sha256);

impl Hash {
    fn count(&mut self, n: usize) {
        self.0.update((n as u64).to_le_bytes());
    }

    fn int(&mut self, n: i64) {
        self.0.update(n.to_le_bytes());
    }

    fn bytes(&mut self, b: &[u8]) {
        self.count(b.len());
        self.0.update(b);
    }

    fn text(&mut self, s: &str) {
        self.bytes(s.as_bytes());
    }

    fn kind(&mut self, k: u8) {
        self.0.update([k]);
    }

    fn shape(&mut self, s: &Shape) {
        match s.dims() {
            None => self.kind(0),
            Some(dims) => {
                self.kind(1);
                self.count(dims.len());
                for d in dims {
                    self.text(&d.to_string());
                }
            }
        }
    }

    fn weight(&mut self, w: &WeightRef) {
        self.text(w.dtype.name());
        self.count(w.shape.len());
        for &d in &w.shape {
            self.0.update(d.to_le_bytes());
        }
    }

    fn graph(&mut self, g: &Graph) {
        self.count(g.values().len());
        for v in g.values() {
            self.text(&v.name);
            self.text(v.dtype.map_or("?", |d| d.name()));
            self.kind(v.ty as u8);
            self.shape(&v.shape);
            match &v.kind {
                ValueKind::Input { default } => {
                    self.kind(0);
                    self.kind(u8::from(default.is_some()));
                    default.iter().for_each(|w| self.weight(w));
                }
                ValueKind::Initializer(w) => {
                    self.kind(1);
                    self.weight(w);
                }
                ValueKind::Output { node, slot } => {
                    self.kind(2);
                    self.int(i64::from(node.0));
                    self.int(i64::from(*slot));
                }
                ValueKind::Captured { outer } => {
                    self.kind(3);
                    self.int(i64::from(outer.0));
                }
            }
        }
        for list in [g.inputs(), g.outputs()] {
            self.count(list.len());
            for v in list {
                self.int(i64::from(v.0));
            }
        }
        self.count(g.nodes().len());
        for n in g.nodes() {
            self.node(n);
        }
    }

    /// Nesting is capped by the importers.
    fn node(&mut self, n: &Node) {
        self.text(&n.name);
        self.kind(n.op.dialect as u8);
        self.text(&n.op.domain);
        self.text(&n.op.name);
        self.text(&n.op.overload);
        self.int(n.opset.unwrap_or(-1));
        self.count(n.inputs.len());
        for v in &n.inputs {
            self.int(v.map_or(-1, |v| i64::from(v.0)));
        }
        self.count(n.attrs.len());
        for a in &n.attrs {
            self.text(&a.name);
            self.attr(&a.value);
        }
        self.count(n.bodies.len());
        for b in &n.bodies {
            self.text(&b.attr);
            self.graph(&b.graph);
        }
    }

    fn attr(&mut self, a: &AttrValue) {
        match a {
            AttrValue::None => self.kind(0),
            AttrValue::Bool(b) => {
                self.kind(1);
                self.kind(u8::from(*b));
            }
            AttrValue::Int(i) => {
                self.kind(2);
                self.int(*i);
            }
            AttrValue::Float(x) => {
                self.kind(3);
                self.0.update(x.to_bits().to_le_bytes());
            }
            AttrValue::Bytes(b) => {
                self.kind(4);
                self.bytes(b);
            }
            AttrValue::Ints(v) => {
                self.kind(5);
                self.count(v.len());
                v.iter().for_each(|i| self.int(*i));
            }
            AttrValue::Floats(v) => {
                self.kind(6);
                self.count(v.len());
                v.iter().for_each(|x| self.0.update(x.to_bits().to_le_bytes()));
            }
            AttrValue::ByteStrings(v) => {
                self.kind(7);
                self.count(v.len());
                v.iter().for_each(|b| self.bytes(b));
            }
            AttrValue::Tensor(w) => {
                self.kind(8);
                self.weight(w);
            }
            AttrValue::Tensors(v) => {
                self.kind(9);
                self.count(v.len());
                v.iter().for_each(|w| self.weight(w));
            }
            AttrValue::Body(i) => {
                self.kind(10);
                self.count(*i);
            }
            AttrValue::Bodies(v) => {
                self.kind(11);
                self.count(v.len());
                v.iter().for_each(|i| self.count(*i));
            }
            AttrValue::Type(t) => {
                self.kind(12);
                self.text(t);
            }
            AttrValue::List(v) => {
                self.kind(13);
                self.count(v.len());
                v.iter().for_each(|a| self.attr(a));
            }
            AttrValue::Reference(r) => {
                self.kind(14);
                self.text(r);
            }
            AttrValue::Input(i) => {
                self.kind(15);
                self.count(*i);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::model;

    #[test]
    fn structure_decides_the_hash() {
        let a = model(&[("n", "Relu", &["x"], &["y"])]).graph_sha256();
        assert_eq!(a, model(&[("n", "Relu", &["x"], &["y"])]).graph_sha256());
        for other in
            [model(&[("n", "Neg", &["x"], &["y"])]), model(&[("m", "Relu", &["x"], &["y"])]), model(&[("n", "Relu", &["x"], &["z"])])]
        {
            assert_ne!(a, other.graph_sha256());
        }
    }
}

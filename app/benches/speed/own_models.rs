//! Models to measure where none are given: written as files, so that opening them is measured too.

use std::path::Path;

/// Deterministic noise (xorshift).
struct Noise(u64);

impl Noise {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % n.max(1) as u64).unwrap_or(0)
    }
}

/// Writes a graph of 1,000 nodes and two of 100,000: residual blocks in modules, and a random one that hangs together
/// over short and long distances.
pub(crate) fn write(folder: &Path) {
    let files = [("blocks_1k.onnx", blocks(1_000)), ("blocks_100k.onnx", blocks(100_000)), ("random_100k.onnx", random(100_000))];
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).expect("the folder can be written to");
    }
}

/// Residual blocks in nested modules.
fn blocks(nodes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut input, mut skip) = ("x".to_owned(), "x".to_owned());
    for i in 0..nodes {
        let made = format!("v{i}");
        let name = format!("/stage{}/block{}/op{}/n{i}", i / 1000, i / 20 % 50, i % 20 / 4);
        match i % 4 {
            0 => node(&mut out, &name, "Mul", &[&input, &input], &made),
            3 => node(&mut out, &name, "Add", &[&input, &skip], &made),
            1 => node(&mut out, &name, "Relu", &[&input], &made),
            _ => node(&mut out, &name, "Sigmoid", &[&input], &made),
        }
        if i % 4 == 3 {
            skip.clone_from(&made);
        }
        input = made;
    }
    model(out, &input)
}

/// Every node reads one of the three before it, and every other node a second one from anywhere, mostly from nearby.
fn random(nodes: usize) -> Vec<u8> {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut out = Vec::new();
    let value = |i: usize| format!("v{i}");
    for i in 0..nodes {
        let recent = if i == 0 { "x".to_owned() } else { value(i.saturating_sub(1 + noise.below(3))) };
        let far = value(noise.below(i.max(1)));
        let near = value(i.saturating_sub(1 + noise.below(40)));
        let second = i > 0 && noise.below(2) == 0;
        let other = if noise.below(20) == 0 { far } else { near };
        match (second, noise.below(10)) {
            (true, _) => node(&mut out, &format!("n{i}"), "Add", &[&recent, &other], &value(i)),
            (false, 0) => node(&mut out, &format!("n{i}"), "Relu", &[&recent], &value(i)),
            (false, _) => node(&mut out, &format!("n{i}"), "Sigmoid", &[&recent], &value(i)),
        }
    }
    model(out, &value(nodes - 1))
}

/// `GraphProto.node` (field 1): inputs 1, outputs 2, name 3, type 4.
fn node(out: &mut Vec<u8>, name: &str, op: &str, inputs: &[&str], output: &str) {
    let mut n = Vec::new();
    inputs.iter().for_each(|i| field(&mut n, 1, i.as_bytes()));
    field(&mut n, 2, output.as_bytes());
    field(&mut n, 3, name.as_bytes());
    field(&mut n, 4, op.as_bytes());
    field(out, 1, &n);
}

/// `ModelProto`: version 1, graph 7, opset import 8; `GraphProto`: name 2, inputs 11, outputs 12.
fn model(mut graph: Vec<u8>, output: &str) -> Vec<u8> {
    field(&mut graph, 2, b"bench");
    field(&mut graph, 11, &value_info("x"));
    field(&mut graph, 12, &value_info(output));
    let mut out = vec![1 << 3, 8];
    field(&mut out, 7, &graph);
    field(&mut out, 8, &[2 << 3, 18]);
    out
}

/// A value of type f32 and shape `[4]`.
fn value_info(name: &str) -> Vec<u8> {
    let nested = |number: u8, content: &[u8]| {
        let mut out = Vec::new();
        field(&mut out, number, content);
        out
    };
    let shape = nested(1, &[1 << 3, 4]);
    let mut tensor = vec![1 << 3, 1];
    field(&mut tensor, 2, &shape);
    let mut out = nested(1, name.as_bytes());
    field(&mut out, 2, &nested(1, &tensor));
    out
}

/// A length-delimited field of the wire format.
fn field(out: &mut Vec<u8>, number: u8, content: &[u8]) {
    out.push(number << 3 | 2);
    let mut length = content.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(content);
}

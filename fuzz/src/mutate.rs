//! A mutator for texts that hold JSON: half of its steps change the tree (a part is copied over another, repeated, removed,
//! or a number or text becomes one that programs stumble over), the others are libFuzzer's own on bytes.

use libfuzzer_sys::fuzzer_mutate;
use serde_json::Value;

use crate::archive::{SEPARATOR, split};

/// A small generator (xorshift), since libFuzzer gives one number.
struct Random(u64);

impl Random {
    fn new(seed: u32) -> Self {
        Self(u64::from(seed) << 1 | 0x9e37_79b9_0000_0001)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % n.max(1)
    }
}

/// One step. `data` holds an input of `size` bytes and has room for `max_size`; the length of the new one.
pub fn json(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Random::new(seed);
    if random.below(4) != 0 {
        let mut parts: Vec<Vec<u8>> = split(&data[..size], SEPARATOR).into_iter().map(<[u8]>::to_vec).collect();
        // The first is the program: most of what is to find is there.
        let at = if random.below(4) == 0 { random.below(parts.len()) } else { 0 };
        if let Ok(mut value) = serde_json::from_slice::<Value>(&parts[at]) {
            for _ in 0..=random.below(3) {
                step(&mut value, &mut random);
            }
            parts[at] = serde_json::to_vec(&value).unwrap_or_default();
            let whole = parts.join(SEPARATOR);
            if whole.len() <= max_size {
                data[..whole.len()].copy_from_slice(&whole);
                return whole.len();
            }
        }
    }
    fuzzer_mutate(data, size, max_size)
}

/// Changes one place of the tree.
fn step(tree: &mut Value, random: &mut Random) {
    let count = count(tree);
    let Some(source) = nth(tree, random.below(count)).cloned() else { return };
    let Some(target) = nth(tree, random.below(count)) else { return };
    match random.below(7) {
        0 => *target = source,
        1 => *target = special(target, random),
        2 | 3 => *target = alike(target, random),
        4 => match target {
            Value::Array(items) if !items.is_empty() => drop(items.remove(random.below(items.len()))),
            Value::Object(map) if !map.is_empty() => {
                let key = map.keys().nth(random.below(map.len())).cloned().unwrap_or_default();
                map.shift_remove(&key);
            }
            _ => *target = special(target, random),
        },
        5 => match target {
            Value::Array(items) => {
                let copy = items.get(random.below(items.len())).cloned().unwrap_or(source);
                let at = random.below(items.len() + 1);
                items.insert(at, copy);
            }
            Value::Object(map) => {
                let key = if let Value::String(s) = &source { s.clone() } else { "x".to_owned() };
                map.insert(key, source);
            }
            _ => *target = special(target, random),
        },
        _ => match target {
            Value::Array(items) if items.len() > 1 => {
                let (a, b) = (random.below(items.len()), random.below(items.len()));
                items.swap(a, b);
            }
            _ => *target = Value::Array(vec![source]),
        },
    }
}

/// Another value of the same type, so that the schema still holds.
fn alike(value: &Value, random: &mut Random) -> Value {
    const INTS: [i64; 20] = [
        0,
        1,
        -1,
        2,
        3,
        -2,
        4,
        7,
        8,
        16,
        64,
        127,
        255,
        65536,
        i32::MAX as i64,
        i32::MIN as i64,
        u32::MAX as i64,
        i64::MAX,
        i64::MIN,
        1 << 40,
    ];
    const FLOATS: [f64; 8] = [0.0, -0.0, 1.0, 0.5, -1.0, 1e300, 1e-300, 1e19];
    match value {
        Value::Number(n) if n.is_f64() => FLOATS[random.below(FLOATS.len())].into(),
        Value::Number(n) => match (random.below(3), n.as_i64()) {
            (0, Some(n)) => n.wrapping_add(1).into(),
            (1, Some(n)) => n.wrapping_sub(1).into(),
            _ => INTS[random.below(INTS.len())].into(),
        },
        Value::Bool(b) => (!b).into(),
        Value::String(s) => {
            let texts = [
                "",
                "x",
                "s0",
                "s0*s0 + 1",
                "-s0",
                "Max(1, s0)",
                "s0//0",
                "Mod(s0, 0)",
                "add",
                "w.0",
                "L__self__",
                "\u{1b}[2J",
                "torch.ops.aten.add.Tensor",
            ];
            match random.below(4) {
                0 => format!("{s}{s}").into(),
                1 => s.chars().take(random.below(s.len() + 1)).collect::<String>().into(),
                _ => texts[random.below(texts.len())].into(),
            }
        }
        other => other.clone(),
    }
}

/// A value that programs stumble over.
fn special(value: &Value, random: &mut Random) -> Value {
    match random.below(8) {
        0 => Value::Null,
        1 => Value::Array(Vec::new()),
        2 => Value::Object(serde_json::Map::new()),
        3 => i64::MAX.into(),
        4 => serde_json::json!(-1),
        5 => "".into(),
        6 => Value::Array(vec![value.clone(), value.clone()]),
        _ => serde_json::json!({"as_int": random.below(9)}),
    }
}

/// Values in a tree, itself included.
fn count(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// The `n`-th value of a tree, in document order. Trees are as deep as the JSON reader lets them be: 128.
fn nth(tree: &mut Value, n: usize) -> Option<&mut Value> {
    if n == 0 {
        return Some(tree);
    }
    let mut left = n - 1;
    let inner: Box<dyn Iterator<Item = &mut Value>> = match tree {
        Value::Array(items) => Box::new(items.iter_mut()),
        Value::Object(map) => Box::new(map.values_mut()),
        _ => return None,
    };
    for item in inner {
        let size = count(item);
        if left < size {
            return nth(item, left);
        }
        left -= size;
    }
    None
}

//! Hashing of names, of which a large model has hundreds of thousands.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// A map with a hash fast enough for hundreds of thousands of names.
pub(crate) type FastMap<K, V> = HashMap<K, V, Seeded>;

/// Makes [`NameHasher`]s with one random seed per process, so that no file can be made whose names all collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        static SEED: OnceLock<u64> = OnceLock::new();
        Self(*SEED.get_or_init(|| RandomState::new().hash_one(0u8)))
    }
}

impl BuildHasher for Seeded {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher(self.0)
    }
}

/// Mixes eight bytes at a time by a folded 64-bit multiplication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameHasher(u64);

impl NameHasher {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64 | self.0 << 32);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for w in words {
            self.mix(u64::from_le_bytes(*w));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_u8(&mut self, n: u8) {
        self.mix(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.mix(u64::from(n));
    }

    fn write_usize(&mut self, n: usize) {
        self.mix(n as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_hash_apart() {
        let s = Seeded::default();
        let hash = |b: &[u8]| {
            let mut h = s.build_hasher();
            h.write(b);
            h.finish()
        };
        let mut seen = std::collections::HashSet::new();
        for i in 0..100_000 {
            assert!(seen.insert(hash(format!("/layers.{i}/Add_output_0").as_bytes())));
        }
        assert_ne!(hash(b""), hash(b"\0"));
        assert_ne!(hash(b"a\0"), hash(b"a"));
    }
}

//! Tables from names to ids that borrow nothing: they hold hashes' slots and compare with the names where they stand.

use std::hash::{BuildHasher, RandomState};

/// A hash table of the numbers `0..n`, each under a name that is kept elsewhere. The hash is seeded, so that a file
/// cannot choose names that collide.
#[derive(Debug)]
pub(super) struct NameTable {
    hasher: RandomState,
    /// Numbers plus one, by open addressing; a power of two, at most half full.
    slots: Vec<u32>,
}

impl NameTable {
    /// A table of `count` names; where names repeat the first number is found.
    pub(super) fn new<'a>(count: usize, name: impl Fn(usize) -> &'a str) -> Self {
        let hasher = RandomState::new();
        let mut slots = vec![0u32; (count.max(1) * 2).next_power_of_two()];
        let mask = slots.len() - 1;
        for i in 0..count {
            let text = name(i);
            let mut at = slot(&hasher, text, mask);
            while let Some(other) = (slots[at] as usize).checked_sub(1) {
                if name(other) == text {
                    break;
                }
                at = (at + 1) & mask;
            }
            if slots[at] == 0 {
                slots[at] = u32::try_from(i + 1).unwrap_or(0);
            }
        }
        Self { hasher, slots }
    }

    /// The number under `text`; `name` as at construction.
    pub(super) fn find<'a>(&self, text: &str, name: impl Fn(usize) -> &'a str) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = slot(&self.hasher, text, mask);
        while let Some(i) = (self.slots[at] as usize).checked_sub(1) {
            if name(i) == text {
                return Some(i);
            }
            at = (at + 1) & mask;
        }
        None
    }
}

fn slot(hasher: &RandomState, text: &str, mask: usize) -> usize {
    // Only the low bits matter, so that truncation on 32-bit machines is harmless.
    #[allow(clippy::cast_possible_truncation)]
    let hash = hasher.hash_one(text) as usize;
    hash & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_names_give_the_first() {
        let names: Vec<String> = (0..1000).map(|i| format!("n{}", i % 700)).collect();
        let table = NameTable::new(names.len(), |i| &names[i]);
        for i in 0..700 {
            assert_eq!(table.find(&names[i], |i| &names[i]), Some(i));
        }
        assert_eq!(table.find("n700", |i| &names[i]), None);
        assert_eq!(NameTable::new(0, |_| "").find("", |_| ""), None);
    }
}

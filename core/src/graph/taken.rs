//! Unique names for what a graph in the making holds.

use crate::hash::FastMap;

/// Names in use, each with the number to try next where it is asked for again.
#[derive(Debug, Default)]
pub(crate) struct Taken(FastMap<Box<str>, u32>);

impl Taken {
    /// With the empty name in use from the start, as in files where it stands for no value.
    pub(crate) fn with_empty() -> Self {
        Self([("".into(), 0)].into_iter().collect())
    }

    /// `name`, followed by `separator` and a number if it is taken.
    pub(crate) fn unique(&mut self, name: &str, separator: char) -> Box<str> {
        let Some(mut k) = self.0.get(name).copied() else {
            self.0.insert(name.into(), 1);
            return name.into();
        };
        loop {
            let next: Box<str> = format!("{name}{separator}{k}").into();
            k += 1;
            if !self.0.contains_key(&next) {
                self.0.insert(name.into(), k);
                self.0.insert(next.clone(), 1);
                return next;
            }
        }
    }
}

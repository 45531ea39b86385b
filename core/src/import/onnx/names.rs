//! Names from the file: sharing, showing.

use std::sync::Arc;

use crate::diagnostic::printable;
pub(super) use crate::hash::FastMap;

/// Texts of the file, each kept once.
#[derive(Debug, Default)]
pub(super) struct Interner<'p> {
    known: FastMap<&'p [u8], Arc<str>>,
    last: Option<(&'p [u8], Arc<str>)>,
}

impl<'p> Interner<'p> {
    /// The shared copy of a text; bytes that are no UTF-8 are replaced.
    pub(super) fn get(&mut self, text: &'p [u8]) -> Arc<str> {
        // Neighbouring nodes mostly share their long texts (stack traces): comparing is cheaper than hashing.
        if let Some((t, shared)) = &self.last
            && *t == text
        {
            return shared.clone();
        }
        let shared = self.known.entry(text).or_insert_with(|| String::from_utf8_lossy(text).into()).clone();
        self.last = Some((text, shared.clone()));
        shared
    }
}

/// A name as messages quote it.
pub(super) fn show(name: &[u8]) -> String {
    printable(&String::from_utf8_lossy(name)).into_owned()
}

/// A name as it is kept: bytes that are no UTF-8 are replaced.
pub(super) fn text(name: &[u8]) -> Box<str> {
    match std::str::from_utf8(name) {
        Ok(s) => s.into(),
        Err(_) => String::from_utf8_lossy(name).into(),
    }
}

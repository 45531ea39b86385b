//! What torch makes of operators that it decomposes.
//!
//! The facts stand in `core/data/aten_parts.json`, with the script that takes them from torch beside it.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde::Deserialize;

const TEXT: &str = include_str!("../../data/aten_parts.json");

#[derive(Deserialize)]
struct File {
    ops: HashMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    composite: Option<ByRanks>,
    core: Option<ByRanks>,
}

/// Parts by the ranks of the call's first two tensors (`"4,1"`, with `;dtype` where the call gives one): those of every call, those of some.
type ByRanks = HashMap<String, (Vec<String>, Vec<String>)>;

/// How far operators are taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Composite-implicit ones only.
    Composite,
    /// Down to the core ATen set.
    Core,
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// In every call that was looked at.
    pub(super) always: Vec<&'static str>,
    /// In some of them.
    pub(super) sometimes: Vec<&'static str>,
}

/// The parts of the overload of this full name (`aten.conv2d.default`) when its first two tensors have these ranks
/// and it does or does not give a dtype; `None` if it is not taken apart. Of an operator that is, and of which no call was looked at, the parts are not known:
/// `Some(None)`.
pub(super) fn of(name: &str, ranks: &[usize], typed: bool, depth: Depth) -> Option<Option<Parts>> {
    let entry = table().get(name)?;
    let by_ranks = match depth {
        Depth::Composite => entry.composite.as_ref()?,
        Depth::Core => entry.core.as_ref().or(entry.composite.as_ref())?,
    };
    let ranks = ranks.iter().take(2).map(ToString::to_string).collect::<Vec<_>>().join(",");
    let key = if typed { format!("{ranks};dtype") } else { ranks };
    let found: Vec<_> = by_ranks.get(&key).map_or_else(|| by_ranks.values().collect(), |p| vec![p]);
    let Some(((first, _), rest)) = found.split_first() else { return Some(None) };
    let everywhere = |part: &&String| rest.iter().all(|(always, _)| always.contains(part));
    let always: Vec<&str> = first.iter().filter(everywhere).map(String::as_str).collect();
    let mut sometimes: Vec<&str> = found.iter().flat_map(|(a, s)| a.iter().chain(s)).map(String::as_str).collect();
    sometimes.retain(|part| !always.contains(part));
    sometimes.sort_unstable();
    sometimes.dedup();
    Some(Some(Parts { always, sometimes }))
}

fn table() -> &'static HashMap<String, Entry> {
    static TABLE: OnceLock<HashMap<String, Entry>> = OnceLock::new();
    // That the file parses is a test of this module.
    TABLE.get_or_init(|| serde_json::from_str::<File>(TEXT).map_or_else(|_| HashMap::new(), |f| f.ops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_apart_by_rank() {
        let always = |name: &str, ranks: &[usize], depth| of(name, ranks, false, depth).unwrap().unwrap().always;
        assert_eq!(always("aten.conv2d.default", &[4, 4], Depth::Composite), ["aten.convolution.default"]);
        assert_eq!(always("aten.matmul.default", &[2, 2], Depth::Core), ["aten.mm.default"]);
        assert!(always("aten.matmul.default", &[4, 4], Depth::Core).contains(&"aten.bmm.default"));
        // Ranks that nobody looked at: what all calls have, and the rest is uncertain.
        let unknown = of("aten.matmul.default", &[7, 7], false, Depth::Core).unwrap().unwrap();
        assert!(unknown.always.is_empty() && unknown.sometimes.contains(&"aten.mm.default"));
        assert_eq!(of("aten.relu.default", &[4], false, Depth::Composite), None);
        assert_eq!(of("aten.silu.default", &[4], false, Depth::Composite), None, "no composite, but no core operator either");
        assert_eq!(always("aten.silu.default", &[4], Depth::Core), ["aten.mul.Tensor", "aten.sigmoid.default"]);
    }
}

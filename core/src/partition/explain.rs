//! Why a unit is where it is, step by step.

use super::{Placement, Plan, Rule};
use crate::document::{MarkList, ReasonStep};
use crate::graph::NodeId;
use crate::support::Support;
use crate::view::{Unit, UnitId};

/// Text of entry `n` of a list of marks, where the caller knows it.
pub type EntryText<'a> = &'a dyn Fn(MarkList, usize) -> Option<String>;

impl Plan {
    /// Why `unit` is where it is: all five steps in order, the deciding one flagged. Marks are named by list and position.
    #[must_use]
    pub fn explain(&self, unit: UnitId) -> Vec<ReasonStep> {
        self.explain_with(unit, &|_, _| None)
    }

    /// [`Plan::explain`] for the unit that holds `node`.
    #[must_use]
    pub fn explain_node(&self, node: NodeId) -> Vec<ReasonStep> {
        self.explain(self.view.unit_of(node))
    }

    /// [`Plan::explain`], with marks named by their text.
    #[must_use]
    pub fn explain_with(&self, unit: UnitId, entry: EntryText<'_>) -> Vec<ReasonStep> {
        let rule = self.rule[unit.index()];
        let decided = rule.step();
        (1..=5)
            .map(|step| ReasonStep {
                step,
                decided: step == decided,
                text: if step == decided { self.reason_with(unit, entry) } else { self.other(unit, step, decided) },
            })
            .collect()
    }

    /// The deciding rule of `unit` in one sentence.
    #[must_use]
    pub fn reason(&self, unit: UnitId) -> String {
        self.reason_with(unit, &|_, _| None)
    }

    /// [`Plan::reason`], with marks named by their text.
    #[must_use]
    pub fn reason_with(&self, unit: UnitId, entry: EntryText<'_>) -> String {
        let named = |list: MarkList, n: u32| {
            let name = list_name(list);
            match entry(list, n as usize) {
                Some(text) => format!("{name} `{}`", crate::diagnostic::printable(&text)),
                None => format!("entry {} of {name}", u64::from(n) + 1),
            }
        };
        match self.rule[unit.index()] {
            Rule::Default => match self.verdict(unit) {
                Some(Support::Conditional(text)) => {
                    format!("accelerated: the backend takes it under a condition that was not checked: {text}")
                }
                Some(_) => "accelerated: no mark moves it and the backend takes it".to_owned(),
                None => "accelerated: no mark moves it, and without a backend every operator counts as supported".to_owned(),
            },
            Rule::PinAccelerated(n) => {
                let forced = match self.verdict(unit) {
                    Some(Support::Unsupported(why)) => format!(" (forced: {why})"),
                    _ => String::new(),
                };
                format!("pinned to the accelerator by {}{forced}", named(MarkList::AcceleratedNodes, n))
            }
            Rule::PinTorch(n) => format!("pinned to torch by {}", named(MarkList::TorchNodes, n)),
            Rule::Wrap(w) => match self.view.wraps().get(w as usize) {
                Some(wrap) => format!("inside the opaque node {}", crate::diagnostic::printable(&wrap.id)),
                None => "inside an opaque node".to_owned(),
            },
            Rule::ForeignOp => "opaque: the file holds it as a custom op of a foreign domain, which no backend here lists".to_owned(),
            Rule::TorchModule(n) => format!("torch, by {}", named(MarkList::TorchModules, n)),
            Rule::TorchOp(n) => format!("torch, by {}", named(MarkList::TorchOps, n)),
            Rule::Unsupported => match self.verdict(unit) {
                Some(Support::Unsupported(why)) => why.to_string(),
                _ => "the backend does not take it".to_owned(),
            },
            Rule::ConditionalStrict => match self.verdict(unit) {
                Some(Support::Conditional(text)) => {
                    format!("supported only under a condition that was not checked, and support is strict: {text}")
                }
                _ => "supported only under a condition, and support is strict".to_owned(),
            },
            Rule::NonTensorInput => "non_tensor_input: it reads a value that is no tensor from outside the accelerator".to_owned(),
            Rule::NonTensorOutput => "non_tensor_output: it gives a value that is no tensor to a unit outside the accelerator".to_owned(),
            Rule::MinBlockSize => "min_block_size: its accelerated partition had too few compute nodes".to_owned(),
            Rule::AtomicGroup(g) => match self.groups.get(g as usize) {
                Some(group) => {
                    format!("atomic_group: the {} has to stay together and holds units that run in torch", group.describe(&self.view))
                }
                None => "atomic_group: its group holds units that run in torch".to_owned(),
            },
        }
    }

    /// What the backend says of a unit; `None` for wraps and without a backend.
    #[must_use]
    pub fn verdict(&self, unit: UnitId) -> Option<&Support> {
        match self.view.unit(unit) {
            Unit::Node(n) => self.support.as_ref()?.get(n.index()),
            Unit::Wrap(_) => None,
        }
    }

    /// Step `step` of a unit that step `decided` placed.
    fn other(&self, unit: UnitId, step: u8, decided: u8) -> String {
        let in_torch = self.placement[unit.index()] == Placement::Torch;
        let text = match step {
            4 => match self.verdict(unit) {
                None => "no backend was asked",
                Some(Support::Supported) => "the backend takes it",
                Some(Support::Conditional(why)) => return format!("the backend takes it under a condition that was not checked: {why}"),
                Some(Support::Unsupported(why)) => return format!("the backend would not take it: {why}"),
            },
            5 if in_torch || decided == 2 => "not reached",
            5 => "nothing demotes it",
            _ if step > decided => "not reached",
            1 if decided == 5 => "no pin holds it here",
            1 => "no pin",
            2 => "inside no opaque node",
            _ => "no mark on its modules or operator moves it",
        };
        text.to_owned()
    }
}

impl Rule {
    /// Step of the placement rules at which it stands, 1 to 5.
    #[must_use]
    pub const fn step(self) -> u8 {
        match self {
            Self::PinAccelerated(_) | Self::PinTorch(_) => 1,
            Self::Wrap(_) | Self::ForeignOp => 2,
            Self::TorchModule(_) | Self::TorchOp(_) => 3,
            Self::Default | Self::Unsupported | Self::ConditionalStrict => 4,
            Self::NonTensorInput | Self::NonTensorOutput | Self::MinBlockSize | Self::AtomicGroup(_) => 5,
        }
    }
}

fn list_name(list: MarkList) -> &'static str {
    match list {
        MarkList::TorchOps => "torch_executed_ops",
        MarkList::TorchModules => "torch_executed_modules",
        MarkList::TorchNodes => "torch_executed_nodes",
        MarkList::AcceleratedNodes => "accelerated_nodes",
        MarkList::LeafModules => "leaf_modules",
    }
}

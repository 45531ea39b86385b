//! Steps 1 to 4: where each unit would run by itself, and why; and the part of step 5 that keeps values which are no
//! tensors off the edges of accelerated partitions.

use std::sync::Arc;

use super::buffers::Buffers;
use super::{Marks, Placement, Rule};
use crate::diagnostic::{Diagnostic, printable};
use crate::graph::NodeId;
use crate::select::NodeSet;
use crate::support::{Support, SupportMap};
use crate::view::{Facts, Unit, UnitId, View};

/// Placement and rule of every unit.
#[derive(Clone, Debug)]
pub(crate) struct Colouring {
    pub(super) placement: Vec<Placement>,
    pub(super) rule: Vec<Rule>,
    /// What it was made from, where it is a base colouring.
    support: Option<SupportMap>,
    strict: bool,
}

impl Colouring {
    /// Wraps, foreign operators and the capability table: what holds without any mark.
    fn base(view: &View, support: Option<&SupportMap>, strict: bool) -> Self {
        let units = view.units().len();
        let mut c =
            Self { placement: vec![Placement::Accelerated; units], rule: vec![Rule::Default; units], support: support.cloned(), strict };
        if let Some(map) = support {
            for (u, unit) in view.units().iter().enumerate() {
                let Unit::Node(n) = unit else { continue };
                match map.get(n.index()) {
                    Some(Support::Unsupported(_)) => c.put(u, Placement::Torch, Rule::Unsupported),
                    Some(Support::Conditional(_)) if strict => c.put(u, Placement::Torch, Rule::ConditionalStrict),
                    Some(Support::Conditional(_) | Support::Supported) | None => {}
                }
            }
        }
        for u in &view.facts.foreign {
            let listed = support.is_some() && c.placement[u.index()] == Placement::Accelerated;
            if !listed {
                c.put(u.index(), Placement::Opaque, Rule::ForeignOp);
            }
        }
        for (u, unit) in view.units().iter().enumerate().filter(|_| !view.wraps().is_empty()) {
            if let Unit::Wrap(w) = unit {
                c.put(u, Placement::Opaque, Rule::Wrap(*w));
            }
        }
        c
    }

    fn is_for(&self, support: Option<&SupportMap>, strict: bool) -> bool {
        let same = match (&self.support, support) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        same && self.strict == strict
    }

    pub(super) fn put(&mut self, unit: usize, placement: Placement, rule: Rule) {
        self.placement[unit] = placement;
        self.rule[unit] = rule;
    }

    /// Step 5: moves an accelerated unit to torch. A pin that stood against it is reported.
    pub(super) fn demote(&mut self, view: &View, unit: UnitId, rule: Rule, problems: &mut Vec<Diagnostic>, why: &str) {
        if let Rule::PinAccelerated(_) = self.rule[unit.index()] {
            let id = view.stable_id(unit);
            let message = format!("{}: pinned to the accelerator, but {why}; it runs in torch", printable(id));
            problems.push(Diagnostic::error("pin_breaks_rule", message).with_node(id));
        }
        self.put(unit.index(), Placement::Torch, rule);
    }
}

/// Colours the view.
pub(super) fn place(
    view: &View,
    marks: &Marks,
    support: Option<&SupportMap>,
    strict: bool,
    problems: &mut Vec<Diagnostic>,
    buffers: &mut Buffers,
) -> Colouring {
    let facts: &Facts = &view.facts;
    let base = facts.base_colouring(|c| c.is_for(support, strict), || Colouring::base(view, support, strict));
    let (mut placement, mut rule) = (std::mem::take(&mut buffers.placement), std::mem::take(&mut buffers.rule));
    placement.clear();
    placement.extend_from_slice(&base.placement);
    rule.clear();
    rule.extend_from_slice(&base.rule);
    let mut c = Colouring { placement, rule, support: None, strict };
    // From the weakest to the strongest, so that what holds is written last.
    for (i, set) in marks.torch_executed_ops.iter().enumerate().rev() {
        mark(view, set, &mut c, Placement::Torch, Rule::TorchOp(i as u32));
    }
    // The nearest ancestor is the smallest set: modules contain each other or are apart.
    let mut modules: Vec<(usize, usize)> = marks.torch_executed_modules.iter().map(|s| s.count()).enumerate().collect();
    modules.sort_by_key(|&(i, size)| std::cmp::Reverse((size, i)));
    for (i, _) in modules {
        mark(view, &marks.torch_executed_modules[i], &mut c, Placement::Torch, Rule::TorchModule(i as u32));
    }
    for (i, set) in marks.torch_executed_nodes.iter().enumerate().rev() {
        mark(view, set, &mut c, Placement::Torch, Rule::PinTorch(i as u32));
    }
    for (i, set) in marks.accelerated_nodes.iter().enumerate().rev() {
        mark(view, set, &mut c, Placement::Accelerated, Rule::PinAccelerated(i as u32));
    }
    report_pins(view, marks, problems);
    keep_to_tensors(view, &mut c, problems);
    c
}

fn mark(view: &View, set: &NodeSet, c: &mut Colouring, placement: Placement, rule: Rule) {
    if view.wraps().is_empty() {
        // Unit i is node i.
        let units = c.placement.len();
        for n in set.iter().take_while(|n| n.index() < units) {
            c.put(n.index(), placement, rule);
        }
        return;
    }
    for n in set.iter().take_while(|n| n.index() < view.unit_of.len()) {
        let u = view.unit_of(n);
        if let Unit::Node(_) = view.unit(u) {
            c.put(u.index(), placement, rule);
        }
    }
}

/// Pins that do nothing: inside a wrap, or against a pin to the accelerator.
fn report_pins(view: &View, marks: &Marks, problems: &mut Vec<Diagnostic>) {
    let mut about = |n: NodeId, code: &str, text: String| {
        let id = view.model.graph.stable_id(n);
        problems.push(Diagnostic::warning(code, format!("{}: {text}", printable(id))).with_node(id));
    };
    if !view.wraps().is_empty() {
        for set in marks.accelerated_nodes.iter().chain(&marks.torch_executed_nodes) {
            for n in set.iter().take_while(|n| n.index() < view.unit_of.len()) {
                if let Unit::Wrap(w) = view.unit(view.unit_of(n)) {
                    let wrap = &view.wraps()[w as usize].id;
                    about(n, "inert_pin", format!("the pin has no effect, since the node lies inside {wrap}"));
                }
            }
        }
    }
    if marks.torch_executed_nodes.is_empty() || marks.accelerated_nodes.is_empty() {
        return;
    }
    // There may be thousands of pins, one a node: the unions are compared, not every pair.
    let union = |sets: &[Arc<NodeSet>]| {
        let mut words = vec![0u64; sets.iter().map(|s| s.words().len()).max().unwrap_or(0)];
        sets.iter().for_each(|s| words.iter_mut().zip(s.words()).for_each(|(w, s)| *w |= s));
        words
    };
    for (i, (a, b)) in union(&marks.torch_executed_nodes).iter().zip(union(&marks.accelerated_nodes)).enumerate() {
        let mut both = a & b;
        while both != 0 {
            let n = NodeId((i * 64) as u32 + both.trailing_zeros());
            about(n, "conflicting_pins", "pinned both to torch and to the accelerator; the accelerator wins".to_owned());
            both &= both - 1;
        }
    }
}

/// Only tensors may cross the edge of an accelerated partition: the units that a value of another kind ties together run
/// in torch as soon as one of them does, or the caller feeds or gets the value. To fixpoint, since a unit may be tied
/// by several values.
pub(super) fn keep_to_tensors(view: &View, c: &mut Colouring, problems: &mut Vec<Diagnostic>) {
    let values = &view.facts.non_tensor;
    if values.is_empty() {
        return;
    }
    let mut of_unit: std::collections::HashMap<UnitId, Vec<usize>> = std::collections::HashMap::new();
    for (i, v) in values.iter().enumerate() {
        for &u in v.producer.iter().chain(&v.consumers) {
            of_unit.entry(u).or_default().push(i);
        }
    }
    let off_accelerator = |c: &Colouring, u: &UnitId| c.placement[u.index()] != Placement::Accelerated;
    let mut queued: Vec<bool> =
        values.iter().map(|v| v.external || v.producer.iter().chain(&v.consumers).any(|u| off_accelerator(c, u))).collect();
    let mut work: Vec<usize> = (0..values.len()).rev().filter(|&i| queued[i]).collect();
    while let Some(i) = work.pop() {
        let v = &values[i];
        let name = printable(&view.model.graph.value(v.value).name);
        let ends = v.producer.iter().map(|&u| (u, Rule::NonTensorOutput)).chain(v.consumers.iter().map(|&u| (u, Rule::NonTensorInput)));
        for (u, rule) in ends {
            if off_accelerator(c, &u) {
                continue;
            }
            let verb = if rule == Rule::NonTensorOutput { "gives" } else { "reads" };
            c.demote(view, u, rule, problems, &format!("it {verb} {name}, which is no tensor, across the partition's edge"));
            for &j in of_unit.get(&u).into_iter().flatten() {
                if !std::mem::replace(&mut queued[j], true) {
                    work.push(j);
                }
            }
        }
    }
}

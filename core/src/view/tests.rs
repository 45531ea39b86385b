use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::dtype::DType;
use crate::graph::ValueType;
use crate::shape::Shape;
use crate::testing::{ModelBuilder, model};

fn wrap(model: &Model, id: &str, names: &[&str]) -> WrapRequest {
    let mut nodes = NodeSet::empty(model.graph.nodes().len());
    for n in names {
        nodes.insert(model.graph.find_node(n).expect("the test names its own nodes"));
    }
    WrapRequest { id: id.into(), definition: "d".into(), select: names.join(" or ").into(), nodes }
}

fn names(view: &View) -> Vec<&str> {
    (0..view.units().len()).map(|u| view.stable_id(UnitId::new(u))).collect()
}

fn diamond() -> Model {
    model(&[
        ("a", "Relu", &["x", "w.1"], &["va"]),
        ("b", "Sin", &["va"], &["vb"]),
        ("c", "Cos", &["va", "w.1"], &["vc"]),
        ("d", "Add", &["vc", "vb", "w.2"], &["vd"]),
    ])
}

#[test]
fn without_wraps_units_are_nodes() {
    let view = View::new(Arc::new(diamond()), &[]).unwrap();
    assert_eq!(names(&view), ["a", "b", "c", "d"]);
    assert_eq!(view.preds(UnitId(3)), [UnitId(1), UnitId(2)]);
    assert_eq!(view.succs(UnitId(0)), [UnitId(1), UnitId(2)]);
}

#[test]
fn a_region_becomes_one_unit_with_its_border() {
    let m = diamond();
    let value = |n: &str| m.graph.find_value(n).unwrap();
    let w = wrap(&m, "w0", &["a", "c"]);
    let (x, va, vc, w1) = (value("x"), value("va"), value("vc"), value("w.1"));
    let view = View::new(Arc::new(m), &[w]).unwrap();
    assert_eq!(names(&view), ["w0", "b", "d"]);
    let r = &view.wraps()[0];
    assert_eq!((&r.inputs[..], &r.outputs[..]), (&[x][..], &[va, vc][..]));
    assert_eq!((&r.weights[..], r.shared_weights.len()), (&[w1][..], 0));
    assert_eq!(view.preds(UnitId(2)), [UnitId(0), UnitId(1)]);
}

#[test]
fn weights_used_outside_too_are_flagged() {
    let m = diamond();
    let w1 = m.graph.find_value("w.1").unwrap();
    let w = wrap(&m, "w0", &["c"]);
    let view = View::new(Arc::new(m), &[w]).unwrap();
    assert_eq!(view.wraps()[0].shared_weights, [w1]);
}

#[test]
fn a_path_that_leaves_and_returns_is_named_with_what_closes_it() {
    let m = model(&[
        ("a", "Relu", &["x"], &["va"]),
        ("b", "Sin", &["va"], &["vb"]),
        ("b2", "Sin", &["vb"], &["vb2"]),
        ("e", "Sin", &["va"], &["ve"]),
        ("d", "Add", &["vb2", "va"], &["vd"]),
    ]);
    let w = wrap(&m, "w0", &["a", "d"]);
    let err = View::new(Arc::new(m), &[w]).unwrap_err();
    let WrapError::NotConvex { path, closing, .. } = &err else { panic!("{err}") };
    assert_eq!(path, &["a", "b", "b2", "d"]);
    assert_eq!(closing, &["b", "b2"]);
    assert_eq!(
        err.to_string(),
        "wrap w0: the region is not convex: the path a -> b -> b2 -> d leaves it and returns; add b, b2 to close it"
    );
}

#[test]
fn two_convex_regions_that_wait_for_each_other_are_refused() {
    let m = model(&[
        ("a1", "Relu", &["x"], &["va1"]),
        ("b1", "Relu", &["y"], &["vb1"]),
        ("a2", "Sin", &["vb1"], &["va2"]),
        ("b2", "Sin", &["va1"], &["vb2"]),
    ]);
    let wraps = [wrap(&m, "A", &["a1", "a2"]), wrap(&m, "B", &["b1", "b2"])];
    let err = View::new(Arc::new(m), &wraps).unwrap_err();
    let WrapError::NotConvex { id, path, closing } = &err else { panic!("{err}") };
    assert_eq!((id.as_str(), &path[..]), ("A", &["A".to_owned(), "B".to_owned(), "A".to_owned()][..]));
    assert_eq!(closing, &["b1", "b2"]);
}

#[test]
fn inner_wraps_are_absorbed_and_overlaps_refused() {
    let m = Arc::new(diamond());
    let wraps = [wrap(&m, "inner", &["a"]), wrap(&m, "outer", &["a", "b"])];
    let view = View::new(m.clone(), &wraps).unwrap();
    assert_eq!(names(&view), ["outer", "c", "d"]);
    assert_eq!(view.absorbed(), [Absorbed { inner: "inner".into(), outer: "outer".into() }]);

    let wraps = [wrap(&m, "one", &["a", "b"]), wrap(&m, "two", &["a", "c"])];
    let err = View::new(m.clone(), &wraps).unwrap_err();
    assert_eq!(err.to_string(), "wrap two: overlaps one at a");
    let wraps = [wrap(&m, "one", &["a"]), wrap(&m, "two", &["a"])];
    assert!(matches!(View::new(m, &wraps), Err(WrapError::Overlap { .. })));
}

#[test]
fn empty_and_outputless_and_non_tensor_regions_are_refused() {
    let m = Arc::new(model(&[("a", "Relu", &["x"], &["va"]), ("b", "Nop", &["va"], &[]), ("c", "Nop", &["va"], &[])]));
    assert!(matches!(View::new(m.clone(), &[wrap(&m, "w", &[])]), Err(WrapError::Empty { .. })));
    assert!(matches!(View::new(m.clone(), &[wrap(&m, "w", &["b"])]), Err(WrapError::NoOutput { .. })));
    let seq = ModelBuilder::new()
        .node("s", "SplitToSequence", &["x"], &["seq"])
        .kind("seq", ValueType::Sequence)
        .node("at", "SequenceAt", &["seq", "i"], &["y"])
        .typed("i", Some(DType::I64), Shape::known(&[]))
        .build();
    let w = wrap(&seq, "w", &["s"]);
    let both = wrap(&seq, "w", &["s", "at"]);
    let seq = Arc::new(seq);
    let err = View::new(seq.clone(), &[w]).unwrap_err();
    assert!(matches!(&err, WrapError::NonTensor { values, .. } if values == &["seq"]), "{err}");
    assert!(View::new(seq, &[both]).is_ok());
}

#[test]
fn captures_cross_the_border_like_inputs() {
    let body = model(&[("in", "Relu", &["z"], &["r"])]).graph;
    let m =
        ModelBuilder::new().node("a", "Relu", &["x"], &["va"]).node("if", "If", &["c"], &["y"]).body("then_branch", body, &["va"]).build();
    let va = m.graph.find_value("va").unwrap();
    let w = wrap(&m, "w", &["if"]);
    let view = View::new(Arc::new(m), &[w]).unwrap();
    assert!(view.wraps()[0].inputs.contains(&va));
    assert_eq!(view.preds(UnitId(1)), [UnitId(0)]);
}

#[test]
fn a_chain_of_20000_wraps_and_nodes_is_no_recursion() {
    let mut b = ModelBuilder::new();
    for i in 0..20_000 {
        b = b.node(&format!("n{i}"), "Relu", &[&format!("v{i}")], &[&format!("v{}", i + 1)]);
    }
    let m = b.build();
    let ends = wrap(&m, "w", &["n0", "n19999"]);
    let err = View::new(Arc::new(m), &[ends]).unwrap_err();
    assert!(matches!(&err, WrapError::NotConvex { closing, .. } if closing.len() == 19_998));
    assert!(err.to_string().len() < 400, "{err}");
}

proptest! {
    /// A region is accepted exactly where no path leaves it and returns; with the closing set added it is accepted.
    #[test]
    fn convexity_agrees_with_reachability(edges in prop::collection::vec(any::<u16>(), 2..9), chosen in any::<u16>()) {
        let n = edges.len();
        let mut b = ModelBuilder::new();
        for (i, mask) in edges.iter().enumerate() {
            let inputs: Vec<String> = (0..i).filter(|p| mask >> p & 1 == 1).map(|p| format!("v{p}")).chain(["x".to_owned()]).collect();
            let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
            b = b.node(&format!("n{i}"), "Sum", &inputs, &[&format!("v{i}")]);
        }
        let m = Arc::new(b.build());
        let region: Vec<usize> = (0..n).filter(|i| chosen >> i & 1 == 1).collect();
        prop_assume!(!region.is_empty());
        let mut reach = vec![vec![false; n]; n];
        for i in 0..n {
            for p in 0..i {
                if edges[i] >> p & 1 == 1 {
                    reach[p][i] = true;
                    for r in &mut reach {
                        if r[p] { r[i] = true; }
                    }
                }
            }
        }
        let outside_between = |v: usize| {
            !region.contains(&v) && region.iter().any(|&a| reach[a][v]) && region.iter().any(|&b| reach[v][b])
        };
        let expected: Vec<String> = (0..n).filter(|&v| outside_between(v)).map(|v| format!("n{v}")).collect();
        let names: Vec<String> = region.iter().map(|i| format!("n{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        match View::new(m.clone(), &[wrap(&m, "w", &names)]) {
            Ok(view) => {
                prop_assert!(expected.is_empty());
                for u in (0..view.units().len()).map(UnitId::new) {
                    prop_assert!(view.preds(u).iter().all(|&p| p < u));
                    prop_assert!(view.nodes(u).all(|n| view.unit_of(n) == u));
                }
            }
            Err(WrapError::NotConvex { closing, .. }) => {
                prop_assert_eq!(&closing, &expected);
                let all: Vec<&str> = names.iter().copied().chain(closing.iter().map(String::as_str)).collect();
                prop_assert!(View::new(m.clone(), &[wrap(&m, "w", &all)]).is_ok());
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn names_of_wraps_cannot_drive_a_terminal() {
    let error = WrapError::NoOutput { id: "\u{1b}[2J".to_owned() };
    assert!(error.to_string().starts_with("wrap \\u{1b}[2J: "), "{error}");
    let error = WrapError::Overlap { id: "a".to_owned(), other: "\u{7f}".to_owned(), nodes: vec!["n".to_owned()] };
    assert_eq!(error.to_string(), "wrap a: overlaps \\u{7f} at n");
}

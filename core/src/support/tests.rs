use super::*;
use crate::dtype::DType;
use crate::graph::AttrValue;
use crate::shape::{Dim, Shape};
use crate::testing::{ModelBuilder, model};
use crate::weights::WeightRef;

fn judge(m: &Model, backend: &str) -> Vec<Support> {
    support_map(m, &Backend::builtin(backend, dialect_of(m)).unwrap(), &Bindings::new()).to_vec()
}

fn reason(s: &Support) -> &str {
    match s {
        Support::Unsupported(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_built_in_table_and_rule_parses() {
    for (dialect, count) in [(Dialect::Onnx, 13), (Dialect::Aten, 8)] {
        let names = backend_names(dialect);
        assert!(names.is_sorted() && names.len() == count, "{names:?}");
    }
    for (name, dialect, text) in table::BUILTIN {
        let b = Backend::parse(text, name).unwrap();
        assert_eq!((&*b.name, b.dialect, b.rows.is_empty()), (*name, *dialect, false));
        assert!(b.source.contains(' '), "{}", b.source);
    }
    // Each rule belongs to a row with a condition.
    for (name, rules) in [("tensorrt", 35), ("openvino", 20), ("onnxruntime-webnn", 30)] {
        assert!(predicate::Rules::of(name).len() >= rules, "{name}: {}", predicate::Rules::of(name).len());
    }
}

#[test]
fn unknown_ops_opsets_and_types_are_named() {
    let rows: &[crate::testing::Row<'_>] = &[
        ("a", "NoSuchOp", &["x"], &["va"]),
        ("b", "mylib::f", &["x"], &["vb"]),
        ("c", "Relu", &["x"], &["vc"]),
        ("d", "Det", &["x"], &["vd"]),
    ];
    let s = judge(&model(rows), "tensorrt");
    assert_eq!(reason(&s[0]), "NoSuchOp: tensorrt does not list it");
    assert_eq!(reason(&s[1]), "mylib::f: tensorrt does not list it");
    assert_eq!(s[2], Support::Supported);
    assert_eq!(reason(&s[3]), "Det: tensorrt states that it does not take it");

    let relu = |dtype, opset| {
        ModelBuilder::new().node("r", "Relu", &["x"], &["y"]).typed("x", Some(dtype), Shape::known(&[4])).opset("", opset).build()
    };
    assert!(reason(&judge(&relu(DType::F64, 18), "tensorrt")[0]).starts_with("Relu: tensorrt does not take f64 here; it takes f32"));
    assert_eq!(reason(&judge(&relu(DType::F32, 8), "tensorrt")[0]), "Relu: tensorrt reads opsets from 9, and the model uses opset 8");
    assert_eq!(
        reason(&judge(&relu(DType::F32, 29), "onnxruntime-cpu")[0]),
        "Relu: onnxruntime-cpu reads opsets up to 28, and the model uses opset 29"
    );
    // DirectML has no Conv kernel after opset 21.
    let conv = |opset| model_with_opset("Conv", opset);
    assert_eq!(judge(&conv(21), "onnxruntime-dml")[0], Support::Supported);
    assert!(reason(&judge(&conv(22), "onnxruntime-dml")[0]).contains("opset 22"));
}

fn model_with_opset(op: &str, opset: i64) -> Model {
    ModelBuilder::new().node("n", op, &["x", "w.1"], &["y"]).opset("", opset).build()
}

#[test]
fn an_unknown_type_is_not_held_against_a_node() {
    let m = ModelBuilder::new().node("r", "Relu", &["x"], &["y"]).typed("x", None, Shape::UNKNOWN).build();
    assert_eq!(judge(&m, "tensorrt"), [Support::Supported]);
}

#[test]
fn where_is_judged_by_its_branches() {
    let build = |dtype| {
        ModelBuilder::new()
            .node("w", "Where", &["c", "a", "b"], &["y"])
            .typed("c", Some(DType::Bool), Shape::known(&[4]))
            .typed("a", Some(dtype), Shape::known(&[4]))
            .build()
    };
    assert_eq!(judge(&build(DType::F32), "onnxruntime-cpu"), [Support::Supported]);
    assert!(reason(&judge(&build(DType::Bf16), "onnxruntime-cpu")[0]).contains("bf16"));
}

#[test]
fn conditions_are_checked_where_they_can_be() {
    let pool = |rank: usize| {
        ModelBuilder::new()
            .node("p", "MaxPool", &["x"], &["y", "indices"])
            .typed("x", Some(DType::F32), Shape::known(&vec![2; rank]))
            .outputs(&["y"])
            .build()
    };
    assert_eq!(judge(&pool(4), "tensorrt"), [Support::Supported]);
    assert!(reason(&judge(&pool(3), "tensorrt")[0]).ends_with("and input 0 has rank 3"));
    let reduce = |axes: &str| ModelBuilder::new().node("r", "ReduceMean", &["x", axes], &["y"]).build();
    assert_eq!(judge(&reduce("w.axes"), "tensorrt"), [Support::Supported]);
    assert!(reason(&judge(&reduce("axes"), "tensorrt")[0]).ends_with("and input 1 (axes) is no constant"));
    assert_eq!(judge(&reduce(""), "tensorrt"), [Support::Supported]);
    let quantize = |zero: u8| {
        ModelBuilder::new()
            .node("q", "QuantizeLinear", &["x", "w.s", "z"], &["y"])
            .weight("z", WeightRef::inline(DType::I8, &[], vec![zero]))
            .build()
    };
    assert_eq!(judge(&quantize(0), "tensorrt"), [Support::Supported]);
    assert!(reason(&judge(&quantize(3), "tensorrt")[0]).ends_with("and input 2 is not 0"));
    let resize = |mode: &str| {
        ModelBuilder::new().node("r", "Resize", &["x", "", "w.s"], &["y"]).attr("mode", AttrValue::Bytes(mode.as_bytes().into())).build()
    };
    assert!(matches!(&judge(&resize("linear"), "tensorrt")[0], Support::Conditional(text) if text.starts_with("nearest or linear")));
    assert!(reason(&judge(&resize("cubic"), "tensorrt")[0]).ends_with("and mode is cubic"));
    let gru = |d: &str| {
        ModelBuilder::new().node("g", "GRU", &["x", "w.1", "w.2"], &["y"]).attr("direction", AttrValue::Bytes(d.as_bytes().into())).build()
    };
    assert_eq!(judge(&gru("reverse"), "tensorrt"), [Support::Supported]);
    assert!(matches!(judge(&gru("bidirectional"), "tensorrt")[0], Support::Conditional(_)));
}

#[test]
fn dynamic_shapes_are_refused_where_the_backend_refuses_them() {
    let shape = Shape::new([Dim::Sym(std::sync::Arc::new(crate::expr::Expr::var("n")))]);
    let m = ModelBuilder::new().node("a", "Add", &["x", "w.1"], &["y"]).typed("x", Some(DType::F32), shape).build();
    let qnn = Backend::builtin("onnxruntime-qnn", Dialect::Onnx).unwrap();
    let s = support_map(&m, &qnn, &Bindings::new());
    assert_eq!(reason(&s[0]), "Add: onnxruntime-qnn needs static shapes, and x has shape [n]");
    assert_eq!(support_map(&m, &qnn, &Bindings::from([("n".to_owned(), 3)]))[0], Support::Supported);
}

#[test]
fn control_flow_answers_for_its_bodies() {
    let build = |op: &str| {
        let body = model(&[("inner", op, &["z"], &["r"])]).graph;
        ModelBuilder::new()
            .node("if", "If", &["c"], &["y"])
            .typed("c", Some(DType::Bool), Shape::known(&[]))
            .body("then_branch", body, &[])
            .build()
    };
    assert_eq!(judge(&build("Relu"), "onnxruntime-cpu"), [Support::Supported]);
    assert_eq!(reason(&judge(&build("my::Op"), "onnxruntime-cpu")[0]), "contains inner (my::Op): my::Op: onnxruntime-cpu does not list it");
}

#[test]
fn tables_of_users_are_read_strictly() {
    let table = |rest: &str| format!(r#"{{"format": 1, "backend": "mine", "dialect": "onnx", {rest}}}"#);
    let b = Backend::parse(
        &table(r#""ops": [{"op": "my_func", "domain": "mylib", "dtypes": ["f32"]}], "defaults": {"min_block_size": 5}"#),
        "t.json",
    )
    .unwrap();
    assert_eq!(b.default_min_block_size, Some(5));
    let m = model(&[("f", "mylib::my_func", &["x"], &["y"])]);
    assert_eq!(support_map(&m, &b, &Bindings::new())[0], Support::Supported);
    let error = |text: &str| Backend::parse(text, "t.json").unwrap_err().to_string();
    assert!(error(&table(r#""opz": []"#)).starts_with("t.json: no capability table: unknown field `opz`"));
    assert!(error(&table(r#""ops": [{"op": "A", "dtypes": ["f33"]}]"#)).contains("ops[0] (A): `f33` is no element type"));
    assert!(error(r#"{"format": 2, "backend": "b", "dialect": "onnx", "ops": []}"#).contains("format 2"));
    assert!(error(r#"{"format": 1, "backend": "b", "dialect": "torchscript", "ops": []}"#).contains("about torchscript operators"));
    assert!(error("").contains("t.json"));
}

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::graph::Graph;
use crate::model::Model;
use crate::testing::{ModelBuilder, model};

fn index(model: Model) -> SelectorIndex {
    SelectorIndex::new(&Arc::new(model))
}

fn select_as(index: &SelectorIndex, text: &str, bare: Bare) -> Result<Selected, SelectError> {
    Selector::parse(text, bare)?.eval(index, &SelectContext::default())
}

fn names(index: &SelectorIndex, selected: &Selected) -> String {
    let graph = &index.model().graph;
    selected.nodes.iter().map(|n| graph.stable_id(n)).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(index: &SelectorIndex, text: &str, expected: &str) -> Selected {
    let selected = select_as(index, text, Bare::ByForm).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(names(index, &selected), expected, "{text}");
    selected
}

/// A small network with metadata as the current torch exporter writes it.
fn dynamo() -> Model {
    let torch = |op: &'static str| move |n: &mut crate::graph::Node| n.torch_op = Some(op.into());
    let trace: Arc<str> = "  File \"/home/me/models/net.py\", line 12, in forward\n    x = self.act(x)\n  File \"/x/torch/nn/functional.py\", line 9, in relu".into();
    ModelBuilder::new()
        .node("c1", "Conv", &["x", "w.c1"], &["a"])
        .module("layer1.conv", "torch.nn.modules.conv.Conv2d")
        .with(torch("aten.conv2d.default"))
        .node("r1", "Relu", &["a"], &["b"])
        .module("layer1.act", "torch.nn.modules.activation.ReLU")
        .with(torch("aten.relu.default"))
        .with(|n| n.stack_trace = Some(trace))
        .node("m", "MatMul", &["b", "w.fc"], &["c"])
        .module("layer2.0.fc", "torch.nn.modules.linear.Linear")
        .with(torch("aten.linear.default"))
        .node("ab", "Add", &["c", "w.b"], &["d"])
        .module("layer2.0.fc", "")
        .with(torch("aten.linear.default"))
        .node("add", "Add", &["d", "b"], &["e"])
        .module("layer2", "__main__.Block")
        .with(torch("aten.add.Tensor"))
        .node("r2", "Relu", &["e"], &["f"])
        .module("layer2", "")
        .with(torch("aten.relu_.default"))
        .node("g", "com.microsoft::Gelu", &["f"], &["y"])
        .module("", "__main__.Net")
        .build()
}

/// The same shape of network without any metadata but module paths.
fn torchscript() -> Model {
    ModelBuilder::new()
        .node("/layer1/conv/Conv", "Conv", &["x", "w.c1"], &["a"])
        .module("layer1.conv", "")
        .node("/layer1/act/Relu", "Relu", &["a"], &["b"])
        .module("layer1.act", "")
        .node("/fc/MatMul", "MatMul", &["b", "w.fc"], &["c"])
        .module("fc", "")
        .node("/attn/MatMul", "MatMul", &["c", "b"], &["d"])
        .module("attn", "")
        .node("/sm/Softmax", "Softmax", &["d"], &["y"])
        .module("sm", "")
        .build()
}

#[test]
fn every_spelling_of_an_operator_is_the_same_operator() {
    let i = index(dynamo());
    for text in [
        "aten::add",
        "aten.add",
        "aten.add.Tensor",
        "aten::add.Tensor",
        "torch.ops.aten.add",
        "torch.ops.aten.add.Tensor",
        "torch.add",
        "operator.add",
        "torch.Tensor.add",
        "op:add",
        "op:re:\"^aten\\.add$\"",
    ] {
        assert!(check(&i, text, "add").remarks.is_empty(), "{text}");
    }
    check(&i, "op:aten.add.Scalar", "");
    for text in ["op:Add", "ai.onnx::Add", "op:ai.onnx.Add"] {
        check(&i, text, "ab add");
    }
    for text in ["com.microsoft::Gelu", "op:com.microsoft.Gelu", "torch.nn.functional.gelu", "F.gelu"] {
        check(&i, text, "g");
    }
    let foreign = check(&i, "op:Gelu", "g");
    assert!(foreign.remarks[0].contains("com.microsoft::Gelu"), "{:?}", foreign.remarks);
}

#[test]
fn in_place_forms_match_only_if_asked() {
    let i = index(dynamo());
    check(&i, "aten::relu", "r1");
    check(&i, "torch.relu", "r1");
    check(&i, "op:relu*", "r1 r2");
    check(&i, "aten.relu_", "r2");
    check(&i, "torch.nn.functional.relu", "r1 r2");
    check(&i, "aten.*", "c1 r1 m ab add r2 g");
}

#[test]
fn known_torch_operators_hide_the_onnx_table_and_unknown_ones_use_it_with_a_remark() {
    let i = index(dynamo());
    check(&i, "aten.matmul", "");
    let plain = index(torchscript());
    let by_table = check(&plain, "aten::relu", "/layer1/act/Relu");
    assert!(by_table.remarks[0].contains("Relu"), "{:?}", by_table.remarks);
    check(&plain, "aten.softmax.int", "/sm/Softmax");
    check(&plain, "torch.matmul", "/fc/MatMul /attn/MatMul");
    assert!(check(&plain, "op:Relu", "/layer1/act/Relu").remarks.is_empty());
}

#[test]
fn a_function_that_becomes_several_operators_says_so_and_marks_nothing() {
    let i = index(torchscript());
    let none = check(&i, "torch.svd_lowrank", "");
    assert!(none.remarks[0].contains("aten.linalg_qr"), "{:?}", none.remarks);
}

#[test]
fn classes_match_by_any_name_and_take_what_is_below() {
    let i = index(dynamo());
    for text in ["torch.nn.ReLU", "class:torch.nn.modules.activation.ReLU", "class:ReLU", "nn.ReLU", "class:torch.nn.Re*", "ReLU"] {
        check(&i, text, "r1");
    }
    check(&i, "class:Block", "m ab add r2");
    check(&i, "class:__main__.*", "c1 r1 m ab add r2 g");
    assert_eq!(names(&i, &select_as(&i, "Block", Bare::Module).unwrap()), "m ab add r2");
}

#[test]
fn a_class_matches_by_its_operator_where_the_class_was_lost() {
    let i = index(torchscript());
    let relu = check(&i, "torch.nn.ReLU", "/layer1/act/Relu");
    assert!(relu.remarks[0].contains("aten.relu"), "{:?}", relu.remarks);
    check(&i, "torch.nn.Softmax", "/sm/Softmax");
    check(&i, "torch.nn.Linear", "/fc/MatMul");
    check(&i, "torch.nn.Softmin", "");
}

#[test]
fn modules_take_their_descendants_and_stars_stop_at_dots() {
    let i = index(dynamo());
    check(&i, "module:layer2", "m ab add r2");
    check(&i, "module:layer2.0.fc", "m ab");
    check(&i, "module:*.conv", "c1");
    check(&i, "module:layer2.*", "m ab");
    check(&i, "module:**.fc", "m ab");
    check(&i, "module:\"\"", "c1 r1 m ab add r2 g");
    check(&i, "module:layer", "");
    assert_eq!(names(&i, &select_as(&i, "layer2.*", Bare::Module).unwrap()), "m ab");
}

#[test]
fn calls_of_a_shared_module() {
    let row = |b: ModelBuilder, n: &str, call: Option<u32>, from: &str, to: &str| {
        b.node(n, "Relu", &[from], &[to]).module("shared", "").with(|n| n.call = call)
    };
    let told = row(row(ModelBuilder::new(), "a", Some(0), "x", "y"), "b", Some(1), "y", "z").build();
    let i = index(told);
    check(&i, "module:shared@1", "b");
    check(&i, "module:shared", "a b");
    let none = check(&i, "module:shared@2", "");
    assert!(none.remarks[0].contains("2 time"), "{:?}", none.remarks);

    let untold = row(row(ModelBuilder::new(), "a", None, "x", "y"), "b", None, "x2", "z").build();
    let i = index(untold);
    assert!(!check(&i, "module:shared@1", "b").remarks.is_empty());

    let linked = row(row(ModelBuilder::new(), "a", None, "x", "y"), "b", None, "y", "z").build();
    let i = index(linked);
    let refused = select_as(&i, "module:shared@0", Bare::ByForm).unwrap_err();
    assert!(refused.to_string().contains("does not tell calls"), "{refused}");
    check(&i, "module:\"shared@0\"", "");
}

#[test]
fn ranges_and_reach() {
    let i = index(dynamo());
    check(&i, "between(node:r1, node:add)", "r1 m ab add");
    let none = check(&i, "between(node:add, node:r1)", "");
    assert!(none.remarks[0].contains("no path"), "{:?}", none.remarks);
    check(&i, "upstream(node:m)", "c1 r1 m");
    check(&i, "upstream(node:add, 1)", "r1 ab add");
    check(&i, "downstream(node:ab, 1)", "ab add");
    check(&i, "downstream(node:ab) and not op:Relu", "ab add g");
    check(&i, "not (module:layer1 or module:layer2)", "g");
    check(&i, "value:b", "r1");
    let readers = check(&i, "value:w.fc", "m");
    assert!(readers.remarks[0].contains("no node"));
}

#[test]
fn reach_in_a_deep_chain_needs_no_recursion() {
    let rows: Vec<(String, String, String)> = (0..20_000).map(|i| (format!("n{i}"), format!("v{i}"), format!("v{}", i + 1))).collect();
    let mut b = ModelBuilder::new();
    for (n, from, to) in &rows {
        b = b.node(n, "Neg", &[from], &[to]);
    }
    let i = index(b.build());
    assert_eq!(select_as(&i, "between(node:n0, node:n19999)", Bare::ByForm).unwrap().nodes.count(), 20_000);
    assert_eq!(select_as(&i, "downstream(node:n5, 3)", Bare::ByForm).unwrap().nodes.count(), 4);
}

#[test]
fn source_lines() {
    let i = index(dynamo());
    for text in ["source:net.py", "source:net.py:12", "source:models/net.py", "source:/home/me/models/net.py:12", "source:functional.py:9"]
    {
        check(&i, text, "r1");
    }
    check(&i, "source:net.py:1", "");
    assert!(!check(&index(torchscript()), "source:net.py", "").remarks.is_empty());
}

#[test]
fn bare_strings_are_read_by_form_then_by_list() {
    let twice = || ModelBuilder::new().node("n1", "Relu", &["x"], &["y"]).node("n2", "Neg", &["y"], &["z"]).module("Relu", "").build();
    let i = index(twice());
    assert_eq!(names(&i, &select_as(&i, "Relu", Bare::Op).unwrap()), "n1");
    assert_eq!(names(&i, &select_as(&i, "Relu", Bare::Module).unwrap()), "n2");
    match select_as(&i, "Relu", Bare::ByForm).unwrap_err() {
        SelectError::Ambiguous { readings, .. } => assert_eq!(readings, ["op:Relu", "module:Relu"]),
        e => panic!("{e}"),
    }
    let other = select_as(&i, "n1", Bare::Op).unwrap();
    assert_eq!((names(&i, &other), other.remarks.len()), ("n1".to_owned(), 1));
    assert_eq!(names(&i, &select_as(&i, "Relu", Bare::Node).unwrap()), "");
    // One list may mix all kinds.
    let i = index(torchscript());
    for (text, nodes) in
        [("torch.nn.ReLU", "/layer1/act/Relu"), ("aten::softmax", "/sm/Softmax"), ("layer1.*", "/layer1/conv/Conv /layer1/act/Relu")]
    {
        for bare in [Bare::Op, Bare::Module] {
            assert_eq!(names(&i, &select_as(&i, text, bare).unwrap()), nodes, "{text}");
        }
    }
}

#[test]
fn what_matches_nothing_gives_the_nearest_names() {
    let i = index(torchscript());
    assert_eq!(check(&i, "op:Rellu", "").nearest[0], "op:Relu");
    assert_eq!(check(&i, "module:layer1.cnv", "").nearest[0], "module:layer1.conv");
    assert_eq!(check(&i, "node:/layer1/act/Rleu", "").nearest[0], "node:/layer1/act/Relu");
    let partly = check(&i, "op:Relu or op:Sofmax", "/layer1/act/Relu");
    assert!(partly.remarks[0].contains("op:Sofmax") && partly.remarks[0].contains("op:Softmax"), "{:?}", partly.remarks);
    assert!(check(&index(dynamo()), "op:torch.nn.ReLu6", "").nearest.len() <= 3);
    let gelu = ModelBuilder::new()
        .node("t", "Tanh", &["x"], &["y"])
        .module("h.0.mlp.act", "transformers.activations.NewGELUActivation")
        .node("u", "Mul", &["y", "y"], &["z"])
        .module("h.0.mlp", "transformers.models.gpt2.modeling_gpt2.GPT2MLP")
        .build();
    let i = index(gelu);
    for text in ["op:GELU", "op:torch.nn.GELU", "class:GELU"] {
        let found = check(&i, text, "");
        assert!(found.nearest.iter().any(|n| n == "class:transformers.activations.NewGELUActivation"), "{text}: {:?}", found.nearest);
    }
}

#[test]
fn nodes_with_matching_bodies_are_selected_as_a_whole() {
    let body = model(&[("inner", "Relu", &["a"], &["b"])]).graph;
    let body = Graph::new("".into(), body.nodes().to_vec(), body.values().to_vec(), body.inputs().to_vec(), body.outputs().to_vec());
    let m = ModelBuilder::new()
        .node("c", "Not", &["x"], &["cond"])
        .node("branch", "If", &["cond"], &["y"])
        .body("then_branch", body, &["z"])
        .node("r", "Relu", &["y"], &["out"])
        .build();
    let branch = m.graph.find_node("branch").unwrap();
    let i = index(m);
    for text in ["op:Relu", "torch.nn.ReLU"] {
        let s = check(&i, text, "branch r");
        assert_eq!(s.contains, [(branch, "inner".to_owned())], "{text}");
    }
    assert_eq!(check(&i, "node:inner", "branch").contains.len(), 1);
    assert!(check(&i, "op:If", "branch").contains.is_empty());
}

#[test]
fn partitions_are_refused_where_there_is_no_plan() {
    let i = index(torchscript());
    let e = select_as(&i, "partition:run_on_acc_0", Bare::ByForm).unwrap_err();
    assert!(e.to_string().contains("plan"), "{e}");
}

#[test]
fn text_for_things_selects_exactly_those_things() {
    let odd = [
        "a b",
        "a\"b",
        "and",
        "x(y)",
        "op:Relu",
        "a*",
        "",
        "shared@1",
        "re:x",
        "tab\tline\nend",
        "back\\slash",
        "ü→漢",
        "a,b",
        "n:0",
        "\u{1b}[2J",
        "\u{202e}x",
    ];
    let mut b = ModelBuilder::new();
    for (n, name) in odd.iter().enumerate() {
        b = b.node(name, &format!("my.domain::Op{n}"), &["x"], &[&format!("out {n}")]);
        b = if name.is_empty() { b } else { b.module(&name.replace('.', "_"), "") };
    }
    let i = index(b.build());
    let m = i.model().clone();
    for n in m.graph.node_ids() {
        let one = m.graph.stable_id(n);
        check(&i, &selector_for_node(&m, n), one);
        check(&i, &selector_for_op(&m.graph.node(n).op), one);
        let entry = canonical_entry(&selector_for_node(&m, n), Bare::Node).unwrap();
        assert_eq!(names(&i, &select_as(&i, &entry, Bare::Node).unwrap()), one, "{entry}");
        let module = m.graph.node(n).module;
        if module != crate::modules::ModuleId::ROOT {
            check(&i, &selector_for_module(&m, module), one);
        }
        assert!(!selector_for_node(&m, n).chars().any(char::is_control));
    }
    assert_eq!(selector_for_class("torch.nn.modules.activation.ReLU"), "class:torch.nn.ReLU");
}

#[test]
fn repeated_node_names() {
    let m = model(&[("n", "Relu", &["x"], &["y"]), ("n", "Relu", &["y"], &["z"])]);
    let i = index(m);
    let both = check(&i, "node:n", "n#y n#z");
    assert!(both.remarks[0].contains("2 nodes"));
    check(&i, "node:n#z", "n#z");
}

#[test]
fn list_entries_leave_out_what_their_list_implies() {
    for (text, bare, entry) in [
        ("node:/a/Relu", Bare::Node, "/a/Relu"),
        ("node:\"a b\"", Bare::Node, "\"a b\""),
        ("op:Relu", Bare::Op, "Relu"),
        ("class:torch.nn.ReLU", Bare::Op, "torch.nn.ReLU"),
        ("module:layer4", Bare::Op, "module:layer4"),
        ("module:layer4.*", Bare::Module, "layer4.*"),
        ("module:Layer", Bare::Module, "module:Layer"),
        ("node:/a/Relu", Bare::ByForm, "/a/Relu"),
        ("op:Relu", Bare::ByForm, "op:Relu"),
        ("  op:Relu   or node:x ", Bare::Op, "op:Relu or node:x"),
    ] {
        assert_eq!(canonical_entry(text, bare).unwrap(), entry);
    }
    assert_eq!(closed_selector("module:a", &["x".into(), "y z".into()]).unwrap(), "module:a or node:x or node:\"y z\"");
}

#[test]
fn errors_name_the_place_and_what_was_expected() {
    for (text, at, expected) in [
        ("", 0, "expected a name"),
        ("op:", 3, "right after `op:`"),
        ("op: Relu", 3, "right after `op:`"),
        ("a and", 5, "expected a name"),
        ("a or or b", 5, "expected a name before `or`"),
        ("(a", 2, "expected `)`"),
        ("a)", 1, "closes nothing"),
        ("module:f(x)", 8, "quotes"),
        ("modul:f", 0, "`module:`"),
        ("between(a)", 9, "second end"),
        ("upstream(a, b)", 12, "whole number"),
        ("upstream a", 0, "expected `(`"),
        ("node:\"ab", 8, "closing quote"),
        ("node:\"a\\q\"", 8, "backslash"),
        ("re:\"(\"", 6, "regular expression"),
        ("é a", 2, "expected `and`"),
        ("a\"b\"", 1, "quote in the middle"),
    ] {
        match Selector::parse(text, Bare::ByForm) {
            Err(SelectError::Syntax { at: found, message, .. }) => {
                assert_eq!(found, at, "{text}: {message}");
                assert!(message.contains(expected), "{text}: {message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(Selector::parse("nodes:0", Bare::Node).is_ok(), "a node may be called so");
    let deep = format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(Selector::parse(&deep, Bare::ByForm).unwrap_err().to_string().contains("inside one another"));
    assert!(Selector::parse(&"not ".repeat(100_000), Bare::ByForm).is_err());
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        "\\PC{0,12}".prop_map(Pattern::Literal),
        "[a-z:./\\[\\]]{1,6}".prop_map(Pattern::Literal),
        proptest::sample::select(vec!["and", "or", "not", "between", "op:x", "re:", "3", "\u{7}"])
            .prop_map(|s| Pattern::Literal(s.to_owned())),
        "[a-z./]{0,4}\\*{1,2}[a-z./]{0,4}".prop_map(Pattern::Glob),
        "[a-z.]{1,5}@[0-9]{1,2}".prop_map(Pattern::Glob),
        "[a-z.*+]{0,3}(\\\\\"|\\\\\\\\|[a-z(),])?".prop_filter_map("a valid regular expression", |s| {
            pattern::Matcher::new(&Pattern::Regex(s.clone())).is_ok().then_some(Pattern::Regex(s))
        }),
    ]
}

fn term() -> impl Strategy<Value = Expr> {
    let prefix = proptest::option::of(proptest::sample::select(Prefix::ALL.to_vec()));
    (prefix, pattern()).prop_map(|(prefix, pattern)| Expr::Term(Term { prefix, pattern }))
}

fn expr() -> impl Strategy<Value = Expr> {
    term().prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..4).prop_map(Expr::and),
            proptest::collection::vec(inner.clone(), 1..4).prop_map(Expr::or),
            inner.clone().prop_map(|e| Expr::Not(Box::new(e))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Expr::Between(Box::new(a), Box::new(b))),
            (inner.clone(), proptest::option::of(any::<u32>())).prop_map(|(e, n)| Expr::Upstream(Box::new(e), n)),
            (inner, proptest::option::of(any::<u32>())).prop_map(|(e, n)| Expr::Downstream(Box::new(e), n)),
        ]
    })
}

proptest! {
    #[test]
    fn canonical_text_parses_back(e in expr()) {
        let text = e.to_string();
        let parsed = Selector::parse(&text, Bare::ByForm);
        prop_assert_eq!(parsed.as_ref().map(Selector::expr), Ok(&e), "{}", text);
    }

    #[test]
    fn no_text_makes_the_parser_fail_otherwise_than_by_an_error(text in "[a-z:\"\\\\(),* @\\PC]{0,40}") {
        for bare in [Bare::ByForm, Bare::Node] {
            if let Ok(s) = Selector::parse(&text, bare) {
                let again = Selector::parse(&s.to_string(), bare);
                prop_assert_eq!(again.as_ref(), Ok(&s));
            }
        }
    }

    #[test]
    fn between_is_what_lies_on_paths(edges in proptest::collection::vec((0usize..12, 0usize..12), 0..30), a in 0usize..12, b in 0usize..12) {
        let mut builder = ModelBuilder::new();
        let mut on_path = vec![vec![false; 12]; 12];
        for n in 0..12 {
            let inputs: Vec<String> = edges.iter().filter(|(from, to)| *to == n && *from < n).map(|(from, _)| format!("v{from}")).collect();
            let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
            builder = builder.node(&format!("n{n}"), "Sum", if inputs.is_empty() { &["x"] } else { &inputs }, &[&format!("v{n}")]);
        }
        on_path.iter_mut().enumerate().for_each(|(n, row)| row[n] = true);
        for _ in 0..12 {
            for &(from, to) in edges.iter().filter(|(f, t)| f < t) {
                for row in &mut on_path {
                    row[to] |= row[from];
                }
            }
        }
        let i = index(builder.build());
        let s = select_as(&i, &format!("between(node:n{a}, node:n{b})"), Bare::ByForm).unwrap();
        for (n, from_n) in on_path.iter().enumerate() {
            prop_assert_eq!(s.nodes.contains(NodeId::new(n)), on_path[a][n] && from_n[b]);
        }
    }
}

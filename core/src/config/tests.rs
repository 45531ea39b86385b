use super::*;
use crate::testing::model;

const FULL: &str = r#"{
  "version": 1,
  "model": {
    "file": "resnet50.onnx",
    "graph_sha256": "00"
  },
  "backend": "tensorrt",
  "torch_executed_ops": [
    "torch.nn.ReLU",
    "aten::where"
  ],
  "torch_executed_modules": [
    "layer4.*"
  ],
  "torch_executed_nodes": [],
  "accelerated_nodes": [],
  "leaf_modules": [],
  "wraps": [
    {
      "definition": "my_func",
      "instances": [
        {
          "id": "InlinedCustomOp_0",
          "select": "module:head"
        }
      ]
    }
  ],
  "definitions": {
    "my_func": {
      "op": "InlinedCustomOp",
      "domain": "recut",
      "attributes": {
        "alpha": 0.5
      },
      "body": {
        "kind": "python",
        "file": "ops.py",
        "callable": "my_func",
        "sha256": "00",
        "weights": "none",
        "structure": [
          [
            "$0",
            {
              "scale": "$1"
            }
          ],
          3
        ]
      }
    }
  },
  "partitioner": {
    "strategy": "min-partitions",
    "min_block_size": 1,
    "require_full_compilation": false
  },
  "run": {
    "engine": "cpu",
    "torch_engine": "auto",
    "precision": "fp32",
    "threads": null,
    "overrides": [
      "module:head=cpu:fp32"
    ]
  },
  "dims": {
    "batch": 1
  }
}
"#;

#[test]
fn saving_what_was_loaded_gives_the_same_bytes() {
    let (config, notes) = PartitionConfig::load(FULL, "c.json").unwrap();
    assert_eq!(config.to_json_string(), FULL);
    assert!(notes.is_empty());
    assert_eq!(config.definitions["my_func"].op, "InlinedCustomOp");
    let small = PartitionConfig::load("{\"version\": 1}", "c.json").unwrap().0;
    assert_eq!(small, PartitionConfig::default());
    let text = small.to_json_string();
    assert_eq!(PartitionConfig::load(&text, "c.json").unwrap().0.to_json_string(), text);
}

/// `at` is the text at which the error stands.
#[track_caller]
fn refused(text: &str, kind: ConfigErrorKind, at: &str, parts: &[&str]) {
    let e = PartitionConfig::load(text, "c.json").unwrap_err();
    let shown = e.to_string();
    let before = &text[..text.find(at).unwrap()];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    assert_eq!((e.kind, e.place), (kind, Some((line, column))), "{shown}");
    assert!(shown.starts_with(&format!("c.json:{line}:{column}: ")), "{shown}");
    for part in parts {
        assert!(shown.contains(part), "{part} in: {shown}");
    }
    assert!(!shown.contains('\n') && !shown.contains("at line"), "{shown}");
}

#[test]
fn unknown_fields_are_refused_with_the_nearest_known_one() {
    use ConfigErrorKind::UnknownField;
    refused("{\"version\": 1,\n \"torch_executed_op\": []}", UnknownField, "[]", &["torch_executed_op:", "`torch_executed_ops`"]);
    let nested = FULL.replace("min_block_size", "min_blok_size");
    refused(&nested, UnknownField, "1,\n    \"require", &["partitioner.min_blok_size", "did you mean `min_block_size`"]);
    let body = FULL.replace("\"callable\"", "\"calable\"");
    refused(&body, UnknownField, "\"my_func\",\n        \"sha", &["definitions.my_func.body.calable", "`callable`"]);
    let wrap = FULL.replace("\"select\"", "\"selekt\"");
    refused(&wrap, UnknownField, "\"module:head\"", &["wraps[0].instances[0].selekt", "`select`"]);
}

#[test]
fn values_out_of_range_are_refused_by_field() {
    use ConfigErrorKind::Value;
    let size = |v: &str| FULL.replace("\"min_block_size\": 1", &format!("\"min_block_size\": {v}"));
    refused(&size("0"), Value, "0,\n    \"require", &["partitioner.min_block_size", "at least 1"]);
    refused(&size("-1"), Value, "-1,", &["partitioner.min_block_size", "whole number"]);
    refused(&size("\"x\""), Value, "\"x\"", &["partitioner.min_block_size"]);
    refused(&FULL.replace("\"threads\": null", "\"threads\": 0"), Value, "0,\n    \"overrides", &["run.threads"]);
    refused(&FULL.replace("\"batch\": 1", "\"batch\": -4"), Value, "-4", &["dims.batch", "negative"]);
    let strategy = FULL.replace("min-partitions", "min-partition");
    refused(&strategy, Value, "\"min-partition\"", &["partitioner.strategy", "did you mean `min-partitions`"]);
    let kind = FULL.replace("\"python\"", "\"pyton\"");
    refused(&kind, Value, "\"pyton\"", &["definitions.my_func.body.kind", "did you mean `python`", "library"]);
    refused(&FULL.replace("module:head=cpu:fp32", "x"), Value, "\"x\"", &["run.overrides[0]"]);
    refused(&FULL.replace("\"torch_executed_nodes\": []", "\"torch_executed_nodes\": 37"), Value, "37", &["torch_executed_nodes"]);
}

#[test]
fn selectors_that_do_not_parse_are_refused_with_their_place() {
    let list = FULL.replace("layer4.*", "layer4.(");
    refused(&list, ConfigErrorKind::Value, "\"layer4.(\"", &["torch_executed_modules[0]", "layer4.("]);
    let wrap = FULL.replace("\"module:head\"", "\"modul:head\"");
    refused(&wrap, ConfigErrorKind::Value, "\"modul:head\"", &["wraps[0].instances[0].select", "`module:`"]);
}

#[test]
fn wraps_need_unique_ids_and_their_definitions() {
    let twice = FULL.replace(
        "\"id\": \"InlinedCustomOp_0\",",
        "\"id\": \"InlinedCustomOp_0\", \"select\": \"module:a\" }, { \"id\": \"InlinedCustomOp_0\",",
    );
    let e = PartitionConfig::load(&twice, "c.json").unwrap_err();
    assert_eq!(e.field, "wraps[0].instances[1].id");
    let missing = FULL.replace("\"definition\": \"my_func\"", "\"definition\": \"my_fun\"");
    refused(&missing, ConfigErrorKind::Value, "\"my_fun\"", &["wraps[0].definition", "did you mean `my_func`"]);
    let absent = FULL.replace(",\n          \"select\": \"module:head\"", "");
    refused(&absent, ConfigErrorKind::Value, "{\n          \"id\"", &["wraps[0].instances[0]", "`select` is missing"]);
}

#[test]
fn other_versions_and_broken_text_are_refused() {
    use ConfigErrorKind::{Syntax, Value, Version};
    refused("{\"version\": 2, \"whatever\": 1}", Version, "2", &["version 2", "newer recut"]);
    refused("{\"version\": \"1\"}", Version, "\"1\"", &["reads version 1"]);
    refused("{}", Version, "{", &["`version` is missing"]);
    refused("[]", Version, "[", &["JSON object"]);
    refused("{\"version\": 1,\n}", Syntax, "}", &["no valid JSON"]);
    refused("", Syntax, "", &["no valid JSON"]);
    refused("{\"version\": 1, \"dims\": {\"a\": 1, \"a\": 20}}", Value, "\"a\": 20", &["dims.a", "twice"]);
    assert!(PartitionConfig::load(&"[".repeat(100_000), "c.json").is_err());
}

#[test]
fn a_definition_that_nothing_uses_is_noted() {
    let mut config = PartitionConfig::load(FULL, "c.json").unwrap().0;
    config.wraps.clear();
    let (_, notes) = PartitionConfig::load(&config.to_json_string(), "c.json").unwrap();
    assert_eq!(notes[0].code, "unused_definition");
}

#[test]
fn the_schema_names_every_field_and_takes_what_is_saved() {
    let schema = config_schema();
    assert!(schema["$schema"].as_str().is_some_and(|s| s.starts_with("http")));
    assert_eq!(schema["title"], "recut partition config");
    let saved: serde_json::Value = serde_json::from_str(FULL).unwrap();
    for key in saved.as_object().unwrap().keys() {
        assert!(schema["properties"][key]["description"].is_string() || schema["properties"][key]["$ref"].is_string(), "{key}");
    }
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["$defs"]["PartitionerConfig"]["properties"]["min_block_size"]["minimum"], 1);
}

#[cfg(unix)]
#[test]
fn saving_keeps_permissions_and_links_and_leaves_nothing_behind() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("c.json"), dir.path().join("link.json"));
    let config = PartitionConfig::default();
    config.save(&file).unwrap();
    assert_ne!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o044, 0, "others may read it, as with any new file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("c.json", &link).unwrap();
    let changed = PartitionConfig { backend: Some("tensorrt".into()), ..config };
    changed.save(&link).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), changed.to_json_string());
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o440)).unwrap();
    let e = config_error(&changed, &file);
    assert!(e.contains("write-protected"), "{e}");
    assert!(config_error(&changed, &dir.path().join("none/c.json")).contains("cannot be saved"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[cfg(unix)]
fn config_error(config: &PartitionConfig, path: &std::path::Path) -> String {
    let e = config.save(path).unwrap_err();
    assert_eq!(e.kind, ConfigErrorKind::File);
    e.to_string()
}

#[test]
fn the_graph_hash_sees_structure_and_no_weights() {
    let a = model(&[("n", "Relu", &["x"], &["y"]), ("m", "Add", &["y", "w.b"], &["z"])]);
    let renamed = model(&[("n2", "Relu", &["x"], &["y"]), ("m", "Add", &["y", "w.b"], &["z"])]);
    let rewired = model(&[("n", "Relu", &["x"], &["y"]), ("m", "Add", &["w.b", "y"], &["z"])]);
    let retyped = model(&[("n", "Neg", &["x"], &["y"]), ("m", "Add", &["y", "w.b"], &["z"])]);
    let hash = graph_sha256(&a);
    assert_eq!(hash.len(), 64);
    assert_eq!(hash, graph_sha256(&a));
    for other in [renamed, rewired, retyped] {
        assert_ne!(hash, graph_sha256(&other));
    }
}

//! Archives around an input, so that mutations reach what is inside of a zip and not its checksums.

use std::io::{Cursor, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Entries of an archive: names and bytes.
pub type Entries<'a> = &'a [(&'a str, &'a [u8])];

/// A zip of stored entries.
///
/// # Panics
/// Never: all is in memory, and the names are those of this crate.
pub fn zip(entries: Entries<'_>) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in entries {
        zip.start_file(*name, stored).expect("an entry begins");
        zip.write_all(bytes).expect("an entry is written");
    }
    zip.finish().expect("the archive is written").into_inner()
}

/// A program as torch 2.9 and newer archive it. The input is the program's JSON, the list of its weights and that of its
/// constants, with [`SEPARATOR`] between them; what is left out is empty. Ten payloads of each kind hold 256 bytes.
pub fn program(input: &[u8]) -> Vec<u8> {
    let mut parts = split(input, SEPARATOR).into_iter();
    let mut next = |none: &'static [u8]| parts.next().unwrap_or(none);
    let (program, weights, constants) = (next(b""), next(br#"{"config":{}}"#), next(br#"{"config":{}}"#));
    let names: Vec<String> = (0..10).flat_map(|i| [format!("m/data/weights/weight_{i}"), format!("m/data/constants/tensor_{i}")]).collect();
    let payload: Vec<u8> = (0..64u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    let mut entries: Vec<(&str, &[u8])> = vec![
        ("m/archive_format", b"pt2"),
        ("m/byteorder", b"little"),
        ("m/models/model.json", program),
        ("m/data/weights/model_weights_config.json", weights),
        ("m/data/constants/model_constants_config.json", constants),
    ];
    entries.extend(names.iter().map(|n| (n.as_str(), payload.as_slice())));
    zip(&entries)
}

/// Stands between the parts of an input of [`program`].
pub const SEPARATOR: &[u8] = b"\n~~\n";

/// Parts of `text` between separators.
pub fn split<'a>(text: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(separator.len()).position(|w| w == separator) {
        parts.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    parts.push(rest);
    parts
}

/// A program of torch 2.7 whose weights are this pickle: a `torch.save` zip inside the archive.
pub fn with_pickle(pickle: &[u8]) -> Vec<u8> {
    let payload = [0u8; 256];
    let saved =
        zip(&[("w/data.pkl", pickle), ("w/byteorder", b"little"), ("w/data/0", &payload), ("w/data/1", &payload[..8]), ("w/data/2", b"")]);
    zip(&[("serialized_exported_program.json", PROGRAM), ("serialized_state_dict.pt", &saved), ("version", b"8.2")])
}

/// A program of one addition, with a parameter `w`.
const PROGRAM: &[u8] = br#"{"graph_module":{"graph":{"inputs":[{"as_tensor":{"name":"p_w"}},{"as_tensor":{"name":"x"}}],
"outputs":[{"as_tensor":{"name":"add"}}],"nodes":[{"target":"torch.ops.aten.add.Tensor","inputs":[
{"name":"self","arg":{"as_tensor":{"name":"x"}}},{"name":"other","arg":{"as_tensor":{"name":"p_w"}}}],
"outputs":[{"as_tensor":{"name":"add"}}],"metadata":{}}],
"tensor_values":{"p_w":{"dtype":7,"sizes":[{"as_int":2},{"as_int":3}],"requires_grad":false,"device":{"type":"cpu","index":null},
"strides":[{"as_int":3},{"as_int":1}],"storage_offset":{"as_int":0},"layout":7},
"x":{"dtype":7,"sizes":[{"as_int":2},{"as_int":3}],"requires_grad":false,"device":{"type":"cpu","index":null},
"strides":[{"as_int":3},{"as_int":1}],"storage_offset":{"as_int":0},"layout":7},
"add":{"dtype":7,"sizes":[{"as_int":2},{"as_int":3}],"requires_grad":false,"device":{"type":"cpu","index":null},
"strides":[{"as_int":3},{"as_int":1}],"storage_offset":{"as_int":0},"layout":7}},
"sym_int_values":{},"sym_bool_values":{},"is_single_tensor_return":false,"custom_obj_values":{}},
"signature":{"input_specs":[{"parameter":{"arg":{"name":"p_w"},"parameter_name":"w"}},{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],
"output_specs":[{"user_output":{"arg":{"as_tensor":{"name":"add"}}}}]},"module_call_graph":[]},
"opset_version":{"aten":10},"range_constraints":{},"schema_version":{"major":8,"minor":2},"dialect":"ATEN"}"#;

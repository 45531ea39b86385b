//! From a file to its messages, with errors that say what is wrong with the file.

use std::path::Path;

use prost::Message;

use super::proto::ModelProto;
use super::read_buf::FileBuf;
use crate::import::ImportErrorKind::{Corrupt, NotAModel, TooLarge};
use crate::import::{ImportError, ImportErrorKind};
use crate::weights::DataFile;

/// Decodes a whole file. Weights are stepped over.
pub(super) fn decode(path: &Path, mut buf: FileBuf) -> Result<(ModelProto, DataFile), ImportError> {
    let decoded = ModelProto::decode(&mut buf);
    let stat = buf.finish().map_err(|t| t.error(path))?;
    match decoded {
        Ok(model) => Ok((model, stat)),
        Err(e) => {
            let (kind, why) = explain(&e.to_string());
            Err(ImportError::new(path, kind, why))
        }
    }
}

/// What a protobuf error means for the file. `error` ends with the cause, after the path of the fields.
fn explain(error: &str) -> (ImportErrorKind, String) {
    let error = error.strip_prefix("failed to decode Protobuf message: ").unwrap_or(error);
    // Many levels deep, the path of the fields is longer than what it tells.
    let (place, cause) = error.rsplit_once(": ").unwrap_or(("", error));
    let levels: Vec<&str> = place.split(": ").collect();
    let place = match levels.len() {
        0..=4 => levels.join(" > "),
        n => format!("{} > … > {}", levels[..2].join(" > "), levels[n - 2..].join(" > ")),
    };
    let at = if place.is_empty() { String::new() } else { format!(" (at {place})") };
    if cause.contains("recursion limit") {
        return (
            TooLarge,
            format!("the graph is nested too deeply: the protobuf limit is 100 levels of messages, about 33 graphs inside each other{at}"),
        );
    }
    if cause.contains("underflow") || cause.contains("delimited length exceeded") || cause.contains("invalid varint") {
        return (
            Corrupt,
            format!("the file is truncated or corrupt: its protobuf data ends before it should{at}: copy or export it again"),
        );
    }
    if place.is_empty() || !place.contains("ModelProto.graph") {
        return (NotAModel, format!("this is not an ONNX model, or a corrupt one: its protobuf data cannot be parsed: {cause}{at}"));
    }
    (Corrupt, format!("the file is corrupt: its protobuf data cannot be parsed: {cause}{at}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_apart() {
        let kind = |bytes: &[u8]| explain(&ModelProto::decode(bytes).unwrap_err().to_string());
        // graph of 127 bytes in a file of 3.
        assert_eq!(kind(&[0x3a, 0x7f, 0x00]).0, Corrupt);
        assert!(kind(&[0x3a, 0x7f, 0x00]).1.contains("truncated"));
        // wire type 7.
        assert_eq!(kind(&[0x0f]).0, NotAModel);
        // raw_data that is longer than the file: graph { initializer { raw_data } }.
        assert!(kind(&[0x3a, 4, 0x2a, 2, 0x4a, 0x7f]).1.contains("truncated"));
        let mut deep = vec![];
        for _ in 0..200 {
            // A graph in an attribute in a node, each as long as what is left.
            for tag in [0x32, 0x2a, 0x0a] {
                let mut outer = vec![tag];
                prost::encode_length_delimiter(deep.len(), &mut outer).unwrap();
                outer.append(&mut deep);
                deep = outer;
            }
        }
        let mut file = vec![0x3a];
        prost::encode_length_delimiter(deep.len(), &mut file).unwrap();
        file.append(&mut deep);
        let (k, text) = kind(&file);
        assert_eq!(k, TooLarge);
        assert!(text.contains("nested too deeply") && text.len() < 400, "{text}");
    }
}

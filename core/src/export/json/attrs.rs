//! Attributes to their JSON form.

use serde_json::{Number, Value, json};

use super::level::Writer;
use crate::base64;
use crate::graph::AttrValue;

impl Writer<'_> {
    /// An attribute's value. `single`: numbers are those of ONNX. Nesting is capped by the importers.
    pub(super) fn attribute(&mut self, a: &AttrValue, single: bool) -> Value {
        let float = |x: f64| exact(x, single).unwrap_or_else(|| text_of(x).into());
        match a {
            AttrValue::None => Value::Null,
            AttrValue::Bool(b) => json!(b),
            AttrValue::Int(i) => json!(i),
            AttrValue::Float(x) => exact(*x, single).unwrap_or_else(|| json!({ "float": text_of(*x) })),
            AttrValue::Bytes(b) => bytes_value(b),
            AttrValue::Ints(v) => json!(v),
            AttrValue::Floats(v) => {
                let list: Vec<Value> = v.iter().map(|x| float(*x)).collect();
                if list.is_empty() || list.iter().any(Value::is_string) { json!({ "floats": list }) } else { Value::Array(list) }
            }
            AttrValue::ByteStrings(v) => {
                let list: Vec<Value> = v.iter().map(|b| bytes_value(b)).collect();
                if list.is_empty() || !list.iter().all(Value::is_string) { json!({ "strings": list }) } else { Value::Array(list) }
            }
            AttrValue::Tensor(w) => json!({ "tensor": self.tensors.tensor(w) }),
            AttrValue::Tensors(v) => {
                let list: Vec<_> = v.iter().map(|w| self.tensors.tensor(w)).collect();
                json!({ "tensors": list })
            }
            AttrValue::Body(i) => json!({ "body": i }),
            AttrValue::Bodies(v) => json!({ "bodies": v }),
            AttrValue::Type(t) => json!({ "type": &**t }),
            AttrValue::Input(i) => json!({ "input": i }),
            AttrValue::Reference(name) => json!({ "reference": &**name }),
            AttrValue::List(items) => {
                let list: Vec<Value> = items.iter().map(|a| self.attribute(a, single)).collect();
                // An empty list is one of integers, and so on.
                if list.iter().all(Value::is_number) || list.iter().all(Value::is_string) {
                    json!({ "list": list })
                } else {
                    Value::Array(list)
                }
            }
        }
    }
}

/// Text, or `{"bytes": …}` of what is none.
pub(super) fn bytes_value(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(s) => s.into(),
        Err(_) => json!({ "bytes": base64::encode(bytes) }),
    }
}

/// A number that is read back as it was; `None` where JSON has none, or its reader would round it to a neighbour.
/// `single`: a single-precision number, written with as many digits as that takes.
pub(super) fn exact(x: f64, single: bool) -> Option<Value> {
    let rounds = |x: f64| if single { f64::from(x as f32) } else { x };
    let written = if single && rounds(x) == x { (x as f32).to_string().parse().ok()? } else { x };
    let number = Number::from_f64(written)?;
    let read = serde_json::from_str::<Number>(&number.to_string()).ok()?;
    (read.is_f64() && rounds(read.as_f64()?).to_bits() == x.to_bits()).then_some(Value::Number(number))
}

fn text_of(x: f64) -> String {
    if x.is_nan() && x.is_sign_negative() { "-NaN".to_owned() } else { format!("{x:?}") }
}

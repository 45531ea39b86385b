//! Attributes from their JSON form.

use serde_json::Value;

use super::Fault;
use super::build::Builder;
use super::schema::Tensor;
use crate::base64;
use crate::diagnostic::printable;
use crate::graph::AttrValue;

/// What attributes of one node may refer to.
pub(super) struct Scope {
    /// Number of the node's inputs.
    pub(super) inputs: usize,
    /// For each body, whether an attribute holds it.
    pub(super) held: Vec<bool>,
    /// Numbers are those of ONNX, which are single.
    pub(super) single: bool,
}

impl Builder<'_> {
    /// One attribute's value. The depth of `v` is capped by the parser.
    pub(super) fn attribute(&mut self, v: &Value, scope: &mut Scope, place: &str) -> Result<AttrValue, Fault> {
        Ok(match v {
            Value::Null => AttrValue::None,
            Value::Bool(b) => AttrValue::Bool(*b),
            Value::Number(n) => match n.as_i64() {
                Some(i) => AttrValue::Int(i),
                None if n.is_u64() => return Err(Fault::new(place, format!("{n} does not fit into a signed 64-bit integer"))),
                None => AttrValue::Float(scope.round(float(v).unwrap_or(f64::NAN))),
            },
            Value::String(s) => AttrValue::Bytes(s.as_bytes().into()),
            Value::Array(list) => self.list(list, scope, place)?,
            Value::Object(fields) => {
                let mut fields = fields.iter();
                match (fields.next(), fields.next()) {
                    (Some((tag, content)), None) => self.tagged(tag, content, scope, &format!("{place}.{}", printable(tag)))?,
                    _ => return Err(Fault::new(place, "an attribute that is an object has exactly one field, e.g. `tensor`")),
                }
            }
        })
    }

    /// A list by what is in it.
    fn list(&mut self, list: &[Value], scope: &mut Scope, place: &str) -> Result<AttrValue, Fault> {
        if list.iter().all(Value::is_i64) {
            return Ok(AttrValue::Ints(list.iter().filter_map(Value::as_i64).collect()));
        }
        if list.iter().all(|v| v.is_i64() || v.is_f64()) {
            return Ok(AttrValue::Floats(list.iter().filter_map(float).map(|x| scope.round(x)).collect()));
        }
        if list.iter().all(Value::is_string) {
            return Ok(AttrValue::ByteStrings(list.iter().filter_map(Value::as_str).map(|s| s.as_bytes().into()).collect()));
        }
        self.mixed(list, scope, place)
    }

    fn mixed(&mut self, list: &[Value], scope: &mut Scope, place: &str) -> Result<AttrValue, Fault> {
        let items: Result<Box<[AttrValue]>, Fault> =
            list.iter().enumerate().map(|(i, v)| self.attribute(v, scope, &format!("{place}[{i}]"))).collect();
        Ok(AttrValue::List(items?))
    }

    fn tagged(&mut self, tag: &str, v: &Value, scope: &mut Scope, place: &str) -> Result<AttrValue, Fault> {
        let wrong = |what: &str| Fault::new(place, format!("{} is not {what}", printable(&v.to_string())));
        let number = |v: &Value, scope: &Scope| float(v).map(|x| scope.round(x)).ok_or_else(|| wrong("a number"));
        let text = || v.as_str().ok_or_else(|| wrong("a text"));
        let items = || v.as_array().map(Vec::as_slice).ok_or_else(|| wrong("a list"));
        Ok(match tag {
            "float" => AttrValue::Float(number(v, scope)?),
            "floats" => AttrValue::Floats(items()?.iter().map(|v| number(v, scope)).collect::<Result<_, _>>()?),
            "ints" => {
                AttrValue::Ints(items()?.iter().map(|v| v.as_i64().ok_or_else(|| wrong("a list of integers"))).collect::<Result<_, _>>()?)
            }
            "strings" => {
                AttrValue::ByteStrings(items()?.iter().map(|v| bytes(v).map_err(|why| Fault::new(place, why))).collect::<Result<_, _>>()?)
            }
            "list" => self.mixed(items()?, scope, place)?,
            "bytes" => AttrValue::Bytes(base64::decode(text()?).map_err(|why| Fault::new(place, why))?.into()),
            "tensor" => AttrValue::Tensor(self.tensor(v, place)?),
            "tensors" => AttrValue::Tensors(
                items()?.iter().enumerate().map(|(i, v)| self.tensor(v, &format!("{place}[{i}]"))).collect::<Result<_, _>>()?,
            ),
            "body" => AttrValue::Body(scope.body(v, place)?),
            "bodies" => AttrValue::Bodies(items()?.iter().map(|v| scope.body(v, place)).collect::<Result<_, _>>()?),
            "type" => AttrValue::Type(text()?.into()),
            "reference" => AttrValue::Reference(text()?.into()),
            "input" => match v.as_u64().and_then(|i| usize::try_from(i).ok()).filter(|i| *i < scope.inputs) {
                Some(i) => AttrValue::Input(i),
                None => {
                    return Err(Fault::new(
                        place,
                        format!("there is no input {} of a node with {}", printable(&v.to_string()), scope.inputs),
                    ));
                }
            },
            _ => {
                let known = "float, floats, ints, strings, list, bytes, tensor, tensors, body, bodies, type, input, reference";
                return Err(Fault::new(place, format!("`{}` is no kind of attribute; there are {known}", printable(tag))));
            }
        })
    }

    fn tensor(&mut self, v: &Value, place: &str) -> Result<crate::weights::WeightRef, Fault> {
        let t: Tensor = serde::Deserialize::deserialize(v).map_err(|e| Fault::new(place, format!("it is no tensor: {e}")))?;
        self.tensors.read(&t, place, &format!("the tensor at {place}"), "")
    }
}

impl Scope {
    /// A number as the dialect keeps it.
    fn round(&self, x: f64) -> f64 {
        if self.single { f64::from(x as f32) } else { x }
    }

    fn body(&mut self, v: &Value, place: &str) -> Result<usize, Fault> {
        let index = v.as_u64().and_then(|i| usize::try_from(i).ok());
        match index.and_then(|i| Some((i, self.held.get_mut(i)?))) {
            Some((i, held)) => {
                *held = true;
                Ok(i)
            }
            None => Err(Fault::new(place, format!("there is no body {} of a node with {}", printable(&v.to_string()), self.held.len()))),
        }
    }
}

/// A number, also as a text: those that JSON has no form for, and those whose decimals it would round.
pub(super) fn float(v: &Value) -> Option<f64> {
    match v {
        Value::Number(n) => n.as_f64(),
        // As Rust reads them, which takes `inf`, `Infinity` and `NaN` in any case.
        Value::String(s) => s.parse().ok(),
        _ => None,
    }
}

/// A text, or bytes as `{"bytes": base64}`.
pub(super) fn bytes(v: &Value) -> Result<Box<[u8]>, String> {
    let coded = |o: &serde_json::Map<String, Value>| if o.len() == 1 { o.get("bytes")?.as_str().map(base64::decode) } else { None };
    match v {
        Value::String(s) => Ok(s.as_bytes().into()),
        Value::Object(o) => coded(o).unwrap_or_else(|| Err("it is neither a text nor `{\"bytes\": …}`".to_owned())).map(Into::into),
        _ => Err(format!("{} is no text", printable(&v.to_string()))),
    }
}

//! Writing by index: every rule gives a new tensor.

use super::super::call::{Call, Number, Res, Size};
use super::super::level::{Attrs, Fact};
use super::super::values::{all_known, int, inverse, of_rank, text};
use super::super::walk::Lower;
use super::indexing::{positions, rows};
use super::{Table, one};
use crate::dtype::DType;
use crate::graph::ValueId;

pub(super) const TABLE: Table = &[
    ("_index_put_impl", index_put),
    ("_unsafe_index_put", index_put),
    ("diagonal_scatter", diagonal_scatter),
    ("index_add", |l, c| along(l, c, "source", Some("add"))),
    ("index_copy", |l, c| along(l, c, "source", None)),
    ("index_fill", index_fill),
    ("index_put", index_put),
    ("masked_scatter", masked_scatter),
    ("scatter", scatter),
    ("scatter_add", |l, c| elements(l, c, "src", Some("add"))),
    ("scatter_reduce", scatter_reduce),
    ("select_scatter", select_scatter),
    ("slice_scatter", slice_scatter),
];

/// `ScatterElements`, with what torch allows and ONNX does not: an update larger than its index.
fn elements(l: &mut Lower<'_>, c: &Call<'_>, src: &str, reduction: Option<&str>) -> Res<Vec<Option<ValueId>>> {
    let (x, at, src) = (c.tensor("self")?, c.tensor("index")?, c.number(src)?);
    let axis = l.axis(x, c.int("dim")?)?;
    let dtype = l.dtype(x)?;
    if l.rank(x)? == 0 {
        return Err("its input is a scalar".to_owned());
    }
    let mut src = l.scalar(dtype, src)?;
    let at = l.cast(at, DType::I64);
    if l.rank(src)? == 0 {
        let sizes = l.sizes_of(at)?;
        src = l.expand(src, &sizes);
    } else {
        for i in 0..l.rank(at)? {
            let known = (l.static_dim(at, i), l.static_dim(src, i));
            if known.0.is_none() || known.0 != known.1 {
                let size = l.size_of(at, i);
                src = l.slice(src, i, Size::Known(0), size, 1);
            }
        }
    }
    let fact = l.fact(x);
    let mut list = vec![("axis", int(axis as i64))];
    if let Some(r) = reduction {
        list.push(("reduction", text(r)));
    }
    one(l.emit_fact("ScatterElements", &[Some(x), Some(at), Some(src)], &list, fact))
}

fn scatter(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let reduction = if c.has("reduce") { c.text("reduce")? } else { None };
    let reduction = match reduction.as_deref() {
        None => None,
        Some("add") => Some("add"),
        Some("multiply") => Some("mul"),
        Some(other) => return Err(format!("its reduction is `{other}`")),
    };
    elements(l, c, if c.has("src") { "src" } else { "value" }, reduction)
}

fn scatter_reduce(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    if !c.flag("include_self")? {
        return Err("it leaves out what stood there before".to_owned());
    }
    let reduction = match c.text("reduce")?.as_deref() {
        Some("sum") => "add",
        Some("prod") => "mul",
        Some("amax") => "max",
        Some("amin") => "min",
        other => return Err(format!("its reduction is `{}`", other.unwrap_or("none"))),
    };
    elements(l, c, "src", Some(reduction))
}

fn index_put(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, values) = (c.tensor("self")?, c.tensor("values")?);
    let dtype = l.dtype(x)?;
    let values = l.cast(values, dtype);
    let accumulate = c.flag("accumulate")?;
    let given = c.opt_tensors("indices")?;
    let rank = l.rank(x)?;
    // One mask over everything and one number: a choice, and no search.
    if let [Some(mask)] = given[..]
        && l.dtype(mask)? == DType::Bool
        && l.rank(values)? == 0
        && !accumulate
    {
        let mut mask = mask;
        let after: Vec<usize> = (l.rank(mask)?..rank).collect();
        mask = l.unsqueeze(mask, &after);
        return one(l.select(mask, values, x, dtype));
    }
    let at = positions(l, given)?;
    let used: Vec<usize> = at.iter().enumerate().filter(|(_, v)| v.is_some()).map(|(i, _)| i).collect();
    let list: Vec<ValueId> = at.iter().flatten().copied().collect();
    if list.is_empty() || used.iter().any(|&u| u >= rank) {
        return Err("its indices do not fit its input".to_owned());
    }
    if used[0] != 0 && used.windows(2).any(|w| w[1] != w[0] + 1) {
        return Err("its indices stand apart, behind an axis that is taken whole".to_owned());
    }
    let mut order = used.clone();
    order.extend((0..rank).filter(|a| !used.contains(a)));
    let turned = l.transpose(x, &order);
    let (rows, common) = rows(l, &list)?;
    // Updates have the shape of what is indexed: the common axes in place of the indexed ones.
    let before = used[0];
    let left = rank - used.len();
    let mut sizes = Vec::new();
    for i in 0..common {
        let s = l.size_of(rows, i);
        sizes.push(s);
    }
    let mut rest = Vec::new();
    for &axis in &order[used.len()..] {
        let s = l.size_of(x, axis);
        rest.push(s);
    }
    let mut full = rest[..before].to_vec();
    full.extend(&sizes);
    full.extend(&rest[before..]);
    let wanted = all_known(&full);
    let fits = wanted.is_some() && l.static_dims(values) == wanted;
    let mut updates = if fits { values } else { l.expand(values, &full) };
    if before > 0 {
        let mut back: Vec<usize> = (before..before + common).collect();
        back.extend(0..before);
        back.extend(before + common..common + left);
        updates = l.transpose(updates, &back);
    }
    let fact = l.fact(turned);
    let add = [("reduction", text("add"))];
    let list: Attrs<'_> = if accumulate { &add } else { &[] };
    let made = l.emit_fact("ScatterND", &[Some(turned), Some(rows), Some(updates)], list, fact);
    one(l.transpose(made, &inverse(&order)))
}

/// Whole slices of an axis: the axis comes first, its positions are rows of one.
fn slices(l: &mut Lower<'_>, x: ValueId, axis: usize, at: ValueId, src: ValueId, reduction: Option<&str>) -> Res<ValueId> {
    let rank = l.rank(x)?;
    if axis >= rank {
        return Err("its input is a scalar".to_owned());
    }
    let mut order = vec![axis];
    order.extend((0..rank).filter(|&a| a != axis));
    let (turned, updates) = (l.transpose(x, &order), l.transpose(src, &order));
    let at = l.cast(at, DType::I64);
    let rows = l.reshape_to(at, &[-1, 1]);
    let fact = l.fact(turned);
    let add = reduction.map(|r| [("reduction", text(r))]);
    let list: Attrs<'_> = add.as_ref().map_or(&[], |a| a);
    let made = l.emit_fact("ScatterND", &[Some(turned), Some(rows), Some(updates)], list, fact);
    Ok(l.transpose(made, &inverse(&order)))
}

fn along(l: &mut Lower<'_>, c: &Call<'_>, src: &str, reduction: Option<&str>) -> Res<Vec<Option<ValueId>>> {
    let (x, at, mut src) = (c.tensor("self")?, c.tensor("index")?, c.tensor(src)?);
    let axis = l.axis(x, c.int("dim")?)?;
    let dtype = l.dtype(x)?;
    if reduction.is_some() && c.has("alpha") {
        let alpha = c.number("alpha")?;
        if alpha != Number::Int(1) && alpha != Number::Float(1.0) {
            let alpha = l.scalar(dtype, alpha)?;
            src = l.zip("Mul", src, alpha, dtype);
        }
    }
    one(slices(l, x, axis, at, src, reduction)?)
}

fn index_fill(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, at) = (c.tensor("self")?, c.tensor("index")?);
    let axis = l.own_axis(x, c.int("dim")?)?;
    let dtype = l.dtype(x)?;
    let value = l.scalar(dtype, c.number("value")?)?;
    let mut sizes = l.sizes_of(x)?;
    sizes[axis] = if l.rank(at)? == 0 { Size::Known(1) } else { l.size_of(at, 0) };
    let src = l.expand(value, &sizes);
    one(slices(l, x, axis, at, src, None)?)
}

fn select_scatter(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, src) = (c.tensor("self")?, c.tensor("src")?);
    let axis = l.axis(x, c.int("dim")?)?;
    let index = c.size("index")?;
    let at = l.sizes(&[index]);
    let dtype = l.dtype(x)?;
    let src = l.cast(src, dtype);
    let src = l.unsqueeze(src, &[axis]);
    one(slices(l, x, axis, at, src, None)?)
}

fn slice_scatter(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, src) = (c.tensor("self")?, c.tensor("src")?);
    let axis = l.axis(x, c.int("dim")?)?;
    let dtype = l.dtype(x)?;
    let src = l.cast(src, dtype);
    let n = l.size_of(x, axis);
    let start = c.opt_size("start")?.unwrap_or(Size::Known(0));
    let end = c.opt_size("end")?.unwrap_or(Size::Known(i64::MAX));
    let step = c.int("step")?;
    // Which positions a slice means is what slicing all positions gives.
    let all = l.counted(n);
    let at = l.slice(all, 0, start, end, step);
    one(slices(l, x, axis, at, src, None)?)
}

/// Along a diagonal of two axes: each element is spread over its row (or column), and taken where the diagonal is.
fn diagonal_scatter(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, src) = (c.tensor("self")?, c.tensor("src")?);
    let rank = l.rank(x)?;
    let (a, b) = (l.axis(x, c.int("dim1")?)?, l.axis(x, c.int("dim2")?)?);
    let offset = c.count("offset")?;
    if a == b {
        return Err("its two axes are one".to_owned());
    }
    let dtype = l.dtype(x)?;
    let (Some(rows), Some(columns)) = (l.static_dim(x, a), l.static_dim(x, b)) else {
        return Err("the sizes of its two axes are not known".to_owned());
    };
    let mut order: Vec<usize> = (0..rank).filter(|&i| i != a && i != b).collect();
    order.extend([a, b]);
    let turned = l.transpose(x, &order);
    let count = if offset >= 0 { rows.min(columns - offset) } else { (rows + offset).min(columns) }.max(0);
    // Above the main diagonal the row counts the elements, below it the column.
    let whole = if offset >= 0 { rows } else { columns };
    let mut pads = vec![0i64; 2 * (rank - 1)];
    if let Some(end) = pads.last_mut() {
        *end = whole - count;
    }
    let pads = l.i64s(&pads);
    let src = l.cast(src, dtype);
    let fact = Fact::of(Some(dtype), of_rank(rank - 1));
    let padded = l.emit_fact("Pad", &[Some(src), Some(pads)], &[("mode", text("constant"))], fact);
    let spread = l.unsqueeze(padded, &[if offset >= 0 { rank - 1 } else { rank - 2 }]);
    let zero = l.scalar(DType::F32, Number::Int(0))?;
    let square = l.expand(zero, &[Size::Known(rows), Size::Known(columns)]);
    let unit = l.unit_like(square, offset, DType::F32);
    let on = l.cast(unit, DType::Bool);
    let made = l.select(on, spread, turned, dtype);
    one(l.transpose(made, &inverse(&order)))
}

/// Elements in order to where the mask holds: a running count of the mask says which.
fn masked_scatter(l: &mut Lower<'_>, c: &Call<'_>) -> Res<Vec<Option<ValueId>>> {
    let (x, mask, src) = (c.tensor("self")?, c.tensor("mask")?, c.tensor("source")?);
    let dtype = l.dtype(x)?;
    let sizes = l.sizes_of(x)?;
    let mask = if l.shape(mask) == l.shape(x) && l.shape(x).is_static() { mask } else { l.expand(mask, &sizes) };
    let flat = l.reshape_to(mask, &[-1]);
    let rows = l.emit_fact(
        "NonZero",
        &[Some(flat)],
        &[],
        Fact::of(Some(DType::I64), crate::shape::Shape::new(vec![crate::shape::Dim::Known(1), crate::shape::Dim::Unknown])),
    );
    let rows = l.transpose(rows, &[1, 0]);
    let count = l.size_of(rows, 0);
    let src = l.reshape_to(src, &[-1]);
    let src = l.slice(src, 0, Size::Known(0), count, 1);
    let wide = l.reshape_to(x, &[-1]);
    let made = l.emit("ScatterND", &[wide, rows, src], &[], dtype);
    one(l.reshape(made, &sizes))
}

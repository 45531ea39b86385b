//! Weights of a model in memory, each once, however many partitions and nodes read it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use recut_core::model::Model;
use recut_core::weights::{Storage, WeightRef};

use crate::io::weight::{LoadError, load_weight};
use crate::tensor::Tensor;

/// Where a stored tensor lies: two references with the same key give the same tensor.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    storage: usize,
    offset: u64,
    /// Start of the compressed part that `offset` counts in.
    part: Option<u64>,
    dtype: recut_core::dtype::DType,
    shape: Box<[u64]>,
    strides: Option<Box<[i64]>>,
}

/// Loaded weights of one model.
pub(crate) struct WeightStore {
    /// Keeps the allocations alive whose addresses are in the keys.
    model: Arc<Model>,
    loaded: Mutex<HashMap<Place, Tensor>>,
}

impl WeightStore {
    /// The tensor, from the cache where it was read before.
    pub(crate) fn load(&self, weight: &WeightRef) -> Result<Tensor, LoadError> {
        let (storage, offset, part) = match &weight.storage {
            Storage::File { file, offset, .. } => (Arc::as_ptr(file) as usize, *offset, None),
            Storage::Deflated { part, offset, .. } => (Arc::as_ptr(&part.file) as usize, *offset, Some(part.offset)),
            Storage::Inline(b) => (b.as_ptr() as usize, 0, None),
            Storage::Strings(_) | Storage::Zeros | Storage::Missing(_) => return load_weight(weight),
        };
        let (dtype, shape, strides) = (weight.dtype, weight.shape.clone(), weight.strides.clone());
        let place = Place { storage, offset, part, dtype, shape, strides };
        if let Some(t) = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).get(&place) {
            return Ok(t.clone());
        }
        let t = load_weight(weight)?;
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(place, t.clone());
        Ok(t)
    }

    /// Drops tensors that nothing but this store holds: constants were folded of them, or kernels keep their own form.
    pub(crate) fn forget_unused(&self) {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, t| !t.is_unique());
    }
}

/// The weight stores that are in use, one a model.
#[derive(Default)]
pub(crate) struct WeightStores(Mutex<Vec<Weak<WeightStore>>>);

impl WeightStores {
    /// The store of `model`; a new one if nothing prepared holds it any more.
    pub(crate) fn of(&self, model: &Arc<Model>) -> Arc<WeightStore> {
        let mut stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|s| s.strong_count() > 0);
        if let Some(s) = stores.iter().filter_map(Weak::upgrade).find(|s| Arc::ptr_eq(&s.model, model)) {
            return s;
        }
        let store = Arc::new(WeightStore { model: model.clone(), loaded: Mutex::default() });
        stores.push(Arc::downgrade(&store));
        store
    }
}

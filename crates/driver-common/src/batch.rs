//! Attributes of a batch of copies (cuMemcpyBatchAsync): when the source of each copy may be read.
//! What the attributes say of places are hints, which nothing here follows.

use core::ffi::c_uint;
use cuda_api::pointer::Out;
use cuda_api::{CUmemcpyAttributes, CudaError};

/// Copies of one batch: more than any program lists, and nothing here depends on it.
pub const BATCH_MAX: usize = 1 << 20;

/// CU_MEMCPY_SRC_ACCESS_ORDER_*.
const STREAM: c_uint = 1;
const DURING_API_CALL: c_uint = 2;
const ANY: c_uint = 3;
/// CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE, the only flag.
const PREFER_OVERLAP: c_uint = 1;

/// For each copy of a batch whether its source must be read before the call returns.
/// CUDA_ERROR_INVALID_VALUE for an order that there is not, and unless the attributes begin with
/// copy 0 and go on upwards.
pub fn read_during_call(
    count: usize,
    attributes: Out<CUmemcpyAttributes>,
    starts: Out<usize>,
    attribute_count: usize,
) -> Result<Vec<bool>, CudaError> {
    if count == 0 || count > BATCH_MAX || attribute_count == 0 || attribute_count > count {
        return Err(CudaError::INVALID_VALUE);
    }
    let attributes = attributes.as_in().array(attribute_count);
    let starts = starts.as_in().array(attribute_count);
    let mut during = Vec::with_capacity(count);
    for index in 0..attribute_count {
        let start = starts.at(index)?;
        let follows = if index == 0 { start == 0 } else { start > starts.at(index - 1)? };
        if !follows || start >= count {
            return Err(CudaError::INVALID_VALUE);
        }
        let CUmemcpyAttributes { srcAccessOrder: order, flags, .. } = attributes.at(index)?;
        if !(STREAM..=ANY).contains(&order) || flags & !PREFER_OVERLAP != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let last = during.last().copied().unwrap_or_default();
        during.resize(start, last);
        during.push(order == DURING_API_CALL);
    }
    let last = during.last().copied().unwrap_or_default();
    during.resize(count, last);
    Ok(during)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passed;
    use cuda_api::CUmemLocation;

    fn of(count: usize, orders: &[c_uint], starts: &[usize]) -> Result<Vec<bool>, CudaError> {
        let none = CUmemLocation::default();
        let attributes = orders.iter().map(|order| CUmemcpyAttributes {
            srcAccessOrder: *order,
            srcLocHint: none,
            dstLocHint: none,
            flags: 0,
        });
        let (mut attributes, mut starts) = (attributes.collect::<Vec<_>>(), starts.to_vec());
        let (a, s) = (passed(attributes.as_mut_ptr()), passed(starts.as_mut_ptr()));
        read_during_call(count, a, s, orders.len())
    }

    #[test]
    fn each_attribute_is_for_the_copies_up_to_the_next_one() {
        assert_eq!(of(2, &[1], &[0]), Ok([false; 2].to_vec()));
        assert_eq!(of(5, &[1, 2, 3], &[0, 1, 3]), Ok([false, true, true, false, false].to_vec()));
    }

    #[test]
    fn what_says_nothing_of_some_copy_or_no_known_order_is_refused() {
        let wrong = Err(CudaError::INVALID_VALUE);
        for (count, orders, starts) in [
            (0, &[1][..], &[0][..]),
            (2, &[], &[]),
            (1, &[1, 1], &[0, 1]),
            (2, &[1], &[1]),
            (3, &[1, 1], &[0, 0]),
            (3, &[1, 1, 1], &[0, 2, 1]),
            (2, &[1, 1], &[0, 2]),
            (1, &[0], &[0]),
            (1, &[77], &[0]),
        ] {
            assert_eq!(of(count, orders, starts), wrong, "{count} {orders:?} {starts:?}");
        }
    }
}

//! Managed memory: flags of attachments, and several attributes of a range at once.

use crate::pointer::place_at;
use core::ffi::{c_uint, c_void};
use cuda_api::constants::attach_flags;
use cuda_api::pointer::Out;
use cuda_api::{CUresult, CudaError};

/// Most attributes asked for at once: there are 8.
const ATTRIBUTES_MAX: usize = 64;

/// CUDA_ERROR_INVALID_VALUE for flags with which cuMemAllocManaged makes no memory.
pub fn check_allocation_flags(flags: c_uint) -> CUresult {
    match flags {
        attach_flags::GLOBAL | attach_flags::HOST => Ok(()),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// CUDA_ERROR_INVALID_VALUE for flags with which cuStreamAttachMemAsync attaches nothing.
pub fn check_attachment(flags: c_uint) -> CUresult {
    let known = attach_flags::GLOBAL | attach_flags::HOST | attach_flags::SINGLE;
    match flags.is_power_of_two() && flags & !known == 0 {
        true => Ok(()),
        false => Err(CudaError::INVALID_VALUE),
    }
}

/// cuMemRangeGetAttributes by `one`, which is cuMemRangeGetAttribute: place, bytes there, attribute.
pub fn range_attributes(
    data: Out<*mut c_void>,
    bytes: Out<usize>,
    attributes: Out<c_uint>,
    count: usize,
    mut one: impl FnMut(Out<c_void>, usize, c_uint) -> CUresult,
) -> CUresult {
    if count == 0 || count > ATTRIBUTES_MAX {
        return Err(CudaError::INVALID_VALUE);
    }
    for index in 0..count {
        let (bytes, attribute) =
            (bytes.array(count).at(index)?, attributes.array(count).at(index)?);
        one(place_at(data, count, index)?, bytes, attribute)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passed;

    #[test]
    fn memory_is_attached_in_one_mode() {
        for flags in [1, 2, 4] {
            assert_eq!(check_attachment(flags), Ok(()));
        }
        for flags in [0, 3, 8] {
            assert_eq!(check_attachment(flags), Err(CudaError::INVALID_VALUE));
        }
        assert_eq!((check_allocation_flags(1), check_allocation_flags(4).is_err()), (Ok(()), true));
    }

    #[test]
    fn each_attribute_has_a_place_and_a_size() {
        let (mut values, mut sizes, mut numbers) = ([1u32, 2], [4usize, 4], [5u32, 6]);
        let mut places = [(&raw mut values[0]).cast::<c_void>(), (&raw mut values[1]).cast()];
        let (data, bytes) = (passed(places.as_mut_ptr()), passed(sizes.as_mut_ptr()));
        let attributes = passed(numbers.as_mut_ptr());
        let one = |place: Out<c_void>, bytes, number| {
            assert_eq!(bytes, 4);
            place.cast::<u32>().set(number)
        };
        range_attributes(data, bytes, attributes, 2, one).unwrap();
        assert_eq!(values, [5, 6]);
        for count in [0, ATTRIBUTES_MAX + 1] {
            let refused = range_attributes(data, bytes, attributes, count, one);
            assert_eq!(refused, Err(CudaError::INVALID_VALUE));
        }
    }
}

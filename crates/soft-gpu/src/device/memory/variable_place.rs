//! Variable placement: where variables of a tenant's modules lie, if its program gives them a place.
//!
//! A place is the program's own memory, so that what is in the variables outlives this process.
//! Variables are laid one behind the other in the order in which a module declares them, so that the
//! same module finds them again.

use cuda_api::extension::variable_place;
use std::ffi::c_uint;

/// Alignment of the first variable, bytes: as that of allocations.
const ALIGN_BYTES: u64 = 256;
/// Where measured variables pretend to lie: nothing is written there.
const NOWHERE: u64 = ALIGN_BYTES;

/// Where the next module's variables lie.
#[derive(Debug, Default)]
pub enum VariablePlace {
    /// In memory of the device's own.
    #[default]
    Own,
    /// Nowhere: their bytes are counted.
    Measured(u64),
    /// In the program's memory.
    Given {
        /// The first address that no variable has yet.
        next: u64,
        /// The address behind the place.
        end: u64,
        /// The values are there.
        kept: bool,
    },
}

impl VariablePlace {
    /// What a program asks for; `None` for what is no such thing.
    pub fn new(address: u64, bytes: u64, how: c_uint) -> Option<Self> {
        let end = address.checked_add(bytes)?;
        match how {
            variable_place::NONE => Some(Self::Own),
            variable_place::MEASURE => Some(Self::Measured(0)),
            variable_place::NEW | variable_place::KEPT if address.is_multiple_of(ALIGN_BYTES) => {
                Some(Self::Given { next: address, end, kept: how == variable_place::KEPT })
            }
            _ => None,
        }
    }

    /// Bytes of the variables that were measured.
    pub fn needed(&self) -> u64 {
        match self {
            Self::Measured(bytes) => *bytes,
            Self::Own | Self::Given { .. } => 0,
        }
    }

    /// True if the values are in the place already.
    pub fn keeps(&self) -> bool {
        matches!(self, Self::Given { kept: true, .. })
    }

    /// The address of the next variable; `None` if it is to have memory of the device's own.
    pub fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let align = align.clamp(1, ALIGN_BYTES);
        match self {
            Self::Own => None,
            Self::Measured(used) => {
                let offset = used.checked_next_multiple_of(align)?;
                *used = offset.checked_add(bytes)?;
                Some(NOWHERE.saturating_add(offset))
            }
            Self::Given { next, end, .. } => {
                let address = next.checked_next_multiple_of(align)?;
                let behind = address.checked_add(bytes).filter(|behind| behind <= end)?;
                *next = behind;
                Some(address)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_has_room() {
        let variables = [(4, 4), (1, 1), (64, 64), (12, 4)];
        let mut measured = VariablePlace::new(0, 0, variable_place::MEASURE).unwrap();
        variables
            .iter()
            .for_each(|(bytes, align)| assert!(measured.take(*bytes, *align).is_some()));
        assert_eq!(measured.needed(), 140);
        let mut given = VariablePlace::new(0x1000, 140, variable_place::NEW).unwrap();
        let all: Vec<_> =
            variables.iter().map(|(bytes, align)| given.take(*bytes, *align)).collect();
        assert_eq!(all, [Some(0x1000), Some(0x1004), Some(0x1040), Some(0x1080)]);
        assert_eq!(given.take(1, 1), None, "the device's own memory");
        assert!(VariablePlace::new(0x1001, 140, variable_place::NEW).is_none());
        assert!(VariablePlace::new(0x1000, u64::MAX, variable_place::KEPT).is_none());
    }
}

//! What a program set of a stream (cuStreamSetAttribute): hints about caches and waiting, which
//! change no result. They are kept so that they are read back and copied.

use cuda_api::constants::launch_attribute as attribute;
use cuda_api::{CUlaunchAttributeValue, CUresult, CudaError};

/// `CU_SYNC_POLICY_AUTO` to `CU_SYNC_POLICY_BLOCKING_SYNC`.
const SYNCHRONIZATION_POLICIES: core::ops::RangeInclusive<u32> = 1..=4;
/// Memory synchronisation domains: the default one and the remote one.
const DOMAINS: u32 = 2;

/// The attributes of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamAttributes {
    /// Base address, bytes, hit ratio and the properties of hits and misses.
    access_policy_window: [u64; 4],
    synchronization_policy: u32,
    /// What the default and the remote domain stand for.
    domain_map: [u8; 2],
    domain: u32,
}

impl Default for StreamAttributes {
    fn default() -> Self {
        let synchronization_policy = *SYNCHRONIZATION_POLICIES.start();
        Self { access_policy_window: [0; 4], synchronization_policy, domain_map: [0, 1], domain: 0 }
    }
}

impl StreamAttributes {
    /// An attribute's value, in a stream of that priority.
    ///
    /// # Errors
    /// CUDA_ERROR_INVALID_VALUE for what is no attribute of a stream.
    pub fn get(&self, number: u32, priority: i32) -> Result<CUlaunchAttributeValue, CudaError> {
        let mut value = [0; 8];
        match number {
            attribute::ACCESS_POLICY_WINDOW => {
                value[..4].copy_from_slice(&self.access_policy_window);
            }
            attribute::SYNCHRONIZATION_POLICY => value[0] = self.synchronization_policy.into(),
            attribute::PRIORITY => value[0] = u64::from(priority as u32),
            attribute::MEM_SYNC_DOMAIN_MAP => {
                value[0] = u16::from_le_bytes(self.domain_map).into();
            }
            attribute::MEM_SYNC_DOMAIN => value[0] = self.domain.into(),
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(value)
    }

    /// Sets an attribute of a stream of that priority. The priority itself is the stream's for
    /// life: setting it to what it is succeeds, and to anything else is CUDA_ERROR_NOT_SUPPORTED.
    ///
    /// # Errors
    /// CUDA_ERROR_INVALID_VALUE for what is no attribute of a stream, or not one of its values.
    pub fn set(&mut self, number: u32, value: &CUlaunchAttributeValue, priority: i32) -> CUresult {
        let word = value[0] as u32;
        match number {
            attribute::ACCESS_POLICY_WINDOW => {
                self.access_policy_window.copy_from_slice(&value[..4]);
            }
            attribute::SYNCHRONIZATION_POLICY if SYNCHRONIZATION_POLICIES.contains(&word) => {
                self.synchronization_policy = word;
            }
            attribute::PRIORITY if word as i32 == priority => {}
            attribute::PRIORITY => return Err(CudaError::NOT_SUPPORTED),
            attribute::MEM_SYNC_DOMAIN_MAP => self.domain_map = (word as u16).to_le_bytes(),
            attribute::MEM_SYNC_DOMAIN if word < DOMAINS => self.domain = word,
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_back() {
        let mut attributes = StreamAttributes::default();
        let window = [0x1000, 4096, 0x0000_0002_3f80_0000, 1, 9, 9, 9, 9];
        attributes.set(attribute::ACCESS_POLICY_WINDOW, &window, 0).unwrap();
        let kept = attributes.get(attribute::ACCESS_POLICY_WINDOW, 0).unwrap();
        assert_eq!(kept[..4], window[..4]);
        attributes.set(attribute::SYNCHRONIZATION_POLICY, &[3; 8], 0).unwrap();
        assert_eq!(attributes.get(attribute::SYNCHRONIZATION_POLICY, 0).unwrap()[0], 3);
        assert_eq!(attributes.get(attribute::PRIORITY, -3).unwrap()[0] as i32, -3);
        assert_eq!(attributes.get(attribute::MEM_SYNC_DOMAIN_MAP, 0).unwrap()[0], 0x100);
    }

    #[test]
    fn what_no_stream_has_is_refused() {
        let mut attributes = StreamAttributes::default();
        let invalid = Err(CudaError::INVALID_VALUE);
        assert_eq!(attributes.set(attribute::SYNCHRONIZATION_POLICY, &[9; 8], 0), invalid);
        assert_eq!(attributes.set(attribute::COOPERATIVE, &[1; 8], 0), invalid);
        assert_eq!(attributes.get(attribute::CLUSTER_DIMENSION, 0), Err(CudaError::INVALID_VALUE));
        let priority = (-5i32) as u32;
        let value = [u64::from(priority); 8];
        let changed = attributes.set(attribute::PRIORITY, &value, 0);
        assert_eq!(changed, Err(CudaError::NOT_SUPPORTED));
        assert_eq!(attributes.set(attribute::PRIORITY, &value, -5), Ok(()));
    }
}

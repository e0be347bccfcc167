//! What is held of a memory, in bytes, and how much of it may be.
//!
//! All device memory of a session is charged to its account, and what the server holds of its own
//! memory for clients' images to one that all sessions share. What is charged is given back with its
//! [`Charge`], which lies beside what it is for: nothing is subtracted by hand.

use cuda_api::CudaError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An account.
pub struct Account {
    limit_bytes: u64,
    used_bytes: AtomicU64,
}

/// Bytes that are charged to an account as long as this lives.
pub struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Account {
    /// An account with nothing charged, for so many bytes.
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self { limit_bytes, used_bytes: AtomicU64::new(0) })
    }

    /// Charges so many bytes more. CUDA_ERROR_OUT_OF_MEMORY if that would be more than it is for.
    pub fn charge(self: &Arc<Self>, bytes: u64) -> Result<Charge, CudaError> {
        let more = |used: u64| used.checked_add(bytes).filter(|all| *all <= self.limit_bytes);
        match self.used_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(Charge { account: self.clone(), bytes }),
            Err(_) => Err(CudaError::OUT_OF_MEMORY),
        }
    }

    /// True if so many bytes could be charged with nothing else being so.
    pub fn could_hold(&self, bytes: u64) -> bool {
        bytes <= self.limit_bytes
    }

    /// What is charged, bytes.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Acquire)
    }

    /// What its owner is to be told of a memory with so many bytes free and in all.
    pub fn seen(&self, free_bytes: u64, total_bytes: u64) -> (u64, u64) {
        let left = self.limit_bytes.saturating_sub(self.used_bytes());
        (free_bytes.min(left), total_bytes.min(self.limit_bytes))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.used_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_come_back_and_the_limit_holds() {
        let account = Account::new(100);
        let first = account.charge(60).unwrap();
        assert_eq!(account.charge(41).err(), Some(CudaError::OUT_OF_MEMORY));
        assert_eq!(account.charge(u64::MAX).err(), Some(CudaError::OUT_OF_MEMORY));
        let second = account.charge(40).unwrap();
        assert_eq!((account.used_bytes(), account.seen(500, 1000)), (100, (0, 100)));
        drop(first);
        assert_eq!((account.used_bytes(), account.seen(50, 80)), (40, (50, 80)));
        drop(second);
        assert_eq!(account.used_bytes(), 0);
        assert!(account.could_hold(100) && !account.could_hold(101));
    }
}

//! What is held of a memory, in bytes, and how much of it may be.
//!
//! All device memory of a session is charged to its account, and what the server holds of its own
//! memory for clients' images to one that all sessions share. What is charged is given back with its
//! [`Charge`], which lies beside what it is for: nothing is subtracted by hand.

use cuda_api::CudaError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A charge that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was to be charged, bytes.
    pub wanted_bytes: u64,
    /// What was charged already, bytes.
    pub used_bytes: u64,
    /// What may be charged, bytes.
    pub limit_bytes: u64,
    /// How many charges were refused so far, this one too.
    pub count: u32,
}

type Listener = Box<dyn Fn(Refusal) + Send + Sync>;

/// An account.
pub struct Account {
    limit_bytes: AtomicU64,
    used_bytes: AtomicU64,
    refusals: AtomicU32,
    listener: OnceLock<Listener>,
}

/// Bytes that are charged to an account as long as this lives.
pub struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Account {
    /// An account with nothing charged, for so many bytes.
    pub fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            limit_bytes: AtomicU64::new(limit_bytes),
            used_bytes: AtomicU64::new(0),
            refusals: AtomicU32::new(0),
            listener: OnceLock::new(),
        })
    }

    /// Has `listener` told of refusals: the 1st, 2nd, 4th, 8th and so on, because programs that may
    /// have no more ask again and again. Only the first listener counts.
    pub fn tell_refusals(&self, listener: impl Fn(Refusal) + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    /// From now on it is for so many bytes; what is charged stays charged.
    pub fn set_limit(&self, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, Ordering::Release);
        self.refusals.store(0, Ordering::Relaxed);
    }

    /// What may be charged, bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Acquire)
    }

    /// Charges so many bytes more. CUDA_ERROR_OUT_OF_MEMORY if that would be more than it is for.
    pub fn charge(self: &Arc<Self>, bytes: u64) -> Result<Charge, CudaError> {
        let limit_bytes = self.limit_bytes();
        let more = |used: u64| used.checked_add(bytes).filter(|all| *all <= limit_bytes);
        match self.used_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(Charge { account: self.clone(), bytes }),
            Err(used_bytes) => {
                let count = self.refusals.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                if let (true, Some(tell)) = (count.is_power_of_two(), self.listener.get()) {
                    tell(Refusal { wanted_bytes: bytes, used_bytes, limit_bytes, count });
                }
                Err(CudaError::OUT_OF_MEMORY)
            }
        }
    }

    /// True if so many bytes could be charged with nothing else being so.
    pub fn could_hold(&self, bytes: u64) -> bool {
        bytes <= self.limit_bytes()
    }

    /// What is charged, bytes.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Acquire)
    }

    /// What its owner is to be told of a memory with so many bytes free and in all.
    pub fn seen(&self, free_bytes: u64, total_bytes: u64) -> (u64, u64) {
        let limit = self.limit_bytes();
        let left = limit.saturating_sub(self.used_bytes());
        (free_bytes.min(left), total_bytes.min(limit))
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
    use std::sync::Mutex;

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

    #[test]
    fn a_lower_limit_takes_nothing_away_and_gives_nothing_more() {
        let account = Account::new(u64::MAX);
        let _held = account.charge(60).unwrap();
        account.set_limit(50);
        assert_eq!(
            (account.charge(1).err(), account.seen(500, 1000)),
            (Some(CudaError::OUT_OF_MEMORY), (0, 50))
        );
        account.set_limit(61);
        assert!(account.charge(1).is_ok());
    }

    #[test]
    fn refusals_are_told_less_and_less_often() {
        let account = Account::new(10);
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = told.clone();
        account.tell_refusals(move |refusal| listener.lock().unwrap().push(refusal.count));
        for _ in 0..9 {
            assert!(account.charge(11).is_err());
        }
        assert_eq!(*told.lock().unwrap(), [1, 2, 4, 8]);
        account.set_limit(5);
        assert!(account.charge(6).is_err());
        assert_eq!(told.lock().unwrap().last(), Some(&1));
    }
}

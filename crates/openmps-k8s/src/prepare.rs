//! Prepare and unprepare: a claim's checkpoint, namespaces and CDI spec. Each may be called any number of times.
//!
//! Order: the checkpoint is written before anything is made, so that what a crash leaves is known; it
//! goes last.

use crate::cdi;
use crate::checkpoint::{PreparedClaim, Store, remove_files};
use crate::daemon::{DaemonError, ShareDaemon};
use crate::driver::Driver;
use crate::gpu::Gpu;
use crate::joined::Joins;
use crate::share::{self, ClaimError, ClaimName, GpuShare, Namespace, Resize};
use k8s_openapi::api::resource::v1::ResourceClaim;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a claim is not prepared or not unprepared.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// The claim is wrong: asking again does not help.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The daemon.
    #[error(transparent)]
    ShareDaemon(#[from] DaemonError),
    /// A file of the agent's.
    #[error("{}: {error}", path.display())]
    File {
        /// The file or its folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The CDI spec cannot be made.
    #[error("CDI spec: {0}")]
    Spec(#[from] ::cdi::Invalid),
}

/// A device as the kubelet is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedDevice {
    /// The claim's request.
    pub request: String,
    /// The device's pool.
    pub pool: String,
    /// Its name.
    pub device: String,
    /// What containers name it by.
    pub cdi_device: String,
    /// The allocation's own id.
    pub share_id: Option<String>,
}

/// Where things are.
#[derive(Clone, Debug)]
pub struct Folders {
    /// The agent's own, below the kubelet's plugins.
    pub plugin: PathBuf,
    /// Where the container runtime looks for CDI specs.
    pub cdi: PathBuf,
    /// The client libraries, as the container runtime sees them.
    pub libraries: PathBuf,
}

/// What is prepared here, and how.
#[derive(Clone, Debug)]
pub struct Preparer {
    driver: Driver,
    daemon: ShareDaemon,
    folders: Folders,
    store: Store,
}

/// What a repair has found and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Claims whose namespaces or specs were made again.
    pub restored: Vec<ClaimName>,
    /// Namespaces that no claim has.
    pub removed_namespaces: Vec<String>,
    /// Specs that no claim has.
    pub removed_specs: Vec<String>,
    /// Checkpoints that were torn.
    pub torn: usize,
}

impl Preparer {
    /// Makes the folders.
    ///
    /// # Errors
    /// One of them cannot be made.
    pub fn open(
        driver: Driver,
        daemon: ShareDaemon,
        folders: Folders,
    ) -> Result<Preparer, PrepareError> {
        let checkpoints = folders.plugin.join("checkpoints");
        let store = Store::open(&checkpoints)
            .map_err(|error| PrepareError::File { path: checkpoints, error })?;
        Ok(Preparer { driver, daemon, folders, store })
    }

    /// The daemon.
    pub fn daemon(&self) -> &ShareDaemon {
        &self.daemon
    }

    /// The driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Waits until no other agent of this node prepares anything; ends with the value.
    ///
    /// # Errors
    /// The file of the lock cannot be made.
    pub fn lock(&self) -> Result<File, PrepareError> {
        let path = self.folders.plugin.join("lock");
        let file = |path: &Path| {
            let file = File::options().create(true).truncate(false).write(true).open(path)?;
            file.lock()?;
            Ok(file)
        };
        file(&path).map_err(|error| PrepareError::File { path, error })
    }

    /// A claim that is prepared already.
    ///
    /// # Errors
    /// Its checkpoint cannot be read.
    pub fn known(&self, uid: &str) -> Result<Option<PreparedClaim>, PrepareError> {
        let record = self.store.read(uid).map_err(|error| self.of_store(error))?;
        Ok(record.filter(|record| !record.is_over))
    }

    /// All claims that are prepared.
    ///
    /// # Errors
    /// The checkpoints cannot be read.
    pub fn all(&self) -> Result<Vec<PreparedClaim>, PrepareError> {
        let found = self.store.all().map_err(|error| self.of_store(error))?;
        Ok(found.records.into_iter().filter(|record| !record.is_over).collect())
    }

    fn of_store(&self, error: io::Error) -> PrepareError {
        PrepareError::File { path: self.folders.plugin.join("checkpoints"), error }
    }

    fn of_cdi(&self, error: io::Error) -> PrepareError {
        PrepareError::File { path: self.folders.cdi.clone(), error }
    }

    /// Prepares a claim that the scheduler has allocated; `joins` are claims of the same pod that it shares a directory
    /// with, by their UIDs.
    ///
    /// # Errors
    /// The claim is wrong, or the daemon or a file does not do.
    pub fn prepare(
        &self,
        name: &ClaimName,
        claim: &ResourceClaim,
        gpus: &[Gpu],
        joins: Option<&Joins>,
    ) -> Result<PreparedClaim, PrepareError> {
        let mut namespaces = share::of_claim(&self.driver, name, claim, gpus)?;
        if let Some(joins) = joins {
            joins.apply(name, &mut namespaces)?;
        }
        let pods = share::pods_of(claim);
        let record = PreparedClaim { claim: name.clone(), pods, namespaces, is_over: false };
        self.store.write(&record).map_err(|error| self.of_store(error))?;
        Ok(record)
    }

    /// Makes what a claim's checkpoint says, as far as it is not there.
    ///
    /// # Errors
    /// The daemon or a file does not do.
    pub fn ensure(&self, record: &PreparedClaim) -> Result<Vec<PreparedDevice>, PrepareError> {
        let mut places = Vec::with_capacity(record.namespaces.len());
        for namespace in &record.namespaces {
            places.push((namespace, self.daemon.ensure(namespace)?));
        }
        let spec = cdi::spec(&self.driver, &places, &self.folders.libraries)?;
        self.write_spec(&record.claim.uid, &spec)?;
        Ok(self.devices(record))
    }

    fn write_spec(&self, uid: &str, spec: &::cdi::Spec) -> Result<(), PrepareError> {
        let file = ::cdi::file_name(&self.driver.cdi_kind(), Some(uid))?;
        ::cdi::write(spec, &self.folders.cdi, &file).map(drop).map_err(|error| self.of_cdi(error))
    }

    /// The devices of a claim.
    pub fn devices(&self, record: &PreparedClaim) -> Vec<PreparedDevice> {
        let of = |(namespace, share): (&Namespace, &GpuShare)| PreparedDevice {
            request: share.request.clone(),
            pool: share.pool.clone(),
            device: share.device.clone(),
            cdi_device: cdi::qualified(&self.driver, namespace, share),
            share_id: share.share_id.clone(),
        };
        shares_of(record).map(of).collect()
    }

    /// Takes away what was made for a claim; a claim that is not known needs nothing. If the daemon does not answer,
    /// its namespaces go at the next [`Preparer::repair`].
    ///
    /// # Errors
    /// A file does not do, or the daemon refuses.
    pub fn unprepare(&self, uid: &str) -> Result<Option<PreparedClaim>, PrepareError> {
        let record = self.store.read(uid).map_err(|error| self.of_store(error))?;
        self.remove_spec(uid)?;
        let Some(record) = record else { return Ok(None) };
        for namespace in &record.namespaces {
            match self.daemon.remove(&namespace.name) {
                Ok(()) => {}
                Err(DaemonError::Silent { .. }) => {
                    let over = PreparedClaim { is_over: true, ..record.clone() };
                    self.store.write(&over).map_err(|error| self.of_store(error))?;
                    return Ok(Some(record));
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.store.remove(uid).map_err(|error| self.of_store(error))?;
        Ok(Some(record))
    }

    fn remove_spec(&self, uid: &str) -> Result<(), PrepareError> {
        let file = ::cdi::file_name(&self.driver.cdi_kind(), Some(uid))?;
        ::cdi::remove(&self.folders.cdi, &file).map(drop).map_err(|error| self.of_cdi(error))
    }

    /// UIDs of the claims that have a spec.
    fn specs(&self) -> Result<Vec<String>, PrepareError> {
        let kind = self.driver.cdi_kind();
        let all = ::cdi::list(&self.folders.cdi).map_err(|error| self.of_cdi(error))?;
        let before = format!("{}_", kind.replace('/', "-"));
        let uid = |stored: ::cdi::Stored| {
            let file = stored.path.file_name()?.to_str()?;
            Some(file.strip_prefix(&before)?.strip_suffix(".json")?.to_owned())
        };
        Ok(all.into_iter().filter(|stored| stored.spec.kind == kind).filter_map(uid).collect())
    }

    /// Brings daemon, specs and checkpoints together: after a start of this agent or of the daemon, and now and then.
    ///
    /// # Errors
    /// The daemon or a file does not do.
    pub fn repair(&self) -> Result<Repairs, PrepareError> {
        self.store.remove_drafts().map_err(|error| self.of_store(error))?;
        if self.folders.cdi.is_dir() {
            let before = format!(".{}_", self.driver.cdi_kind().replace('/', "-"));
            let is_draft = |name: &str| name.starts_with(&before) && name.ends_with(".new");
            remove_files(&self.folders.cdi, is_draft).map_err(|error| self.of_cdi(error))?;
        }
        let found = self.store.all().map_err(|error| self.of_store(error))?;
        let mut repairs = Repairs { torn: found.torn.len(), ..Repairs::default() };
        let there = self.daemon.namespaces()?;
        let specs = self.specs()?;
        let (over, wanted): (Vec<PreparedClaim>, Vec<PreparedClaim>) =
            found.records.into_iter().partition(|record| record.is_over);
        for record in &wanted {
            let has_namespaces = record.namespaces.iter().all(|of| there.contains(&of.name));
            if !has_namespaces || !specs.contains(&record.claim.uid) {
                self.ensure(record)?;
                repairs.restored.push(record.claim.clone());
            }
        }
        let is_wanted = |name: &String| {
            wanted.iter().any(|record| record.namespaces.iter().any(|of| of.name == *name))
        };
        for name in there.iter().filter(|name| share::is_share_name(name) && !is_wanted(name)) {
            self.daemon.remove(name)?;
            repairs.removed_namespaces.push(name.clone());
        }
        for uid in specs {
            if !wanted.iter().any(|record| record.claim.uid == uid) {
                self.remove_spec(&uid)?;
                repairs.removed_specs.push(uid);
            }
        }
        for record in &over {
            self.store.remove(&record.claim.uid).map_err(|error| self.of_store(error))?;
        }
        Ok(repairs)
    }

    /// Gives a claim's namespaces, and the programs that run there, other limits; how many programs there were.
    ///
    /// # Errors
    /// What is more than was allocated, or what the daemon says.
    pub fn resize(&self, record: &PreparedClaim, resize: &Resize) -> Result<usize, String> {
        let mut changed = 0;
        for namespace in &record.namespaces {
            let shares = namespace.shares.iter().map(|share| resize.of(share));
            let shares = shares.collect::<Result<Vec<GpuShare>, String>>()?;
            let namespace = Namespace { shares, ..namespace.clone() };
            changed += self.daemon.resize(&namespace).map_err(|error| error.to_string())?;
        }
        Ok(changed)
    }
}

/// A claim's shares, each with its namespace.
pub fn shares_of(record: &PreparedClaim) -> impl Iterator<Item = (&Namespace, &GpuShare)> {
    record.namespaces.iter().flat_map(|of| of.shares.iter().map(move |share| (of, share)))
}

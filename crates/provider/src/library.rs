//! A loaded provider.

use crate::dynamic_library::DynamicLibrary;
use crate::exported::Exported;
use crate::whole::cut_off;
use crate::{MARKER, ProviderError};
use cuda_api::DriverTable;
use cuda_api::extension::Extension;
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Our client library is far smaller; a driver library is far larger. Only smaller files are
/// searched for [`MARKER`], so that a driver of 100 MB is not read at every start.
const CLIENT_BYTES_MAX: u64 = 48 << 20;

/// What kind of provider a library is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Vendor,
    Soft,
    Other,
}

/// A provider, loaded for the life of the process.
pub struct Provider {
    path: PathBuf,
    symbols: Symbols,
    table: DriverTable,
    extension: Option<Extension>,
    kind: Kind,
}

// SAFETY: the library's own tables are read only; the tables here hold function pointers.
unsafe impl Send for Provider {}
// SAFETY: as above; nothing is mutable.
unsafe impl Sync for Provider {}

impl Provider {
    /// Loads the library at `path`.
    pub(crate) fn open(kind: Kind, path: &Path) -> Result<Self, ProviderError> {
        if kind != Kind::Soft && is_own_client(path) {
            return Err(ProviderError::OwnClient { path: path.to_path_buf() });
        }
        let error = |reason: String| ProviderError::Open { path: path.to_path_buf(), reason };
        if let Some((there, wanted)) = cut_off(path) {
            return Err(error(format!("the file is cut off: {there} of {wanted} bytes are there")));
        }
        let c_path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| error("the path has a NUL byte".into()))?;
        let symbols = Symbols::of(DynamicLibrary::open(&c_path).map_err(error)?);
        let lookup = |name: &CStr| symbols.find(name);
        // SAFETY: the library is a CUDA driver by the user's or the installation's word, its cu*
        // symbols have cuda.h's signatures, and it stays loaded. The extension's names are our own.
        let (table, extension) =
            unsafe { (DriverTable::resolve(lookup), Extension::resolve(lookup)) };
        Ok(Self { path: path.to_path_buf(), symbols, table, extension, kind })
    }

    /// The provider's functions.
    pub fn table(&self) -> &DriverTable {
        &self.table
    }

    /// What the provider has beyond the driver API.
    pub fn extension(&self) -> Option<&Extension> {
        self.extension.as_ref()
    }

    /// The address of an exported symbol.
    pub fn symbol(&self, name: &CStr) -> Option<*const c_void> {
        self.symbols.find(name)
    }

    /// Absolute path of the library.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if this is the software GPU.
    pub fn is_software(&self) -> bool {
        self.kind == Kind::Soft || self.extension.is_some()
    }
}

/// Where a library's symbols are looked up.
#[derive(Clone, Copy)]
enum Symbols {
    /// In its own table.
    Own(Exported),
    /// By the loader: the functions are those of a library that it needs, or the table is of another kind.
    Loader(DynamicLibrary),
}

impl Symbols {
    fn of(library: DynamicLibrary) -> Self {
        match Exported::of(library).filter(|exported| exported.find(c"cuInit").is_some()) {
            Some(exported) => Self::Own(exported),
            None => Self::Loader(library),
        }
    }

    fn find(&self, name: &CStr) -> Option<*const c_void> {
        match self {
            Self::Own(exported) => exported.find(name),
            Self::Loader(library) => library.symbol(name),
        }
    }
}

/// True if the file carries our client library's marker.
pub(crate) fn is_own_client(path: &Path) -> bool {
    let small = std::fs::metadata(path).is_ok_and(|m| m.len() <= CLIENT_BYTES_MAX);
    small && std::fs::read(path).is_ok_and(|bytes| contains(&bytes, MARKER))
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    // SAFETY: both pointers are good for the lengths that go with them.
    let found = unsafe {
        libc::memmem(bytes.as_ptr().cast(), bytes.len(), needle.as_ptr().cast(), needle.len())
    };
    !found.is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_client_is_refused() {
        let path = std::env::temp_dir().join(format!("provider-test-{}", std::process::id()));
        std::fs::write(&path, [b"\x7fELF".as_slice(), MARKER, b"rest"].concat()).unwrap();
        let result = Provider::open(Kind::Vendor, &path);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(result, Err(ProviderError::OwnClient { .. })));
    }

    #[test]
    fn a_library_that_was_cut_off_is_refused_and_not_mapped() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let path = std::env::temp_dir().join(format!("provider-half-{}", std::process::id()));
        std::fs::write(&path, &own[..8000]).unwrap();
        let result = Provider::open(Kind::Soft, &path);
        std::fs::remove_file(&path).unwrap();
        let Err(ProviderError::Open { reason, .. }) = result else { panic!("it was loaded") };
        assert!(reason.starts_with("the file is cut off: "), "{reason}");
    }

    #[test]
    fn a_file_that_is_no_library_is_refused_with_the_loaders_words() {
        match Provider::open(Kind::Other, Path::new("/etc/passwd")) {
            Err(ProviderError::Open { reason, .. }) => assert!(!reason.is_empty()),
            _ => panic!("/etc/passwd is no library"),
        }
    }
}

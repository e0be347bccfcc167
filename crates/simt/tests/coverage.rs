//! Which of the instruction forms that compilers emit are lowered, and which are not.
//!
//! `ptx/tests/data/forms_*.ptx` has every form once. What does not become operations is listed in
//! `unsupported.txt`, so that the list cannot change unnoticed; write it anew with
//! `SIMT_BLESS=1 cargo test -p simt --test coverage`.

use simt::kernel::{Kernel, KernelInfo, ModuleMemory, OutOfMemory};
use simt::vector::{Tier, VectorKernel};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Keeps the texts of what was not lowered; compiles nothing.
#[derive(Default)]
struct Collector(Mutex<BTreeSet<String>>);

impl Tier for Collector {
    fn compile(&self, kernel: VectorKernel) -> Arc<dyn Kernel> {
        let functions = std::iter::once(&kernel.entry).chain(kernel.functions.values());
        self.0.lock().unwrap().extend(functions.flat_map(|f| f.texts.clone()));
        Arc::new(Nothing(kernel.info))
    }
}

struct Nothing(KernelInfo);

impl Kernel for Nothing {
    fn info(&self) -> &KernelInfo {
        &self.0
    }

    fn start(
        self: Arc<Self>,
        _: Arc<simt::kernel::Launch>,
        _: simt::kernel::Dim3,
    ) -> Box<dyn simt::kernel::BlockRun> {
        unreachable!("nothing is launched")
    }
}

/// Hands out addresses that nobody uses.
struct Addresses(u64);

impl ModuleMemory for Addresses {
    fn allocate(&mut self, bytes: u64, align: u64, _: bool) -> Result<u64, OutOfMemory> {
        let at = self.0.next_multiple_of(align.max(1));
        self.0 = at + bytes;
        Ok(at)
    }

    fn write(&mut self, _: u64, _: &[u8]) {}
}

#[test]
fn what_is_not_lowered_is_listed() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = String::new();
    for prefix in ["forms_", "more_"] {
        let collector = Arc::new(Collector::default());
        for entry in std::fs::read_dir(here.join("../ptx/tests/data")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !name.starts_with(prefix) {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let module = simt::load_module(&text, &mut Addresses(0x1000), collector.clone())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            for kernel in module.kernel_names() {
                assert!(module.kernel(&kernel).is_some(), "{name}: {kernel}");
            }
        }
        for text in collector.0.lock().unwrap().iter() {
            found.push_str(text.trim());
            found.push('\n');
        }
    }
    let list = here.join("tests/unsupported.txt");
    if std::env::var_os("SIMT_BLESS").is_some() {
        std::fs::write(&list, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&list).unwrap_or_default());
}

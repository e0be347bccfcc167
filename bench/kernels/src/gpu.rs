//! Runs a case through the driver API, by a provider's functions.

use crate::case::{Argument, Case, Run, Tolerance};
use crate::clock::Clock;
use crate::image;
use crate::memory::Memory;
use anyhow::{Context, Result};
use cuda_api::DriverTable;
use cuda_api::{CUcontext, CUfunction, CUmodule, CUstream};
use serde::Serialize;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

/// A device with a current context.
pub(crate) struct Gpu<'a> {
    table: &'a DriverTable,
}

impl<'a> Gpu<'a> {
    /// The first device of a provider; its primary context becomes current on this thread.
    pub(crate) fn open(table: &'a DriverTable) -> Result<Self> {
        let mut context = CUcontext::default();
        // SAFETY: a provider's functions have cuda.h's signatures; pointers are to live values.
        unsafe {
            (table.cuInit)(0).context("cuInit")?;
            (table.cuDevicePrimaryCtxRetain)(&mut context, 0).context("a context")?;
            (table.cuCtxSetCurrent)(context).context("cuCtxSetCurrent")?;
        }
        Ok(Self { table })
    }

    /// Measures an empty kernel.
    pub(crate) fn overhead(&self, clock: Clock) -> Result<Overhead> {
        const BLOCKS: u32 = 4096;
        let ns = |blocks: u32| -> Result<f64> {
            let case = Case {
                name: "empty",
                kernel: "empty",
                ptx: ".version 7.0\n.target sm_50\n.address_size 64\n.entry empty() { ret; }"
                    .into(),
                c: "",
                opencl: "",
                unit: "",
                work: 1.0,
                grid: [blocks, 1, 1],
                block: [32, 1, 1],
                arguments: Vec::new(),
                tolerance: Tolerance::Exact,
            };
            Ok(self.run(&case, clock)?.seconds * 1e9)
        };
        let (one, many) = (ns(1)?, ns(BLOCKS)?);
        Ok(Overhead { launch_ns: one, block_ns: (many - one) / f64::from(BLOCKS - 1) })
    }

    pub(crate) fn run(&self, case: &Case, clock: Clock) -> Result<Run> {
        clock.measure(
            || {
                let loaded = self.load(case)?;
                loaded.runs(1)?;
                Ok(loaded)
            },
            |loaded, count| loaded.runs(count),
            |loaded| loaded.outputs(),
        )
    }

    /// Loads a case and places its arguments.
    pub(crate) fn load<'c>(&self, case: &'c Case) -> Result<Loaded<'c>>
    where
        'a: 'c,
    {
        let arguments = case.arguments.iter().map(|a| Placed::new(self.table, a));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        Loaded::new(self.table, case, arguments.into())
    }
}

/// What an empty kernel of one warp a block costs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Overhead {
    /// A launch of one block among many in a row, ns.
    pub launch_ns: f64,
    /// Each further block of a launch, ns.
    pub block_ns: f64,
}

/// One argument on the device.
enum Placed<'a> {
    Memory { memory: Memory<'a>, output: bool },
    Value([u8; 4]),
    Image(Box<image::Placed<'a>>),
}

impl<'a> Placed<'a> {
    fn new(table: &'a DriverTable, argument: &Argument) -> Result<Self> {
        Ok(match argument {
            Argument::Input(bytes) => {
                Self::Memory { memory: Memory::new(table, bytes)?, output: false }
            }
            Argument::Output(element, count) => {
                let memory = Memory::new(table, &vec![0; count * element.bytes()])?;
                Self::Memory { memory, output: true }
            }
            Argument::Value(bytes) => Self::Value(*bytes),
            Argument::Image(image) => Self::Image(Box::new(image::Placed::new(table, image)?)),
        })
    }
}

/// A case's module, unloaded when dropped, and its arguments.
pub(crate) struct Loaded<'a> {
    table: &'a DriverTable,
    case: &'a Case,
    module: CUmodule,
    function: CUfunction,
    arguments: Rc<[Placed<'a>]>,
}

impl<'a> Loaded<'a> {
    fn new(table: &'a DriverTable, case: &'a Case, arguments: Rc<[Placed<'a>]>) -> Result<Self> {
        let ptx = CString::new(&*case.ptx)?;
        let name = CString::new(case.kernel)?;
        let mut loaded = Self {
            table,
            case,
            module: CUmodule::default(),
            function: CUfunction::default(),
            arguments,
        };
        // SAFETY: as in `Gpu::open`; `ptx` and `name` are C strings.
        unsafe {
            (table.cuModuleLoadData)(&mut loaded.module, ptx.as_ptr().cast()).context("loading")?;
            (table.cuModuleGetFunction)(&mut loaded.function, loaded.module, name.as_ptr())
                .context("its kernel")?;
        }
        Ok(loaded)
    }

    /// The same module once more, on the same memory.
    pub(crate) fn again(&self) -> Result<Self> {
        Self::new(self.table, self.case, self.arguments.clone())
    }

    /// Launches `count` times, then waits.
    pub(crate) fn runs(&self, count: u32) -> Result<()> {
        let ([gx, gy, gz], [bx, by, bz]) = (self.case.grid, self.case.block);
        let mut parameters: Vec<*mut c_void> = self
            .arguments
            .iter()
            .map(|argument| match argument {
                Placed::Memory { memory, .. } => {
                    std::ptr::from_ref(&memory.address).cast_mut().cast()
                }
                Placed::Value(bytes) => bytes.as_ptr().cast_mut().cast(),
                Placed::Image(image) => std::ptr::from_ref(&image.handle).cast_mut().cast(),
            })
            .collect();
        // SAFETY: as in `Gpu::open`; there is a pointer for each parameter of the kernel.
        unsafe {
            for _ in 0..count {
                (self.table.cuLaunchKernel)(
                    self.function,
                    gx,
                    gy,
                    gz,
                    bx,
                    by,
                    bz,
                    0,
                    CUstream::default(),
                    parameters.as_mut_ptr(),
                    null_mut(),
                )
                .context("a launch")?;
            }
            (self.table.cuCtxSynchronize)().context("running the kernel")
        }
    }

    pub(crate) fn outputs(&self) -> Result<Vec<Vec<u8>>> {
        let mut outputs = Vec::new();
        for argument in self.arguments.iter() {
            match argument {
                Placed::Memory { memory, output: true } => outputs.push(memory.contents()?),
                Placed::Image(image) if image.output => outputs.push(image.texels()?),
                _ => {}
            }
        }
        Ok(outputs)
    }
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing of the module runs; a module that was not loaded is refused.
        let _ = unsafe { (self.table.cuModuleUnload)(self.module) };
    }
}

//! Cubins: ELF files of machine code. Nothing here runs one; it reads what a host must know:
//! for which architecture it is, what kernels it has, and where their parameters lie.

use crate::bytes::{bytes_at, string_at, u8_at, u16_at, u32_at, u64_at};
use crate::limits::{PARAMETERS_MAX, SECTIONS_MAX};

/// `\x7fELF` as a little-endian word.
pub const ELF_MAGIC: u32 = 0x464C457F;

const MACHINE_CUDA: u16 = 190;
const OSABI_TO_12: u8 = 0x33;
const OSABI_FROM_13: u8 = 0x41;

const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
pub(crate) const SECTION_HEADER_BYTES: usize = 64;
pub(crate) const SECTION_NO_BITS: u32 = 8;

const ATTRIBUTE_PARAM_CBANK: u8 = 0x0A;
const ATTRIBUTE_KPARAM_INFO: u8 = 0x17;
const ATTRIBUTE_CBANK_PARAM_SIZE: u8 = 0x19;
const ATTRIBUTE_KPARAM_INFO_V2: u8 = 0x45;
const FORMAT_SIZED: u8 = 4;

/// Why a cubin cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CubinError {
    /// Not an ELF file.
    #[error("not an ELF file: it starts with 0x{0:08x}, expected 0x{ELF_MAGIC:08x}")]
    Magic(u32),
    /// An ELF file, but not a 64-bit little-endian one for CUDA.
    #[error(
        "ELF file of class {class}, machine {machine}: expected 64 bits, machine {MACHINE_CUDA}"
    )]
    NotCuda {
        /// 1 for 32 bits, 2 for 64.
        class: u8,
        /// ELF's number of the machine.
        machine: u16,
    },
    /// It ends too early, or a table lies outside.
    #[error("ELF file is damaged: {0} lies outside of it")]
    Truncated(&'static str),
    /// More sections than [`SECTIONS_MAX`].
    #[error("ELF file has {0} sections, expected at most {SECTIONS_MAX}")]
    TooManySections(usize),
}

/// A kernel's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CubinParameter {
    /// Offset in the parameter buffer.
    pub offset_bytes: u32,
    /// Its size.
    pub size_bytes: u32,
}

/// A kernel of a cubin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CubinKernel<'a> {
    /// Its (mangled) name.
    pub name: &'a str,
    /// Its parameters in order.
    pub params: Vec<CubinParameter>,
    /// Size of the parameter buffer.
    pub param_bytes: u32,
}

/// What a host must know of a cubin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cubin<'a> {
    /// Compute capability times ten.
    pub sm: u32,
    /// Kernels in the order of the file.
    pub kernels: Vec<CubinKernel<'a>>,
}

/// A section of an ELF file.
pub(crate) struct Section<'a> {
    /// Its name; empty if it has none.
    pub(crate) name: &'a str,
    /// Its bytes in the file.
    pub(crate) content: &'a [u8],
}

/// The table of section headers: offset, size of one, how many, number of the one with names.
pub(crate) struct SectionTable {
    pub(crate) offset: usize,
    pub(crate) each: usize,
    pub(crate) count: usize,
    names: usize,
}

pub(crate) fn section_table(bytes: &[u8]) -> Option<SectionTable> {
    Some(SectionTable {
        offset: usize::try_from(u64_at(bytes, 40)?).ok()?,
        each: usize::from(u16_at(bytes, 58)?),
        count: usize::from(u16_at(bytes, 60)?),
        names: usize::from(u16_at(bytes, 62)?),
    })
}

/// Length of an ELF file from what its header and section headers say: `read` gives the bytes at
/// an offset, or `None` where there are none.
///
/// # Errors
/// Not a 64-bit ELF file, or tables that cannot be read.
pub fn length(mut read: impl FnMut(u64, usize) -> Option<Vec<u8>>) -> Result<u64, CubinError> {
    let header = read(0, HEADER_BYTES).ok_or(CubinError::Truncated("the header"))?;
    check_header(&header)?;
    let word = |offset| u64_at(&header, offset).unwrap_or(0);
    let half = |offset| u64::from(u16_at(&header, offset).unwrap_or(0));
    let (programs, program_each, program_count) = (word(32), half(54), half(56));
    let programs_end = programs.saturating_add(program_each * program_count);
    let sections = word(40);
    let (each, count) = (half(58), half(60));
    let mut end = programs_end.max(sections.saturating_add(each * count)).max(HEADER_BYTES as u64);
    if program_count > 0 {
        let damaged = CubinError::Truncated("the table of segments");
        if program_each != PROGRAM_HEADER_BYTES as u64 {
            return Err(damaged);
        }
        let table = read(programs, (program_each * program_count) as usize).ok_or(damaged)?;
        for segment in table.chunks_exact(PROGRAM_HEADER_BYTES) {
            let offset = u64_at(segment, 8).unwrap_or(0);
            end = end.max(offset.saturating_add(u64_at(segment, 32).unwrap_or(0)));
        }
    }
    if count > 0 {
        if each != SECTION_HEADER_BYTES as u64 {
            return Err(CubinError::Truncated("the table of sections"));
        }
        let table = read(sections, (each * count) as usize)
            .ok_or(CubinError::Truncated("the table of sections"))?;
        for section in table.chunks_exact(each as usize) {
            if u32_at(section, 4) != Some(SECTION_NO_BITS) {
                let offset = u64_at(section, 24).unwrap_or(0);
                end = end.max(offset.saturating_add(u64_at(section, 32).unwrap_or(0)));
            }
        }
    }
    Ok(end)
}

pub(crate) fn check_header(bytes: &[u8]) -> Result<(), CubinError> {
    let truncated = CubinError::Truncated("the header");
    let magic = u32_at(bytes, 0).ok_or(truncated)?;
    if magic != ELF_MAGIC {
        return Err(CubinError::Magic(magic));
    }
    let class = u8_at(bytes, 4).ok_or(truncated)?;
    let machine = u16_at(bytes, 18).ok_or(truncated)?;
    if class != 2 || u8_at(bytes, 5) != Some(1) || machine != MACHINE_CUDA {
        return Err(CubinError::NotCuda { class, machine });
    }
    Ok(())
}

/// Compute capability times ten, from the header's flags.
fn architecture(bytes: &[u8]) -> u32 {
    let flags = u32_at(bytes, 48).unwrap_or(0);
    match u8_at(bytes, 7) {
        Some(OSABI_FROM_13) => flags >> 8 & 0xff,
        Some(OSABI_TO_12) => flags & 0xff,
        _ => flags & 0xff,
    }
}

impl<'a> Cubin<'a> {
    /// Reads a cubin.
    ///
    /// # Errors
    /// Not a cubin, or a damaged one.
    pub fn read(bytes: &'a [u8]) -> Result<Cubin<'a>, CubinError> {
        check_header(bytes)?;
        let sections = sections(bytes)?;
        let mut kernels = Vec::new();
        for section in &sections {
            // Every kernel has code; only those with parameters have all of the information.
            let Some(name) = section.name.strip_prefix(".nv.info.") else { continue };
            let is_kernel =
                sections.iter().any(|other| other.name.strip_prefix(".text.") == Some(name));
            if is_kernel {
                kernels.push(read_kernel(name, section.content));
            }
        }
        Ok(Cubin { sm: architecture(bytes), kernels })
    }
}

/// The sections of a 64-bit ELF file, for any machine.
pub(crate) fn sections(bytes: &[u8]) -> Result<Vec<Section<'_>>, CubinError> {
    let outside = CubinError::Truncated("the table of sections");
    let table = section_table(bytes).ok_or(outside)?;
    if table.count > SECTIONS_MAX {
        return Err(CubinError::TooManySections(table.count));
    }
    if table.count == 0 {
        return Ok(Vec::new());
    }
    if table.each < SECTION_HEADER_BYTES {
        return Err(outside);
    }
    let header =
        |index: usize| bytes_at(bytes, table.offset.checked_add(index * table.each)?, table.each);
    let content = |header: &[u8]| {
        if u32_at(header, 4)? == SECTION_NO_BITS {
            return Some(&bytes[..0]);
        }
        let offset = usize::try_from(u64_at(header, 24)?).ok()?;
        bytes_at(bytes, offset, usize::try_from(u64_at(header, 32)?).ok()?)
    };
    let names = header(table.names).and_then(content).ok_or(outside)?;
    (0..table.count)
        .map(|index| {
            let header = header(index).ok_or(outside)?;
            let name = u32_at(header, 0).and_then(|at| string_at(names, at as usize));
            let content = content(header).ok_or(CubinError::Truncated("a section"))?;
            Ok(Section { name: name.unwrap_or(""), content })
        })
        .collect()
}

/// Records of `.nv.info.<kernel>`; what is malformed ends them.
fn read_kernel<'a>(name: &'a str, mut info: &[u8]) -> CubinKernel<'a> {
    let mut params: Vec<(u16, CubinParameter)> = Vec::new();
    let mut param_bytes = 0u32;
    while let (Some(format), Some(attribute), Some(value)) =
        (u8_at(info, 0), u8_at(info, 1), u16_at(info, 2))
    {
        let length = if format == FORMAT_SIZED { usize::from(value) } else { 0 };
        let Some(payload) = bytes_at(info, 4, length) else { break };
        info = &info[4 + length..];
        match attribute {
            ATTRIBUTE_KPARAM_INFO | ATTRIBUTE_KPARAM_INFO_V2 => {
                let record = (|| {
                    let (ordinal, offset) = (u16_at(payload, 4)?, u16_at(payload, 6)?);
                    let size_bytes = if attribute == ATTRIBUTE_KPARAM_INFO {
                        u32_at(payload, 8)? >> 18
                    } else {
                        u32::from(u16_at(payload, 8)?)
                    };
                    Some((ordinal, CubinParameter { offset_bytes: u32::from(offset), size_bytes }))
                })();
                if let Some(record) = record
                    && params.len() < PARAMETERS_MAX
                {
                    params.push(record);
                }
            }
            ATTRIBUTE_CBANK_PARAM_SIZE => param_bytes = u32::from(value),
            ATTRIBUTE_PARAM_CBANK if param_bytes == 0 => {
                param_bytes = u16_at(payload, 6).map_or(0, u32::from);
            }
            _ => {}
        }
    }
    params.sort_by_key(|&(ordinal, _)| ordinal);
    CubinKernel { name, params: params.into_iter().map(|(_, param)| param).collect(), param_bytes }
}

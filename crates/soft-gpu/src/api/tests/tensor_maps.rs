//! Tensor maps, and what copies with them do, against what NVIDIA's driver and a GPU answered:
//! `tensor_maps.txt` has a case a line, `bench/h200/tensor_maps.py` says what the words mean and
//! writes down answers.

use super::*;
use crate::api::tensor_map::{
    cuTensorMapEncodeIm2col, cuTensorMapEncodeTiled, cuTensorMapReplaceAddress,
};
use std::collections::HashMap;
use std::ffi::c_int;
use std::str::FromStr;

const CASES: &str = include_str!("tensor_maps.txt");
const PTX: &str = include_str!("tensor_maps.ptx");

const GLOBAL_BYTES: usize = 128 << 10;
const SHARED_BYTES: usize = 32 << 10;
/// Behind what shared memory has: whether the mbarrier has heard of all.
const OUT_BYTES: usize = SHARED_BYTES + 8;

/// Numbers that conversions and sums do not treat alike.
const FLOATS: [u32; 16] = [
    0x3f80_0000,
    0x3f80_1000,
    0x3f80_1001,
    0x3f80_3000,
    0x0000_0001,
    0x807f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7f80_0001,
    0x7fc1_2345,
    0xbf80_2fff,
    0x4049_0fdb,
    0x8000_0000,
    0x3f80_0fff,
];

/// What memory holds beforehand.
fn contents(name: &str, seed: u32, bytes: usize) -> Vec<u8> {
    let word = |i: u32| match name {
        "floats" => FLOATS[((i + seed) % 16) as usize],
        "small" => 0x3c00_3c00 + (i + seed) % 4 * 0x0400_0400,
        _ => {
            let x = (i + seed).wrapping_mul(0x9e37_79b1);
            let x = (x ^ x >> 15).wrapping_mul(0x85eb_ca77);
            x ^ x >> 13
        }
    };
    (0..bytes as u32 / 4).flat_map(|i| word(i).to_le_bytes()).collect()
}

fn digest(bytes: &[u8]) -> String {
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let hash = words
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, word| (hash ^ word).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}

/// The words of a line.
struct Case<'a>(HashMap<&'a str, &'a str>);

impl<'a> Case<'a> {
    fn read(text: &'a str) -> Self {
        Self(text.split_whitespace().map(|word| word.split_once('=').unwrap()).collect())
    }

    fn list<T: FromStr<Err: std::fmt::Debug> + Default>(&self, name: &str) -> [T; 8] {
        let mut numbers = self.0.get(name).into_iter().flat_map(|text| text.split(','));
        [(); 8].map(|()| numbers.next().map_or(T::default(), |text| text.parse().unwrap()))
    }

    fn number(&self, name: &str) -> u32 {
        self.list(name)[0]
    }

    fn encode(&self, base: u64) -> Result<CUtensorMap, Error> {
        let mut maps = [CUtensorMap::default(); 2];
        let place = self.number("place") as usize;
        let map = std::ptr::from_mut(&mut maps).cast::<u8>().wrapping_add(place).cast();
        let dimensions: [u64; 8] = self.list("dim");
        let rank = match self.0.get("rank") {
            Some(rank) => rank.parse().unwrap(),
            None => self.0["dim"].split(',').count() as u32,
        };
        let address = (base + u64::from(self.number("base"))) as *mut c_void;
        let strides: [u64; 8] = self.list("stride");
        let steps = match self.0.contains_key("step") {
            true => self.list("step"),
            false => [1; 8],
        };
        let (ty, interleave, swizzle) =
            (self.number("type"), self.number("inter"), self.number("swz"));
        let (promotion, fill) = (self.number("l2"), self.number("fill"));
        if self.0.contains_key("low") {
            let (lower, upper): ([c_int; 8], [c_int; 8]) = (self.list("low"), self.list("up"));
            cu!(cuTensorMapEncodeIm2col(
                map,
                ty,
                rank,
                address,
                dimensions.as_ptr(),
                strides.as_ptr(),
                lower.as_ptr(),
                upper.as_ptr(),
                self.number("chan"),
                self.number("pix"),
                steps.as_ptr(),
                interleave,
                swizzle,
                promotion,
                fill,
            ))?;
        } else {
            let extent: [u32; 8] = self.list("box");
            cu!(cuTensorMapEncodeTiled(
                map,
                ty,
                rank,
                address,
                dimensions.as_ptr(),
                strides.as_ptr(),
                extent.as_ptr(),
                steps.as_ptr(),
                interleave,
                swizzle,
                promotion,
                fill,
            ))?;
        }
        // SAFETY: the map is within the two that are there.
        Ok(unsafe { map.read_unaligned() })
    }
}

/// The kernel, and memory for it.
struct Copier {
    function: CUfunction,
    tensor: CUdeviceptr,
    given: CUdeviceptr,
    out: CUdeviceptr,
}

impl Copier {
    fn new() -> Self {
        let text = std::ffi::CString::new(PTX).unwrap();
        let (mut module, mut function) = (CUmodule::NULL, CUfunction::NULL);
        cu!(cuModuleLoadData(&mut module, text.as_ptr().cast())).unwrap();
        cu!(cuModuleGetFunction(&mut function, module, c"copy".as_ptr())).unwrap();
        let (tensor, given) = (allocate(GLOBAL_BYTES), allocate(SHARED_BYTES));
        Self { function, tensor, given, out: allocate(OUT_BYTES) }
    }

    /// What comes of a copy: as in the file.
    fn run(&self, case: &Case<'_>, mut map: CUtensorMap, mut expected_bytes: u32) -> String {
        let data = case.0.get("data").copied().unwrap_or_default();
        let mut tensor = contents(data, 0, GLOBAL_BYTES);
        let given = contents(data, 77, SHARED_BYTES);
        cu!(cuMemcpyHtoD_v2(self.tensor, tensor.as_ptr().cast(), GLOBAL_BYTES)).unwrap();
        cu!(cuMemcpyHtoD_v2(self.given, given.as_ptr().cast(), SHARED_BYTES)).unwrap();
        let (mut mode, mut shift) = (case.number("mode"), case.number("shift"));
        let (mut at, mut offsets): ([i32; 8], [i32; 8]) = (case.list("at"), case.list("off"));
        let mut offsets = offsets.each_mut().map(|offset| *offset as i16);
        let (mut from, mut to) = (self.given, self.out);
        let mut params: [*mut c_void; 8] = [
            std::ptr::from_mut(&mut map).cast(),
            std::ptr::from_mut(&mut from).cast(),
            std::ptr::from_mut(&mut to).cast(),
            std::ptr::from_mut(&mut mode).cast(),
            std::ptr::from_mut(&mut shift).cast(),
            std::ptr::from_mut(&mut expected_bytes).cast(),
            at.as_mut_ptr().cast(),
            offsets.as_mut_ptr().cast(),
        ];
        let shared = SHARED_BYTES as u32 + 64;
        let params = params.as_mut_ptr();
        let stream = CUstream::NULL;
        let function = self.function;
        cu!(cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, shared, stream, params, null_mut()))
            .unwrap();
        let mut out = vec![0u8; OUT_BYTES];
        cu!(cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), self.out, OUT_BYTES)).unwrap();
        cu!(cuMemcpyDtoH_v2(tensor.as_mut_ptr().cast(), self.tensor, GLOBAL_BYTES)).unwrap();
        if mode >= 20 {
            return format!("digest={}", digest(&tensor));
        }
        let heard = if out[SHARED_BYTES] == 1 { expected_bytes.to_string() } else { "?".into() };
        format!("bytes={heard} digest={}", digest(&out[..SHARED_BYTES]))
    }
}

#[test]
fn tensor_maps_do_what_a_gpu_does() {
    let _watchdog = start();
    let copier = Copier::new();
    let mut wrong = Vec::new();
    for (number, line) in (1..).zip(CASES.lines()) {
        let Some((case, expected)) = line.split_once("=>") else { continue };
        let (case, expected) = (Case::read(case), expected.trim());
        let got = match case.encode(copier.tensor.0) {
            Err(error) => format!("error={}", error.code()),
            Ok(_) if !case.0.contains_key("mode") => "ok".to_owned(),
            // A fault would end the context of all tests; the interpreter's own tests have some.
            Ok(_) if expected.contains("fault=") => continue,
            Ok(map) => {
                let bytes = Case::read(expected).number("bytes");
                copier.run(&case, map, bytes)
            }
        };
        if got != expected {
            wrong.push(format!("{number}: {line}\n  but here {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_map_gets_another_address() {
    let _watchdog = start();
    let case = Case::read("type=6 dim=64,32 stride=128 box=16,8");
    let mut map = case.encode(0x1000).unwrap();
    cu!(cuTensorMapReplaceAddress(&mut map, 0x2000 as *mut c_void)).unwrap();
    assert_eq!(map, case.encode(0x2000).unwrap());
    let odd = cu!(cuTensorMapReplaceAddress(&mut map, 0x2008 as *mut c_void));
    assert_eq!(odd, Err(Error::INVALID_VALUE));
    let mut none = CUtensorMap::default();
    let none = cu!(cuTensorMapReplaceAddress(&mut none, 0x2000 as *mut c_void));
    assert_eq!(none, Err(Error::INVALID_VALUE));
}

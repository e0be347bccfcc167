//! Copies with tensor maps that are none, that do not suit the copy, or that lead where nothing is.
//! What good copies do is tested where maps are made, by the software GPU.

use super::harness::{Device, Params, Shape};
use super::tiers::{ALL_SETS, Set};
use simt::kernel::FaultKind;
use simt::runtime::tensor_map::{Element, Extent, TensorMap, field};

/// Rows of the matrix, and bytes of each.
const ROWS: u64 = 32;
const ROW_BYTES: u64 = 128;

/// Loads, stores or adds a tile of 16 by 8 elements of f16: shared memory has room for 256 bytes.
const PTX: &str = ".version 8.6\n.target sm_90a\n.address_size 64\n\
    .shared .align 1024 .b8 tile[256];\n.shared .b64 bar;\n\
    .visible .entry k(.param .u64 map, .param .u32 shift, .param .u32 what)\n{\n\
    .reg .b64 %map;\n.reg .b32 %tile, %shift, %what, %zero;\n.reg .pred %p;\n\
    ld.param.u64 %map, [map];\nld.param.u32 %shift, [shift];\nld.param.u32 %what, [what];\n\
    mov.u32 %zero, 0;\nmov.u32 %tile, tile;\nadd.u32 %tile, %tile, %shift;\n\
    mbarrier.init.shared.b64 [bar], 1;\n\
    setp.eq.u32 %p, %what, 1;\n@%p bra STORE;\nsetp.eq.u32 %p, %what, 2;\n@%p bra ADD;\n\
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%map, {%zero, %zero}], [bar];\n\
    ret;\n\
    STORE:\ncp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {%zero, %zero}], [%tile];\nret;\n\
    ADD:\ncp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%map, {%zero, %zero}], [%tile];\nret;\n}\n";

const LOAD: u32 = 0;
const STORE: u32 = 1;
const ADD: u32 = 2;

struct Rig {
    device: Device,
    matrix: u64,
    constant: u64,
    map: u64,
}

impl Rig {
    fn new(set: Set) -> Self {
        let device = Device::new(set);
        let matrix = device.memory.allocate(ROWS * ROW_BYTES, true);
        let constant = device.memory.allocate(ROWS * ROW_BYTES, false);
        let map = device.memory.allocate(256, true);
        Self { device, matrix, constant, map }
    }

    fn good(&self) -> TensorMap {
        TensorMap {
            address: self.matrix,
            strides: [ROW_BYTES, 0, 0, 0],
            dimensions: [64, ROWS, 1, 1, 1],
            extent: Extent::Box([16, 8, 1, 1, 1]),
            steps: [1; 5],
            rank: 2,
            element: Element::F16,
            interleave: 0,
            swizzle: 0,
            fill_nan: false,
        }
    }

    /// Runs a copy with a map, which lies `apart` bytes from where it should.
    fn run(&mut self, map: [u8; 128], what: u32, shift: u32, apart: u64) -> Option<FaultKind> {
        self.device.memory.write(self.map + apart, &map);
        let module = self.device.load(PTX).unwrap();
        let kernel = module.kernel("k").expect("the kernel");
        let mut params = Params::default();
        params.push(&(self.map + apart).to_le_bytes());
        params.push(&shift.to_le_bytes());
        params.push(&what.to_le_bytes());
        self.device.run(&kernel, Shape::linear(1, 1), &params.0).err().map(|fault| fault.kind)
    }
}

#[test]
fn maps_that_are_none_fault() {
    for set in ALL_SETS {
        let mut rig = Rig::new(set);
        let (good, map) = (rig.good(), rig.map);
        let refused = |fault: Option<FaultKind>, why: &str| {
            let expected = matches!(
                fault,
                Some(FaultKind::TensorMap { address, why: said }) if address == map && said == why
            );
            assert!(expected, "{fault:?}");
        };
        let (none, other_kind) = ("it is none", "it is for other modes or dimensions");
        for what in [LOAD, STORE, ADD] {
            assert_eq!(rig.run(good.encode(), what, 0, 0), None);
            refused(rig.run([0; 128], what, 0, 0), none);
            let mut other = good.encode();
            other[field::TYPE as usize] = 99;
            refused(rig.run(other, what, 0, 0), none);
            refused(rig.run(TensorMap { rank: 3, ..good }.encode(), what, 0, 0), other_kind);
            let extent = Extent::Columns { channels: 8, pixels: 8, lower: [0; 3], upper: [0; 3] };
            let columns = TensorMap { rank: 3, extent, ..good };
            refused(rig.run(columns.encode(), what, 0, 0), other_kind);
        }
        // Bytes are not added.
        let bytes = TensorMap { element: Element::U8, ..good }.encode();
        assert_eq!(rig.run(bytes, LOAD, 0, 0), None);
        refused(rig.run(bytes, ADD, 0, 0), "its elements are not combined so");
        let odd = Some(FaultKind::MisalignedAddress { address: map + 8, bytes: 64 });
        assert_eq!(rig.run(good.encode(), LOAD, 0, 8), odd);
    }
}

#[test]
fn copies_keep_to_what_memory_there_is() {
    for set in ALL_SETS {
        let mut rig = Rig::new(set);
        let good = rig.good();
        for what in [LOAD, STORE, ADD] {
            let write = what != LOAD;
            // Shared memory: not aligned, and not enough of it.
            let odd = rig.run(good.encode(), what, 64, 0);
            assert!(
                matches!(odd, Some(FaultKind::MisalignedAddress { bytes: 128, .. })),
                "{odd:?}"
            );
            let far = rig.run(good.encode(), what, 128, 0);
            let expected = matches!(
                far,
                Some(FaultKind::OutsideSpace { space: "shared", offset: 128, bytes: 256, .. })
            );
            assert!(expected, "{far:?}");
            // Device memory: a row behind what was allocated, and one that may only be read.
            let wide = TensorMap { strides: [ROWS * ROW_BYTES, 0, 0, 0], ..good };
            let behind = rig.matrix + ROWS * ROW_BYTES;
            let illegal = |address| FaultKind::IllegalAddress { address, bytes: 32, write };
            assert_eq!(rig.run(wide.encode(), what, 0, 0), Some(illegal(behind)));
            let fixed = TensorMap { address: rig.constant, ..good };
            let expected = write.then_some(illegal(rig.constant));
            assert_eq!(rig.run(fixed.encode(), what, 0, 0), expected);
            // A forged address.
            let odd = TensorMap { address: rig.matrix + 1, ..good };
            let expected = FaultKind::MisalignedAddress { address: rig.matrix + 1, bytes: 2 };
            assert_eq!(rig.run(odd.encode(), what, 0, 0), Some(expected));
        }
    }
}

//! Images: fatbins and cubins that nvcc 13.5 made of `tests/data/params.cu`, with
//! `-gencode arch=compute_80,code=sm_80`, the same for 90, both `compute_` as PTX, and
//! `-Xfatbin -compress-mode=size` (zstd) or `speed` (LZ4). And what happens to damaged ones.

use proptest::prelude::*;
use ptx::cubin::Cubin;
use ptx::embedded::texts;
use ptx::fatbin::{Compression, EntryKind, Fatbin, FatbinError, PtxChoice};
use ptx::image::{Image, ImageError, ImageKind, kind_of, measure};

const ZSTD: &[u8] = include_bytes!("data/params_zstd.fatbin");
const LZ4: &[u8] = include_bytes!("data/params_lz4.fatbin");

#[test]
fn entries_are_listed_with_their_architectures() {
    for image in [ZSTD, LZ4] {
        let fatbin = Fatbin::read(image).unwrap();
        assert_eq!(fatbin.entries.len(), 4);
        assert_eq!(fatbin.architectures(), "compute_80, sm_80, compute_90, sm_90");
    }
}

#[test]
fn the_ptx_of_both_compressions_is_the_same_text() {
    let text = |image, method| {
        let fatbin = Fatbin::read(image).unwrap();
        let entry = fatbin.ptx_for(80, PtxChoice::UpToDevice).unwrap();
        assert_eq!(entry.compression, method);
        assert_eq!(entry.version.0, 9);
        entry.payload().unwrap().into_owned()
    };
    let zstd = text(ZSTD, Compression::Zstd);
    assert_eq!(zstd, text(LZ4, Compression::Lz4));
    let module = ptx::parse_bytes(&zstd).unwrap();
    let warnings = ptx::check(&module).unwrap();
    assert_eq!(warnings, []);
    let mut kernels: Vec<&str> = module.kernels().map(|(_, k)| module.name(k.name)).collect();
    kernels.sort_unstable();
    assert_eq!(kernels, ["mixed", "nothing", "scale"]);
}

#[test]
fn the_best_ptx_is_the_latest_that_the_device_accepts() {
    let fatbin = Fatbin::read(ZSTD).unwrap();
    let sm = |sm, choice| fatbin.ptx_for(sm, choice).map(|entry| entry.sm);
    assert_eq!(sm(80, PtxChoice::UpToDevice), Some(80));
    assert_eq!(sm(89, PtxChoice::UpToDevice), Some(80));
    assert_eq!(sm(120, PtxChoice::UpToDevice), Some(90));
    assert_eq!(sm(75, PtxChoice::UpToDevice), None);
    assert_eq!(sm(75, PtxChoice::Any), Some(80));
    let cubin = |sm| fatbin.cubin_for(sm).map(|entry| entry.sm);
    assert_eq!((cubin(86), cubin(90), cubin(75), cubin(100)), (Some(80), Some(90), None, None));
}

#[test]
fn cubins_tell_the_same_parameters_as_the_ptx() {
    let fatbin = Fatbin::read(ZSTD).unwrap();
    let text = fatbin.ptx_for(80, PtxChoice::UpToDevice).unwrap().payload().unwrap();
    let module = ptx::parse_bytes(&text).unwrap();
    for sm in [80, 90] {
        let entry = fatbin.cubin_for(sm).unwrap();
        assert_eq!(entry.kind, EntryKind::Elf);
        let image = entry.payload().unwrap();
        let cubin = Cubin::read(&image).unwrap();
        assert_eq!(cubin.sm, sm);
        assert_eq!(cubin.kernels.len(), 3);
        for kernel in &cubin.kernels {
            let function = module.function(module.find_function(kernel.name).unwrap());
            let layout = function.parameter_layout().unwrap();
            assert_eq!(u64::from(kernel.param_bytes), layout.size_bytes, "{}", kernel.name);
            let of_cubin: Vec<(u64, u64)> = kernel
                .params
                .iter()
                .map(|param| (u64::from(param.offset_bytes), u64::from(param.size_bytes)))
                .collect();
            let of_ptx: Vec<(u64, u64)> =
                layout.params.iter().map(|slot| (slot.offset_bytes, slot.size_bytes)).collect();
            assert_eq!(of_cubin, of_ptx, "{}", kernel.name);
        }
    }
}

#[test]
fn an_image_without_a_length_is_measured() {
    // What follows an image must not count.
    let followed = |image: &[u8]| [image, &[0xAA; 100]].concat();
    for image in [ZSTD, LZ4] {
        let bytes = followed(image);
        let measured = measure(&mut &bytes[..]).unwrap();
        assert_eq!(measured, Image::Whole { kind: ImageKind::Fatbin, bytes: image.len() });
    }
    let fatbin = Fatbin::read(LZ4).unwrap();
    let cubin = fatbin.cubin_for(80).unwrap();
    let cubin = cubin.payload().unwrap();
    let measured = measure(&mut &followed(&cubin)[..]).unwrap();
    // A cubin's payload is padded to 8 bytes in the fatbin; the file itself ends in it.
    let Image::Whole { kind: ImageKind::Elf, bytes } = measured else { panic!("{measured:?}") };
    assert!(bytes <= cubin.len() && bytes + 8 > cubin.len(), "{bytes} of {}", cubin.len());
    assert!(Cubin::read(&cubin[..bytes]).is_ok());
    let text = followed(b"// c\n.version 8.0\0");
    let measured = measure(&mut &text[..]).unwrap();
    assert_eq!(measured, Image::Whole { kind: ImageKind::Ptx, bytes: 17 });
}

#[test]
fn a_wrapper_is_told_from_its_fatbin() {
    let mut wrapper = Vec::new();
    wrapper.extend_from_slice(&0x466243B1u32.to_le_bytes());
    wrapper.extend_from_slice(&1u32.to_le_bytes());
    wrapper.extend_from_slice(&0x7000_0000_1000u64.to_le_bytes());
    wrapper.extend_from_slice(&0u64.to_le_bytes());
    let Image::Indirect(read) = measure(&mut &wrapper[..]).unwrap() else { panic!() };
    assert_eq!((read.version, read.data, read.second), (1, 0x7000_0000_1000, 0));
    wrapper[4] = 9;
    assert_eq!(measure(&mut &wrapper[..]), Err(ImageError::WrapperVersion(9)));
}

#[test]
fn what_is_no_image_is_said_so() {
    assert_eq!(kind_of(b"\x7fELF"), Some(ImageKind::Elf));
    assert_eq!(kind_of(b"  .v"), Some(ImageKind::Ptx));
    assert_eq!(kind_of(b"BC\xc0\xde"), None);
    assert_eq!(kind_of(b""), None);
    assert_eq!(measure(&mut &b""[..]), Err(ImageError::Unreadable(0)));
    assert_eq!(measure(&mut &b"\x01\x5a\xe5\x1e...."[..]), Err(ImageError::OldFatbin));
    assert!(matches!(measure(&mut &b"BC\xc0\xde"[..]), Err(ImageError::Unknown(_))));
    assert!(matches!(Fatbin::read(b"\x7fELF............"), Err(FatbinError::Magic(_))));
}

#[test]
fn a_payload_that_claims_to_be_huge_is_refused_before_it_is_unpacked() {
    let mut image = LZ4.to_vec();
    let fatbin = Fatbin::read(LZ4).unwrap();
    let entry = fatbin.ptx_for(80, PtxChoice::UpToDevice).unwrap();
    let stored_at = entry.stored.as_ptr() as usize - LZ4.as_ptr() as usize;
    // The uncompressed size is the last word of the entry's 64-byte header.
    let header_at = (16..stored_at)
        .rev()
        .find(|&at| {
            let word = |offset: usize| {
                u32::from_le_bytes(LZ4[at + offset..at + offset + 4].try_into().unwrap()) as usize
            };
            word(0) == 0x0101_0001 && at + word(4) == stored_at
        })
        .unwrap();
    image[header_at + 56..header_at + 64].copy_from_slice(&(1u64 << 40).to_le_bytes());
    let fatbin = Fatbin::read(&image).unwrap();
    let entry = fatbin.ptx_for(80, PtxChoice::UpToDevice).unwrap();
    assert_eq!(entry.payload(), Err(FatbinError::TooLarge { bytes: 1 << 40 }));
}

proptest! {
    /// Damaged images end in an error or in some image, never in a panic.
    #[test]
    fn damaged_images_do_not_panic(
        zstd in any::<bool>(),
        cut in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let source = if zstd { ZSTD } else { LZ4 };
        let mut image = source.to_vec();
        for (at, value) in damage {
            let at = at.index(image.len());
            image[at] = value;
        }
        ptx::fuzz_oracle::image(&image);
        image.truncate(cut.index(image.len()));
        ptx::fuzz_oracle::image(&image);
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        ptx::fuzz_oracle::image(&bytes);
        ptx::fuzz_oracle::text(&bytes);
    }
}

/// An ELF file for this machine with one section more than the names of sections.
fn program_with(section: &str, content: &[u8]) -> Vec<u8> {
    let names = format!("\0.shstrtab\0{section}\0");
    let names_at = 64 + content.len();
    let table_at = (names_at + names.len()).next_multiple_of(8);
    let mut file = vec![0u8; 64];
    file[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
    file[18..20].copy_from_slice(&62u16.to_le_bytes());
    file[40..48].copy_from_slice(&(table_at as u64).to_le_bytes());
    for (at, value) in [(58, 64u16), (60, 3), (62, 1)] {
        file[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    file.extend(content);
    file.extend(names.as_bytes());
    file.resize(table_at, 0);
    let sections = [(0, 0, 0, 0), (1, 3, names_at, names.len()), (11, 1, 64, content.len())];
    for (name, kind, offset, bytes) in sections {
        let mut header = [0u8; 64];
        header[..4].copy_from_slice(&(name as u32).to_le_bytes());
        header[4..8].copy_from_slice(&(kind as u32).to_le_bytes());
        header[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(bytes as u64).to_le_bytes());
        file.extend(header);
    }
    file
}

#[test]
fn the_ptx_of_a_file_is_found() {
    let architectures = |bytes: &[u8]| -> Vec<Option<String>> {
        texts(bytes).unwrap().into_iter().map(|text| text.architecture).collect()
    };
    let refused = |bytes: &[u8]| texts(bytes).unwrap_err().to_string();
    let both = [Some("compute_80".to_owned()), Some("compute_90".to_owned())];
    assert_eq!(architectures(ZSTD), both);
    assert_eq!(architectures(b".version 8.0\n\0rest"), [None]);
    // Two fatbins one behind the other, as the linker leaves them.
    let mut section = ZSTD.to_vec();
    section.resize(section.len().next_multiple_of(8) + 8, 0);
    section.extend(LZ4);
    let program = program_with(".nv_fatbin", &section);
    assert_eq!(architectures(&program), [both.clone(), both.clone()].concat());
    for text in texts(&program).unwrap() {
        ptx::parse_bytes(&text.bytes).unwrap();
    }
    // One in front that says it has not even a header.
    let mut empty = section[..16].to_vec();
    empty[6..].fill(0);
    const NOTHING: &str = "no PTX in it, neither in fatbins nor as text";
    assert_eq!(refused(&program_with(".nv_fatbin", &empty)), NOTHING);
    let cubin = Fatbin::read(ZSTD).unwrap().cubin_for(90).unwrap().payload().unwrap().into_owned();
    assert_eq!(refused(&cubin), "no PTX in it, only machine code for sm_90");
    // Among data, as libraries have them that choose by themselves; what is cut off is none.
    let data = [b"otherdata\0\0\0\0\0\0\0", &ZSTD[..64], &section].concat();
    // A section may begin at any word.
    let later = [b"word", &data[..]].concat();
    for name in [".data", ".ldata", ".lrodata", ".data.rel.ro"] {
        for data in [&data, &later] {
            assert_eq!(
                architectures(&program_with(name, data)),
                [both.clone(), both.clone()].concat()
            );
        }
    }
    assert_eq!(refused(&program_with(".debug_str", &section)), NOTHING);
    // As text, in any data.
    let text = b"words.version 8.0\n.target sm_80\n.entry k() { ret; }more words".as_slice();
    for section in [".rodata", ".rodata.str1.1", ".data.rel.ro"] {
        let found = texts(&program_with(section, text)).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((&found[0].architecture, &found[0].bytes[..]), (&None, &text[5..51]));
        ptx::parse_bytes(&found[0].bytes).unwrap();
    }
    assert_eq!(refused(&program_with(".debug_str", text)), NOTHING);
    assert_eq!(refused(b"\0\0\0\0"), "neither PTX text, fatbin nor ELF file");
}

//! Address resolution: where addresses become pointers, with their bounds checks, and the runs of
//! lanes that one check serves.

use crate::check;
use crate::handler_context::{HandlerContext, Ins, Step};
use crate::ops::map::{Target, each, read};
use crate::ops::memory::Checked;
use crate::register_file::Operand;
use crate::run::cluster::Peer;
use simt::ir::op::Space;
use simt::ir::vector::{
    CLUSTER_WINDOW_BYTES, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES,
};
use simt::kernel::{FaultKind, RECENT_RANGES, WARP_LANES};
use simt::launch_shape::HALF_LANES;

/// How the addresses of an access are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressForm {
    /// A register of 32 or 64 bits.
    Register { wide: bool },
    /// Lane 0's, and the bytes from one lane to the next; with `halves`, also lane 16's,
    /// the upper half's scalar of lane 0's.
    Formula { wide: bool, stride: i16, halves: bool },
}

/// The tag of an access: bit 0 says that addresses have 64 bits, bit 1 that they are an affine value,
/// bit 2 that each half of the warp has its own, five bits of the access's number in its function
/// follow; the second byte is the space, the upper half the stride.
pub(crate) fn tag(space: Space, form: AddressForm, site: u32) -> u32 {
    let (wide, formula, stride) = match form {
        AddressForm::Register { wide } => (wide, 0, 0),
        AddressForm::Formula { wide, stride, halves } => {
            (wide, if halves { FORMULA | HALVES } else { FORMULA }, stride)
        }
    };
    let site = site % RECENT_RANGES as u32 * SITE;
    u32::from(stride as u16) << 16 | space_code(space) << 8 | site | formula | u32::from(wide)
}

/// How tags name a space.
pub(crate) fn space_code(space: Space) -> u32 {
    match space {
        Space::Global => GLOBAL,
        Space::Shared => SHARED,
        Space::Local => LOCAL,
        Space::Param => PARAM,
        Space::Generic => GENERIC,
    }
}

pub(crate) const GLOBAL: u32 = 0;
pub(crate) const SHARED: u32 = 1;
pub(crate) const LOCAL: u32 = 2;
const PARAM: u32 = 3;
pub(crate) const GENERIC: u32 = 4;

/// Bits of a tag.
const WIDE: u32 = 1;
const FORMULA: u32 = 2;
const HALVES: u32 = 4;
const SITE: u32 = 8;
const _: () = assert!(RECENT_RANGES == 32, "a tag has five bits for the site");

/// True if the addresses of an instruction are a formula.
#[inline(always)]
pub(crate) fn is_formula(ins: &Ins) -> bool {
    ins.tag & FORMULA != 0
}

/// The space of a tag.
#[inline(always)]
pub(crate) fn space_of(ins: &Ins) -> u32 {
    ins.tag >> 8 & 0xff
}

/// All lanes.
pub(super) const FULL: u32 = !0;

/// Where the lanes' elements are.
pub(crate) enum Located {
    /// Element of lane `i` is `i` elements behind this. Only active lanes' elements may be touched.
    Span(*mut u8),
    /// Element of lane `i` of a half is `i` elements behind this of the half.
    HalfAffine([*mut u8; 2]),
    /// In the array of pointers.
    Each,
}

impl Located {
    /// Writes a pointer a lane, to elements of `bytes`, unless they are there.
    #[inline(always)]
    pub(crate) fn point(&self, pointers: &mut Pointers, bytes: usize) {
        if !matches!(self, Self::Each) {
            for (lane, pointer) in pointers.iter_mut().enumerate() {
                *pointer = self.element(lane as u32, bytes) as u64;
            }
        }
    }

    /// Where a lane's element is, of elements of `bytes`; not for [`Self::Each`].
    #[inline(always)]
    pub(super) fn element(&self, lane: u32, bytes: usize) -> *mut u8 {
        let lane = lane as usize;
        match self {
            Self::Span(p) => p.wrapping_add(lane * bytes),
            Self::HalfAffine(p) => p[lane / HALF_LANES].wrapping_add(lane % HALF_LANES * bytes),
            Self::Each => std::ptr::null_mut(),
        }
    }
}

/// Memory of an access of several lanes that was checked.
pub(crate) struct CheckedLanes {
    pointers: Pointers,
    mask: u32,
    bytes: u64,
    write: bool,
}

impl CheckedLanes {
    /// # Safety
    /// The lanes of `mask` have `bytes` behind their pointers that can be read and, if `write`, be written
    /// until the instruction ends.
    pub(crate) unsafe fn new(pointers: Pointers, mask: u32, bytes: u64, write: bool) -> Self {
        Self { pointers, mask, bytes, write }
    }

    /// Lanes whose memory was checked.
    pub(crate) fn mask(&self) -> u32 {
        self.mask
    }

    /// That of a lane; none of a lane whose was not checked.
    #[inline(always)]
    pub(crate) fn of(&self, lane: u32) -> Checked {
        if self.mask >> lane & 1 == 0 {
            return Checked::NONE;
        }
        // SAFETY: `locate` checked it, or the caller of `new`.
        unsafe { Checked::new(self.pointers[lane as usize] as *mut u8, self.bytes, self.write) }
    }
}

/// Finds and checks the memory of an access of `bytes` a lane by the lanes in `m`.
#[inline(always)]
pub(crate) fn locate_lanes(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    mask: u32,
    bytes: u64,
    write: bool,
) -> Result<CheckedLanes, Step> {
    let mut pointers = [0; WARP_LANES];
    if mask != 0 {
        locate(machine, ins, mask, bytes, write, &mut pointers)?
            .point(&mut pointers, bytes as usize);
    }
    Ok(CheckedLanes { pointers, mask, bytes, write })
}

/// The addresses of an access, all lanes.
#[inline(always)]
pub(crate) fn addresses(machine: &HandlerContext<'_>, ins: &Ins) -> [u64; WARP_LANES] {
    let offset = ins.imm as u64;
    if ins.tag & FORMULA != 0 {
        let first = first_address(machine, ins, ins.a[0]);
        let stride = i64::from(ins.tag as i32 >> 16);
        let limit = if ins.tag & WIDE != 0 { u64::MAX } else { u32::MAX.into() };
        let at = |first: u64, i: usize| first.wrapping_add((stride * i as i64) as u64) & limit;
        if ins.tag & HALVES != 0 {
            let upper = first_address(machine, ins, ins.a[0].upper_half());
            let of = |i: usize| {
                if i < HALF_LANES { at(first, i) } else { at(upper, i - HALF_LANES) }
            };
            each(of)
        } else {
            each(|i| at(first, i))
        }
    } else if ins.tag & WIDE != 0 {
        let wide = read::<u64, WARP_LANES>(machine, ins.a[0]);
        each(|i| wide[i].wrapping_add(offset))
    } else {
        let narrow = read::<u32, WARP_LANES>(machine, ins.a[0]);
        // 32-bit addresses wrap at 32 bits.
        each(|i| u64::from(narrow[i].wrapping_add(offset as u32)))
    }
}

/// The address that a scalar and the offset give: that of all lanes, or of the first of them.
#[inline(always)]
pub(super) fn first_address(machine: &HandlerContext<'_>, ins: &Ins, at: Operand) -> u64 {
    if ins.tag & WIDE != 0 {
        read::<u64, 1>(machine, at)[0].wrapping_add(ins.imm as u64)
    } else {
        u64::from(read::<u32, 1>(machine, at)[0].wrapping_add(ins.imm as u32))
    }
}

/// Finds and checks the memory of an access whose addresses are an affine value, if all of a run of lanes
/// lies in one range; `None` if the slow path must look.
#[inline(always)]
fn locate_formula(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    m: u32,
    bytes: u64,
    write: bool,
    pointers: &mut Pointers,
) -> Option<Located> {
    let stride = i64::from(ins.tag as i32 >> 16);
    let step = |start: u64, i: usize| start.wrapping_add((stride * i as i64) as u64);
    let first = first_address(machine, ins, ins.a[0]);
    if ins.tag & HALVES == 0 {
        let start = locate_run(machine, ins, first, stride, m, bytes, write)?;
        machine.count_global(ins, m, bytes);
        if stride as u64 == bytes {
            return Some(Located::Span(start as *mut u8));
        }
        *pointers = each(|i| step(start, i));
        return Some(Located::Each);
    }
    let upper = first_address(machine, ins, ins.a[0].upper_half());
    let (low, high) = (m & 0xffff, m >> HALF_LANES);
    let run = |machine: &mut HandlerContext<'_>, first, m| match m {
        0 => Some(0),
        _ => locate_run(machine, ins, first, stride, m, bytes, write),
    };
    let (low, high) = (run(machine, first, low)?, run(machine, upper, high)?);
    machine.count_global(ins, m, bytes);
    if stride as u64 == bytes {
        return Some(Located::HalfAffine([low as *mut u8, high as *mut u8]));
    }
    *pointers = each(|i| if i < HALF_LANES { step(low, i) } else { step(high, i - HALF_LANES) });
    Some(Located::Each)
}

/// Checks the memory of the lanes `m`, at least one, of a run whose first lane's address is `base`;
/// a pointer for that lane.
#[inline(always)]
fn locate_run(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    base: u64,
    stride: i64,
    m: u32,
    bytes: u64,
    write: bool,
) -> Option<u64> {
    let at = |lane: u32| base.wrapping_add((stride * i64::from(lane)) as u64);
    let (a, b) = (at(m.trailing_zeros()), at(31 - m.leading_zeros()));
    let (low, high) = (a.min(b), a.max(b));
    let span = (high - low).checked_add(bytes)?;
    // At most 31 strides of 15 bits: more is a wrap.
    if (base | stride as u64) & (bytes - 1) != 0 || span > 1 << 32 {
        return None;
    }
    let space = space_of(ins);
    if space == GLOBAL || (space == GENERIC && high < SHARED_WINDOW) {
        machine.memory.allows_at(site(ins), low, span, write).then_some(base)
    } else if space == SHARED && high.saturating_add(bytes) <= machine.shared_bytes {
        Some((machine.shared as u64).wrapping_add(base))
    } else {
        None
    }
}

/// Finds and checks the memory of an access of `bytes` a lane by the lanes in `m`, at least one.
/// `pointers` are written where the result is [`Located::Each`].
#[inline(always)]
pub(crate) fn locate(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    m: u32,
    bytes: u64,
    write: bool,
    pointers: &mut Pointers,
) -> Result<Located, Step> {
    if ins.tag & FORMULA != 0 {
        let found = locate_formula(machine, ins, m, bytes, write, pointers);
        if let Some(found) = found {
            return Ok(found);
        }
    }
    let a = addresses(machine, ins);
    if m == FULL {
        // The whole warp, one element behind the other: what nearly every kernel does.
        let base = a[0];
        let apart = a
            .iter()
            .enumerate()
            .fold(0, |apart, (i, a)| apart | (a ^ base.wrapping_add(i as u64 * bytes)));
        if apart == 0 && base & (bytes - 1) == 0 {
            let span = WARP_LANES as u64 * bytes;
            let space = space_of(ins);
            if space == GLOBAL || (space == GENERIC && base < SHARED_WINDOW) {
                if machine.memory.allows_at(site(ins), base, span, write) {
                    machine.counters.global_bytes += span;
                    return Ok(Located::Span(base as *mut u8));
                }
            } else if space == SHARED && base.saturating_add(span) <= machine.shared_bytes {
                return Ok(Located::Span(machine.shared.wrapping_add(base as usize)));
            }
        }
    }
    let locate = machine.locate;
    // SAFETY: the function was chosen for this processor.
    unsafe { locate(machine, ins, m, bytes, write, &a, pointers) }
}

/// A number for the instruction, so that accesses to different buffers do not push each other out
/// of the memory of ranges.
#[inline(always)]
pub(crate) fn site(ins: &Ins) -> usize {
    (ins.tag / SITE) as usize % RECENT_RANGES
}

/// Room for a pointer a lane.
pub(crate) type Pointers = [u64; WARP_LANES];

/// [`locate`] for everything but the common case.
pub(crate) type Locate = unsafe fn(
    &mut HandlerContext<'_>,
    &Ins,
    u32,
    u64,
    bool,
    &[u64; WARP_LANES],
    &mut Pointers,
) -> Result<Located, Step>;

/// The version of [`locate_any`] for a target.
pub(crate) fn locate_for(target: Target) -> Locate {
    match target {
        Target::Scalar | Target::Baseline => locate_any,
        Target::Avx2 => locate_avx2,
        Target::Avx512 => locate_avx512,
    }
}

macro_rules! versions {
    ($($name:ident $features:literal)*) => {$(
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
        unsafe fn $name(
            machine: &mut HandlerContext<'_>,
            ins: &Ins,
            m: u32,
            bytes: u64,
            write: bool,
            a: &[u64; WARP_LANES],
            pointers: &mut Pointers,
        ) -> Result<Located, Step> {
            locate_any(machine, ins, m, bytes, write, a, pointers)
        }
    )*};
}
versions! {
    locate_avx2 "avx2"
    locate_avx512 "avx512f,avx512bw,avx512dq,avx512vl"
}

#[inline(always)]
fn locate_any(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    m: u32,
    bytes: u64,
    write: bool,
    a: &[u64; WARP_LANES],
    pointers: &mut Pointers,
) -> Result<Located, Step> {
    let space = space_of(ins);
    let first = m.trailing_zeros() as usize;
    let base = a[first].wrapping_sub(first as u64 * bytes);
    let (mut apart, mut low_bits, mut high_bits) = (0u64, 0u64, 0u64);
    for i in 0..WARP_LANES {
        let lane = 0u64.wrapping_sub(u64::from(m >> i & 1));
        apart |= (a[i] ^ base.wrapping_add(i as u64 * bytes)) & lane;
        low_bits |= a[i] & lane;
        high_bits |= a[i] & lane;
    }
    let aligned = low_bits & (bytes - 1) == 0;
    let plain = match space {
        GLOBAL => true,
        GENERIC => high_bits < SHARED_WINDOW,
        _ => false,
    };
    if plain && aligned {
        machine.counters.global_bytes += u64::from(m.count_ones()) * bytes;
        if apart == 0 {
            let last = 31 - m.leading_zeros() as usize;
            let span = (last - first + 1) as u64 * bytes;
            if machine.memory.allows_at(site(ins), a[first], span, write) {
                return Ok(Located::Span(base as *mut u8));
            }
        }
        let (mut least, mut most) = (u64::MAX, 0u64);
        for (i, a) in a.iter().enumerate() {
            let lane = 0u64.wrapping_sub(u64::from(m >> i & 1));
            least = least.min(a | !lane);
            most = most.max(a & lane);
        }
        if machine.memory.allows_at(site(ins), least, (most - least).saturating_add(bytes), write) {
            *pointers = *a;
            return Ok(Located::Each);
        }
    } else if space == SHARED && aligned {
        let most = a
            .iter()
            .enumerate()
            .fold(0u64, |most, (i, a)| most.max(a & 0u64.wrapping_sub(u64::from(m >> i & 1))));
        if most.saturating_add(bytes) <= machine.shared_bytes {
            let start = machine.shared as u64;
            if apart == 0 {
                return Ok(Located::Span(start.wrapping_add(base) as *mut u8));
            }
            *pointers = each(|i| start.wrapping_add(a[i]));
            return Ok(Located::Each);
        }
    }
    locate_each(machine, ins, m, bytes, write, a, pointers)
}

/// One lane at a time: accesses of mixed kinds, or about to fault.
#[cold]
#[inline(never)]
fn locate_each(
    machine: &mut HandlerContext<'_>,
    ins: &Ins,
    m: u32,
    bytes: u64,
    write: bool,
    a: &[u64; WARP_LANES],
    pointers: &mut Pointers,
) -> Result<Located, Step> {
    let space = space_of(ins);
    for lane in lanes(m) {
        match machine.resolve(space, lane, a[lane as usize], bytes, write) {
            Ok(found) => pointers[lane as usize] = found.pointer() as u64,
            Err(kind) => return Err(machine.fail(lane, kind)),
        }
    }
    Ok(Located::Each)
}

/// The numbers of the lanes in a mask.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = u32> {
    let mut left = mask;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let lane = left.trailing_zeros();
            left &= left - 1;
            lane
        })
    })
}

impl HandlerContext<'_> {
    /// Counts an access to global memory, made by the lanes in `m`.
    #[inline(always)]
    pub(super) fn count_global(&mut self, ins: &Ins, m: u32, bytes: u64) {
        if space_of(ins) != SHARED {
            self.counters.global_bytes += u64::from(m.count_ones()) * bytes;
        }
    }

    /// Checks one lane's access through a generic address.
    pub(crate) fn resolve_generic(
        &mut self,
        lane: u32,
        address: u64,
        bytes: u64,
        write: bool,
    ) -> Result<Checked, FaultKind> {
        self.resolve(GENERIC, lane, address, bytes, write)
    }

    /// Shared memory of the block of that rank in the cluster, if there is one.
    fn peer(&self, rank: u64) -> Option<Peer> {
        match self.block.peers.get(rank as usize) {
            // A block without a cluster is its own.
            None if self.block.peers.is_empty() && rank == 0 => {
                Some(Peer { shared: self.shared, shared_bytes: self.shared_bytes })
            }
            peer => peer.copied(),
        }
    }

    /// Checks one lane's access.
    pub(crate) fn resolve(
        &mut self,
        space: u32,
        lane: u32,
        address: u64,
        bytes: u64,
        write: bool,
    ) -> Result<Checked, FaultKind> {
        let found = self.find(space, lane, address, bytes, write);
        if found.is_ok()
            && let Some(account) = self.check
        {
            check::resolved(self, account, (space, lane), address, bytes, write);
        }
        found
    }

    /// The same, of an access that is not accounted for.
    pub(crate) fn find(
        &mut self,
        space: u32,
        lane: u32,
        address: u64,
        bytes: u64,
        write: bool,
    ) -> Result<Checked, FaultKind> {
        let bytes32 = u32::try_from(bytes).unwrap_or(u32::MAX);
        if bytes.is_power_of_two() && bytes <= 16 && address & (bytes - 1) != 0 {
            return Err(FaultKind::MisalignedAddress { address, bytes: bytes32 });
        }
        let illegal = FaultKind::IllegalAddress { address, bytes: bytes32, write };
        let (space, offset) = match space {
            GENERIC if address.wrapping_sub(SHARED_WINDOW) < CLUSTER_WINDOW_BYTES => {
                (SHARED, address - SHARED_WINDOW)
            }
            GENERIC if address.wrapping_sub(LOCAL_WINDOW) < WINDOW_BYTES => {
                (LOCAL, address - LOCAL_WINDOW)
            }
            GENERIC if address.wrapping_sub(PARAM_WINDOW) < WINDOW_BYTES => {
                (PARAM, address - PARAM_WINDOW)
            }
            GENERIC => (GLOBAL, address),
            other => (other, address),
        };
        let params = &self.block.launch.params;
        let mut offset = offset;
        let mut shared = Peer { shared: self.shared, shared_bytes: self.shared_bytes };
        if space == SHARED
            && offset >= WINDOW_BYTES
            && let Some(peer) = self.peer(offset / WINDOW_BYTES - 1)
        {
            shared = peer;
            offset %= WINDOW_BYTES;
        }
        let (name, size) = match space {
            SHARED => ("shared", shared.shared_bytes),
            LOCAL => ("local", self.local_bytes),
            PARAM => ("param", params.len() as u64),
            _ => ("", 0),
        };
        let outside = FaultKind::OutsideSpace { space: name, offset, bytes: bytes32, size, write };
        let inside = |size: u64| offset.checked_add(bytes).is_some_and(|end| end <= size);
        let at = match space {
            GLOBAL if self.memory.allows(address, bytes, write) => address as *mut u8,
            GLOBAL => return Err(illegal),
            SHARED if inside(size) => shared.shared.wrapping_add(offset as usize),
            LOCAL if inside(size) => {
                let at = u64::from(lane) * self.local_bytes + offset;
                self.local.wrapping_add(at as usize)
            }
            PARAM if !write && inside(size) => {
                params.as_ptr().wrapping_add(offset as usize).cast_mut()
            }
            _ => return Err(outside),
        };
        // SAFETY: that was checked; the spaces are those of this block and warp. Shared and local memory
        // can always be written.
        Ok(unsafe { Checked::new(at, bytes, write || matches!(space, SHARED | LOCAL)) })
    }

    /// Device memory, if the access is allowed, by way of what the instruction of a site was allowed lately;
    /// nothing is said of alignment.
    #[inline(always)]
    pub(crate) fn device_memory(
        &mut self,
        site: Option<usize>,
        address: u64,
        bytes: u64,
        write: bool,
    ) -> Option<Checked> {
        let allowed = match site {
            Some(site) => self.memory.allows_at(site, address, bytes, write),
            None => self.memory.allows(address, bytes, write),
        };
        // SAFETY: that was checked just now.
        allowed.then(|| unsafe { Checked::new(address as *mut u8, bytes, write) })
    }
}

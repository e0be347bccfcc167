//! How an instruction reads an object: what is worked out once, and kept for the warps that follow.
//!
//! A plan exists for objects whose texels lie in one piece of memory that 30 bits can count; it is
//! kept by the object's bytes, so that nothing need be done when an object goes or changes. Whether
//! the memory may be read is asked for each warp.

use super::footprint::{self, Request, Run, Way};
use super::texels::{self, Inner, Texels};
use crate::handler_context::{HandlerContext, Ins};
use crate::ops::map::Target;
use crate::ops::memory::{self, Checked};
use simt::ir::op::TextureOp;
use simt::runtime::texture::{AddressMode, Descriptor, Texel};
use std::cell::RefCell;

/// An axis of a texture.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    /// Texels.
    pub(super) size: i32,
    /// What coordinates are multiplied with: texels, or 1.
    pub(super) scale: f32,
    /// What coordinates outside mean: [`AddressMode::Clamp`] where nothing can repeat.
    pub(super) mode: AddressMode,
    /// After how many texels it repeats, and one by that.
    pub(super) period: i32,
    pub(super) period_inverse: f32,
    /// Texels from one number to the next.
    pub(super) step: i32,
}

/// How one instruction reads one level of an object.
pub(super) struct Plan {
    run: Run,
    /// Makes channels of the texels of a vector's lanes.
    pub(super) texels: Texels,
    /// Where the first texel is; with texels of less than 4 bytes, where the word starts that has
    /// it, and how many bytes are before it.
    pub(super) base: *const u8,
    pub(super) skipped: i32,
    /// Words of 4 bytes in which texels of up to 4 are.
    pub(super) words: i32,
    /// Bytes from `base` on that are read.
    bytes: u64,
    pub(super) axes: [Axis; 3],
    /// Texels from one layer to the next; 0 without layers.
    pub(super) layer: i32,
    pub(super) last_layer: i32,
    /// Rows that are blended.
    pub(super) rows: usize,
    /// Makes channels of texels that are all inside.
    pub(super) inner: Option<Inner>,
    /// Bytes from the first row that is blended to each of them.
    pub(super) row_bytes: [usize; 4],
    /// Levels of the object, the first one among them.
    pub(super) levels: u8,
    /// Channel that `tld4` reads.
    pub(super) gathered: usize,
    /// An axis has a border.
    pub(super) bordered: bool,
    pub(super) border: [u32; 4],
    /// What channels are that texels lack.
    pub(super) missing: [u32; 4],
}

/// Most texels.
const TEXELS_MAX: u64 = 1 << 30;
/// Most texels of an axis that repeats.
const PERIOD_MAX: u32 = 1 << 22;

impl Plan {
    /// `None` if texels must be read one by one.
    fn new(target: Target, object: &Descriptor, level: u8, op: TextureOp) -> Option<Self> {
        let (d, levels) = (object.level(level), object.levels);
        let op = match op.cube {
            true => TextureOp { dims: 2, layered: true, ..op },
            false => op,
        };
        let floats = op.floats && (d.scaled || matches!(d.texel, Texel::F16 | Texel::F32));
        let way = match (op.gather, op.integer) {
            (Some(_), true) => return None,
            (Some(_), false) => Way::Gathered,
            (None, true) => Way::Whole,
            (None, false) if d.linear && floats => Way::Blended,
            (None, false) => Way::Nearest,
        };
        let blends = way == Way::Blended;
        let texel_bytes = u64::from(d.texel_bytes());
        let in_texels = |bytes: u64| bytes.is_multiple_of(texel_bytes).then(|| bytes / texel_bytes);
        let (row, slice) = (in_texels(d.row_bytes)?, in_texels(d.slice_bytes)?);
        let steps = [1, row, slice];
        let sizes = [d.width, d.height, d.depth];
        let used = |axis: usize| axis < usize::from(op.dims) || axis == 2 && op.layered;
        let mut last = 0u64;
        for axis in (0..3).filter(|axis| used(*axis)) {
            last = last.checked_add(steps[axis].checked_mul(u64::from(sizes[axis] - 1))?)?;
        }
        // Of texels of less than 4 bytes, bytes are counted.
        let most = if texel_bytes == 2 { TEXELS_MAX / 2 } else { TEXELS_MAX };
        (last < most).then_some(())?;
        let mut axes = [Axis {
            size: 1,
            scale: 1.0,
            mode: AddressMode::Clamp,
            period: 1,
            period_inverse: 1.0,
            step: 0,
        }; 3];
        let mut bordered = false;
        for (axis, to) in axes.iter_mut().enumerate().filter(|(axis, _)| used(*axis)) {
            let repeats = matches!(d.address[axis], AddressMode::Wrap | AddressMode::Mirror);
            let mode = match d.address[axis] {
                mode if repeats && d.normalized => mode,
                AddressMode::Border => AddressMode::Border,
                _ => AddressMode::Clamp,
            };
            if mode == d.address[axis] && repeats && sizes[axis] > PERIOD_MAX {
                return None;
            }
            let size = i32::try_from(sizes[axis]).ok()?;
            let period = if mode == AddressMode::Mirror { 2 * size } else { size };
            bordered |= mode == AddressMode::Border && axis < usize::from(op.dims);
            *to = Axis {
                size,
                scale: if d.normalized { size as f32 } else { 1.0 },
                mode,
                period,
                period_inverse: 1.0 / period as f32,
                step: i32::try_from(steps[axis]).ok().or((size == 1).then_some(0))?,
            };
        }
        let skipped = if texel_bytes < 4 { d.base % 4 } else { 0 };
        d.base.is_multiple_of(texel_bytes).then_some(())?;
        let bytes = (skipped + (last + 1) * texel_bytes).next_multiple_of(4);
        let one = if op.floats { 1f32.to_bits() } else { 1 };
        let (row, slice) = (d.row_bytes as usize, d.slice_bytes as usize);
        let row_bytes = match op.dims {
            1 => [0; 4],
            2 => [0, row, 0, row],
            _ => [0, row, slice, row.wrapping_add(slice)],
        };
        // Where rows are not whole words, a row's texels are elsewhere in them than those above.
        let in_words = texel_bytes >= 4 || row_bytes.iter().all(|bytes| bytes.is_multiple_of(4));
        let wide = (0..usize::from(op.dims)).all(|axis| sizes[axis] >= 2);
        let scaled = op.floats && d.scaled;
        let (texels, inner) = texels::pick(target, d.texel, d.channels, scaled, blends)?;
        Some(Self {
            inner: inner.filter(|_| in_words && wide),
            row_bytes,
            run: footprint::pick(target, op.dims, way, op.cube)?,
            texels,
            base: d.base.wrapping_sub(skipped) as *const u8,
            skipped: skipped as i32,
            words: (bytes / 4).min(TEXELS_MAX) as i32,
            bytes,
            layer: if op.layered { axes[2].step } else { 0 },
            last_layer: i32::try_from(d.depth - 1).ok()?,
            axes,
            rows: 1 << (op.dims - 1),
            levels,
            gathered: usize::from(op.gather.unwrap_or(0) & 3),
            bordered,
            border: d.border.map(f32::to_bits),
            missing: [0, 0, 0, one],
        })
    }

    /// The plan, if all of its texels may be read.
    pub(super) fn readable(
        &self,
        machine: &mut HandlerContext<'_>,
        ins: &Ins,
    ) -> Option<Readable<'_>> {
        let (site, start) = (memory::site(ins) + 1, self.base as u64);
        machine.memory.allows_at(site, start, self.bytes, false).then_some(Readable(self))
    }
}

/// A plan whose texels may all be read.
#[derive(Clone, Copy)]
pub(super) struct Readable<'a>(&'a Plan);

impl std::ops::Deref for Readable<'_> {
    type Target = Plan;

    #[inline(always)]
    fn deref(&self) -> &Plan {
        self.0
    }
}

impl Readable<'_> {
    /// Reads for a warp; the lanes that are left.
    pub(super) fn run(self, request: &Request<'_>) -> u32 {
        // SAFETY: the function was picked only if the processor has what it was compiled for.
        unsafe { (self.run)(self, request) }
    }
}

/// An object as it is in memory.
pub(super) type Bytes = [u8; Descriptor::BYTES];

/// Where an object is: in memory that can be read, or a copy.
pub(super) trait Object {
    /// True if it is this one, without a call and without a copy: it is asked for each read.
    fn is(&self, kept: &Bytes) -> bool;
    /// Where its texels are.
    fn base(&self) -> u64;
    fn copy(&self) -> Bytes;
}

impl Object for Checked {
    #[inline(always)]
    fn is(&self, kept: &Bytes) -> bool {
        self.holds_words(kept)
    }

    #[inline(always)]
    fn base(&self) -> u64 {
        self.word(1)
    }

    fn copy(&self) -> Bytes {
        self.read()
    }
}

impl Object for Bytes {
    fn is(&self, kept: &Bytes) -> bool {
        self == kept
    }

    fn base(&self) -> u64 {
        self.as_chunks::<8>().0.get(1).map_or(0, |word| u64::from_ne_bytes(*word))
    }

    fn copy(&self) -> Bytes {
        *self
    }
}

/// What a plan was made of, and the plan, if there is one.
struct Kept {
    object: Bytes,
    /// Of the instruction.
    op: i64,
    level: u8,
    target: Target,
    plan: Option<Plan>,
}

/// Plans that a thread keeps: few kernels have more textures at a time.
const KEPT: usize = 16;

thread_local! {
    static PLANS: RefCell<[Option<Box<Kept>>; KEPT]> = const { RefCell::new([const { None }; KEPT]) };
}

/// Calls `f` with the plan of an instruction, which `encoded` says, for a level of an object; `None`
/// if there is none, or the object is none.
pub(super) fn with<R>(
    target: Target,
    object: &impl Object,
    encoded: i64,
    level: u8,
    mut f: impl FnMut(&Plan) -> R,
) -> Option<R> {
    // By where the texels are, and what else distinguishes plans that are used together.
    let mix = object.base() >> 8;
    let mix = mix ^ mix >> 4 ^ encoded as u64 ^ encoded as u64 >> 8 ^ u64::from(level);
    let cached = PLANS.try_with(|plans| {
        let slot = &mut plans.borrow_mut()[mix as usize % KEPT];
        let found = slot.as_ref().is_some_and(|kept| {
            let rest = (kept.op, kept.level, kept.target);
            rest == (encoded, level, target) && object.is(&kept.object)
        });
        if !found {
            *slot = Some(kept(target, object.copy(), encoded, level));
        }
        slot.as_ref()?.plan.as_ref().map(&mut f)
    });
    cached.unwrap_or_else(|_| {
        // The thread runs exit's handlers: its plans are gone.
        kept(target, object.copy(), encoded, level).plan.as_ref().map(&mut f)
    })
}

#[cold]
fn kept(target: Target, object: Bytes, encoded: i64, level: u8) -> Box<Kept> {
    let d = Descriptor::from_bytes(&object);
    let plan = d.and_then(|d| Plan::new(target, &d, level, super::decoded(encoded)));
    Box::new(Kept { object, op: encoded, level, target, plan })
}

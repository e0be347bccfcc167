//! Copies and fills: what the device's copy engines do, a bounded step at a time.
//!
//! Every device address is checked against the tenant's ranges at the time the bytes move,
//! regardless of what was checked when the operation was submitted. Host addresses are the
//! program's own and are trusted as the program's own instructions are.

use crate::device::limits;
use crate::device::tenant::Space;
use cuda_api::extension::trace_kind;
use simt::runtime::init_tracking::WrittenBytes;

/// Bytes moved in one step, so that the end of a client, an unmapping or another stream waits a
/// fraction of a millisecond.
pub const STEP_BYTES: u64 = 2 << 20;
/// Bytes moved before it is asked whether the step is to end: on a busy machine a whole
/// step takes several turns at the processor.
const PIECE_BYTES: u64 = 256 << 10;
/// What a row of a copy or fill costs beyond its bytes, in bytes: short rows take time too.
const ROW_COST_BYTES: u64 = 2 << 10;
/// A fill with zeros of at least this many bytes gives the pages back instead of writing them.
const PUNCH_BYTES_MIN: u64 = 16 << 20;

/// One end of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// Bytes from one slice to the next.
    pub slice: u64,
    /// True for memory of the device's, registered host memory included, which is checked.
    pub device: bool,
    /// True for what the program calls host memory.
    pub host: bool,
}

impl Side {
    /// A side of a copy that is one run of bytes.
    pub fn linear(address: u64, device: bool) -> Self {
        Self { address, pitch: 0, slice: 0, device, host: !device }
    }

    fn row(&self, y: u64, z: u64) -> u64 {
        self.address
            .wrapping_add(z.wrapping_mul(self.slice))
            .wrapping_add(y.wrapping_mul(self.pitch))
    }
}

/// Bytes from here to there: `depth` slices of `height` rows of `width` bytes.
#[derive(Clone, Debug, Default)]
pub struct Copy {
    /// Where to.
    pub dst: Side,
    /// Where from.
    pub src: Side,
    /// Bytes in a row.
    pub width: u64,
    /// Rows in a slice.
    pub height: u64,
    /// Slices.
    pub depth: u64,
    /// Owns the source when the program's own buffer need not outlive the call.
    pub staged: Option<Box<[u8]>>,
}

/// One value everywhere: `height` rows of `width` elements.
#[derive(Clone, Debug)]
pub struct Fill {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
    /// The value, of which the low `element` bytes count.
    pub value: u32,
    /// Bytes in an element: 1, 2 or 4.
    pub element: u32,
    /// Elements in a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
    /// True if all of it lies in device chunks, whose pages may be given back for zeros.
    pub chunks: bool,
}

/// What a transfer does.
#[derive(Debug)]
pub enum Work {
    /// A copy.
    Copy(Copy),
    /// A fill.
    Fill(Fill),
}

/// A copy or fill and how far it has come.
#[derive(Debug)]
pub struct Transfer {
    work: Work,
    /// Next row, counted over all slices.
    row: u64,
    /// Bytes of that row already done.
    done: u64,
    /// For the trace.
    pub(in crate::device) times: Times,
}

/// When a transfer came to its stream and when it began, ns; 0 while nothing is traced.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::device) struct Times {
    pub(in crate::device) submitted_ns: u64,
    pub(in crate::device) started_ns: u64,
}

/// What one step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All bytes have moved.
    Done,
    /// There is more.
    More,
    /// These bytes are not the tenant's.
    Fault {
        /// First byte of the row that could not be touched.
        address: u64,
        /// Bytes of it.
        bytes: u64,
        /// True if it should have been written.
        write: bool,
    },
}

impl Transfer {
    /// A copy from its start.
    pub fn copy(copy: Copy) -> Self {
        Self { work: Work::Copy(copy), row: 0, done: 0, times: Times::default() }
    }

    /// A fill from its start.
    pub fn fill(fill: Fill) -> Self {
        Self { work: Work::Fill(fill), row: 0, done: 0, times: Times::default() }
    }

    /// What a trace calls it.
    pub(in crate::device) fn trace_kind(&self) -> u32 {
        match &self.work {
            Work::Fill(_) => trace_kind::FILL,
            Work::Copy(copy) => match (copy.src.host, copy.dst.host) {
                (true, false) => trace_kind::COPY_IN,
                (false, true) => trace_kind::COPY_OUT,
                _ => trace_kind::COPY_WITHIN,
            },
        }
    }

    /// It begins.
    pub(in crate::device) fn begins(&mut self, now: u64) {
        let times = &mut self.times;
        times.started_ns = if times.started_ns == 0 { now } else { times.started_ns };
        times.submitted_ns = if times.submitted_ns == 0 { now } else { times.submitted_ns };
    }

    /// All bytes that will be written.
    pub fn bytes(&self) -> u64 {
        match &self.work {
            Work::Copy(c) => c.width.saturating_mul(c.height).saturating_mul(c.depth),
            Work::Fill(f) => f.width.saturating_mul(f.height).saturating_mul(u64::from(f.element)),
        }
    }

    /// Notes that all of these bytes are written.
    pub fn note_written(&self, account: &WrittenBytes) {
        match &self.work {
            Work::Copy(c) => {
                for z in 0..c.depth {
                    (0..c.height).for_each(|y| account.write(c.dst.row(y, z), c.width));
                }
            }
            Work::Fill(f) => {
                let bytes = f.width * u64::from(f.element);
                let row = |y: u64| f.address.wrapping_add(y.wrapping_mul(f.pitch));
                (0..f.height).for_each(|y| account.write(row(y), bytes));
            }
        }
    }

    /// Moves about [`STEP_BYTES`], or less if it is asked to stop. The caller holds
    /// [`Space::access`] of `space`.
    pub fn step(&mut self, space: &Space, stop: impl Fn() -> bool) -> Progress {
        let (row_bytes, rows) = match &self.work {
            Work::Copy(c) => (c.width, c.height.saturating_mul(c.depth)),
            Work::Fill(f) => (f.width.saturating_mul(u64::from(f.element)), f.height),
        };
        // Whole chunks, which are given back and not written, at once.
        let piece = if self.may_punch() { STEP_BYTES } else { PIECE_BYTES };
        let mut budget = STEP_BYTES;
        while row_bytes > 0 && self.row < rows {
            if budget == 0 || budget < STEP_BYTES && stop() {
                return Progress::More;
            }
            let bytes = budget.min(piece).min(row_bytes - self.done);
            if let Err(fault) = self.piece(space, bytes) {
                return fault;
            }
            budget = budget.saturating_sub(bytes + ROW_COST_BYTES);
            self.done += bytes;
            if self.done == row_bytes {
                self.done = 0;
                self.row += 1;
            }
        }
        Progress::Done
    }

    /// Moves `bytes` of the current row.
    fn piece(&self, space: &Space, bytes: u64) -> Result<(), Progress> {
        let check = |address: u64, device: bool, write: bool| {
            if !device || space.contains(address, bytes) {
                Ok(())
            } else {
                Err(Progress::Fault { address, bytes, write })
            }
        };
        match &self.work {
            Work::Copy(c) => {
                let (y, z) = (self.row % c.height, self.row / c.height);
                let dst = c.dst.row(y, z).wrapping_add(self.done);
                let src = c.src.row(y, z).wrapping_add(self.done);
                check(dst, c.dst.device, true)?;
                check(src, c.src.device, false)?;
                // SAFETY: a device side was just checked and stays mapped while the caller holds
                // `Space::access`; a host side is the program's buffer, which by the contract of
                // the call that made this copy is valid until the copy has completed. No Rust
                // reference points to either.
                unsafe { libc::memmove(dst as *mut _, src as *const _, bytes as usize) };
            }
            Work::Fill(f) => {
                let address =
                    f.address.wrapping_add(self.row.wrapping_mul(f.pitch)).wrapping_add(self.done);
                check(address, true, true)?;
                // SAFETY: checked above, and mapped while the caller holds `Space::access`; what may
                // be punched is device memory (`Fill::chunks`).
                unsafe {
                    if !(self.may_punch() && punch(address, bytes)) {
                        fill_bytes(address, bytes, f.value, f.element, self.done);
                    }
                }
            }
        }
        Ok(())
    }

    /// A long fill of device memory with zeros.
    fn may_punch(&self) -> bool {
        let Work::Fill(fill) = &self.work else { return false };
        let zero = fill.value & (u32::MAX >> (32 - 8 * fill.element)) == 0;
        let long = fill.width.saturating_mul(u64::from(fill.element)) >= PUNCH_BYTES_MIN;
        zero && long && fill.chunks && fill.height == 1
    }
}

/// Gives whole chunks of device memory back to the system, which makes them zero; false if it was
/// not done.
///
/// # Safety
/// All of it lies in device memory and stays mapped.
unsafe fn punch(address: u64, bytes: u64) -> bool {
    let whole = |n: u64| n.is_multiple_of(limits::CHUNK_BYTES);
    if !whole(address) || !whole(bytes) {
        return false;
    }
    (address..address + bytes).step_by(limits::CHUNK_BYTES as usize).all(|chunk| {
        let (at, size) = (chunk as *mut libc::c_void, limits::CHUNK_BYTES as usize);
        // SAFETY: by contract the chunk lies in device memory, which is mapped in whole chunks;
        // MADV_REMOVE zeroes shared file memory and refuses any other, MADV_DONTNEED zeroes private
        // anonymous memory, which is what the others are.
        unsafe {
            libc::madvise(at, size, libc::MADV_REMOVE) == 0
                || libc::madvise(at, size, libc::MADV_DONTNEED) == 0
        }
    })
}

/// Writes `bytes` bytes at `address` with the pattern of `value`, which started `phase` bytes ago.
///
/// # Safety
/// `address..address + bytes` must be mapped writable.
unsafe fn fill_bytes(address: u64, bytes: u64, value: u32, element: u32, phase: u64) {
    let pattern = match element {
        1 => (value & 0xff) * 0x0101_0101,
        2 => value & 0xffff | value << 16,
        _ => value,
    };
    // A step and a row are whole numbers of elements, so every piece starts with a whole one.
    debug_assert!(phase.is_multiple_of(u64::from(element)));
    let mut at = address;
    let end = address + bytes;
    let [first, rest @ ..] = pattern.to_le_bytes();
    // SAFETY: all that is written lies in front of `end`, in the range the caller vouches for.
    unsafe {
        if rest == [first; 3] {
            return (at as *mut u8).write_bytes(first, bytes as usize);
        }
        while at + 4 <= end {
            (at as *mut u32).write_unaligned(pattern);
            at += 4;
        }
        for (byte, at) in pattern.to_le_bytes().into_iter().zip(at..end) {
            (at as *mut u8).write(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::memory::pages;
    use crate::testing::word64;
    use simt::kernel::Range;
    use std::sync::atomic::Ordering;

    fn space_of(buffer: &[u8]) -> Space {
        let space = Space::default();
        let start = buffer.as_ptr() as u64;
        space.publish(vec![Range { start, end: start + buffer.len() as u64, writable: true }]);
        space
    }

    fn run(mut transfer: Transfer, space: &Space) -> Progress {
        loop {
            match transfer.step(space, || false) {
                Progress::More => {}
                end => return end,
            }
        }
    }

    #[test]
    fn a_step_ends_early_where_it_is_asked_to() {
        let mut memory = vec![0u8; STEP_BYTES as usize];
        let space = Space::default();
        let start = memory.as_mut_ptr() as u64;
        space.publish(vec![Range { start, end: start + STEP_BYTES, writable: true }]);
        let fill = |value| Fill {
            address: start,
            pitch: 0,
            value,
            element: 1,
            width: STEP_BYTES,
            height: 1,
            chunks: false,
        };
        let mut stopped = Transfer::fill(fill(3));
        assert_eq!(stopped.step(&space, || true), Progress::More);
        // Something at least, so that it comes to its end however often it is stopped.
        let done = memory.iter().take_while(|byte| **byte == 3).count() as u64;
        assert!(done > 0 && done < STEP_BYTES / 2, "{done}");
        while stopped.step(&space, || true) == Progress::More {}
        assert!(memory.iter().all(|byte| *byte == 3));
        let mut whole = Transfer::fill(fill(4));
        let steps = std::iter::from_fn(|| Some(whole.step(&space, || false)));
        assert!(steps.take_while(|progress| *progress == Progress::More).count() < 2);
        assert!(memory.iter().all(|byte| *byte == 4));
    }

    #[test]
    fn a_three_dimensional_copy_moves_the_box_and_nothing_else() {
        let src: Vec<u8> = (0..=255).collect();
        let dst = vec![0u8; 256];
        let space = space_of(&dst);
        let copy = Copy {
            dst: Side {
                address: dst.as_ptr() as u64,
                pitch: 10,
                slice: 60,
                device: true,
                host: false,
            },
            src: Side {
                address: src.as_ptr() as u64,
                pitch: 7,
                slice: 50,
                device: false,
                host: true,
            },
            width: 5,
            height: 4,
            depth: 3,
            staged: None,
        };
        assert_eq!(run(Transfer::copy(copy), &space), Progress::Done);
        for (i, byte) in dst.iter().enumerate() {
            let (z, y, x) = (i / 60, i % 60 / 10, i % 10);
            let inside = z < 3 && y < 4 && x < 5;
            let expected = if inside { (z * 50 + y * 7 + x) as u8 } else { 0 };
            assert_eq!(*byte, expected, "at {i}");
        }
    }

    #[test]
    fn long_transfers_are_done_in_steps() {
        let dst = vec![1u8; STEP_BYTES as usize * 2 + 12];
        let space = space_of(&dst);
        let fill = Fill {
            address: dst.as_ptr() as u64,
            pitch: 0,
            value: 0xabcd,
            element: 2,
            width: dst.len() as u64 / 2,
            height: 1,
            chunks: false,
        };
        let mut transfer = Transfer::fill(fill);
        assert_eq!(transfer.step(&space, || false), Progress::More);
        assert_eq!(run(transfer, &space), Progress::Done);
        assert!(dst.chunks(2).all(|pair| pair == [0xcd, 0xab]));
    }

    #[test]
    fn short_rows_are_done_in_steps_too() {
        let dst = vec![1u8; 64 << 10];
        let space = space_of(&dst);
        let (address, pitch, height) = (dst.as_ptr() as u64, 2, dst.len() as u64 / 2);
        let fill = Fill { address, pitch, value: 7, element: 1, width: 1, height, chunks: false };
        let mut transfer = Transfer::fill(fill);
        let more = std::iter::from_fn(|| Some(transfer.step(&space, || false)));
        let steps = more.take_while(|progress| *progress == Progress::More).count() as u64;
        assert!(steps >= height * ROW_COST_BYTES / STEP_BYTES / 2, "{steps} steps");
        assert!(dst.chunks(2).all(|pair| pair == [7, 1]));
    }

    #[test]
    fn every_element_gets_the_value() {
        for (element, value, expected) in [
            (1, 0xcc, [0xcc; 4]),
            (2, 0x1234, [0x34, 0x12, 0x34, 0x12]),
            (4, 0x0102_0304, [4, 3, 2, 1]),
        ] {
            let mut dst = vec![0u8; 24];
            let space = space_of(&dst);
            let fill = Fill {
                address: dst.as_mut_ptr() as u64 + 4,
                pitch: 0,
                value,
                element,
                width: 16 / u64::from(element),
                height: 1,
                chunks: false,
            };
            assert_eq!(run(Transfer::fill(fill), &space), Progress::Done);
            assert_eq!((&dst[..4], &dst[20..]), (&[0; 4][..], &[0; 4][..]));
            assert!(dst[4..20].chunks(4).all(|word| word == expected), "{element}: {dst:?}");
        }
    }

    #[test]
    fn bytes_outside_of_the_tenants_memory_are_not_touched() {
        let buffer = [7u8; 64];
        let space = space_of(&buffer[..32]);
        let at = buffer.as_ptr() as u64;
        let fill = Fill {
            address: at + 16,
            pitch: 0,
            value: 0,
            element: 1,
            width: 17,
            height: 1,
            chunks: false,
        };
        let fault = Progress::Fault { address: at + 16, bytes: 17, write: true };
        assert_eq!(run(Transfer::fill(fill), &space), fault);
        assert!(buffer.iter().all(|b| *b == 7));
    }

    /// A copy of one run of bytes between device memory.
    fn run_of(destination: u64, source: u64, bytes: u64) -> Copy {
        Copy {
            dst: Side::linear(destination, true),
            src: Side::linear(source, true),
            width: bytes,
            height: 1,
            depth: 1,
            staged: None,
        }
    }

    #[test]
    fn a_source_outside_of_the_tenants_memory_is_not_read() {
        let buffer: Vec<u8> = (0..96).collect();
        let space = space_of(&buffer[..64]);
        let at = buffer.as_ptr() as u64;
        let fault = Progress::Fault { address: at + 48, bytes: 32, write: false };
        assert_eq!(run(Transfer::copy(run_of(at, at + 48, 32)), &space), fault);
        assert!(buffer.iter().copied().eq(0..96));
    }

    #[test]
    fn a_long_row_is_copied_as_it_is() {
        let bytes = STEP_BYTES as usize + 12_345;
        let mut buffer: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
        buffer.resize(2 * bytes, 0);
        let (space, at) = (space_of(&buffer), buffer.as_mut_ptr() as u64);
        let copy = run_of(at + bytes as u64, at, bytes as u64);
        assert_eq!(run(Transfer::copy(copy), &space), Progress::Done);
        assert!(buffer[..bytes] == buffer[bytes..]);
    }

    #[test]
    fn all_that_is_written_is_noted_and_nothing_else() {
        let account = WrittenBytes::default();
        account.track(4096, 4096);
        let side = |address| Side { address, pitch: 16, slice: 64, device: true, host: false };
        let (dst, src) = (side(4096), side(0));
        let copy = Copy { dst, src, width: 8, height: 2, depth: 3, staged: None };
        Transfer::copy(copy).note_written(&account);
        let (address, value) = (6144, 1);
        let fill =
            Fill { address, pitch: 32, value, element: 4, width: 5, height: 2, chunks: true };
        Transfer::fill(fill).note_written(&account);
        let is_written = |address: u64| account.misused(address, 1, true).is_none();
        for n in 0..2048 {
            let (slice, row, byte) = (n / 64, n % 64 / 16, n % 16);
            assert_eq!(is_written(4096 + n), slice < 3 && row < 2 && byte < 8, "copy: {n}");
            assert_eq!(is_written(6144 + n), n < 64 && n % 32 < 20, "fill: {n}");
        }
    }

    #[test]
    fn zeros_leave_what_is_behind_them() {
        let chunk = limits::CHUNK_BYTES;
        let (long, more) = (PUNCH_BYTES_MIN + 4096, 2 * chunk);
        let room = (long + more).next_multiple_of(chunk);
        let address = pages::map_private(room, true).unwrap();
        let space = Space::default();
        space.publish(vec![Range { start: address, end: address + long + more, writable: true }]);
        let byte = |offset: u64| {
            let word = word64(address + offset / 8 * 8).load(Ordering::Relaxed);
            word.to_le_bytes()[offset as usize % 8]
        };
        let fill = |first, value, width| {
            let (pitch, element, height) = (0, 1, 1);
            Fill { address: address + first, pitch, value, element, width, height, chunks: true }
        };
        // From the start of a chunk, then from its middle: to the middle of another one.
        for first in [0, 4096] {
            assert_eq!(run(Transfer::fill(fill(0, 7, long + more)), &space), Progress::Done);
            assert_eq!(run(Transfer::fill(fill(first, 0, long)), &space), Progress::Done);
            assert!((first..first + long).step_by(64).all(|at| byte(at) == 0));
            assert!((first + long..long + more).step_by(64).all(|at| byte(at) == 7));
            assert!(first == 0 || byte(first - 1) == 7);
        }
        pages::release(address, room);
    }
}

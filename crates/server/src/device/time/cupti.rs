//! CUPTI: what kernels take, by NVIDIA's own activity records, in short windows.
//!
//! The library is loaded when it is asked for. While a window is open the driver keeps a record of each
//! kernel that is launched, which costs microseconds a launch; so windows are short and rare. A record
//! has its times when its kernel has ended, which is long after the window where a program launches
//! ahead of the device: so records are read some time later, and those without times say nothing.
//! Records come by two functions that the library calls back, which know nothing but this file's buffers.

use crate::device::library::Library;
use crate::device::{Device, Stream};
use cuda_api::environment::OPENMPS_CUPTI;
use locks::Mutex;
use std::collections::HashMap;
use std::ffi::{CStr, CString, OsString, c_char, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;
use std::{mem, ptr};

/// Where it is looked for if the environment does not say.
const PLACES: [&str; 4] = [
    "libcupti.so.13",
    "libcupti.so.12",
    "libcupti.so",
    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
];
/// `CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL`.
const CONCURRENT_KERNEL: u32 = 10;
/// Buffers are handed over whose records are complete.
const FLUSH_COMPLETE: u32 = 0;
/// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`: all are, with records of kernels that have not ended.
const FLUSH_FORCED: u32 = 1;
/// Bytes of a buffer of records, of some hundred bytes each.
const BUFFER_BYTES: usize = BUFFER_WORDS * 8;
/// Its length in words, at multiples of which the library wants buffers to begin.
const BUFFER_WORDS: usize = 1 << 17;
/// Most buffers with records that wait to be read: a late reader loses some.
const BUFFERS_MAX: usize = 64;

/// A record is not believed that is so many times longer than the median of its kernel's and shape's, if
/// it is one of so many at an edge of its window, or so many others of its stream begin and end within it.
const TIMES_MEDIAN_MAX: u64 = 16;
/// Nor, wherever it is, one that is so many times longer: on an H200 one of a graph's records in each window
/// was 0.13 s long.
const TIMES_MEDIAN_NEVER: u64 = 1000;
const EDGE: usize = 2;
const WITHIN_MIN: usize = 8;

/// The beginning of `CUpti_ActivityKernel4` and all later ones.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawKernel {
    kind: u32,
    configuration: [u8; 12],
    start: u64,
    end: u64,
    completed: u64,
    device: u32,
    context: u32,
    stream: u32,
    grid: [i32; 3],
    block: [i32; 3],
    static_shared_bytes: i32,
    dynamic_shared_bytes: i32,
    local_bytes: u32,
    local_bytes_in_all: u32,
    correlation: u32,
    grid_id: i64,
    name: *const c_char,
}

const _: () = assert!(mem::offset_of!(RawKernel, start) == 16);
const _: () = assert!(mem::offset_of!(RawKernel, dynamic_shared_bytes) == 80);
const _: () = assert!(mem::offset_of!(RawKernel, name) == 104);

/// Asked for a buffer: its address, its bytes, the most records in it.
type Request =
    extern "C" fn(&mut MaybeUninit<*mut u8>, &mut MaybeUninit<usize>, &mut MaybeUninit<usize>);
type Completed = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

type TakeNumber = extern "C" fn(u32) -> u32;
type NextRecord = unsafe extern "C" fn(*mut u8, usize, *mut *mut RawKernel) -> u32;
type StreamId = unsafe extern "C" fn(*mut c_void, usize, u8, *mut u32) -> u32;
type Register = extern "C" fn(Request, Completed) -> u32;

/// The functions, with the signatures of `cupti_activity.h`.
struct Functions {
    enable: TakeNumber,
    disable: TakeNumber,
    flush_all: TakeNumber,
    next_record: NextRecord,
    stream_id: StreamId,
    register: Register,
}

/// One launch of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelRecord {
    /// The stream's number: [`Cupti::stream_number`].
    pub stream: u32,
    /// As its image has it.
    pub name: CString,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// When it started and ended, ns on the device's clock.
    pub start_ns: u64,
    /// As `start_ns`.
    pub end_ns: u64,
    /// From its start to its end, ns, without what the kernel before it in its stream has of that: a
    /// kernel may be let start before the one before it has ended.
    pub device_ns: u64,
}

/// What was read of a window.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WindowRecords {
    /// Kernels that have ended, by stream in the order of their starts.
    pub ended: Vec<KernelRecord>,
    /// Kernels that had not ended when the records were read.
    pub unfinished: u64,
    /// Records whose times cannot be: of a graph that was in flight when its window began or ended, one
    /// may have the start or the end of another launch.
    pub broken: u64,
}

impl WindowRecords {
    /// Of the window's kernels in any order; without times those that have not ended. None can have taken
    /// longer than `longest`, the time from the window's beginning to the reading.
    fn of(records: Vec<KernelRecord>, longest: Duration) -> Self {
        let all = records.len();
        let has_times =
            |record: &KernelRecord| record.start_ns != 0 && record.end_ns >= record.start_ns;
        let mut ended: Vec<_> = records.into_iter().filter(has_times).collect();
        let unfinished = (all - ended.len()) as u64;
        let longest_ns = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        ended.retain(|record| record.end_ns - record.start_ns <= longest_ns);
        ended.sort_by_key(|record| (record.stream, record.start_ns, record.end_ns));
        let believed = believed(&ended);
        let mut each = believed.iter();
        ended.retain(|_| each.next() == Some(&true));
        let broken = all as u64 - unfinished - ended.len() as u64;
        let mut before = None;
        for record in &mut ended {
            let busy_until = match before {
                Some((stream, until)) if stream == record.stream => until,
                _ => 0,
            };
            record.device_ns = record.end_ns.saturating_sub(record.start_ns.max(busy_until));
            before = Some((record.stream, record.end_ns.max(busy_until)));
        }
        Self { ended, unfinished, broken }
    }
}

/// Of records by stream and start, whether each can be the time of one launch: one that is much longer than
/// its like, at the window's edge or while a good part of its stream's work was done, has the start or end of
/// another launch.
fn believed(records: &[KernelRecord]) -> Vec<bool> {
    let like = |record: &KernelRecord| {
        (record.name.clone(), record.grid, record.block, record.shared_bytes)
    };
    let mut times: HashMap<_, Vec<u64>> = HashMap::new();
    for record in records {
        times.entry(like(record)).or_default().push(record.end_ns - record.start_ns);
    }
    for times in times.values_mut() {
        times.sort_unstable();
    }
    let is_believed = |(at, record): (usize, &KernelRecord)| {
        let median = times.get(&like(record)).map_or(0, |times| times[times.len() / 2]);
        let ns = record.end_ns - record.start_ns;
        if ns <= median.saturating_mul(TIMES_MEDIAN_MAX) {
            return true;
        }
        if ns > median.saturating_mul(TIMES_MEDIAN_NEVER) {
            return false;
        }
        let is_other = |at: Option<usize>| {
            let other = at.and_then(|at| records.get(at));
            other.is_none_or(|other| other.stream != record.stream)
        };
        if is_other(at.checked_sub(EDGE)) || is_other(Some(at + EDGE)) {
            return false;
        }
        let later = records[at + 1..]
            .iter()
            .take_while(|other| other.stream == record.stream && other.start_ns < record.end_ns);
        later.filter(|other| other.end_ns <= record.end_ns).take(WITHIN_MIN).count() < WITHIN_MIN
    };
    records.iter().enumerate().map(is_believed).collect()
}

/// The library, loaded for good.
pub struct Cupti {
    functions: Functions,
}

/// Buffers with records: address and bytes of records.
static FULL: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

fn full() -> locks::MutexGuard<'static, Vec<(usize, usize)>> {
    FULL.lock()
}

fn free(buffer: *mut u8) {
    if !buffer.is_null() {
        // SAFETY: it is a vector of `wanted`'s of that capacity, and is freed once.
        drop(unsafe { Vec::<u64>::from_raw_parts(buffer.cast(), 0, BUFFER_WORDS) });
    }
}

extern "C" fn wanted(
    buffer: &mut MaybeUninit<*mut u8>,
    bytes: &mut MaybeUninit<usize>,
    records: &mut MaybeUninit<usize>,
) {
    let mut words = ManuallyDrop::new(Vec::<u64>::new());
    // Without a buffer the library drops records.
    let made = match words.try_reserve_exact(BUFFER_WORDS) {
        Ok(()) => (words.as_mut_ptr().cast(), BUFFER_BYTES),
        Err(_) => (ptr::null_mut(), 0),
    };
    buffer.write(made.0);
    bytes.write(made.1);
    records.write(0);
}

extern "C" fn completed(_: *mut c_void, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    let mut full = full();
    match valid > 0 && full.len() < BUFFERS_MAX {
        true => full.push((buffer as usize, valid)),
        false => free(buffer),
    }
}

impl Cupti {
    /// Loads the library.
    ///
    /// # Errors
    /// What was tried.
    pub fn load() -> Result<Self, String> {
        let named = std::env::var_os(OPENMPS_CUPTI).filter(|path| !path.is_empty());
        let places = match named {
            Some(path) => vec![path],
            None => PLACES.map(OsString::from).to_vec(),
        };
        let mut last = String::new();
        for place in &places {
            match open(place) {
                Ok(found) => return Ok(found),
                Err(error) => last = error,
            }
        }
        let tried: Vec<_> =
            places.iter().map(|place| Path::new(place).display().to_string()).collect();
        let tried = tried.join(", ");
        Err(format!(
            "CUPTI cannot be used: {last} (tried {tried}); {OPENMPS_CUPTI} says where it is"
        ))
    }

    /// Opens a window: each kernel that is launched from now on is recorded.
    pub fn begin(&self) -> Result<(), u32> {
        answer((self.functions.enable)(CONCURRENT_KERNEL))
    }

    /// Closes the window: what is launched from now on is not recorded.
    pub fn end(&self) -> Result<(), u32> {
        // What is complete is handed over first, lest closing loses it; what is not handed over now comes
        // with `read`.
        let _ = (self.functions.flush_all)(FLUSH_COMPLETE);
        answer((self.functions.disable)(CONCURRENT_KERNEL))
    }

    /// What was recorded in a window that is closed and began `longest` ago. To be called when its kernels
    /// have ended.
    pub fn read(&self, longest: Duration) -> Result<WindowRecords, u32> {
        let flushed = (self.functions.flush_all)(FLUSH_FORCED);
        let mut records = Vec::new();
        for (buffer, valid) in mem::take(&mut *full()) {
            let buffer = ptr::with_exposed_provenance_mut::<u8>(buffer);
            let mut record = ptr::null_mut();
            // SAFETY: the buffer has so many bytes of records, which the library wrote. A record is as long as
            // its kind says, and every kind begins with its number; a kernel's name is NULL or a C string
            // of the library's.
            unsafe {
                while (self.functions.next_record)(buffer, valid, &mut record) == 0 {
                    if !record.is_null() && (*record).kind == CONCURRENT_KERNEL {
                        let raw = ptr::read_unaligned(record);
                        let name = (!raw.name.is_null()).then(|| CStr::from_ptr(raw.name));
                        records.push(kernel(&raw, name.unwrap_or_default()));
                    }
                }
            }
            free(buffer);
        }
        if records.is_empty() {
            answer(flushed)?;
        }
        Ok(WindowRecords::of(records, longest))
    }

    /// What a stream is called in records.
    pub fn stream_number(&self, stream: &Stream) -> Option<u32> {
        let mut number = 0;
        let raw = stream.raw().0;
        // SAFETY: the stream is alive; the local is written; without a context none is compared.
        let found = unsafe { (self.functions.stream_id)(ptr::null_mut(), raw, 0, &mut number) };
        (found == 0).then_some(number)
    }
}

fn answer(number: u32) -> Result<(), u32> {
    if number == 0 { Ok(()) } else { Err(number) }
}

fn kernel(raw: &RawKernel, name: &CStr) -> KernelRecord {
    KernelRecord {
        stream: raw.stream,
        name: name.to_owned(),
        grid: raw.grid.map(i32::unsigned_abs),
        block: raw.block.map(i32::unsigned_abs),
        shared_bytes: raw.dynamic_shared_bytes.unsigned_abs(),
        start_ns: raw.start,
        end_ns: raw.end,
        device_ns: 0,
    }
}

fn open(place: &OsString) -> Result<Cupti, String> {
    let path = CString::new(place.clone().into_vec()).map_err(|error| error.to_string())?;
    // SAFETY: the library is the installation's, or was named.
    let library = unsafe { Library::load(path)? };
    // It stays loaded for good.
    let library = ManuallyDrop::new(library);
    let symbol = |name: &CStr| library.find(name);
    // SAFETY: the functions have these signatures in every version of `cupti_activity.h` that has
    // them, and the library stays loaded. Those that are safe to call take any number, or functions that
    // are there for good and do what the header asks of them.
    let functions = unsafe {
        Functions {
            enable: mem::transmute::<*mut c_void, TakeNumber>(symbol(c"cuptiActivityEnable")?),
            disable: mem::transmute::<*mut c_void, TakeNumber>(symbol(c"cuptiActivityDisable")?),
            flush_all: mem::transmute::<*mut c_void, TakeNumber>(symbol(c"cuptiActivityFlushAll")?),
            next_record: mem::transmute::<*mut c_void, NextRecord>(symbol(
                c"cuptiActivityGetNextRecord",
            )?),
            stream_id: mem::transmute::<*mut c_void, StreamId>(symbol(c"cuptiGetStreamIdEx")?),
            register: mem::transmute::<*mut c_void, Register>(symbol(
                c"cuptiActivityRegisterCallbacks",
            )?),
        }
    };
    match (functions.register)(wanted, completed) {
        0 => Ok(Cupti { functions }),
        error => Err(format!("cuptiActivityRegisterCallbacks answered {error}")),
    }
}

impl Device {
    /// Loads CUPTI, where kernels are NVIDIA's driver's.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn cupti(&self) -> Result<Cupti, String> {
        match self.has_tenants() {
            true => Err("the software GPU counts device time itself, exactly".to_owned()),
            false => Cupti::load(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(stream: u32, start_ns: u64, end_ns: u64) -> KernelRecord {
        KernelRecord { stream, start_ns, end_ns, ..KernelRecord::default() }
    }

    fn times(records: Vec<KernelRecord>) -> (Vec<u64>, u64) {
        let window = WindowRecords::of(records, Duration::from_micros(1));
        (window.ended.iter().map(|record| record.device_ns).collect(), window.unfinished)
    }

    #[test]
    fn a_kernel_that_has_not_ended_counts_for_nothing() {
        // A program that launches ahead: most of a window's kernels have no times, or only a start.
        let records = vec![record(1, 100, 117), record(1, 120, 0), record(1, 0, 0)];
        assert_eq!(times(records), (vec![17], 2));
        assert_eq!(times(vec![]), (vec![], 0));
    }

    #[test]
    fn a_record_with_the_start_of_an_earlier_window_is_left_out() {
        // Nor does it take the time of those that come within it.
        let records = vec![record(1, 100, 2000), record(1, 1500, 1510), record(1, 1520, 1521)];
        let window = WindowRecords::of(records, Duration::from_micros(1));
        let times: Vec<_> = window.ended.iter().map(|record| record.device_ns).collect();
        assert_eq!((times, window.unfinished, window.broken), (vec![10, 1], 0, 1));
    }

    #[test]
    fn a_record_with_the_end_of_a_later_launch_is_left_out() {
        // Launches of a graph of two kernels; the first kernel of the last one has no end of its own.
        let of = |name: &CStr, start: u64, end: u64| KernelRecord {
            name: name.to_owned(),
            ..record(1, 1 + start, 1 + end)
        };
        let mut records: Vec<_> = (0..20)
            .flat_map(|at| [of(c"a", 20 * at, 20 * at + 9), of(c"b", 20 * at + 10, 20 * at + 19)])
            .collect();
        records[20].end_ns = 901;
        let window = WindowRecords::of(records.clone(), Duration::from_micros(1));
        assert_eq!((window.ended.len(), window.broken), (39, 1));
        assert!(window.ended.iter().all(|record| record.device_ns == 9));
        // Nor is the last one, whose graph has no other records.
        let mut edge: Vec<_> = (0..20).map(|at| of(c"a", 20 * at, 20 * at + 9)).collect();
        edge[19].end_ns = 960;
        assert_eq!(WindowRecords::of(edge.clone(), Duration::from_micros(1)).broken, 1);
        // One that is long beside few others, or as long as its like, is what it says.
        (edge[10].end_ns, edge[19].end_ns) = (edge[10].start_ns + 150, edge[19].start_ns + 9);
        assert_eq!(WindowRecords::of(edge, Duration::from_micros(1)).broken, 0);
        // One that is longer than can be is not, even if nothing is within it.
        let mut far: Vec<_> = (0..20).map(|at| of(c"a", 20 * at, 20 * at + 1)).collect();
        far.extend((0..4).map(|at| of(c"d", 4000 + 10 * at, 4001 + 10 * at)));
        far[19].end_ns = 3900;
        far.sort_by_key(|record| record.start_ns);
        assert_eq!(WindowRecords::of(far, Duration::from_micros(9)).broken, 1);
        records[20] = of(c"c", 200, 900);
        assert_eq!(WindowRecords::of(records, Duration::from_micros(1)).broken, 0);
    }

    #[test]
    fn kernels_that_overlap_in_a_stream_have_its_busy_time_together() {
        // The second one was let start early; other streams have times of their own.
        let records = vec![
            record(1, 200, 260),
            record(1, 100, 210),
            record(1, 300, 310),
            record(2, 150, 250),
            record(1, 302, 305),
        ];
        assert_eq!(times(records), (vec![110, 50, 10, 0, 100], 0));
    }
}

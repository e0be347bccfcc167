//! Streams made beforehand, in two groups that clients are spread over.
//!
//! NVIDIA's driver gives the streams of a context hardware queues (CUDA_DEVICE_MAX_CONNECTIONS), and
//! with more than 8 of them the queues fall into two groups, each of which begins half of the
//! kernels that the device can begin in a second. Of 8 clients that launch much, 3 in one group
//! and 5 in the other are served unevenly, and less is done in all. Which group a stream is in is
//! settled when it is made, differently in each process, and no function tells; so it is found
//! out here, once, by letting streams compete. It takes some tens of milliseconds.
//!
//! This is about speed alone: a stream of unknown group is as good as any other, and where there are
//! no groups nobody is the worse for it. Only streams of the ordinary priority are kept here.

use super::{CheckedRange, Event, Function, HostRegistration, LaunchShape, Module, Share, Stream};
use cuda_api::{CUstream, CudaError};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Streams made beforehand: as many as there are queues at most; later ones share them. Half a MiB of
/// device memory each.
const STREAMS: usize = 32;
/// Streams of one competition: an odd number, which two groups cannot share evenly.
const COMPETITORS: usize = 9;
/// Streams that take part in each competition, so that the next one's groups are the same two.
const ANCHORS: usize = 4;
/// How often it is tried: a competition in which all are of one group tells nothing.
const ROUNDS: usize = 2;
/// Kernels of a competitor: enough for some milliseconds.
const KERNELS: usize = 150;
/// The kernel: 2 us on few threads, so that beginning kernels is all that streams compete for.
const KERNEL: &str = include_str!("compete.ptx");
const BLOCKS: u32 = 20;
/// The smaller group is done by at least so much earlier (4 of 9: by a fifth), and the streams of one
/// group differ by less.
const LEAD_MIN: f32 = 1.08;

/// One of the two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    A,
    B,
}

impl Group {
    fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// A stream that was made beforehand, lent to a session.
pub struct Queue {
    raw: CUstream,
    group: Option<Group>,
}

impl Queue {
    /// The provider's handle.
    pub(super) fn raw(&self) -> CUstream {
        self.raw
    }
}

/// How many streams of each group are in use.
#[derive(Clone, Copy, Default)]
pub(super) struct InUse([u32; 2]);

impl InUse {
    fn of(self, group: Group) -> u32 {
        self.0[group as usize]
    }

    /// The group with fewer, if they differ.
    fn fewer(self) -> Option<Group> {
        match self.of(Group::A).cmp(&self.of(Group::B)) {
            std::cmp::Ordering::Less => Some(Group::A),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(Group::B),
        }
    }

    fn count(&mut self, group: Option<Group>, change: i32) {
        if let Some(group) = group {
            let place = &mut self.0[group as usize];
            *place = place.saturating_add_signed(change);
        }
    }
}

/// What a session has of them.
#[derive(Clone, Copy, Default)]
pub(super) struct Lent {
    in_use: InUse,
    /// The group of the session's first stream: the one that it may do all of its work in.
    first: Option<Group>,
}

struct Inner {
    free: Vec<Queue>,
    in_use: InUse,
    /// By the first streams of sessions.
    sessions: InUse,
}

/// The streams that nobody uses.
pub struct Queues {
    inner: Mutex<Inner>,
}

impl Queues {
    /// Makes the streams and finds their groups out.
    ///
    /// # Errors
    /// The provider's, such as for a kernel that it cannot compile. Nothing is left behind then.
    pub fn new(share: &Rc<Share>) -> Result<Self, CudaError> {
        let streams: Vec<Stream> =
            (0..STREAMS).map(|_| Stream::new(share, 0)).collect::<Result<_, _>>()?;
        let race = Race::new(share)?;
        let groups = groups(streams.len(), |competitors| race.run(&streams, competitors))?;
        let queues = streams.into_iter().zip(groups);
        // The first one made is taken first.
        let free = queues.map(|(s, group)| Queue { raw: s.into_raw(), group }).rev().collect();
        Ok(Self::of(free))
    }

    fn of(free: Vec<Queue>) -> Self {
        let (in_use, sessions) = (InUse::default(), InUse::default());
        Self { inner: Mutex::new(Inner { free, in_use, sessions }) }
    }

    /// How many streams are in each group, and how many in neither.
    pub fn census(&self) -> [usize; 3] {
        let inner = self.lock();
        let count = |group| inner.free.iter().filter(|queue| queue.group == group).count();
        [count(Some(Group::A)), count(Some(Group::B)), count(None)]
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends a stream to a session: the first one from the group in which fewer sessions have
    /// theirs, the others from both groups in turns. So whichever of its streams programs work
    /// with, half of them do so in each group, if they are alike. `None` if all are lent.
    pub(super) fn take(&self, own: &mut Lent) -> Option<Queue> {
        let mut inner = self.lock();
        let wanted = match own.first {
            None => inner.sessions.fewer().or(inner.in_use.fewer()).unwrap_or(Group::A),
            Some(first) => own.in_use.fewer().unwrap_or(first),
        };
        let find = |group| inner.free.iter().rposition(|queue| queue.group == group);
        let place =
            find(Some(wanted)).or_else(|| find(Some(wanted.other()))).or_else(|| find(None))?;
        let queue = inner.free.remove(place);
        inner.in_use.count(queue.group, 1);
        own.in_use.count(queue.group, 1);
        if own.first.is_none() {
            own.first = queue.group;
            inner.sessions.count(queue.group, 1);
        }
        Some(queue)
    }

    /// Takes a stream back, which has no work left.
    pub(super) fn give(&self, queue: Queue, own: &mut Lent) {
        let mut inner = self.lock();
        inner.in_use.count(queue.group, -1);
        own.in_use.count(queue.group, -1);
        inner.free.push(queue);
    }

    /// A session is over.
    pub(super) fn leave(&self, own: Lent) {
        self.lock().sessions.count(own.first, -1);
    }

    /// The streams, to be destroyed.
    pub(super) fn take_all(&self) -> Vec<CUstream> {
        std::mem::take(&mut self.lock().free).into_iter().map(|queue| queue.raw).collect()
    }
}

/// A word that the device waits for, on a page of its own.
#[repr(align(4096))]
struct Gate([AtomicU32; 1024]);

/// What streams compete with. Fields are dropped in their order.
struct Race {
    registration: HostRegistration,
    gate: Box<Gate>,
    function: Function,
    _module: Module,
    start: Event,
    ends: Vec<Event>,
}

impl Race {
    fn new(share: &Rc<Share>) -> Result<Self, CudaError> {
        let (module, _) = Module::load(share, KERNEL.as_bytes().to_vec(), &[], 0, 0);
        let module = module?;
        let gate = Box::new(Gate(std::array::from_fn(|_| AtomicU32::new(0))));
        let base = std::ptr::from_ref(&*gate).addr() as u64;
        // SAFETY: the page is the box's, which is kept beside the registration and dropped after it.
        let registration = unsafe { HostRegistration::new(share, base, size_of::<Gate>() as u64)? };
        Ok(Self {
            registration,
            gate,
            function: module.function(c"compete")?,
            _module: module,
            start: Event::new(share, 0)?,
            ends: (0..COMPETITORS).map(|_| Event::new(share, 0)).collect::<Result<_, _>>()?,
        })
    }

    /// Lets streams run the same kernels, which all wait until they are there; when each was done, ms.
    fn run(&self, streams: &[Stream], competitors: &[usize]) -> Result<Vec<f32>, CudaError> {
        let gate = CheckedRange::vouched(self.registration.device_address(), 4);
        self.gate.0[0].store(0, Ordering::SeqCst);
        for index in competitors {
            streams[*index].wait_word(gate, 1)?;
        }
        let submitted = self.submit(streams, competitors);
        self.gate.0[0].store(1, Ordering::SeqCst);
        for index in competitors {
            while !streams[*index].is_idle()? {
                std::thread::yield_now();
            }
        }
        submitted?;
        let ends = self.ends.iter().take(competitors.len());
        ends.map(|end| self.start.elapsed_ms(end)).collect()
    }

    fn submit(&self, streams: &[Stream], competitors: &[usize]) -> Result<(), CudaError> {
        let shape = LaunchShape {
            grid: [BLOCKS, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
            cooperative: false,
            programmatic: false,
            cluster: None,
        };
        if let Some(first) = competitors.first() {
            streams[*first].record(&self.start)?;
        }
        for _ in 0..KERNELS {
            for index in competitors {
                streams[*index].launch(&self.function, shape, &[])?;
            }
        }
        for (index, end) in competitors.iter().zip(&self.ends) {
            streams[*index].record(end)?;
        }
        Ok(())
    }
}

/// The group of each of `count` streams, as competitions tell. `None` where they do not.
fn groups(
    count: usize,
    mut compete: impl FnMut(&[usize]) -> Result<Vec<f32>, CudaError>,
) -> Result<Vec<Option<Group>>, CudaError> {
    let mut groups: Vec<Option<Group>> = vec![None; count];
    for _ in 0..ROUNDS {
        let mut unknown: Vec<usize> = (0..count).filter(|i| groups[*i].is_none()).collect();
        while !unknown.is_empty() {
            // Anchors of both groups, so that there are two each time, and the same two.
            let of = |group| {
                let groups = groups.iter().enumerate();
                groups.filter(move |(_, of)| **of == Some(group)).map(|(index, _)| index)
            };
            let pairs = of(Group::A).zip(of(Group::B));
            let known: Vec<usize> = pairs.flat_map(|(a, b)| [a, b]).collect();
            let room = if known.is_empty() { COMPETITORS } else { COMPETITORS - ANCHORS };
            let mut competitors: Vec<usize> = unknown.drain(..room.min(unknown.len())).collect();
            let anchors = COMPETITORS - competitors.len();
            competitors.extend(known.iter().take(anchors));
            let Some(early) = early_ones(&compete(&competitors)?) else { continue };
            let mut of_early = competitors.iter().zip(&early).filter_map(|(index, early)| {
                groups[*index].map(|group| if *early { group } else { group.other() })
            });
            let of_early = of_early.next().unwrap_or(Group::A);
            for (index, early) in competitors.into_iter().zip(early) {
                groups[index].get_or_insert(if early { of_early } else { of_early.other() });
            }
        }
    }
    Ok(groups)
}

/// Which competitors were done clearly earlier than the others: those of the smaller group. `None` if
/// there is no such difference.
fn early_ones(times: &[f32]) -> Option<Vec<bool>> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f32::total_cmp);
    let lead = |pair: &[f32]| pair[1] / pair[0];
    let widest = sorted.windows(2).max_by(|a, b| lead(a).total_cmp(&lead(b)))?;
    let last_early = widest[0];
    let small = sorted.iter().filter(|time| **time <= last_early).count();
    let clear = lead(widest) >= LEAD_MIN && 2 * small < times.len();
    clear.then(|| times.iter().map(|time| *time <= last_early).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device whose streams are in these groups: the streams of each share half of it.
    fn device(groups: &[Group]) -> impl FnMut(&[usize]) -> Result<Vec<f32>, CudaError> + '_ {
        |competitors| {
            let size = |group| competitors.iter().filter(|i| groups[**i] == group).count() as f32;
            let noise = |index: usize| 1.0 + (index % 3) as f32 / 100.0;
            Ok(competitors.iter().map(|i| size(groups[*i]) * noise(*i)).collect())
        }
    }

    fn pattern(seed: u64) -> Vec<Group> {
        let bit = |i: usize| (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 61)) & 1;
        (0..STREAMS).map(|i| if bit(i) == 0 { Group::A } else { Group::B }).collect()
    }

    #[test]
    fn competitions_tell_the_groups_apart() {
        for seed in 1..200 {
            let real = pattern(seed);
            let found = groups(STREAMS, device(&real)).expect("no error");
            // Which of the two is called A is arbitrary.
            let first = found.iter().zip(&real).find_map(|(f, r)| Some((*f)?).map(|f| f == *r));
            for (index, (found, real)) in found.iter().zip(&real).enumerate() {
                if let (Some(found), Some(alike)) = (found, first) {
                    assert_eq!(*found == *real, alike, "stream {index} of {seed}");
                }
            }
            assert!(found.iter().all(Option::is_some), "{seed}: {found:?}");
        }
    }

    #[test]
    fn without_groups_nothing_is_told() {
        let real = vec![Group::A; STREAMS];
        let found = groups(STREAMS, device(&real)).expect("no error");
        assert!(found.iter().all(Option::is_none));
        assert_eq!(early_ones(&[]), None);
        assert_eq!(early_ones(&[1.0]), None);
        // More than half cannot be the smaller group.
        assert_eq!(early_ones(&[1.0, 1.0, 1.0, 2.0]), None);
    }

    #[test]
    fn sessions_are_spread_over_the_groups() {
        let queue = |index: usize, group| Queue { raw: CUstream(index), group };
        let free = (0..12).map(|i| queue(i + 1, Some(if i < 6 { Group::A } else { Group::B })));
        let free = free.chain([queue(13, None)]).collect();
        let queues = Queues::of(free);
        let mut sessions = [Lent::default(); 4];
        // Each has three streams, any of which may be the one that it works with.
        let mut lent = Vec::new();
        for own in &mut sessions {
            lent.extend([(); 3].map(|()| queues.take(own).unwrap()));
        }
        for place in 0..3 {
            let of_a = lent.iter().skip(place).step_by(3).filter(|q| q.group == Some(Group::A));
            assert_eq!(of_a.count(), 2, "streams number {place}");
        }
        queues.leave(sessions[0]);
        assert_eq!(queues.lock().sessions.0.iter().sum::<u32>(), 3);
        assert!(queues.take(&mut sessions[0]).is_some_and(|queue| queue.group.is_none()));
        assert!(queues.take(&mut sessions[0]).is_none(), "all are lent");
        let own = &mut sessions[3];
        queues.give(lent.pop().unwrap(), own);
        assert!(queues.take(own).is_some());
    }
}

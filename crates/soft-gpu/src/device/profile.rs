//! Profile: what each kernel did, counted always, written where OPENMPS_SOFT_PROFILE says.
//!
//! Counts are added once a launch, under the core's lock; a tenant's kernels of one name count
//! together, regardless of the module that they come from. What tenants did in all is theirs
//! (`tenant`).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use simt::kernel::{Counters, WARP_LANES};

use crate::device::tenant::{Tenant, TenantId};
use crate::device::{Device, say};

/// Rows that are kept apart: programs that come, or make kernels, for ever shall not eat memory for
/// ever. Rows of tenants that are gone count under [`OTHERS`] once half of them are taken, later
/// kernels of those that are there when all are.
const KERNELS_MAX: usize = 16_384;
const OTHERS: &str = "(others)";
/// The tenant of the row of [`OTHERS`]: of those that are gone.
const GONE: TenantId = TenantId(u64::MAX);

/// Sums over launches of one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelTotals {
    /// Launches that ended.
    pub launches: u64,
    /// Blocks that finished.
    pub blocks: u64,
    /// From the start of a launch to its end, ns; launches that overlap count each.
    pub span_ns: u64,
    /// Time that threads spent in its blocks, ns.
    pub worker_ns: u64,
    /// SM * ns in which a launch had a block there; launches that overlap count each.
    pub sm_ns: u64,
    /// Warp * ns in which they were resident.
    pub warp_ns: u64,
    /// As in [`Counters`].
    pub warp_instructions: u64,
    /// As in [`Counters`].
    pub thread_instructions: u64,
    /// As in [`Counters`].
    pub global_bytes: u64,
}

impl KernelTotals {
    /// A worker's interval in its blocks.
    pub(super) fn add_work(&mut self, worker_ns: u64, counters: &Counters, blocks: u64) {
        self.blocks += blocks;
        self.worker_ns += worker_ns;
        self.warp_instructions += counters.warp_instructions;
        self.thread_instructions += counters.thread_instructions;
        self.global_bytes += counters.global_bytes;
    }

    fn add(&mut self, other: &Self) {
        self.launches += other.launches;
        self.blocks += other.blocks;
        self.span_ns += other.span_ns;
        self.worker_ns += other.worker_ns;
        self.sm_ns += other.sm_ns;
        self.warp_ns += other.warp_ns;
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        self.global_bytes += other.global_bytes;
    }

    /// Share of a warp's lanes that took part in its instructions, 0 to 1: less than 1 where lanes
    /// diverge or blocks are no whole warps.
    fn lanes_active(&self) -> f64 {
        let most = self.warp_instructions * WARP_LANES as u64;
        if most == 0 { 0.0 } else { self.thread_instructions as f64 / most as f64 }
    }
}

/// What one kernel of one tenant did.
#[derive(Clone, Debug)]
pub struct KernelRow {
    /// Whose, by name.
    pub client: String,
    /// Its name.
    pub kernel: String,
    /// What it did.
    pub totals: KernelTotals,
}

/// Totals by tenant and by kernel name.
#[derive(Default)]
pub(super) struct Profile {
    rows: Vec<(TenantId, KernelRow)>,
    /// Where the rows are.
    places: HashMap<TenantId, HashMap<String, ProfileRow>>,
}

/// Where a kernel's totals are; it stays there.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProfileRow(usize);

impl Profile {
    /// Adds what a launch did. Gives the row; it is found sooner if `guess` is that of the same
    /// kernel.
    pub(super) fn add(
        &mut self,
        tenant: &Tenant,
        kernel: &str,
        totals: &KernelTotals,
        guess: Option<ProfileRow>,
    ) -> ProfileRow {
        let is_it = |row: &ProfileRow| {
            // Rows move when some are folded.
            let found = self.rows.get(row.0);
            found.is_some_and(|(id, row)| *id == tenant.id && row.kernel == kernel)
        };
        let row = guess.filter(is_it).unwrap_or_else(|| self.row(tenant, kernel));
        self.rows[row.0].1.totals.add(totals);
        row
    }

    fn row(&mut self, tenant: &Tenant, kernel: &str) -> ProfileRow {
        let place = |id: &TenantId, kernel: &str| self.places.get(id)?.get(kernel).copied();
        if let Some(row) = place(&tenant.id, kernel) {
            return row;
        }
        let (id, client, kernel) = match self.rows.len() < KERNELS_MAX {
            true => (tenant.id, tenant.name(), kernel),
            false => (GONE, OTHERS.to_owned(), OTHERS),
        };
        if let Some(row) = place(&id, kernel) {
            return row;
        }
        let row = ProfileRow(self.rows.len());
        let totals = KernelTotals::default();
        self.rows.push((id, KernelRow { client, kernel: kernel.to_owned(), totals }));
        self.places.entry(id).or_default().insert(kernel.to_owned(), row);
        row
    }

    /// Counts rows of tenants that are gone under [`OTHERS`] if there is not much room left for later
    /// ones: a device lives longer than the programs on it.
    pub(super) fn make_room(&mut self, is_there: impl Fn(TenantId) -> bool) {
        if self.rows.len() <= KERNELS_MAX / 2 {
            return;
        }
        let rows = std::mem::take(&mut self.rows);
        self.places.clear();
        let mut gone = KernelTotals::default();
        for (id, row) in rows {
            if id == GONE || !is_there(id) {
                gone.add(&row.totals);
                continue;
            }
            let place = ProfileRow(self.rows.len());
            self.places.entry(id).or_default().insert(row.kernel.clone(), place);
            self.rows.push((id, row));
        }
        if gone == KernelTotals::default() {
            return;
        }
        let (kernel, client) = (OTHERS.to_owned(), OTHERS.to_owned());
        let place = ProfileRow(self.rows.len());
        self.places.entry(GONE).or_default().insert(kernel.clone(), place);
        self.rows.push((GONE, KernelRow { client, kernel, totals: gone }));
    }

    fn rows_of(&self, tenant: TenantId) -> Vec<KernelRow> {
        let rows = self.rows.iter().filter(|(of, _)| *of == tenant);
        rows.map(|(_, row)| row.clone()).collect()
    }

    fn rows(&self) -> Vec<KernelRow> {
        self.rows.iter().map(|(_, row)| row.clone()).collect()
    }
}

impl Device {
    /// What each kernel did so far, those that took most time first.
    pub fn kernel_totals(&self) -> Vec<KernelRow> {
        let mut rows = self.lock().profile.rows();
        rows.sort_by_cached_key(|row| (Reverse(row.totals.worker_ns), row.kernel.clone()));
        rows
    }

    /// What each kernel of a tenant did so far.
    pub fn kernel_totals_of(&self, tenant: &Tenant) -> Vec<KernelRow> {
        self.lock().profile.rows_of(tenant.id)
    }

    /// Writes the table that OPENMPS_SOFT_PROFILE asks for, or says why it cannot.
    pub fn write_profile(&self) {
        let Some(path) = &self.settings.profile else { return };
        let table = table(&self.kernel_totals());
        let fits = channel::system::may_reach(table.len() as u64);
        if let Err(error) = fits.and_then(|()| std::fs::write(path, table)) {
            say(format_args!("OPENMPS_SOFT_PROFILE={}: {error}", path.display()));
        }
    }
}

/// The path with `%p` replaced by the process's number, as NVIDIA's profilers have it.
pub(super) fn path_of_process(path: &str) -> PathBuf {
    Path::new(&path.replace("%p", &std::process::id().to_string())).to_path_buf()
}

/// Tab-separated, a row a kernel, with a head.
fn table(rows: &[KernelRow]) -> String {
    let mut text = String::from(
        "kernel\tlaunches\tblocks\tspan_ns\tworker_ns\twarp_instructions\tthread_instructions\t\
         lanes_active\tglobal_bytes\tsm_ns\twarp_ns\tclient\n",
    );
    for KernelRow { client, kernel, totals: t } in rows {
        let _ = writeln!(
            text,
            "{kernel}\t{}\t{}\t{}\t{}\t{}\t{}\t{:.4}\t{}\t{}\t{}\t{client}",
            t.launches,
            t.blocks,
            t.span_ns,
            t.worker_ns,
            t.warp_instructions,
            t.thread_instructions,
            t.lanes_active(),
            t.global_bytes,
            t.sm_ns,
            t.warp_ns,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::slab::Key;

    #[test]
    fn launches_of_one_kernel_add_up_and_names_are_bounded() {
        let mut profile = Profile::default();
        let [one, other] = [1, 2].map(|n| Tenant::new(TenantId(n), Key::from_parts(0, 1), 0));
        other.set_name("17 sh -c a\n\tb");
        let mut totals = KernelTotals { launches: 1, span_ns: 5, ..Default::default() };
        let counters = Counters {
            warp_instructions: 10,
            thread_instructions: 160,
            global_bytes: 64,
            ..Counters::default()
        };
        totals.add_work(7, &counters, 2);
        let row = profile.add(&one, "k", &totals, None);
        profile.add(&one, "k", &totals, Some(row));
        // A guess that is wrong does no harm.
        profile.add(&other, "k", &totals, Some(row));
        let rows = profile.rows();
        let [KernelRow { client, totals: sum, .. }, theirs] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((client.as_str(), theirs.client.as_str()), ("1", "17 sh -c a  b"));
        assert_eq!(table(&rows).lines().count(), 3, "a command may have lines");
        assert_eq!(theirs.totals, totals);
        assert_eq!((sum.launches, sum.blocks, sum.worker_ns, sum.global_bytes), (2, 4, 14, 128));
        assert_eq!(sum.lanes_active(), 0.5);
        for n in 0..KERNELS_MAX + 10 {
            profile.add(&one, &format!("n{n}"), &totals, Some(row));
        }
        let rows = profile.rows();
        assert_eq!(rows.len(), KERNELS_MAX + 1);
        let rest = rows.iter().find(|row| row.kernel == OTHERS).unwrap();
        assert_eq!(rest.totals.launches, 12);
    }

    #[test]
    fn programs_that_are_gone_leave_room_for_later_ones() {
        let mut profile = Profile::default();
        let tenant = |n| Tenant::new(TenantId(n), Key::from_parts(0, 1), 0);
        let totals = KernelTotals { launches: 1, ..Default::default() };
        let mut stale = None;
        for n in 0..KERNELS_MAX as u64 {
            stale = Some(profile.add(&tenant(n / 100), &format!("k{}", n % 100), &totals, None));
        }
        // The last programs, and one whose kernels are known by rows that move.
        let is_there = |id: TenantId| id.0 >= 160;
        profile.make_room(is_there);
        let kept = profile.rows_of(TenantId(161));
        assert_eq!((kept.len(), kept[0].totals.launches), (100, 1));
        profile.add(&tenant(163), "k0", &totals, stale);
        assert_eq!(profile.rows_of(TenantId(163))[0].totals.launches, 2);
        let newcomer = profile.add(&tenant(900), "k", &totals, stale);
        profile.add(&tenant(900), "k", &totals, Some(newcomer));
        assert_eq!(profile.rows_of(TenantId(900))[0].totals.launches, 2);
        let all: u64 = profile.rows().iter().map(|row| row.totals.launches).sum();
        assert_eq!(all, KERNELS_MAX as u64 + 3, "nothing is lost");
        // While there is room all rows stay, for the table that a program asks for.
        profile.make_room(|_| false);
        assert!(profile.rows().len() > 300);
    }

    #[test]
    fn the_table_has_each_number_under_its_head() {
        let totals = KernelTotals {
            launches: 1,
            blocks: 2,
            span_ns: 3,
            worker_ns: 4,
            sm_ns: 5,
            warp_ns: 6,
            warp_instructions: 7,
            thread_instructions: 112,
            global_bytes: 8,
        };
        let row = KernelRow { client: "7 ./a".to_owned(), kernel: "k".to_owned(), totals };
        let text = table(&[row]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        let [head, row] = &lines[..] else { panic!("{text}") };
        assert_eq!(head.len(), row.len());
        let value = |name: &str| row[head.iter().position(|head| *head == name).expect(name)];
        for (name, expected) in [
            ("kernel", "k"),
            ("launches", "1"),
            ("blocks", "2"),
            ("span_ns", "3"),
            ("worker_ns", "4"),
            ("sm_ns", "5"),
            ("warp_ns", "6"),
            ("warp_instructions", "7"),
            ("thread_instructions", "112"),
            ("lanes_active", "0.5000"),
            ("global_bytes", "8"),
            ("client", "7 ./a"),
        ] {
            assert_eq!(value(name), expected, "{name}");
        }
    }
}

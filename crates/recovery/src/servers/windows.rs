//! Windows of addresses: which client of a user has which, over all of the user's servers.
//!
//! A client's addresses are its own for life, whichever server it is at. So the daemon gives them
//! out, and keeps those of clients whose server has ended or is about to: they come again, and get
//! what they had. A process on several devices is a client of each one's server, and its windows there
//! are different ones, so that memory of one device has its address at the other servers too. By what
//! it is known that a process has ended is `E`.

use super::ClientProcess as Process;
use channel::limits::WINDOWS_MAX;

/// A client's windows.
#[derive(Debug)]
struct Holder<E> {
    process: Process,
    index: u32,
    /// The server that it was handed to last; `None`: one that has given them back.
    server: Option<u32>,
    /// The process was sent to another server.
    leaves: bool,
    /// By what it is known that the process has ended.
    exit: E,
}

/// All windows that clients have.
#[derive(Debug)]
pub struct Windows<E> {
    holders: Vec<Holder<E>>,
}

impl<E> Default for Windows<E> {
    fn default() -> Self {
        Self { holders: Vec::new() }
    }
}

impl<E> Windows<E> {
    /// The number of the windows for a process that goes to a server: those that it had at one that
    /// takes no more clients, or others that no client of the user has; `None` if there are none. With it
    /// whether it had them before.
    pub fn choose(
        &mut self,
        process: Process,
        serves: impl Fn(u32) -> bool,
        has_ended: impl Fn(&E) -> bool,
    ) -> Option<(u32, bool)> {
        let is_served = |h: &Holder<E>| h.server.is_some_and(&serves);
        let left = |h: &&Holder<E>| h.process == process && (h.leaves || !is_served(h));
        if let Some(holder) = self.holders.iter().find(left) {
            return Some((holder.index, true));
        }
        self.holders.retain(|holder| is_served(holder) || !has_ended(&holder.exit));
        let taken =
            |index| self.holders.iter().any(|h| (h.process.uid, h.index) == (process.uid, index));
        let free = (0..WINDOWS_MAX).find(|index| !taken(*index))?;
        Some((free, false))
    }

    /// The server that a process was handed to last, if it has not given its windows back.
    pub fn server_of(&self, process: Process) -> Option<u32> {
        self.holders.iter().find(|holder| holder.process == process)?.server
    }

    /// The process has the windows that were chosen for it, at that server.
    pub fn give(&mut self, process: Process, index: u32, server: u32, exit: impl FnOnce() -> E) {
        let known = |h: &&mut Holder<E>| (h.process.uid, h.index) == (process.uid, index);
        if let Some(holder) = self.holders.iter_mut().find(known) {
            (holder.server, holder.leaves) = (Some(server), false);
            return;
        }
        let server = Some(server);
        self.holders.push(Holder { process, index, server, leaves: false, exit: exit() });
    }

    /// A process was sent away by a server that serves on: it keeps its windows, and comes for them.
    pub fn leave(&mut self, process: Process, server: u32) {
        let of_it = |h: &&mut Holder<E>| (h.process, h.server) == (process, Some(server));
        self.holders.iter_mut().filter(of_it).for_each(|holder| holder.leaves = true);
    }

    /// All that are given: the process, the windows' number, the server; 0 for a server that needs
    /// them no more.
    pub fn all(&self) -> impl Iterator<Item = (Process, u32, u32)> + '_ {
        let of = |holder: &Holder<E>| (holder.process, holder.index, holder.server.unwrap_or(0));
        self.holders.iter().map(of)
    }

    /// A server needs windows of a client no more, which is gone.
    pub fn free(&mut self, uid: u32, index: u32, server: u32) {
        let freed =
            |h: &Holder<E>| (h.process.uid, h.index, h.server) == (uid, index, Some(server));
        self.holders.retain(|holder| !freed(holder) || holder.leaves);
        let left = self.holders.iter_mut().find(|holder| freed(holder));
        if let Some(holder) = left {
            holder.server = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_api::CUuuid;

    /// Whether a process has ended: 1 lives, others have.
    fn has_ended(pid: &u32) -> bool {
        *pid != ME
    }

    const ME: u32 = 1;

    fn take(
        windows: &mut Windows<u32>,
        (uid, pid): (u32, u32),
        server: u32,
        serves: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        take_on(windows, process(uid, pid, 0), server, serves)
    }

    fn process(uid: u32, pid: u32, device: u8) -> Process {
        Process { uid, named: 0, pid, device: CUuuid { bytes: [device; 16] } }
    }

    fn take_on(
        windows: &mut Windows<u32>,
        process: Process,
        server: u32,
        serves: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (index, _) = windows.choose(process, serves, has_ended)?;
        windows.give(process, index, server, || process.pid);
        Some(index)
    }

    #[test]
    fn who_comes_again_gets_what_it_had_and_no_other_gets_it_meanwhile() {
        let me = ME;
        let windows = &mut Windows::default();
        let serves = |server| server == 2;
        assert_eq!(take(windows, (7, me), 1, |_| true), Some(0));
        assert_eq!(take(windows, (7, me), 1, |_| true), Some(1), "a second client of the process");
        assert_eq!(take(windows, (8, me), 9, |_| true), Some(0), "another user's are others");
        // Server 1 ends. A newcomer at server 2 gets others, as this process lives.
        assert_eq!(take(windows, (7, 3), 2, serves), Some(2));
        assert_eq!(
            windows.choose(process(7, me, 0), serves, has_ended),
            Some((0, true)),
            "it was not handed over yet"
        );
        assert_eq!(take(windows, (7, me), 2, serves), Some(0));
        assert_eq!(take(windows, (7, me), 2, serves), Some(1));
        // What is gone is free.
        windows.free(7, 0, 1);
        assert_eq!(take(windows, (7, me), 2, |_| true), Some(3), "another server has it now");
        windows.free(7, 0, 2);
        assert_eq!(take(windows, (7, me), 2, |_| true), Some(0));
    }

    #[test]
    fn who_leaves_a_server_that_serves_on_keeps_what_it_had() {
        let windows = &mut Windows::default();
        let (it, other) = (process(7, ME, 0), process(7, ME + 1, 0));
        assert_eq!(take_on(windows, it, 1, |_| true), Some(0));
        windows.leave(it, 1);
        // The old server gives them back before the process comes: no other process gets them.
        windows.free(7, 0, 1);
        assert_eq!(take_on(windows, process(7, ME, 1), 1, |_| true), Some(1));
        assert_eq!(take_on(windows, it, 2, |_| true), Some(0));
        // Or after it.
        windows.leave(it, 2);
        assert_eq!(take_on(windows, it, 3, |_| true), Some(0));
        windows.free(7, 0, 2);
        assert_eq!(take_on(windows, other, 1, |_| true), Some(2), "it still has them");
        // One that ends before it comes leaves nothing behind, once its server has given them back.
        windows.leave(other, 1);
        assert_eq!(take_on(windows, it, 3, |_| true), Some(3));
        windows.free(7, 2, 1);
        assert_eq!(take_on(windows, it, 3, |_| true), Some(2));
    }

    #[test]
    fn a_process_has_other_windows_on_each_device_and_gets_them_back_there() {
        let me = ME;
        let windows = &mut Windows::default();
        let (first, second) = (process(7, me, 1), process(7, me, 2));
        assert_eq!(take_on(windows, first, 1, |_| true), Some(0));
        assert_eq!(take_on(windows, second, 2, |_| true), Some(1));
        // Both servers end, and the process comes to the second device first.
        assert_eq!(take_on(windows, second, 4, |server| server > 2), Some(1));
        assert_eq!(take_on(windows, first, 3, |server| server > 2), Some(0));
    }

    #[test]
    fn windows_of_processes_that_have_ended_are_free() {
        let windows = &mut Windows::default();
        assert_eq!(take(windows, (7, 5), 1, |_| true), Some(0));
        assert_eq!(take(windows, (7, 3), 2, |server| server == 2), Some(0));
    }

    #[test]
    fn there_are_no_more_than_there_are() {
        let windows = &mut Windows::default();
        for index in 0..WINDOWS_MAX {
            assert_eq!(take(windows, (7, 1), 1, |_| true), Some(index));
        }
        assert_eq!(take(windows, (7, 1), 1, |_| true), None);
    }
}

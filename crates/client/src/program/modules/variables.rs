//! Module variables: their place in the client's own device memory, which outlives servers, and copies
//! there of those that stay the provider's.
//!
//! Where an image allows it, a module's variables lie in memory that the client allocates for them
//! (`channel/src/request/module.rs`). `__constant__` variables on NVIDIA's driver cannot: what the
//! program writes to them goes to a copy first and from there to the variable, in the same stream, so
//! that the copy is what the variable is to have. What a kernel may write that gets an address of one as
//! a parameter goes to the copy behind it. At another server such a variable may be elsewhere: copies,
//! fills and parameters that have the address that the program got go to where it is.

use crate::memory::Global;
use crate::memory::known_variables::KnownVariables;
use crate::program::Client;
use crate::program::launch::submission::{ModuleSource, wire_module, wire_stream};
use crate::replay::variables;
use channel::request::{
    GetGlobal, KEEPS_VALUES, KNOWN_TO_PRINT, LoadModule, ModuleLoaded, NO_CODE, PLACES_VARIABLES,
    WaitIdle,
};
use core::sync::atomic::Ordering;
use cuda_api::handle::Handle;
use cuda_api::{CUresult, CUstream, CudaError, Word, number};
use ptx::bytes::u64_at;
use recovery::ReplayPolicy;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};

/// The answer to a load: its result, what is said of it, the file of managed variables.
type Answer = (CUresult, Option<ModuleLoaded>, Option<OwnedFd>);

impl Client {
    /// Loads a module, with its variables in memory of this client's if they can lie there.
    pub(in crate::program) fn load_with_place(
        &self,
        module: Handle,
        source: &ModuleSource,
        (info_log_bytes, error_log_bytes): (u32, u32),
    ) -> Result<Answer, CudaError> {
        let mut request = LoadModule {
            module: wire_module(module),
            image_bytes: source.image_bytes,
            // A server that looks for mistakes sees more of them around memory of its own.
            flags: if self.wants_notes() { 0 } else { PLACES_VARIABLES },
            place: (0, 0),
            info_log_bytes,
            error_log_bytes,
            code: NO_CODE,
            options: source.options.clone(),
        };
        let answer = self.call_load(source.image.as_fd(), &request)?;
        let needed = answer.1.as_ref().map_or(0, |loaded| loaded.variables_bytes);
        if answer.0.is_err() || needed == 0 {
            return Ok(answer);
        }
        match self.allocate_variables(needed) {
            Ok(address) => {
                request.place = (address, needed);
                // Before it is loaded: another server that takes over now finds it so.
                if let Some(module) = self.state().modules.get_mut(module) {
                    module.place = Some(request.place);
                }
            }
            // They have room where others cannot be, or the load fails.
            Err(CudaError::OUT_OF_MEMORY) => request.flags = 0,
            Err(error) => return Err(error),
        }
        self.call_load(source.image.as_fd(), &request)
    }

    /// Loads a module at another server, with its variables where they are. False if they have first
    /// values again.
    pub(in crate::program) fn load_again(
        &self,
        module: Handle,
        source: &ModuleSource,
    ) -> Result<(Answer, bool), CudaError> {
        let known = self.state().modules.get(module).map(|m| (m.place, m.code, m.prints));
        let (place, code, prints) = known.unwrap_or((None, NO_CODE, false));
        let mut request = LoadModule {
            module: wire_module(module),
            image_bytes: source.image_bytes,
            flags: match place {
                Some(_) => PLACES_VARIABLES | KEEPS_VALUES,
                None if prints && code != NO_CODE => KNOWN_TO_PRINT,
                None => 0,
            },
            place: place.unwrap_or_default(),
            info_log_bytes: 0,
            error_log_bytes: 0,
            code,
            options: source.options.clone(),
        };
        let answer = self.call_load(source.image.as_fd(), &request)?;
        if answer.1.as_ref().is_none_or(|loaded| loaded.variables_bytes == 0) {
            return Ok((answer, place.is_some()));
        }
        // Another version of the server may need more room: then it has them itself.
        request.flags = 0;
        request.code = NO_CODE;
        Ok((self.call_load(source.image.as_fd(), &request)?, false))
    }

    /// Where to write what the program writes to a variable that is the provider's: its copy, from
    /// which the variable is then written. `None` for all other memory.
    pub(crate) fn copy_of_variable(
        &self,
        address: u64,
        bytes: u64,
    ) -> Result<Option<u64>, CudaError> {
        if !self.has_foreign_variables.load(Ordering::Relaxed) || bytes == 0 {
            return Ok(None);
        }
        let mut memory = self.memory();
        let Some((start, variable)) = memory.foreign_variable(address, bytes) else {
            return Ok(None);
        };
        let copy = match variable.copy.address {
            Some(copy) => copy,
            None => {
                let whole = variable.bytes;
                match self.allocate_variables_in(&mut memory, whole) {
                    Ok(copy) => copy,
                    Err(CudaError::OUT_OF_MEMORY) => {
                        drop(memory);
                        self.write_unseen(address);
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let Some((_, variable)) = memory.foreign_variable(address, bytes) else {
            return Ok(None);
        };
        variable.copy.address = Some(copy);
        variable.copy.write(address - start..address - start + bytes);
        Ok(Some(copy + (address - start)))
    }

    /// Variables of the provider's that the program knows; `None` if there are none.
    #[inline(always)]
    pub(in crate::program) fn known_variables(&self) -> Option<KnownVariables> {
        match self.has_foreign_variables.load(Ordering::Relaxed) {
            false => None,
            true => Some(KnownVariables::of(&self.memory())),
        }
    }

    /// Has the copy of a variable have what is in the variable when the stream comes there.
    pub(in crate::program) fn copy_back(
        &self,
        address: u64,
        bytes: u64,
        stream: Handle,
    ) -> CUresult {
        let Some(copy) = self.copy_of_variable(address, bytes)? else { return Ok(()) };
        let words = [copy, self.present_address(address), bytes, wire_stream(stream).to_word()];
        self.posting()?.push_words_in(stream, number::cuMemcpyDtoDAsync_v2, &words).map(drop)
    }

    /// Notes that kernels of a graph may write to variables of the provider's whose addresses are among
    /// their parameters.
    pub(crate) fn write_unseen_by(&self, parameters: &[u8]) {
        if self.has_foreign_variables.load(Ordering::Relaxed) {
            let words = parameters.chunks_exact(8).filter_map(|word| u64_at(word, 0));
            words.for_each(|word| self.write_unseen(word));
        }
    }

    /// Where the present server has what the program knows by an address.
    pub(crate) fn present_address(&self, address: u64) -> u64 {
        if !self.has_foreign_variables.load(Ordering::Relaxed) {
            return address;
        }
        let mut memory = self.memory();
        let variable = memory.foreign_variable(address, 1);
        variable.map_or(address, |(start, variable)| variable.present + (address - start))
    }

    /// Notes that the program writes to what may be a variable of the provider's, without a copy: after
    /// a server's end is reported to the program.
    pub(crate) fn write_unseen(&self, address: u64) {
        if !self.has_foreign_variables.load(Ordering::Relaxed) {
            return;
        }
        if let Some((_, variable)) = self.memory().foreign_variable(address, 1) {
            variable.copy.incomplete = true;
        }
    }

    /// Gives the variables of a module that are the provider's what the program wrote to them. False if
    /// something else may have been in them.
    pub(in crate::program) fn declare_variables(
        &self,
        module: Handle,
        source: &ModuleSource,
    ) -> Result<bool, CudaError> {
        let wire = wire_module(module);
        let known = self.memory().globals_of(wire.0 as u64);
        let is_fixed =
            self.state().modules.get(module).is_some_and(|m| m.code != NO_CODE && !m.changes);
        if is_fixed && known.is_empty() {
            return Ok(true);
        }
        let constants = constants_that_count(&known, || source.bytes());
        let mut kept = !self.changed_variables(module, source);
        for (address, Global { bytes, name, managed, copy, .. }) in known {
            let info = self.call(&GetGlobal { module: wire, managed, name: &name })?;
            self.memory().move_global(address, info.address.0);
            if managed {
                continue;
            }
            let constant = core::str::from_utf8(&name).is_ok_and(|name| constants.contains(name));
            // A pointer in device memory leads to where it was.
            let is_found = info.address.0 == address || self.state().replay == ReplayPolicy::Always;
            kept &= constant && !copy.incomplete && is_found;
            for part in copy.written.iter().filter(|_| info.bytes == bytes) {
                let Some(from) = copy.address else { continue };
                let (to, from) = (info.address.0 + part.start, from + part.start);
                let words = [to, from, part.end - part.start, CUstream::NULL.to_word()];
                self.posting()?.push_words(number::cuMemcpyDtoDAsync_v2, &words)?;
            }
        }
        Ok(kept)
    }

    /// Waits for what [`Self::declare_variables`] has posted.
    pub(in crate::program) fn wait_for_variables(&self) -> CUresult {
        match self.has_foreign_variables.load(Ordering::Relaxed) {
            true => self.call(&WaitIdle {}),
            false => Ok(()),
        }
    }
}

/// Names of the constant variables of an image. It is read only if the program knows a variable for which that
/// counts: that takes milliseconds, in which the program waits.
fn constants_that_count(
    known: &[(u64, Global)],
    image: impl FnOnce() -> Option<Vec<u8>>,
) -> BTreeSet<String> {
    match known.iter().any(|(_, variable)| !variable.managed) {
        true => image().map(|image| variables::constants(&image)).unwrap_or_default(),
        false => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::VariableCopy;
    use std::cell::Cell;

    #[test]
    fn an_image_is_read_only_for_variables_whose_values_it_has() {
        let image = b".version 8.0\n.target sm_80\n.address_size 64\n.const .b32 table[4];\n.global .b32 sum;\n";
        let reads = Cell::new(0);
        let read = || {
            reads.set(reads.get() + 1);
            Some(image.to_vec())
        };
        let variable = |name: &[u8], managed: bool| {
            let (name, copy) = (name.to_vec(), VariableCopy::default());
            (64, Global { bytes: 16, module: 1, name, managed, present: 64, copy })
        };
        assert_eq!(constants_that_count(&[], read), BTreeSet::new());
        assert_eq!(constants_that_count(&[variable(b"shared", true)], read), BTreeSet::new());
        assert_eq!(reads.get(), 0, "the program waits meanwhile");
        let known = [variable(b"shared", true), variable(b"table", false)];
        assert_eq!(constants_that_count(&known, read), BTreeSet::from(["table".to_owned()]));
        assert_eq!(reads.get(), 1);
    }
}

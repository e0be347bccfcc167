//! Declaration: what a client that comes from another server tells this one, and how long each part takes.
//!
//! Its program waits meanwhile, so server.log says where the time goes.

use super::Session;
use channel::request::{
    AdoptChunk, DeviceToHost, Fence, GetFunction, GraphLaunch, HostFunc, HostToDevice,
    LaunchKernel, LoadModule, RecordEvent, Request,
};
use channel::ring::Record;
use std::time::{Duration, Instant};

/// What was declared so far.
pub(super) struct Declaration {
    since: Instant,
    memory: Duration,
    code: Duration,
    modules: u32,
    /// Of them, those that the provider has loaded now.
    loaded: u32,
    functions: Duration,
}

impl Declaration {
    /// Begins with the first of the client's memory.
    pub(super) fn begin() -> Box<Self> {
        Box::new(Self {
            since: Instant::now(),
            memory: Duration::ZERO,
            code: Duration::ZERO,
            modules: 0,
            loaded: 0,
            functions: Duration::ZERO,
        })
    }

    /// A module was loaded; `is_new`: by the provider, now.
    pub(super) fn has_module(&mut self, is_new: bool) {
        self.modules += 1;
        self.loaded += u32::from(is_new);
    }
}

/// True for work: what came before it is all that was declared.
fn is_work(opcode: u16) -> bool {
    [
        LaunchKernel::OPCODE,
        HostToDevice::OPCODE,
        DeviceToHost::OPCODE,
        Fence::OPCODE,
        GraphLaunch::OPCODE,
        HostFunc::OPCODE,
        RecordEvent::OPCODE,
    ]
    .contains(&opcode)
}

impl Session {
    /// Carries out a request of a client that declares what it has.
    #[cold]
    pub(super) fn declare(&mut self, record: &Record) {
        if is_work(record.opcode()) {
            self.say_declaration();
            return self.dispatch(record);
        }
        let since = Instant::now();
        self.dispatch(record);
        let took = since.elapsed();
        let Some(declaration) = &mut self.declaration else { return };
        match record.opcode() {
            AdoptChunk::OPCODE => declaration.memory += took,
            LoadModule::OPCODE => declaration.code += took,
            GetFunction::OPCODE => declaration.functions += took,
            _ => {}
        }
    }

    fn say_declaration(&mut self) {
        let Some(declaration) = self.declaration.take() else { return };
        let Declaration { since, memory, code, modules, loaded, functions } = *declaration;
        // Memory alone is what a program has of another device.
        if modules == 0 {
            return;
        }
        let total = since.elapsed();
        let [total, memory, code, functions] =
            [total, memory, code, functions].map(|time| time.as_millis());
        let name = self.link.name();
        self.common.log.line(format!(
            "Client {name} has declared what it had: {total} ms, of which memory {memory} ms, {modules} modules \
             {code} ms ({loaded} loaded now), functions {functions} ms"
        ));
    }
}

//! Events that a launch's attributes ask for.

use super::*;
use cuda_api::constants::launch_attribute::{LAUNCH_COMPLETION_EVENT, PROGRAMMATIC_EVENT};

#[test]
fn an_event_of_a_launch_is_recorded_with_it() {
    let _alive = start();
    let stream = new_stream(1);
    for id in [LAUNCH_COMPLETION_EVENT, PROGRAMMATIC_EVENT] {
        let flag = Arc::new(AtomicU32::new(0));
        let mut event = CUevent::NULL;
        cu!(cuEventCreate(&mut event, event_flags::DISABLE_TIMING)).unwrap();
        let mut attribute = CUlaunchAttribute { id, pad: [0; 4], value: [0; 64] };
        attribute.value[..8].copy_from_slice(&(event.0 as u64).to_ne_bytes());
        let mut config = CUlaunchConfig::plain([1; 3], [32, 1, 1], 0, stream);
        (config.attrs, config.numAttrs) = (&mut attribute, 1);
        cu!(cuLaunchKernelEx(&config, spin(&flag), null_mut(), null_mut())).unwrap();
        flag.store(1, Ordering::Release);
        cu!(cuEventSynchronize(event)).unwrap();
        cu!(cuEventDestroy_v2(event)).unwrap();
        // An event that is none is found before anything is launched.
        let again = spin(&Arc::new(AtomicU32::new(0)));
        let refused = cu!(cuLaunchKernelEx(&config, again, null_mut(), null_mut()));
        assert_eq!(refused, Err(Error::INVALID_HANDLE));
    }
    cu!(cuStreamSynchronize(stream)).unwrap();
}

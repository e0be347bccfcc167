//! Words that a stream writes or waits for, and attributes of streams.

use cudarc::driver::sys::{
    self, CUdevice_attribute as Attribute, CUlaunchAttributeID as StreamAttribute,
    CUstreamBatchMemOpParams as Operation, CUstreamWaitValue_flags as Wait,
};

use crate::{
    Check,
    support::{
        Env, HostWords, Outcome, Stream, Words, call, equal, one_of, refused, status, synchronize,
    },
};

pub(crate) const CHECKS: &[Check<Env>] = &[
    ("stream_value.write", write),
    ("stream_value.wait", wait),
    ("stream_value.between_streams", between_streams),
    ("stream_value.batch", batch),
    ("stream_value.wrong", wrong),
    ("stream.attributes", attributes),
];

fn write(_: &Env) -> Outcome {
    let (stream, words) = (Stream::non_blocking()?, Words::filled(4, 0)?);
    call!(cuStreamWriteValue32_v2(stream.0, words.at(1), 0x1234_5678, 0))?;
    call!(cuStreamWriteValue64_v2(stream.0, words.at(2), 7 << 32 | 9, 0))?;
    call!(cuStreamSynchronize(stream.0))?;
    equal("words", words.read()?, vec![0, 0x1234_5678, 9, 7])
}

fn wait(env: &Env) -> Outcome {
    let (stream, words) = (Stream::non_blocking()?, Words::filled(8, 0)?);
    let host = HostWords::zeroed(4)?;
    let nor = env.attribute(Attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR)?;
    let conditions = [
        // The value that is waited for, one that will not do, and one that will.
        (Wait::CU_STREAM_WAIT_VALUE_EQ, 5, 4, 5),
        (Wait::CU_STREAM_WAIT_VALUE_GEQ, 5, 3, 6),
        (Wait::CU_STREAM_WAIT_VALUE_AND, 6, 9, 2),
        (Wait::CU_STREAM_WAIT_VALUE_NOR, 0xffff_fff0, 0xf, 0x3),
    ];
    for (flags, value, before, after) in conditions {
        if flags == Wait::CU_STREAM_WAIT_VALUE_NOR && nor == 0 {
            continue;
        }
        host.set(0, before);
        call!(cuStreamWaitValue32_v2(stream.0, host.device, value, flags as u32))?;
        call!(cuMemsetD32Async(words.address, after, 1, stream.0))?;
        std::thread::sleep(std::time::Duration::from_millis(5));
        let busy = status!(cuStreamQuery(stream.0));
        one_of("cuStreamQuery", busy, &[sys::CUresult::CUDA_ERROR_NOT_READY])?;
        host.set(0, after);
        call!(cuStreamSynchronize(stream.0))?;
        equal("what comes after the wait", words.read()?[0], after)?;
    }
    Ok(())
}

fn between_streams(env: &Env) -> Outcome {
    let (first, second) = (Stream::non_blocking()?, Stream::non_blocking()?);
    let words = Words::filled(8, 0)?;
    // The one that waits comes first.
    let equal_to = Wait::CU_STREAM_WAIT_VALUE_EQ as u32;
    call!(cuStreamWaitValue64_v2(second.0, words.at(2), 1 << 40, equal_to))?;
    env.copy_word(words.address, words.at(1), second.0)?;
    env.slow_write(words.address, 42, 5, first.0)?;
    call!(cuStreamWriteValue64_v2(first.0, words.at(2), 1 << 40, 0))?;
    call!(cuStreamSynchronize(second.0))?;
    equal("what the second one read", words.read()?[1], 42)
}

fn operation(kind: sys::CUstreamBatchMemOpType, address: u64, value: u64, flags: u64) -> Operation {
    Operation { pad: [kind as u64, address, value, flags, 0, 0] }
}

fn batch(_: &Env) -> Outcome {
    use sys::CUstreamBatchMemOpType::*;
    let (stream, words) = (Stream::non_blocking()?, Words::filled(4, 0)?);
    let mut operations = [
        operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, words.address, 1, 0),
        operation(CU_STREAM_MEM_OP_WAIT_VALUE_32, words.address, 1, 1),
        operation(CU_STREAM_MEM_OP_WRITE_VALUE_64, words.at(2), 5 << 32 | 6, 0),
    ];
    call!(cuStreamBatchMemOp_v2(stream.0, 3, operations.as_mut_ptr(), 0))?;
    call!(cuStreamSynchronize(stream.0))?;
    equal("words", words.read()?, vec![1, 0, 6, 5])?;
    refused!(
        cuStreamBatchMemOp_v2(stream.0, 257, operations.as_mut_ptr(), 0),
        CUDA_ERROR_INVALID_VALUE
    )
}

fn wrong(_: &Env) -> Outcome {
    let (stream, words) = (Stream::non_blocking()?, Words::filled(2, 3)?);
    refused!(cuStreamWriteValue32_v2(stream.0, words.address + 2, 1, 0), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuStreamWriteValue32_v2(stream.0, 64, 1, 0), CUDA_ERROR_INVALID_VALUE)?;
    refused!(cuStreamWaitValue32_v2(stream.0, words.address, 1, 77), CUDA_ERROR_INVALID_VALUE)?;
    synchronize()?;
    equal("words", words.read()?, vec![3, 3])
}

fn attributes(_: &Env) -> Outcome {
    let (from, to) = (Stream::non_blocking()?, Stream::non_blocking()?);
    let policy = StreamAttribute::CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY;
    let mut value = sys::CUstreamAttrValue { pad: [0; 64] };
    value.syncPolicy = sys::CUsynchronizationPolicy::CU_SYNC_POLICY_YIELD;
    call!(cuStreamSetAttribute(from.0, policy, &value))?;
    call!(cuStreamCopyAttributes(to.0, from.0))?;
    for stream in [from.0, to.0] {
        let mut got = sys::CUstreamAttrValue { pad: [0; 64] };
        call!(cuStreamGetAttribute(stream, policy, &mut got))?;
        // SAFETY: the driver has just stored a policy.
        let got = unsafe { got.syncPolicy } as u32;
        equal("synchronisation policy", got, 3)?;
    }
    let cooperative = StreamAttribute::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    refused!(cuStreamSetAttribute(from.0, cooperative, &value), CUDA_ERROR_INVALID_VALUE)
}

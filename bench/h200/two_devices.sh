#!/usr/bin/env bash
# All that two GPUs are measured with: two_devices.sh DIST OUT [collectives|mixed|short|long]. Without the last word
# the first two: twelve minutes; short is a part of both, in six, and long is what short leaves out, in ten. Each part has a limit and writes as it goes, so that what a limit
# cuts leaves the rest.
set -u
dist=$1 out=$2 part=${3:-both} here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
if [ "$part" = short ]; then
    {
        nvidia-smi -L
        nvidia-smi topo -m | head -6
        timeout 150 python3 "$here/multi.py" "$dist" --output "$out/multi.json" --ways native,openmps --timeout 40 \
            --parts nccl,gaps,peer,ddp
        timeout 110 python3 "$here/two_devices.py" "$dist" --output "$out/two_devices.json" --ways openmps --seconds 5
        timeout 60 python3 "$here/recovery.py" "$dist" --output "$out/recovery-two.json" --device 0 --seconds 45 \
            --ways openmps --rounds 1 --events fault-null-write,kill --unaffected resnet50@0,bert@1,stages
    } >"$out/short.txt" 2>&1
    exit
fi
if [ "$part" = long ]; then
    {
        timeout 80 python3 "$here/two_devices.py" "$dist" --output "$out/two_devices-long.json" --ways openmps \
            --parts shares,faulting --seconds 4
        for way in openmps native mps; do
            timeout 120 python3 "$here/multi.py" "$dist" --output "$out/multi-$way.json" --ways $way --timeout 40 \
                --parts nccl,gaps,fsdp,pipeline,double
        done
        timeout 150 python3 "$here/two_devices.py" "$dist" --output "$out/two_devices-long.json" --ways mps,native \
            --parts shares,faulting,serving --seconds 4
    } >"$out/long.txt" 2>&1
    exit
fi
if [ "$part" != mixed ]; then
    {
        nvidia-smi -L
        nvidia-smi topo -m | head -6
        timeout 350 python3 "$here/multi.py" "$dist" --output "$out/multi.json" --ways native,openmps --timeout 60 \
            --parts nccl,gaps,peer,ddp,fsdp,pipeline,stages,double,small,chain,pairs,list,visible
        timeout 110 python3 "$here/multi.py" "$dist" --output "$out/multi-mps.json" --ways mps --timeout 60 \
            --parts nccl,gaps,peer,ddp,fsdp,pipeline,double
    } >"$out/multi.txt" 2>&1
fi
if [ "$part" != collectives ]; then
    timeout 230 python3 "$here/two_devices.py" "$dist" --output "$out/two_devices.json" \
        --ways openmps,native,mps >"$out/two_devices.txt" 2>&1
    timeout 110 python3 "$here/recovery.py" "$dist" --output "$out/recovery-two.json" --device 0 --seconds 95 \
        --ways openmps --rounds 2 --events fault-null-write,fault-trap,kill,upgrade \
        --unaffected resnet50@0,bert@0,resnet50@1,bert@1,stages >"$out/recovery-two.txt" 2>&1
fi
tail -n 60 "$out"/*.txt

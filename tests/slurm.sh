#!/usr/bin/env bash
# Two jobs of Debian's Slurm share the software GPU by gres/mps: `tests/slurm.sh [--private-tmp] [INSTALLATION]`.
# Slurm's controller, its node daemon and munge run from a directory of their own, as root; the node's prolog starts
# the control daemon, Slurm gives each job CUDA_MPS_ACTIVE_THREAD_PERCENTAGE. With --private-tmp each job has a /tmp
# of its own (job_container/tmpfs). Installs Slurm if it is not there. Not part of CI. Status 77 says that something
# it needs cannot be had.
set -euo pipefail
private=
if [ "${1:-}" = --private-tmp ]; then
    private=1
    shift
fi
dist=$(realpath "${1:-$(cargo xtask dist | tail -1)}")
cannot() {
    echo "the Slurm test cannot run: $1" >&2
    exit 77
}
[ "$(id -u)" = 0 ] || cannot "it is for root"
if ! command -v slurmctld slurmd munged sbatch >/dev/null; then
    apt-get install -y -qq --no-install-recommends slurmd slurmctld slurm-client munge >/dev/null 2>&1 ||
        cannot "slurmd, slurmctld, slurm-client and munge cannot be installed"
fi

# A job with a /tmp of its own does not see what lies in the node's.
in=${private:+/run}
in=${in:-/tmp}
work=$(mktemp -d "$in/openmps-slurm-XXXXXX")
# A job sees this if its /tmp is the node's.
mark=/tmp/$(basename "$work").mark
touch "$mark"
mkdir "$work"/{state,spool,pipe,log,soft,jobs}
control=$dist/bin/nvidia-cuda-mps-control
export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
end() {
    status=$?
    "$control" quit -t 0 >/dev/null 2>&1 || true
    for name in slurmctld slurmd munged; do
        pid=$(cat "$work/$name.pid" 2>/dev/null) || continue
        kill "$pid" 2>/dev/null || true
        for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null && sleep 0.1 || break; done
    done
    [ "$status" = 0 ] || tail -n 20 "$work"/*.log "$work"/jobs/* "$work"/log/* >&2 || true
    rm -rf "$work" "$mark"
}
trap end EXIT
# Until COMMAND succeeds, at most two minutes.
await() {
    for _ in $(seq 600); do
        if "${@:2}" >/dev/null 2>&1; then return; fi
        sleep 0.2
    done
    echo "gave up waiting until $1" >&2
    exit 1
}

host=$(hostname -s)
: >"$work/nvidia0"
cat >"$work/slurm.conf" <<END
ClusterName=openmps
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CryptoType=crypto/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
GresTypes=gpu,mps
Prolog=$work/prolog
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 Gres=gpu:1,mps:100 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
END
cat >"$work/gres.conf" <<END
Name=gpu File=$work/nvidia0
Name=mps Count=100
END
echo 'CgroupAutomount=no' >"$work/cgroup.conf"
if [ -n "$private" ]; then
    printf 'JobContainerType=job_container/tmpfs\nPrologFlags=Contain\n' >>"$work/slurm.conf"
    printf 'AutoBasePath=true\nBasePath=%s/containers\n' "$work" >"$work/job_container.conf"
fi

# What every program of the node has: an administrator's environment file.
cat >"$work/environment" <<END
export LD_LIBRARY_PATH=$dist/lib/openmps OPENMPS_LIB_DIR=$dist/lib/openmps OPENMPS_PROVIDER=soft
export OPENMPS_SOFT_SMS=8 OPENMPS_SOFT_DIR=$work/soft
export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
END
# As Slurm's example: the first job that wants a share of a GPU has the control daemon started.
cat >"$work/prolog" <<END
#!/bin/bash
. $work/environment
exec 9>$work/prolog.lock
flock 9
echo get_default_active_thread_percentage | $control >/dev/null 2>&1 || $control -d 9>&- >>$work/prolog.log 2>&1
END
cat >"$work/job" <<END
#!/bin/bash
. $work/environment
[ -e $mark ] && tmp=shared || tmp=private
echo "percentage=\$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE devices=\$CUDA_VISIBLE_DEVICES tmp=\$tmp"
exec $dist/lib/openmps/samples/spin --seconds 600
END
chmod 755 "$work" "$work/prolog" "$work/job"

dd if=/dev/urandom of="$work/munge.key" bs=1024 count=1 status=none
chmod 600 "$work/munge.key"
munged --force --key-file "$work/munge.key" --socket "$work/munge.socket" --pid-file "$work/munged.pid" \
    --log-file "$work/munged.log" --seed-file "$work/munge.seed"
export SLURM_CONF=$work/slurm.conf
slurmctld -f "$work/slurm.conf"
slurmd -f "$work/slurm.conf" -N "$host"
await "the node is idle" sh -c "sinfo -h -o %T | grep -x idle"

submit() {
    sbatch --parsable --gres="mps:$1" --cpus-per-task=1 --output="$work/jobs/%j" --chdir=/ "$work/job"
}
first=$(submit 50)
second=$(submit 25)
sms() { "$dist/bin/openmps" ps --json | tr ',{' '\n\n' | sed -n 's/^"sms":\([0-9]*\)$/\1/p' | sort -n | xargs; }
# The devices' rows have their SMs too; the clients' are 2 and 4 of these 8.
both() { [ "$("$dist/bin/openmps" ps --json | grep -o '"sms_by":"program"' | wc -l)" = 2 ]; }
await "both jobs are clients" both
tmp=${private:+private}
tmp=${tmp:-shared}
for job in "$first percentage=50" "$second percentage=25"; do
    grep -q "^${job#* } .* tmp=$tmp\$" "$work/jobs/${job% *}"
done
[[ " $(sms) " == *" 2 4 "* ]] || { echo "shares of SMs: $(sms)" >&2; exit 1; }
# A third one that the GPU has no share left for waits.
third=$(submit 50)
await "the third job waits for its share" sh -c "squeue -h -j $third -o %r | grep -E 'Resources|Priority'"
scancel "$first"
await "the third job runs" sh -c "squeue -h -j $third -o %T | grep -x RUNNING"
await "the third job is a client" both
scancel "$second" "$third"
await "all jobs have ended" sh -c '[ -z "$(squeue -h)" ]'
echo "jobs $first, $second and $third of $(sinfo --version) shared the device: $(grep -h percentage "$work"/jobs/* | xargs)"

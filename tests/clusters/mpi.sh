#!/usr/bin/env bash
# Ranks of an MPI job on two hosts that share each host's GPU: `tests/clusters/mpi.sh [INSTALLATION]`. The hosts are
# network, mount and UTS namespaces of this machine, joined by a pair of virtual Ethernet devices; each has a daemon of
# its own and a software GPU. Every round's sum over all ranks is checked. As root. Not part of CI. Status 77: something
# it needs cannot be had.
set -euo pipefail
cd "$(dirname "$0")/../.."
dist=$(realpath "${1:-$(cargo xtask dist | tail -1)}")
cannot() {
    echo "the MPI test cannot run: $1" >&2
    exit 77
}
[ "$(id -u)" = 0 ] || cannot "it is for root"
if ! command -v mpirun mpicc ip >/dev/null; then
    apt-get install -y -qq --no-install-recommends openmpi-bin libopenmpi-dev iproute2 >/dev/null 2>&1 ||
        cannot "openmpi-bin and libopenmpi-dev cannot be installed"
fi

work=$(mktemp -d /tmp/openmps-mpi-XXXXXX)
hosts=(omps-mpi-a omps-mpi-b)
end() {
    status=$?
    for host in "${hosts[@]}"; do
        on "$host" "$dist/bin/nvidia-cuda-mps-control" quit -t 0 >/dev/null 2>&1 || true
        [ -f "$work/$host.pid" ] && kill "$(cat "$work/$host.pid")" 2>/dev/null || true
    done
    [ "$status" = 0 ] || tail -n 20 "$work"/*/log/*.log "$work"/*.txt >&2 || true
    umount "$work"/*/namespaces 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

# on HOST COMMAND...: in the host's namespaces and with its daemon.
on() {
    local host=$1
    shift
    nsenter --target "$(cat "$work/$host.pid")" --net --mount --uts -- env CUDA_MPS_PIPE_DIRECTORY="$work/$host/pipe" \
        CUDA_MPS_LOG_DIRECTORY="$work/$host/log" OPENMPS_PROVIDER=soft "$@"
}

mpicc -O2 -o "$work/ranks" tests/clusters/mpi/ranks.c -ldl
address=0
for host in "${hosts[@]}"; do
    mkdir -p "$work/$host"/{pipe,log}
    unshare --net --mount --uts sh -c "echo \$\$ >$work/$host.pid; hostname $host; ip link set lo up; exec sleep infinity" &
    until [ -s "$work/$host.pid" ] && [ "$(nsenter --target "$(cat "$work/$host.pid")" --uts hostname)" = "$host" ]; do
        sleep 0.1
    done
done
first=$(cat "$work/${hosts[0]}.pid") second=$(cat "$work/${hosts[1]}.pid")
ip link add ompsmpi0 netns "$first" type veth peer name ompsmpi0 netns "$second" ||
    cannot "virtual Ethernet devices cannot be made"
for host in "${hosts[@]}"; do
    address=$((address + 1))
    on "$host" ip address add "10.97.0.$address/24" dev ompsmpi0
    on "$host" ip link set ompsmpi0 up
    on "$host" "$dist/bin/nvidia-cuda-mps-control" -d
done

# What mpirun calls in the place of ssh: HOST COMMAND...
cat >"$work/rsh" <<RSH
#!/usr/bin/env bash
host=\$1
shift
case \$host in 10.97.0.1) host=${hosts[0]} ;; 10.97.0.2) host=${hosts[1]} ;; esac
exec nsenter --target "\$(cat $work/\$host.pid)" --net --mount --uts -- env CUDA_MPS_PIPE_DIRECTORY=$work/\$host/pipe \
    CUDA_MPS_LOG_DIRECTORY=$work/\$host/log OPENMPS_PROVIDER=soft sh -c "\$*"
RSH
chmod +x "$work/rsh"
# A rank's environment is mpirun's; its host's daemon is found by the host's name.
cat >"$work/rank" <<RANK
#!/usr/bin/env bash
host=\$(hostname)
export CUDA_MPS_PIPE_DIRECTORY=$work/\$host/pipe CUDA_MPS_LOG_DIRECTORY=$work/\$host/log OPENMPS_PROVIDER=soft
exec "\$@"
RANK
chmod +x "$work/rank"

mpi=(mpirun --allow-run-as-root --oversubscribe --mca plm_rsh_agent "$work/rsh" --mca btl tcp,self --mca oob tcp
    --mca btl_tcp_if_include 10.97.0.0/24 --mca oob_tcp_if_include 10.97.0.0/24)
job() {
    on "${hosts[0]}" "${mpi[@]}" --host 10.97.0.1:4,10.97.0.2:4 -n 8 "$work/rank" "$@"
}
for way in "" "--sms 25%"; do
    # shellcheck disable=SC2086
    job "$dist/bin/openmps" run $way -- "$work/ranks" 2 >"$work/ranks.txt" 2>&1
    sort "$work/ranks.txt"
    for host in "${hosts[@]}"; do
        [ "$(grep -c "on $host:" "$work/ranks.txt")" = 4 ]
        [ "$(grep -c "Client.*connected" "$work/$host/log/server.log")" -ge 4 ]
    done
done
# A quarter of 8 SMs each.
[ "$(grep -c ", 2 SMs" "$work/ranks.txt")" = 8 ]
echo "8 ranks on 2 hosts computed right sums, with all SMs and with a quarter of them each"

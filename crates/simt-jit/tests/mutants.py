#!/usr/bin/env python3
"""Mutants of the generators: each breaks one piece of them, and some filetest must fail.

    crates/simt-jit/tests/mutants.py                  all of them: hours on a small machine
    crates/simt-jit/tests/mutants.py --only TEXT      those whose name contains it
    crates/simt-jit/tests/mutants.py --from N         those from the N-th on, to go on with
    crates/simt-jit/tests/mutants.py --check          is every piece still there, once? (seconds)

Changes the work tree, builds and runs `cargo test -p simt-jit`, and changes it back: for a clean work tree of
its own. Prints the tests that failed. Exit 1 if one survived.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
JIT, SIMT = "crates/simt-jit/src/", "crates/simt/src/"

# Name, file, what stands there, what is put in its place.
MUTANTS = [
    ("lanes: the lesser number", JIT + "lanewise/integer.rs", "(Min, S32) => MIN_S32,", "(Min, S32) => MAX_S32,"),
    ("lanes: shift of a sign", JIT + "lanewise/integer.rs", "(Shr, S32) => DOWN_SIGNED_BY,", "(Shr, S32) => DOWN_BY,"),
    ("lanes: shift by more than the width", JIT + "lanewise/integer.rs", "let most = w.bits() - u32::from(signed);", "let most = w.bits() - 1;"),
    ("lanes: upper product of halves", JIT + "lanewise/integer.rs", "(MulHi, S16) => MUL_HIGH_S16,", "(MulHi, S16) => MUL_HIGH_U16,"),
    ("lanes: saturating sum of halves", JIT + "lanewise/integer.rs", "(AddSat16x2, S32) => ADD_SAT_S16,", "(AddSat16x2, S32) => ADD_SAT_U16,"),
    ("lanes: tf32 in the middle", JIT + "lanewise/convert.rs", "Round::Near => DROPPED / 2,", "Round::Near => DROPPED / 2 + 1,"),
    ("lanes: tf32 of NaN", JIT + "lanewise/convert.rs", "    i.blend(to, instead, none, w);\n", ""),
    ("lanes: f32 beyond 32 bits", JIT + "lanewise/convert.rs", "let large = i.compare(a, limit, NOT_BELOW, w);", "let large = i.compare(a, limit, 0x12, w);"),
    ("lanes: 64 bits of NaN", JIT + "lanewise/convert.rs", "(i.compare(a, a.into(), UNORDERED, w), 1 << 63)", "(i.compare(a, a.into(), UNORDERED, w), 1 << 62)"),
    ("lanes: doubles beyond 64 bits", JIT + "lanewise/convert.rs", "NOT_BELOW, w), i64::MAX as u64)", "NOT_BELOW, w), 1 << 63)"),
    ("lanes: doubles beyond 32 bits", JIT + "lanewise/convert.rs", "i.splat(f64::from(i32::MAX).to_bits(), w);", "i.splat(f64::from(i16::MAX).to_bits(), w);"),
    ("lanes: NaN as 32 unsigned bits", JIT + "lanewise/convert.rs", "        i.blend(x, top, none, w);\n", ""),
    ("lanes: unsigned numbers of 8 bits", JIT + "lanewise/convert.rs", "false => [0, (1 << bits) - 1],", "false => [0, 1 << bits],"),
    ("avx2: unsigned numbers as f64", JIT + "lanewise/convert.rs", "(1u64 << 52)", "(1u64 << 51)"),
    ("avx2: f32 beyond 31 bits", JIT + "lanewise/convert.rs", "    i.fill(low, beyond, w);\n", ""),
    ("lanes: hyperbolic tangent near zero", JIT + "lanewise/math.rs", "    i.blend(made, x.into(), small, W);\n", ""),
    ("memory: the end of a bounded index", JIT + "memory/range_check.rs", "max.saturating_add(mem.total as u64)", "max"),
    ("memory: the end of a span", JIT + "memory/access.rs", "Self::Span | Self::Interleaved => (0, WARP_LANES as i64 * total),", "Self::Span | Self::Interleaved => (0, (WARP_LANES as i64 - 1) * total),"),
    ("memory: the end of a group", JIT + "memory/check_coalescing.rs", "(self.low.min(low), self.high.max(high));\n        let near", "(self.low.min(low), self.high);\n        let near"),
    ("memory: four elements a lane", JIT + "avx512/memory/strided.rs", "[(0x44, pair), (0xee, pair + 1)]", "[(0xee, pair), (0x44, pair + 1)]"),
    ("memory: words behind a permuted access", JIT + "avx512/memory/permuted.rs", "(0..self.reach).contains", "(0..self.reach + 4).contains"),
    ("memory: the last line of a fragment", JIT + "memory/fragment.rs", "lines as i32 - 1,", "lines as i32 - 2,"),
    ("memory: pairs of a fragment", JIT + "avx512/memory/fragment.rs", "(0..16).map(|lane| 2 * lane + n)", "(0..16).map(|lane| 2 * lane + 1 - n)"),
    ("memory: rows that are not aligned", JIT + "avx512/memory/offset_table.rs", "&[found.into(), Z1.into(), low_bits.into()]);", "&[found.into(), low_bits.into(), low_bits.into()]);"),
    ("copies: which lanes have fewer bytes", JIT + "avx512/memory/copy_lines.rs", "all.into(), X::I(1)]", "all.into(), X::I(5)]"),
    ("matrices: rows and columns", JIT + "avx512/matrix/ldmatrix.rs", "elements.map(|n| PACKED_A * (n % PACKED_A) + n / PACKED_A),", "elements.map(|n| PACKED_A * (n / PACKED_A) + n % PACKED_A),"),
    ("matrices: late loads", JIT + "avx512/matrix/deferred_loads.rs", "late.user < end || end == usize::MAX", "late.user + 1 < end || end == usize::MAX"),
    ("blocks: a number that wraps", JIT + "block.rs", "(true, true) => (i32::MAX - reach,", "(true, true) => (i32::MAX,"),
    ("scalar loops: the end of a range", JIT + "scalarize/precheck.rs", "[LAST.into(), words[1].into(), X::I(5)],", "[LAST.into(), words[1].into(), X::I(3)],"),
    ("scalar loops: a load behind the sum", SIMT + "analysis/address/growth.rs", "offset_of_load + if at > grows { step } else { 0 }", "offset_of_load"),
    ("analysis: a bound of a mask", SIMT + "analysis/address/range.rs", "(IntOp::And, _) => Bound { max: a.max.min(b.max),", "(IntOp::And, _) => Bound { max: a.max.min(b.max) / 2,"),
    ("analysis: offsets from a root", SIMT + "analysis/address/shared_offsets.rs", "if *op == IntOp::Sub { more.times(-1) } else { more }", "more"),
    ("fragments: which lines are turned", JIT + "avx2/memory/fragment.rs", "for (to, from) in [(4, 0), (5, 2)]", "for (to, from) in [(4, 2), (5, 0)]"),
    ("copies: the second half of a warp", JIT + "memory/async_copy.rs", "Some([low, high])", "Some([low, low])"),
    ("analysis: NaNs that are seen", SIMT + "analysis/nan_demand.rs", "class => class == NanClass::Blind,", "_ => true,"),
    ("analysis: multiples of a power of two", SIMT + "analysis/address/range.rs", "zero_bits: a.zero_bits.saturating_sub(k) }", "zero_bits: a.zero_bits }"),
]


def missing():
    """Mutants whose piece does not stand in its file exactly once."""
    return [name for name, file, old, _ in MUTANTS if (ROOT / file).read_text().count(old) != 1]


def tried(name, file, old, new, tests):
    path = ROOT / file
    text = path.read_text()
    path.write_text(text.replace(old, new))
    out = ""
    try:
        # The unit tests are another build of the crate: only for what the filetests do not see.
        for targets in (["--test", "*"], ["--lib"]):
            run = subprocess.run(["cargo", "test", "-p", "simt-jit", *targets, "--", *tests], cwd=ROOT, capture_output=True, text=True)
            out += run.stdout + run.stderr
            if run.returncode != 0:
                break
    finally:
        path.write_text(text)
    failed = sorted(set(re.findall(r"^test (\S+) \.\.\. FAILED", out, re.M)))
    if "could not compile" in out:
        print(out[-2000:])
        sys.exit(f"{name}: does not compile")
    # A fault of native code ends the test program.
    if not failed and run.returncode != 0:
        failed = ["(the test program ended)"]
    print(f"{'caught  ' if failed else 'SURVIVED'} {name}: {', '.join(failed[:4])}", flush=True)
    return bool(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="N")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("tests", nargs="*", help="names of tests, to run only these")
    args = parser.parse_args()
    if lost := missing():
        sys.exit("not once in its file: " + ", ".join(lost))
    if args.check:
        return print(f"{len(MUTANTS)} mutants")
    chosen = [mutant for mutant in MUTANTS[args.first - 1:] if args.only in mutant[0]]
    survived = [mutant[0] for mutant in chosen if not tried(*mutant, args.tests)]
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()

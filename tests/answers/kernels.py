"""Kernels in PTX that the cases load and launch."""

HEADER = b".version 7.0\n.target sm_80\n.address_size 64\n"

KERNELS = HEADER + b"""
.visible .global .align 8 .u32 variable[2];
.visible .const .align 4 .u32 constant;
.extern .func (.param .b64 result) malloc (.param .b64 size);

.visible .entry empty() { ret; }

.visible .entry add(.param .u64 address, .param .u64 value) {
    .reg .u64 %a, %v; .reg .u32 %w, %o;
    ld.param.u64 %a, [address]; ld.param.u64 %v, [value];
    cvt.u32.u64 %w, %v;
    atom.global.add.u32 %o, [%a], %w;
    ret;
}

.visible .entry small(.param .u32 first, .param .u64 second) { ret; }

.visible .entry uneven(.param .u64 first, .param .u32 second) { ret; }

.visible .entry eight(.param .u64 address) { ret; }

.visible .entry stop() { trap; }

.visible .entry wild() {
    .reg .u64 %a; .reg .u32 %w;
    mov.u64 %a, 16; mov.u32 %w, 1;
    st.global.u32 [%a], %w;
    ret;
}

.visible .entry misaligned(.param .u64 address) {
    .reg .u64 %a; .reg .u32 %w;
    ld.param.u64 %a, [address];
    add.u64 %a, %a, 2; mov.u32 %w, 1;
    st.global.u32 [%a], %w;
    ret;
}

.visible .entry allocate(.param .u64 address, .param .u64 size) {
    .reg .u64 %a, %s, %p; .reg .u32 %w; .reg .pred %q;
    ld.param.u64 %a, [address]; ld.param.u64 %s, [size];
    { .param .b64 s; .param .b64 r; st.param.b64 [s], %s;
      call.uni (r), malloc, (s); ld.param.b64 %p, [r]; }
    setp.ne.u64 %q, %p, 0;
    selp.u32 %w, 1, 2, %q;
    st.global.u32 [%a], %w;
    ret;
}

.visible .entry wait(.param .u64 address) {
    .reg .u64 %a; .reg .u32 %w; .reg .pred %q;
    ld.param.u64 %a, [address];
again:
    ld.volatile.global.u32 %w, [%a];
    setp.eq.u32 %q, %w, 0;
    @%q bra again;
    ret;
}
"""

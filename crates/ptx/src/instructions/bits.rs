//! Logic, shifts, bit counting and bit fields.

pub(super) const TABLE: &str = "\
and.pred              d, {!}a:.pred, {!}b:.pred
and.type              d, a, b
  .type = .b16 .b32 .b64

or.pred               d, {!}a:.pred, {!}b:.pred
or.type               d, a, b
  .type = .b16 .b32 .b64

xor.pred              d, {!}a:.pred, {!}b:.pred
xor.type              d, a, b
  .type = .b16 .b32 .b64

not.pred              d, {!}a:.pred
not.type              d, a
  .type = .b16 .b32 .b64

cnot.type             d, a
  .type = .b16 .b32 .b64

lop3.b32              _d, a, b, c, imm                      @4.3/sm_50
lop3.bool.b32         _d|p:.pred, a, b, c, imm, {!}q:.pred   @8.2/sm_70
  .bool = .or .and

shf.dir.mode.b32      d, a, b, c:.u32       @3.1/sm_32
  .dir = .l .r
  .mode = .clamp .wrap

shl.type              d, a, b:.u32
  .type = .b16 .b32 .b64

shr.type              d, a, b:.u32
  .type = .b16 .b32 .b64 .u16 .u32 .u64 .s16 .s32 .s64

popc.type             d:.u32, a
  .type = .b32 .b64

clz.type              d:.u32, a
  .type = .b32 .b64

bfind{.shiftamt}.type d:.u32, a
  .type = .u32 .u64 .s32 .s64

fns.b32               d, a:.b32, b:.b32, c:.b32   @5.1/sm_30

brev.type             d, a
  .type = .b32 .b64

bfe.type              d, a, b:.u32=0-255, c:.u32=0-255
  .type = .u32 .u64 .s32 .s64

bfi.type              d, a, b, c:.u32=0-255, e:.u32=0-255
  .type = .b32 .b64

szext.mode.type       d, a, b:.u32          @7.6/sm_70
  .mode = .clamp .wrap
  .type = .u32 .s32

bmsk.mode.b32         d:.u32, a:.u32, b:.u32     @7.6/sm_70
  .mode = .clamp .wrap

prmt.b32{.mode}       d, a, b, c
  .mode = .f4e .b4e .rc8 .ecl .ecr .rc16
";

//! Expansion: operations that are decoded into several instructions, loads and stores among them.

use super::*;
use crate::ops::fragment as ops_fragment;
use simt::ir::op::fragment::Fragment;
use simt::ir::op::{Access, IntType};

impl Decoder<'_> {
    /// Decodes a copy into a load to a scratch register and a store of that.
    pub(super) fn copy_to_shared(
        &mut self,
        inst: &VectorInst,
        bytes: u8,
        guard: u32,
    ) -> Option<()> {
        let [to, Source::Imm(to_offset), from, Source::Imm(offset), valid @ ..] = &inst.src[..]
        else {
            return None;
        };
        let width = Width::for_bits(8 * u32::from(bytes));
        let (signed, volatile) = (false, false);
        let whole = |space| Access { space, bytes, signed, count: 1, width, volatile };
        // Accounts are of words.
        let words = |space| match bytes {
            16 => Access { bytes: 4, count: 4, ..whole(space) },
            _ => whole(space),
        };
        let value = self.scratch(0);
        let (tag, offset) = (self.tag(*from, Space::Global)?, *offset as i64);
        let mut a = vec![self.source(*from, W64, false)];
        let (run, account) = match valid.first() {
            None => {
                (memory::load(whole(Space::Global), self.target)?, &Op::Load(words(Space::Global)))
            }
            Some(valid) => {
                a.push(self.source(*valid, W32, false));
                (async_copy::load_prefix(bytes)?, &inst.op)
            }
        };
        if self.checked {
            self.account_before(account, a.first().copied(), offset, guard, tag);
        }
        self.push(run, &[value], &a, offset, guard, tag);
        if self.checked {
            self.account_after(account);
        }
        // Shared memory has no ranges to remember, and what native code asks is where the load's are.
        let (tag, offset) =
            (memory::tag(Space::Shared, self.address_form(*to)?, 0), *to_offset as i64);
        let a = [self.source(*to, W64, false), value];
        if self.checked {
            self.account_before(&Op::Store(words(Space::Shared)), Some(a[0]), offset, guard, tag);
        }
        self.push(memory::store(whole(Space::Shared), self.target)?, &[], &a, offset, guard, tag);
        Some(())
    }

    /// Decodes a load or store of a fragment into those of its tiles' pieces, each behind the lanes' addresses.
    pub(super) fn fragment(
        &mut self,
        inst: &VectorInst,
        fragment: Fragment,
        guard: u32,
        write: bool,
    ) -> Option<()> {
        let layout = fragment.layout()?;
        let [base, Source::Imm(offset), distance, values @ ..] = &inst.src[..] else { return None };
        let (ones, t, class) = (self.ones, self.target, Class::Lane(layout.width));
        let [address, part, whole] = [0, 1, 2].map(|n| self.scratch(n));
        // Results may be put where lanes' sources are.
        let mut sources = [0; 2];
        for (n, source) in [*base, *distance].into_iter().enumerate() {
            sources[n] = self.source(source, W64, false);
            if !matches!(source, Source::Scalar(_)) {
                let kept = self.scratch(3 + n);
                let copy = mov_carry_predicate::copy(Width::W64, t);
                self.push(copy, &[kept], &[sources[n]], 0, ones, 0);
                sources[n] = kept;
            }
        }
        let one = [base, distance].map(|source| matches!(source, Source::Scalar(_)));
        self.site += 1;
        let tag = memory::tag(fragment.space, AddressForm::Register { wide: true }, self.site);
        let bytes = layout.piece_bytes();
        for tile in &layout.tiles {
            let registers = tile.register..tile.register + tile.registers;
            let places: Vec<u32> = registers
                .map(|n| match write {
                    true => Some(self.source(values[n], class, false)),
                    false => self.places[inst.dst[n].reg.index()].vector,
                })
                .collect::<Option<_>>()?;
            let access = Access {
                space: fragment.space,
                bytes: bytes as u8,
                signed: false,
                count: tile.registers as u8,
                width: layout.width,
                volatile: false,
            };
            for piece in 0..layout.pieces {
                let start = (*offset as i64).wrapping_add(tile.column.into());
                let (run, fields) = ops_fragment::addresses(&layout, tile, piece, one);
                self.push(run, &[address], &sources, start, ones, fields);
                let op = if write { Op::Store(access) } else { Op::Load(access) };
                if self.checked {
                    self.account_before(&op, Some(address), 0, guard, tag);
                }
                let shift = u64::from(8 * bytes * piece);
                if write {
                    let mut a = vec![address];
                    match piece {
                        0 => a.extend(&places),
                        _ => {
                            let by = self.constant(shift, W32, true);
                            let (shift, _) = lanewise(&Op::Int(IntOp::Shr, IntType::U32), t)?;
                            self.push(shift, &[part], &[places[0], by], 0, ones, 0);
                            a.push(part);
                        }
                    }
                    self.push(memory::store(access, t)?, &[], &a, 0, guard, tag);
                    continue;
                }
                let to = match (layout.pieces, piece) {
                    (1, _) => &places[..],
                    (_, 0) => &[whole],
                    _ => &[part],
                };
                self.push(memory::load(access, t)?, to, &[address], 0, guard, tag);
                if piece > 0 {
                    let [at, bits] =
                        [shift, u64::from(8 * bytes)].map(|n| self.constant(n, W32, true));
                    let insert = mov_carry_predicate::insert(Width::W32, t)?;
                    self.push(insert, &[whole], &[part, whole, at, bits], 0, ones, 0);
                }
            }
            if !write && layout.pieces > 1 {
                self.push(blend(4, t)?, &places, &[whole], 0, guard, 0);
            }
        }
        Some(())
    }
}

//! Since when the words exist that mean the same wherever they stand: modifiers, types, special
//! registers, directives.
//!
//! The notation is that of the table, one word a line. What only one instruction has, or has
//! since another time, stands with that instruction.

use crate::ast::{Modifier, Opcode, StateSpace};
use crate::instructions::availability::Since;
use crate::instructions::notation::{Choice, read_choice};
use std::collections::HashMap;
use std::sync::LazyLock;

const WORDS: &str = "\
.weak@sm_70
.relaxed@sm_70
.acquire@sm_70
.release@sm_70
.acq_rel@sm_70
.mmio@8.2/sm_70
.cluster@sm_90
.shared::cta@7.8
.shared::cluster@sm_90
.param::entry@8.3
.param::func@8.3
.L1::evict_normal@7.4/sm_70
.L1::evict_unchanged@7.4/sm_70
.L1::evict_first@7.4/sm_70
.L1::evict_last@7.4/sm_70
.L1::no_allocate@7.4/sm_70
.L2::64B@7.4/sm_75
.L2::128B@7.4/sm_75
.L2::256B@7.4/sm_80
.L2::cache_hint@7.4/sm_80
.b128@8.3/sm_70
.bf16@sm_80
.bf16x2@sm_80
.f16x2@4.2/sm_53
.f32x2@sm_100
.relu@sm_80
";

/// Special registers (by the start of their names) and directives.
const NAMES: &str = "\
%is_explicit_cluster@sm_90
%clusterid@sm_90
%nclusterid@sm_90
%cluster_@sm_90
%clock_hi@5.0
%globaltimer@3.1/sm_30
%reserved_smem_offset_@7.6/sm_80
%total_smem_size@4.1
%dynamic_smem_size@4.1
%aggr_smem_size@8.1/sm_90
%current_graph_exec@8.0/sm_50
.reqnctapercluster@sm_90
.explicitcluster@sm_90
.maxclusterrank@sm_90
.blocksareclusters@9.0/sm_90
.noreturn@6.4/sm_30
.abi_preserve@9.0/sm_80
.abi_preserve_control@9.0/sm_80
.language@9.2
.attribute(.unified)@8.0/sm_90
.attribute(.managed)@4.0/sm_30
.branchtargets@5.1/sm_30
.alias@6.3/sm_30
.common@5.0
";

/// Since when the special register or directive called `name` exists, `%` or dot included.
pub(crate) fn since_name(name: &str) -> Option<Since> {
    NAMES.lines().find_map(|line| {
        let (known, since) = line.split_once('@')?;
        let same = known == name || (known.starts_with('%') && name.starts_with(known));
        same.then(|| Since::read(since)).flatten()
    })
}

/// Since when `word` exists.
pub(crate) fn since(word: Modifier) -> Option<&'static Since> {
    static WORDS_READ: LazyLock<HashMap<Modifier, Since>> = LazyLock::new(|| {
        let choices = read().into_iter().flatten().flatten();
        choices.map(|Choice { modifier, since }| (modifier, since)).collect()
    });
    WORDS_READ.get(&word)
}

/// Since when `word` exists in instructions of that name.
pub(crate) fn since_in(opcode: Opcode, word: Modifier) -> Option<&'static Since> {
    match (opcode, word) {
        // Copies have had this from the start, as another name of `.shared`.
        (Opcode::Cp, Modifier::Space(StateSpace::SharedCta)) => None,
        _ => since(word),
    }
}

fn read() -> Vec<Option<Vec<Choice>>> {
    WORDS.lines().map(|line| read_choice(line.strip_prefix('.')?)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_word_is_well_formed() {
        for (word, line) in super::read().iter().zip(super::WORDS.lines()) {
            assert!(word.is_some(), "{line}");
        }
        for line in super::NAMES.lines() {
            let name = line.split('@').next().unwrap();
            assert!(super::since_name(name).is_some(), "{line}");
        }
    }
}

//! Operand variants of an example: one operand is varied at a time, whether PTX allows it or not.

use super::registers::{KINDS, name, other_type, registers, uniform};
use ptx::examples::Example;

/// The operands that may stand in the place of one of an example.
fn alternatives(example: &Example, at: usize) -> Vec<String> {
    let own = example.operands[at].as_str();
    let of = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
    let mbarrier = example.name.starts_with("mbarrier");
    match own {
        // Both the barrier of a copy and what it copies are in shared memory.
        "[shared_data]" if example.name.starts_with("cp.") && at >= 2 => {
            of(&["[%sa7]", "[%ga17]", "[%sa7+16]"])
        }
        "[%d9]" if mbarrier => of(&["[%ga14]", "[%ga14+16]"]),
        "[%d9]" if example.name.starts_with("wmma") => of(&["[%ga2]", "[%ga2+128]"]),
        "[shared_data]" if example.name.starts_with("wmma") => {
            of(&["[%sa2]", "[%ga7]", "[%sa2+128]", "[%ga7+128]"])
        }
        "[%d9]" => of(&[
            "[%ga1]",
            "[%ga1+16]",
            "[%ga2]",
            "[%ga3]",
            "[%ga3+16]",
            "[%ga4]",
            "[%ga5]",
            "[global_data]",
            "[global_data+16]",
            "[%ga14]",
            "[%ga15]",
        ]),
        "[shared_data]" => of(&[
            "[%sa1]",
            "[%sa1+16]",
            "[%sa2]",
            "[%sa3]",
            "[%sa3+16]",
            "[%sa4]",
            "[%ga6]",
            "[%ga6+16]",
            "[%ga7]",
            "[%ga8]",
            "[%ga8+16]",
            "[%ga9]",
            "[shared_data]",
            "[shared_data+16]",
        ]),
        "[local_data]" => {
            of(&["[%ga10]", "[%ga11]", "[%ga11+16]", "[%sa5]", "[local_data]", "[local_data+16]"])
        }
        "[const_data]" => of(&["[%ga12]", "[%ga13]", "[const_data]", "[const_data+16]"]),
        "[param_data]" => of(&["[param_data]", "[param_data+16]"]),
        _ if own.starts_with('[') => of(&[own]),
        _ if own.contains('|') => {
            let (a, b) = own.split_once('|').unwrap_or((own, own));
            vec![own.to_owned(), format!("{a}|_"), format!("_|{b}")]
        }
        _ if own.starts_with('{') => {
            let elements: Vec<&str> = own[1..own.len() - 1].split(", ").collect();
            let joined = |list: Vec<String>| format!("{{{}}}", list.join(", "));
            let each = |f: &dyn Fn(usize, &str) -> String| {
                joined(elements.iter().enumerate().map(|(n, e)| f(n, e)).collect())
            };
            vec![
                own.to_owned(),
                each(&|_, e| uniform(e)),
                each(&|_, _| elements[0].to_owned()),
                each(&|n, e| if n == 0 { "_".to_owned() } else { e.to_owned() }),
                each(&|n, e| if n + 1 == elements.len() { "_".to_owned() } else { e.to_owned() }),
                each(&|n, e| if n % 2 == 0 { "3".to_owned() } else { e.to_owned() }),
                each(&|n, e| if n % 2 == 0 { "0f3FC00000".to_owned() } else { e.to_owned() }),
                each(&|_, e| other_type(e)),
            ]
        }
        _ if own.starts_with('%') => {
            let mut list = of(&[
                own,
                "_",
                "7",
                "-3",
                "300",
                "0f3FC00000",
                "0dC008000000000000",
                "WARP_SZ",
                "%laneid",
            ]);
            list.push(format!("!{own}"));
            list.push(format!("-{own}"));
            list.push(uniform(own));
            if let [register @ (kind, number)] = registers(own)[..] {
                debug_assert_eq!(name(register), own);
                if KINDS[kind].1 > 40 || KINDS[kind].1 == 40 && number < 8 {
                    list.push(format!("{}{}", KINDS[kind].0, number + 30));
                }
                // Any other kind of register.
                list.extend(
                    KINDS.iter().map(|(prefix, ..)| format!("{prefix}{}", number.clamp(1, 5))),
                );
            }
            list
        }
        _ => of(&[own]),
    }
}

/// Variants of an example, whether PTX allows them or not: with each operand varied in its turn, or only
/// with all sources the same in all lanes.
pub(super) fn variants(example: &Example, varied: bool) -> Vec<Example> {
    let lists: Vec<Vec<String>> =
        (0..example.operands.len()).map(|at| alternatives(example, at)).collect();
    let first: Vec<String> = lists.iter().map(|list| list[0].clone()).collect();
    let mut found = Vec::new();
    let mut push = |operands: Vec<String>| {
        found.push(Example { template: example.template, name: example.name.clone(), operands });
    };
    push(first.clone());
    for (at, list) in lists.iter().enumerate().filter(|_| varied) {
        for other in &list[1..] {
            let mut operands = first.clone();
            operands[at].clone_from(other);
            push(operands);
        }
    }
    // All sources the same in all lanes, with a result and without one; and addresses at a stride beside that.
    let same = |from: usize, address: &dyn Fn(&str) -> String| -> Vec<String> {
        let each = |(n, own): (usize, &String)| match own.starts_with('[') {
            true => address(own),
            false if n < from => own.clone(),
            false => uniform(own),
        };
        first.iter().enumerate().map(each).collect()
    };
    for from in [0, 1] {
        push(same(from, &str::to_owned));
        push(same(from, &|own| own.replace("%sa1", "%sa3").replace("%ga1]", "%ga3]")));
    }
    found
}

//! Registers that examples name: their kinds, and others of the same width or with equal values.

/// Kinds of registers of `ptx::examples`: prefix, how many there are, type that moves them.
pub(super) const KINDS: &[(&str, usize, &str)] = &[
    ("%uc", 8, "b8"),
    ("%sw", 8, "b16"),
    ("%hf", 8, "b16"),
    ("%hx", 8, "b32"),
    ("%ud", 8, "b64"),
    ("%sd", 8, "b64"),
    ("%p", 8, "pred"),
    ("%c", 8, "b8"),
    ("%h", 40, "b16"),
    ("%w", 8, "b16"),
    ("%r", 260, "b32"),
    ("%u", 40, "b32"),
    ("%i", 260, "b32"),
    ("%f", 260, "b32"),
    ("%d", 40, "b64"),
    ("%e", 40, "b64"),
    ("%q", 8, "b128"),
];

/// A register of [`KINDS`]: its kind and number.
pub(super) type Register = (usize, usize);

pub(super) fn name((kind, number): Register) -> String {
    format!("{}{number}", KINDS[kind].0)
}

/// The registers of [`KINDS`] that a text names.
pub(super) fn registers(text: &str) -> Vec<Register> {
    let mut found = Vec::new();
    for part in text.split('%').skip(1) {
        let letters = part.chars().take_while(char::is_ascii_alphabetic).count();
        let digits = part[letters..].chars().take_while(char::is_ascii_digit).count();
        let number: Option<usize> = part[letters..letters + digits].parse().ok();
        let prefix = &part[..letters];
        let kind = KINDS.iter().position(|(p, ..)| &p[1..] == prefix);
        if let (Some(kind), Some(number)) = (kind, number)
            && number < KINDS[kind].1
        {
            found.push((kind, number));
        }
    }
    found
}

/// How a register's values are: numbers from 20 on are the same in all lanes, from 30 on at a stride.
pub(super) fn is_uniform((kind, number): Register) -> bool {
    match KINDS[kind].1 {
        8 => number >= 6,
        _ => (20..30).contains(&number),
    }
}

/// The register of the same kind whose value all lanes have.
pub(super) fn uniform(own: &str) -> String {
    match registers(own)[..] {
        [(kind, _)] if KINDS[kind].1 == 8 => format!("{}6", KINDS[kind].0),
        [(kind, number)] => format!("{}{}", KINDS[kind].0, 20 + number % 10),
        _ => own.to_owned(),
    }
}

/// A register of as many bits and another type.
pub(super) fn other_type(own: &str) -> String {
    match registers(own)[..] {
        [(kind, number)] => {
            let bits = KINDS[kind].2;
            let other = KINDS
                .iter()
                .enumerate()
                .find(|(n, (.., b))| *n != kind && *b == bits && KINDS[*n].1 > 8);
            other.map_or(own.to_owned(), |(_, (prefix, ..))| format!("{prefix}{}", number % 20))
        }
        _ => own.to_owned(),
    }
}

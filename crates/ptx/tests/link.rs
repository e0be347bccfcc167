//! Linking of PTX texts: who sees what, which definition wins, what is refused.

use ptx::link::{LinkError, link, link_over};
use ptx::parse;

const HEADER: &str = ".version 7.0\n.target sm_70\n.address_size 64\n";

const MAIN: &str = "
    .extern .func (.param .b32 r) twice(.param .b32 x);
    .extern .global .align 4 .u32 counter;
    .global .align 4 .u32 hidden = 1;
    .func (.param .b32 r) helper(.param .b32 x) { ret; }
    .weak .func (.param .b32 r) plus(.param .b32 x) { trap; ret; }
    .visible .entry kernel(.param .u64 out)
    {
        .reg .b32 %r<3>;
        { .param .b32 p; .param .b32 q; call.uni (q), twice, (p); }
        { .param .b32 p; .param .b32 q; call.uni (q), helper, (p); }
        ld.global.u32 %r1, [counter];
        ld.global.u32 %r2, [hidden];
        ret;
    }";

const OTHER: &str = "
    .visible .global .align 4 .u32 counter = 5;
    .global .align 4 .u32 hidden = 2;
    .func (.param .b32 r) helper(.param .b32 x) { ret; }
    .weak .func (.param .b32 r) plus(.param .b32 x) { ret; }
    .visible .func (.param .b32 r) twice(.param .b32 x)
    {
        .reg .b32 %r<2>;
        ld.global.u32 %r1, [hidden];
        { .param .b32 p; .param .b32 q; call.uni (q), helper, (p); }
        { .param .b32 p; .param .b32 q; call.uni (q), plus, (p); }
        ret;
    }";

fn with_header(text: &str) -> String {
    format!("{HEADER}{text}")
}

#[test]
fn what_one_text_lacks_another_has_in_any_order() {
    let (main, other) = (with_header(MAIN), with_header(OTHER));
    for texts in [[&main, &other], [&other, &main]] {
        let linked = link(&[texts[0], texts[1]]).unwrap();
        let module = parse(&linked).unwrap_or_else(|errors| panic!("{errors}\n{linked}"));
        ptx::check(&module).unwrap_or_else(|errors| panic!("{errors}\n{linked}"));
        let twice = module.find_function("twice").unwrap();
        assert!(module.function(twice).body.is_some());
        let counter = module.find_variable("counter").unwrap();
        assert!(module.variable(counter).init.is_some());
        // One `plus`, the first; two `helper`s and two `hidden`s, of which one was renamed or both.
        let named = |prefix: &str| {
            let functions = module.functions.iter().map(|f| module.name(f.name));
            let variables = module.variables.iter().map(|v| module.name(v.name));
            functions.chain(variables).filter(|name| name.starts_with(prefix)).count()
        };
        assert_eq!((named("plus"), named("helper"), named("hidden")), (1, 2, 2));
        assert_eq!(linked.matches("trap").count(), usize::from(texts[0] == &main));
        assert_eq!(module.kernels().count(), 1);
    }
}

#[test]
fn a_strong_definition_beats_a_weak_one_that_came_before() {
    let weak = with_header(".weak .func f() { trap; ret; } .visible .entry k() { call f; ret; }");
    let strong = with_header(".visible .func f() { ret; }");
    for texts in [[weak.as_str(), &strong], [&strong, &weak]] {
        let linked = link(&texts).unwrap();
        assert!(!linked.contains("trap"), "{linked}");
        parse(&linked).unwrap_or_else(|errors| panic!("{errors}\n{linked}"));
    }
}

#[test]
fn of_a_library_only_what_kernels_reach_is_taken() {
    let program = with_header(
        ".extern .func used(); .visible .entry k() { call used; ret; }
        .visible .func by_address() { ret; } .global .align 8 .u64 table[1] = {by_address};",
    );
    let library = with_header(
        ".extern .func elsewhere(); .func inner() { ret; } .visible .func used() { call inner; ret; }
        .visible .func unused() { call elsewhere; ret; }",
    );
    let module = parse(&link(&[&program, &library]).unwrap()).unwrap();
    let names: Vec<&str> = module.functions.iter().map(|f| module.name(f.name)).collect();
    for name in ["used", "k", "inner", "by_address"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn the_newest_version_and_target_hold_for_all() {
    let old = with_header(".visible .entry a() { ret; }");
    let new = ".version 8.3\n.target sm_80\n.address_size 64\n.visible .entry b() { ret; }";
    let module = parse(&link(&[&old, new]).unwrap()).unwrap();
    assert_eq!((module.version.major, module.version.minor, module.target.sm), (8, 3, 80));
    assert_eq!(module.kernels().count(), 2);
}

#[test]
fn what_is_wrong_is_named() {
    let one = with_header(".visible .func f() { ret; }");
    match link(&[&one, &one]) {
        Err(LinkError::Duplicate { name, first: 0, index: 1 }) => assert_eq!(name, "f"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(link(&[&one, "no ptx"]), Err(LinkError::Parse { index: 1, .. })));
    assert!(matches!(link(&[]), Err(LinkError::Count(0))));
}

#[test]
fn the_last_texts_definitions_may_go_before_all_others() {
    let text = |value: u32| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .func (.param .b32 r) f()\n\
             {{ st.param.b32 [r], {value}; ret; }}\n"
        )
    };
    let user = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .extern .func (.param .b32 r) f();\n.visible .entry k()\n\
        { .param .b32 r; call (r), f; ret; }\n";
    let texts = [user, &text(1), &text(2)];
    assert!(link(&texts).is_err(), "defined twice");
    let linked = link_over(&texts).unwrap();
    assert!(linked.contains("[r], 2") && !linked.contains("[r], 1"), "{linked}");
    ptx::check(&parse(&linked).unwrap()).unwrap();
}

#[test]
fn a_kernel_keeps_the_target_that_it_was_made_for() {
    let of = |sm: u32, name: &str| {
        format!(
            ".version 8.0\n.target sm_{sm}\n.address_size 64\n.visible .entry {name}() .maxntid 8 {{ ret; }}"
        )
    };
    let library =
        ".version 8.8\n.target sm_121\n.address_size 64\n.visible .func unused() { ret; }";
    let linked = link(&[&of(80, "first"), &of(86, "second"), library]).unwrap();
    // Linked code may be linked again.
    let linked = link(&[&linked, &of(121, "third")]).unwrap();
    let module = parse(&linked).unwrap_or_else(|errors| panic!("{errors}\n{linked}"));
    ptx::check(&module).unwrap_or_else(|errors| panic!("{errors}\n{linked}"));
    assert_eq!(module.target.sm, 121);
    let targets: Vec<(&str, u32)> = module
        .kernels()
        .map(|(_, f)| (module.name(f.name), ptx::link::target_of(&module, f)))
        .collect();
    assert_eq!(targets, [("first", 80), ("second", 86), ("third", 121)]);
}

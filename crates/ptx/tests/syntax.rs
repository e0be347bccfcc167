//! What the tree says of `tests/data/language.ptx`: values, resolution, positions.

use ptx::ast::*;

const LANGUAGE: &str = include_str!("data/language.ptx");

fn language() -> Module {
    ptx::parse(LANGUAGE).unwrap_or_else(|errors| panic!("{errors}"))
}

fn kernel(module: &Module) -> &Function {
    module.function(module.find_function("language").unwrap())
}

/// The only instruction of the function whose text starts with `text`.
fn instruction<'a>(module: &Module, function: &'a Function, text: &str) -> &'a Instruction {
    let mut found = function.instructions().filter(|ins| module.text(ins.span).starts_with(text));
    let first = found.next().unwrap_or_else(|| panic!("no `{text}`"));
    assert!(found.next().is_none(), "several `{text}`");
    first
}

#[test]
fn the_header_is_read() {
    let module = language();
    assert_eq!(module.version, Version { major: 8, minor: 5 });
    assert_eq!((module.target.sm, module.target.suffix), (80, None));
    assert_eq!(module.target.options, ["debug"]);
    assert_eq!(module.address_size_bits, 64);
    assert_eq!(module.files, [SourceFile { index: 1, path: "language.cu".to_owned() }]);
}

#[test]
fn it_checks_with_a_warning_for_what_is_not_known() {
    // Of a version that is not known yet, as far as that is possible.
    let ptx::ast::Version { major, minor } = ptx::VERSION_MAX;
    let later = format!(".version {major}.{}", minor + 1);
    let module = ptx::parse(&LANGUAGE.replacen(".version 8.5", &later, 1)).unwrap();
    let warnings = ptx::check(&module).unwrap_or_else(|errors| panic!("{errors}"));
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(warning.severity, ptx::Severity::Warning);
    assert!(warning.message.contains("'a_new_instruction'"), "{warning}");
    let unknown = instruction(&module, kernel(&module), "a_new_instruction");
    assert_eq!(unknown.opcode, Opcode::Unknown);
    assert!(unknown.operands.is_empty());
    assert_eq!(
        module.text_line(unknown.span),
        "a_new_instruction.of.some {future}, [%r1], \"version; of\" , PTX"
    );
}

#[test]
fn what_no_version_has_is_an_error() {
    let errors = ptx::check(&language()).unwrap_err();
    let [error] = &errors.diagnostics[..] else { panic!("{errors}") };
    assert_eq!(error.severity, ptx::Severity::Error);
    assert_eq!(error.message, "Not a name of any known instruction: 'a_new_instruction'");
    assert_eq!(error.position.line, 110);
}

#[test]
fn a_definition_takes_the_place_of_its_declaration() {
    let module = language();
    let count =
        |name: &str| module.functions.iter().filter(|f| module.name(f.name) == name).count();
    assert_eq!((count("twice"), count("vprintf"), count("in_registers")), (1, 1, 1));
    assert!(module.function(module.find_function("twice").unwrap()).body.is_some());
    let vprintf = module.function(module.find_function("vprintf").unwrap());
    assert!(vprintf.body.is_none());
    assert_eq!(vprintf.linkage, Linkage::Extern);
    let declared = module.variable(module.find_variable("declared_first").unwrap());
    assert_eq!(declared.linkage, Linkage::Visible);
    assert_eq!(declared.init, Some(Initializer::Value(Immediate::signed(7))));
    assert_eq!(module.kernels().count(), 1);
}

#[test]
fn variables_have_sizes_alignments_and_values() {
    let module = language();
    let variable = |name| module.variable(module.find_variable(name).unwrap());
    let text = variable("text");
    assert_eq!((text.size_bytes(), text.align_bytes(), text.is_unsized()), (Some(4), 16, false));
    let weights = variable("weights");
    assert_eq!((weights.space, weights.dims.as_slice()), (StateSpace::Const, &[2, 3][..]));
    assert_eq!((weights.size_bytes(), weights.align_bytes()), (Some(24), 4));
    let Some(Initializer::List(rows)) = &weights.init else { panic!() };
    let Initializer::List(row) = &rows[1] else { panic!() };
    let bits: Vec<_> = row
        .iter()
        .map(|value| match value {
            Initializer::Value(value) => value.bits_as(ScalarType::F32).unwrap() as u32,
            _ => panic!(),
        })
        .collect();
    assert_eq!(bits, [1.0f32.to_bits(), 10.0f32.to_bits(), 1.0f32.to_bits()]);
    let pair = variable("pair");
    assert_eq!((pair.vector, pair.size_bytes(), pair.align_bytes()), (2, Some(8), 8));
    assert!(variable("unified_memory").managed);
    let dynamic = variable("dynamic_shared");
    assert!(dynamic.is_unsized());
    assert_eq!((dynamic.space, dynamic.size_bytes()), (StateSpace::Shared, Some(0)));
}

#[test]
fn addresses_in_initialisers_are_resolved() {
    let module = language();
    let text = SymbolRef::Module(module.find_variable("text").unwrap());
    let twice = SymbolRef::Function(module.find_function("twice").unwrap());
    let address = |symbol, offset, generic| {
        Initializer::Address(InitialAddress { symbol, offset, generic, mask: None })
    };
    let pointers = module.variable(module.find_variable("pointers").unwrap());
    assert_eq!(
        pointers.init,
        Some(Initializer::List(vec![
            address(text, 0, false),
            address(text, 2, true),
            address(twice, 0, false),
            Initializer::Value(Immediate::signed(0)),
        ]))
    );
    let itself = module.find_variable("itself").unwrap();
    let expected = address(SymbolRef::Module(itself), 0, false);
    assert_eq!(module.variable(itself).init, Some(expected));
}

#[test]
fn constant_expressions_are_evaluated_as_in_c() {
    let module = language();
    let variable = module.variable(module.find_variable("expressions").unwrap());
    let Some(Initializer::List(list)) = &variable.init else { panic!() };
    let values: Vec<i64> = list
        .iter()
        .map(|value| match value {
            Initializer::Value(value) => value.as_i64().unwrap(),
            _ => panic!(),
        })
        .collect();
    assert_eq!(values, [7, 9, 19, 255, -3, -1, 10, 0, 64]);
}

#[test]
fn parameters_are_laid_out_as_the_driver_does() {
    let module = language();
    let kernel = kernel(&module);
    let layout = kernel.parameter_layout().unwrap();
    let places: Vec<_> =
        layout.params.iter().map(|slot| (slot.offset_bytes, slot.size_bytes)).collect();
    assert_eq!((places, layout.size_bytes), (vec![(0, 8), (8, 24), (32, 4)], 36));
    let Parameter::Memory(output) = kernel.params[0] else { panic!() };
    let pointer = kernel.local(output).pointer.unwrap();
    assert_eq!((pointer.space, pointer.align_bytes), (Some(StateSpace::Global), 8));
    assert_eq!(kernel.directives.maxntid, Some([256, 1, 1]));
    assert_eq!(kernel.directives.minnctapersm, Some(2));
    let other = module.function(module.find_function("in_registers").unwrap());
    assert!(matches!(other.params[..], [Parameter::Register(_), Parameter::Register(_)]));
    assert!(module.function(module.find_function("does_not_return").unwrap()).directives.noreturn);
}

#[test]
fn a_register_of_an_inner_scope_is_another_register() {
    let module = language();
    let kernel = kernel(&module);
    let destination = |text| match instruction(&module, kernel, text).operands[0] {
        Operand::Register(id) => id,
        _ => panic!(),
    };
    let outer = destination("ld.param.b32 %r1");
    let inner = destination("mov.b32 %r1, 1");
    assert_ne!(outer, inner);
    assert_eq!(module.name(kernel.register(outer).name), "%r1");
    assert_eq!(kernel.register(outer).name, kernel.register(inner).name);
    // After the scope the outer one is meant again.
    let Operand::Register(after) =
        instruction(&module, kernel, "st.param.b32 [argument], %r1").operands[1]
    else {
        panic!()
    };
    assert_eq!(after, outer);
}

#[test]
fn labels_belong_to_their_scope_and_reach_out_of_it() {
    let module = language();
    let kernel = kernel(&module);
    let targets: Vec<(&str, usize)> = kernel
        .instructions()
        .filter(|ins| ins.opcode == Opcode::Bra)
        .map(|ins| {
            let Operand::Label(id) = ins.operands[0] else { panic!() };
            let label = kernel.label(id);
            let LabelKind::Code(index) = label.kind else { panic!() };
            let body = kernel.body.as_ref().unwrap();
            assert_eq!(body[index], Statement::Label(id));
            (module.name(label.name), module.position(label.span).line as usize)
        })
        .collect();
    let line = |text: &str, nth: usize| {
        let mut lines = LANGUAGE.lines().enumerate().filter(|(_, line)| line.trim() == text);
        lines.nth(nth).unwrap().0 + 1
    };
    assert_eq!(
        targets,
        [
            ("$L_inside", line("$L_inside:", 0)),
            ("$L_end", line("$L_end:", 0)),
            ("wait", line("wait:", 0)),
            ("$L_end", line("$L_end:", 0)),
            ("wait", line("wait:", 1)),
        ]
    );
}

#[test]
fn calls_come_apart() {
    let module = language();
    let kernel = kernel(&module);
    let direct = instruction(&module, kernel, "call.uni").call().unwrap();
    assert_eq!(direct.callee, Callee::Direct(module.find_function("twice").unwrap()));
    assert_eq!((direct.results.len(), direct.arguments.len(), direct.prototype), (1, 1, None));
    let indirect = instruction(&module, kernel, "call (answer), %rd3").call().unwrap();
    assert!(matches!(indirect.callee, Callee::Indirect(_)));
    let label = kernel.label(indirect.prototype.unwrap());
    let LabelKind::Prototype(prototype) = &label.kind else { panic!() };
    assert_eq!((prototype.returns.len(), prototype.params.len()), (1, 1));
    let brx = instruction(&module, kernel, "brx.idx");
    let Operand::Label(id) = brx.operands[1] else { panic!() };
    let LabelKind::BranchTargets(targets) = &kernel.label(id).kind else { panic!() };
    assert_eq!(targets.len(), 2);
}

#[test]
fn operands_and_modifiers_are_what_was_written() {
    let module = language();
    let kernel = kernel(&module);
    let load = instruction(&module, kernel, "ld.global.v4.f32");
    assert_eq!(
        (load.opcode, load.space(), load.ty()),
        (Opcode::Ld, Some(StateSpace::Global), Some(ScalarType::F32))
    );
    assert_eq!((load.vector_width(), load.form(&module)), (4, "ld.global.v4.f32".to_owned()));
    let Operand::Memory(Address { base: AddressBase::Register(_), offset: -16 }) = load.operands[1]
    else {
        panic!("{:?}", load.operands)
    };
    let part = &instruction(&module, kernel, "mov.f32 %f1").operands[1];
    assert!(matches!(part, Operand::Component(_, Component::X)));
    let tid = &instruction(&module, kernel, "mov.u32 %r2").operands[1];
    assert_eq!(*tid, Operand::Special(SpecialRegister::Tid, Some(Component::X)));
    let compare = instruction(&module, kernel, "setp.lt.s32");
    assert_eq!(compare.comparison(), Some(Comparison::Lt));
    assert!(matches!(compare.operands[0], Operand::Pair(_)));
    let pointers = SymbolRef::Module(module.find_variable("pointers").unwrap());
    let moved = &instruction(&module, kernel, "mov.u64 %rd2").operands[1];
    assert_eq!(*moved, Operand::Symbol(pointers, 8));
    let guarded = instruction(&module, kernel, "@!%p2");
    assert!(guarded.guard.unwrap().negated);
    assert!(guarded.has(Modifier::Uni));
}

#[test]
fn only_registers_in_use_are_numbered() {
    let module = language();
    let names: Vec<&str> =
        kernel(&module).registers.iter().map(|register| module.name(register.name)).collect();
    assert!(names.contains(&"%r4") && names.contains(&"lonely"));
    assert!(!names.contains(&"%r15"));
}

#[test]
fn directives_and_spellings_that_are_seldom_are_read() {
    let text = include_str!("data/directives.ptx");
    ptx::fuzz_oracle::text(text.as_bytes());
    let module = ptx::parse(text).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(ptx::check(&module), Ok(vec![]));
    let function = |name| module.function(module.find_function(name).unwrap());
    let clusters = &function("clusters").directives;
    assert_eq!((clusters.reqnctapercluster, clusters.explicitcluster), (Some([2, 1, 1]), true));
    assert_eq!(function("ranks").directives.maxclusterrank, Some(8));
    assert!(function("blocks").directives.blocksareclusters);
    assert!(function("stop").directives.noreturn);
    assert_eq!(function("elsewhere").directives.attributes, [".attribute(.unified(0xAB, 0xCD))"]);
    assert_eq!(module.find_function("g"), module.find_function("f"));
    // An element of an array is what is there; moved, its address.
    let kernel = function("directives");
    let array = SymbolRef::Module(module.find_variable("array").unwrap());
    let load = instruction(&module, kernel, "ld.global.b32");
    let there = Address { base: AddressBase::Symbol(array), offset: 8 };
    assert_eq!(load.operands[1], Operand::Memory(there));
    let address = instruction(&module, kernel, "mov.u64 %d1");
    assert_eq!(address.operands[1], Operand::Symbol(array, 12));
    let half = instruction(&module, kernel, "mov.f64 %g, .5");
    assert_eq!(half.operands[1], Operand::Immediate(Immediate::F64(0.5f64.to_bits())));
    let quarter = instruction(&module, kernel, "mov.f64 %g, -.25");
    assert_eq!(quarter.operands[1], Operand::Immediate(Immediate::F64((-0.25f64).to_bits())));
}

//! Directives: those that exclude or need each other, and since when each exists.

use super::Checker;
use crate::ast::{Alias, Function, FunctionKind, LabelKind, Linkage, Parameter, Span, Version};
use crate::instructions::common_words;

impl Checker<'_> {
    /// The directive or special register called `name` at `span`.
    pub(super) fn exists(&mut self, span: Span, name: &str) {
        let lack = common_words::since_name(name)
            .and_then(|since| since.lack(self.module.version, &self.module.target));
        if let Some(lack) = lack {
            self.error(span, format!("Feature '{name}' {lack}"));
        }
    }

    /// What stands between a function's parameters and its body.
    pub(super) fn directives(&mut self, function: &Function) {
        let own = &function.directives;
        if own.maxnctapersm.is_some() && self.module.version >= (Version { major: 2, minor: 1 }) {
            let message = "Deprecated feature: '.maxnctapersm' is not supported as of PTX version \
                           2.1, expected '.minnctapersm'";
            self.error(function.span, message.to_owned());
        }
        if own.noreturn && !function.returns.is_empty() {
            let message = "Invalid directive '.noreturn' for a function that returns a value";
            self.error(function.span, message.to_owned());
        }
        let numbers = [
            (".maxntid", own.maxntid.map(|extents| extents.contains(&0))),
            (".reqntid", own.reqntid.map(|extents| extents.contains(&0))),
            (".reqnctapercluster", own.reqnctapercluster.map(|_| false)),
            (".maxclusterrank", own.maxclusterrank.map(|_| false)),
            (".maxnreg", own.maxnreg.map(|registers| registers == 0)),
            (".minnctapersm", own.minnctapersm.map(|blocks| blocks == 0)),
            (".explicitcluster", own.explicitcluster.then_some(false)),
            (".blocksareclusters", own.blocksareclusters.then_some(false)),
            (".noreturn", own.noreturn.then_some(false)),
        ];
        for (name, zero) in numbers {
            let Some(zero) = zero else { continue };
            self.exists(function.span, name);
            if zero {
                let name = &name[1..];
                self.error(function.span, format!("Positive non-zero value expected for {name}"));
            }
            if (name == ".noreturn") == (function.kind == FunctionKind::Entry) {
                self.misplaced(function, name);
            }
        }
        for (first, second, both) in [
            (".maxntid", ".reqntid", own.maxntid.is_some() && own.reqntid.is_some()),
            (
                ".reqnctapercluster",
                ".maxclusterrank",
                own.reqnctapercluster.is_some() && own.maxclusterrank.is_some(),
            ),
        ] {
            if both {
                let message = format!(
                    "Conflicting directives: {first} and {second} cannot both be specified"
                );
                self.error(function.span, message);
            }
        }
        if own.blocksareclusters && (own.reqntid.is_none() || own.reqnctapercluster.is_none()) {
            let message = ".reqntid and .reqnctapercluster directive(s) required for directive \
                           '.blocksareclusters'";
            self.error(function.span, message.to_owned());
        }
        if own.attributes.iter().any(|written| written.contains(".unified")) {
            self.exists(function.span, ".attribute(.unified)");
        }
        for written in &own.other {
            let name = written.split([' ', '(']).next().unwrap_or(written);
            let known = match name {
                ".abi_preserve" | ".abi_preserve_control" => function.kind == FunctionKind::Func,
                ".language" => true,
                _ => false,
            };
            if known {
                self.exists(function.span, name);
            } else {
                self.misplaced(function, name);
            }
        }
    }

    fn misplaced(&mut self, function: &Function, name: &str) {
        let kind = match function.kind {
            FunctionKind::Entry => ".entry",
            FunctionKind::Func => ".func",
        };
        self.error(
            function.span,
            format!("Parsing error near '{name}': expected a directive of a `{kind}`, or its body"),
        );
    }

    /// Labels that are directives.
    pub(super) fn label_directives(&mut self, function: &Function) {
        for label in &function.labels {
            match &label.kind {
                LabelKind::BranchTargets(_) => self.exists(label.span, ".branchtargets"),
                LabelKind::Prototype(prototype) if prototype.noreturn => {
                    self.exists(label.span, ".noreturn");
                }
                _ => {}
            }
        }
    }

    /// `.alias`: of what may be one, and for what.
    pub(super) fn alias(&mut self, alias: &Alias) {
        self.exists(alias.span, ".alias");
        let (name, target) = (self.module.function(alias.name), self.module.function(alias.target));
        let spelled = self.module.name(target.name);
        let problem = if name.body.is_some() {
            format!("Illegal redefinition of function '{}' as alias", self.module.name(name.name))
        } else if target.kind == FunctionKind::Entry {
            format!("Cannot define alias to entry function '{spelled}'")
        } else if target.linkage == Linkage::Weak {
            format!("Function '{spelled}' with .weak scope cannot be aliased")
        } else if shape(name) != shape(target) {
            format!(
                "Mismatch in prototype of alias '{}' and aliasee '{spelled}'",
                self.module.name(name.name)
            )
        } else {
            return;
        };
        self.error(alias.span, problem);
    }
}

/// Sizes of what a function returns and takes.
fn shape(function: &Function) -> [Vec<Option<u64>>; 2] {
    [&function.returns, &function.params].map(|list| {
        list.iter()
            .map(|parameter| match *parameter {
                Parameter::Register(id) => Some(function.register(id).ty.size_bytes()),
                Parameter::Memory(id) => function.local(id).size_bytes(),
            })
            .collect()
    })
}

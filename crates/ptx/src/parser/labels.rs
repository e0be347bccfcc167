//! Labels of one function while it is read.
//!
//! A label is visible in its scope and those inside it, and is used before it is defined. So
//! each scope has its own entry for each label name that is used or defined in it; when the
//! scope closes, an entry that was not defined there becomes the enclosing scope's.

use crate::ast::{Label, LabelId, LabelKind, Name, Span};
use std::collections::HashMap;

struct Draft {
    name: Name,
    /// Of the definition, or of the first use.
    span: Span,
    kind: Option<LabelKind>,
    /// The enclosing scope's entry that this one turned out to be.
    same_as: Option<LabelId>,
}

pub(super) struct Labels {
    drafts: Vec<Draft>,
    /// Names of each open scope, the function's body first.
    scopes: Vec<HashMap<Name, LabelId>>,
}

/// Where each number given out ended up.
pub(super) struct Renumbering(Vec<LabelId>);

impl Renumbering {
    pub(super) fn apply(&self, label: &mut LabelId) {
        *label = self.0[label.index()];
    }
}

impl Labels {
    pub(super) fn new() -> Self {
        Labels { drafts: Vec::new(), scopes: vec![HashMap::new()] }
    }

    fn entry(&mut self, name: Name, span: Span) -> LabelId {
        let drafts = &mut self.drafts;
        let Some(scope) = self.scopes.last_mut() else { return LabelId(0) };
        *scope.entry(name).or_insert_with(|| {
            drafts.push(Draft { name, span, kind: None, same_as: None });
            LabelId(drafts.len() as u32 - 1)
        })
    }

    /// The label that `name` means in the innermost scope.
    pub(super) fn use_of(&mut self, name: Name, span: Span) -> LabelId {
        self.entry(name, span)
    }

    /// Defines `name` in the innermost scope; an error is the span of the earlier definition.
    pub(super) fn define(
        &mut self,
        name: Name,
        span: Span,
        kind: LabelKind,
    ) -> Result<LabelId, Span> {
        let id = self.entry(name, span);
        let draft = &mut self.drafts[id.index()];
        if draft.kind.is_some() {
            return Err(draft.span);
        }
        draft.kind = Some(kind);
        draft.span = span;
        Ok(id)
    }

    pub(super) fn open_scope(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub(super) fn close_scope(&mut self) {
        let Some(closed) = self.scopes.pop() else { return };
        let mut open: Vec<_> =
            closed.into_iter().filter(|(_, id)| self.drafts[id.index()].kind.is_none()).collect();
        open.sort_by_key(|&(_, id)| id);
        for (name, id) in open {
            let span = self.drafts[id.index()].span;
            if self.scopes.is_empty() {
                continue;
            }
            let outer = self.entry(name, span);
            self.drafts[id.index()].same_as = Some(outer);
        }
    }

    /// The finished table, the renumbering for every number given out, and the labels that were
    /// used and never defined (with the place of the first use).
    pub(super) fn finish(mut self) -> (Vec<Label>, Renumbering, Vec<(Name, Span)>) {
        while self.scopes.len() > 1 {
            self.close_scope();
        }
        let mut labels = Vec::new();
        let mut undefined = Vec::new();
        let mut finals: Vec<Option<LabelId>> = vec![None; self.drafts.len()];
        for (index, draft) in self.drafts.iter_mut().enumerate() {
            match (draft.same_as, draft.kind.take()) {
                (Some(_), _) => {}
                (None, Some(kind)) => {
                    finals[index] = Some(LabelId(labels.len() as u32));
                    labels.push(Label { name: draft.name, span: draft.span, kind });
                }
                (None, None) => undefined.push((draft.name, draft.span)),
            }
        }
        let renumbering = (0..self.drafts.len())
            .map(|index| {
                let mut at = index;
                // Each step goes to an enclosing scope, so the chain is as long as the nesting.
                while let Some(outer) = self.drafts[at].same_as {
                    at = outer.index();
                }
                finals[at].unwrap_or(LabelId(0))
            })
            .collect();
        (labels, Renumbering(renumbering), undefined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inner_use_finds_the_outer_label_and_inner_labels_stay_inside() {
        let span = Span::default();
        let (outer, inner) = (Name(0), Name(1));
        let mut labels = Labels::new();
        labels.open_scope();
        let first = labels.use_of(outer, span);
        let a = labels.define(inner, span, LabelKind::Code(1)).unwrap();
        labels.close_scope();
        labels.open_scope();
        let b = labels.define(inner, span, LabelKind::Code(2)).unwrap();
        labels.close_scope();
        let defined = labels.define(outer, span, LabelKind::Code(3)).unwrap();
        assert!(labels.define(outer, span, LabelKind::Code(4)).is_err());
        labels.use_of(inner, span);
        let (table, renumbering, undefined) = labels.finish();
        let resolve = |mut id: LabelId| {
            renumbering.apply(&mut id);
            table[id.index()].kind.clone()
        };
        assert_eq!(resolve(first), LabelKind::Code(3));
        assert_eq!(resolve(defined), LabelKind::Code(3));
        assert_eq!(resolve(a), LabelKind::Code(1));
        assert_eq!(resolve(b), LabelKind::Code(2));
        assert_eq!(undefined, vec![(inner, span)]);
    }
}

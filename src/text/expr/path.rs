//! Expressions that do no more than name a value, such as `event.feedback`: the language library would copy all of the
//! variable twice to give back a part of it.

use cel::common::ast::{Expr as Node, IdedExpr};
use serde_json::{Map, Value};

/// A variable, and the fields that lead from it to a value.
pub(super) struct FieldPath {
    variable: String,
    fields: Vec<String>,
}

impl FieldPath {
    /// The path, if the expression is nothing else.
    pub(super) fn of(ast: &IdedExpr) -> Option<Self> {
        match &ast.expr {
            Node::Ident(variable) => Some(Self { variable: variable.clone(), fields: Vec::new() }),
            Node::Select(select) if !select.test => {
                let mut path = Self::of(&select.operand)?;
                path.fields.push(select.field.clone());
                Some(path)
            }
            _ => None,
        }
    }

    /// Whether it leads to this field of a variable.
    pub(super) fn is(&self, variable: &str, field: &str) -> bool {
        self.variable == variable && matches!(&*self.fields, [only] if only == field)
    }

    /// The value of the variable, and the one the path leads to. `None`: it leads nowhere, and the caller finds out why.
    pub(super) fn find<'v>(&self, vars: &'v Map<String, Value>) -> Option<(&'v Value, &'v Value)> {
        let variable = vars.get(&self.variable)?;
        let value = self.fields.iter().try_fold(variable, |value, field| value.as_object()?.get(field))?;
        Some((variable, value))
    }
}

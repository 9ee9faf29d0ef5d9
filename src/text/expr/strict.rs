//! Comparisons with a value that is written out, in conditions of calls: with a value of another type they have no result.
//!
//! CEL says that `"12" == 12` is false. The condition of a gate is about what a model sends, and tools take `"12"` for `12`:
//! neither `true` nor `false` is safe there, so it is an error, as it is for `<`.

use std::mem;

use cel::common::ast::{CallExpr, EntryExpr, Expr as Node, IdedExpr, LiteralValue};
use cel::common::types::{BOOL_TYPE, DOUBLE_TYPE, INT_TYPE, STRING_TYPE, Type, UINT_TYPE};

/// Gives its first value, if it is of the type of its second.
pub(super) const SAME_TYPE: &str = "@same_type";

/// The types that are compared with each other. Numbers are of one type.
pub(super) fn overloads() -> [[Type; 2]; 11] {
    [
        [STRING_TYPE, STRING_TYPE],
        [BOOL_TYPE, BOOL_TYPE],
        [INT_TYPE, INT_TYPE],
        [INT_TYPE, UINT_TYPE],
        [INT_TYPE, DOUBLE_TYPE],
        [UINT_TYPE, INT_TYPE],
        [UINT_TYPE, UINT_TYPE],
        [UINT_TYPE, DOUBLE_TYPE],
        [DOUBLE_TYPE, INT_TYPE],
        [DOUBLE_TYPE, UINT_TYPE],
        [DOUBLE_TYPE, DOUBLE_TYPE],
    ]
}

/// Makes the comparisons of an expression strict. Recursive; the depth is bounded by what [`scan`](super::scan) lets through.
pub(super) fn make_strict(node: &mut IdedExpr) {
    match &mut node.expr {
        Node::Call(call) => {
            compare(call);
            call.target.as_deref_mut().into_iter().for_each(make_strict);
            call.args.iter_mut().for_each(make_strict);
        }
        Node::Select(select) => make_strict(&mut select.operand),
        Node::List(list) => list.elements.iter_mut().for_each(make_strict),
        Node::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    make_strict(&mut entry.value);
                }
            }
        }
        Node::Comprehension(each) => {
            for part in [&mut each.iter_range, &mut each.loop_cond, &mut each.loop_step, &mut each.result] {
                make_strict(part);
            }
        }
        Node::Ident(_) | Node::Literal(_) | Node::Struct(_) | Node::Unspecified => {}
    }
}

fn compare(call: &mut CallExpr) {
    let [left, right] = call.args.as_mut_slice() else { return };
    match call.func_name.as_str() {
        "_==_" | "_!=_" => match (is_data(left), is_data(right)) {
            (true, false) if is_written_out(right) => of_type(left, right),
            (false, true) if is_written_out(left) => of_type(right, left),
            _ => {}
        },
        "@in" if is_data(left) => {
            let Node::List(list) = &right.expr else { return };
            let Some(first) = list.elements.first() else { return };
            // The first element represents all of them, so all must have the same type.
            if list.elements.iter().all(|element| kind(element).is_some() && kind(element) == kind(first)) {
                of_type(left, &first.clone());
            }
        }
        _ => {}
    }
}

/// Puts what demands the type of `like` around `value`.
fn of_type(value: &mut IdedExpr, like: &IdedExpr) {
    let id = value.id;
    let inner = mem::take(value);
    let call = CallExpr { func_name: SAME_TYPE.to_owned(), target: None, args: vec![inner, like.clone()] };
    *value = IdedExpr { id, expr: Node::Call(call) };
}

/// Whether it is a value of the call, or of a list in it: `args.a`, `args['a']`, the element of a loop.
fn is_data(node: &IdedExpr) -> bool {
    match &node.expr {
        Node::Ident(name) => !name.starts_with('@'),
        Node::Select(select) => !select.test && is_data(&select.operand),
        Node::Call(call) => call.func_name == "_[_]" && call.args.first().is_some_and(is_data),
        _ => false,
    }
}

fn is_written_out(node: &IdedExpr) -> bool {
    kind(node).is_some()
}

#[derive(PartialEq)]
enum ValueKind {
    Text,
    Number,
    Bool,
}

/// What is written out, if it is a text, a number, true or false.
fn kind(node: &IdedExpr) -> Option<ValueKind> {
    match &node.expr {
        Node::Literal(LiteralValue::String(_)) => Some(ValueKind::Text),
        Node::Literal(LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_)) => {
            Some(ValueKind::Number)
        }
        Node::Literal(LiteralValue::Boolean(_)) => Some(ValueKind::Bool),
        Node::Call(call) if call.func_name == "-_" => call.args.first().and_then(kind),
        _ => None,
    }
}

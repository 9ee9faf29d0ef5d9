//! `budget:`, distinguished by its kind and replaced whole.

use core::num::NonZeroU32;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::by_class::PerClass;
use super::fraction::OpenFraction;
use super::lasting::NonZeroTime;
use crate::policy::decode::{Decode, NodeReader, union};
use crate::policy::layer_value::plain_leaf;
use crate::policy::{BudgetScope, RetryBudget, TokenBudget, WindowBudget};
use crate::text::yaml::YamlNode;
use crate::time::Nanos;

union! {
    /// How many retries there may be across calls. A call that fails at its first attempt is always told; only further attempts draw on the budget. Replaced whole.
    enum BudgetRule by kind {
        /// No limit across calls.
        None = "none" {},
        /// A store of tokens: each retry takes some, each success gives some back.
        Tokens = "tokens" {
            /// How many tokens there are at first, and at most.
            /// Checks: W0214.
            /// Example: `100`
            capacity: NonZeroU32,
            /// What a retry takes.
            /// Checks: W0214.
            /// Example: `5`
            // AWS SDKs, Retry Behavior 2.1: 14 of 500, and 5 after throttling.
            cost: u32 = 1,
            /// What a retry takes after a failure of one of these classes.
            /// Checks: W0214.
            cost_of: PerClass<u32> = PerClass::default(),
            /// What a call that succeeds at its first attempt gives back. One that succeeds later gives back what its last retry took.
            /// Example: `1`
            earn: u32 = 1,
            /// A name: all work whose budget has it draws on the same store. Left out: each tool and each model has its own.
            /// Checks: P0202.
            /// Example: `search`
            pool: Option<String>,
            /// Whose work draws on it.
            scope: BudgetScope = BudgetScope::Run,
        },
        /// A share of the calls of the last while.
        Window = "window" {
            /// How far back calls and retries are counted.
            /// Example: `10s`
            window: NonZeroTime<Nanos>,
            /// Retries per call, as a fraction.
            // Finagle, linkerd and Envoy grant 20 %.
            ratio: OpenFraction,
            /// So many retries are granted in any window, however few calls there were.
            /// Example: `3`
            // An agent makes few calls, and a ratio of few calls is no retry at all: Envoy and failsafe-go have a
            // floor of 3.
            min: u32 = 0,
            /// A name: all work whose budget has it is counted together. Left out: each tool and each model by itself.
            /// Checks: P0202.
            /// Example: `search`
            pool: Option<String>,
            /// Whose work draws on it.
            scope: BudgetScope = BudgetScope::Run,
        },
    }
}

impl Decode for RetryBudget {
    const NAME: Option<&'static str> = BudgetRule::NAME;

    fn decode(node: &YamlNode, reader: &mut NodeReader<'_>) -> Option<Self> {
        let pool = |pool: Option<String>| pool.map(Arc::from);
        Some(match BudgetRule::decode(node, reader)? {
            BudgetRule::None {} => Self::None,
            BudgetRule::Tokens { capacity, cost, cost_of, earn, pool: name, scope } => {
                Self::Tokens(TokenBudget {
                    capacity,
                    cost,
                    cost_of: cost_of.0.into(),
                    earn,
                    pool: pool(name),
                    scope,
                })
            }
            BudgetRule::Window { window, ratio, min, pool: name, scope } => {
                let (window, ratio_ppm, pool) = (window.0, ratio.0, pool(name));
                Self::Window(WindowBudget { window, ratio_ppm, min, pool, scope })
            }
        })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        BudgetRule::schema(generator)
    }
}

plain_leaf! {
    RetryBudget => |budget| {
        let mut shown = Map::new();
        let mut show = |key: &str, value: Value| drop(shown.insert(key.to_owned(), value));
        let pool = match budget {
            RetryBudget::None => {
                show("kind", "none".into());
                &None
            }
            RetryBudget::Tokens(TokenBudget { capacity, cost, cost_of, earn, pool, scope: _ }) => {
                show("kind", "tokens".into());
                show("capacity", capacity.get().into());
                show("cost", (*cost).into());
                if !cost_of.is_empty() {
                    let costs = cost_of.iter().map(|(class, cost)| (class.name().to_owned(), (*cost).into()));
                    show("cost_of", Value::Object(costs.collect()));
                }
                show("earn", (*earn).into());
                pool
            }
            RetryBudget::Window(WindowBudget { window, ratio_ppm, min, pool, scope: _ }) => {
                show("kind", "window".into());
                show("window", window.to_string().into());
                show("ratio", OpenFraction(*ratio_ppm).show());
                show("min", (*min).into());
                pool
            }
        };
        if let Some(pool) = pool {
            show("pool", pool.to_string().into());
        }
        // A shared budget reads as any other, so only the scope that differs from the default is shown.
        if budget.scope() != BudgetScope::Run {
            shown.insert("scope".to_owned(), json!(budget.scope()));
        }
        Value::Object(shown)
    };
}
